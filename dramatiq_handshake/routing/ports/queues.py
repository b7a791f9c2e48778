"""Ports between threads of one process: a queue each way, objects as they are."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from typing import Any

from dramatiq_handshake.routing.ports.base import PortClosed

__all__ = ["QueuePort", "queue_ports"]


class _End:
    """Queued behind everything that was sent before the port was closed."""


class _Line:
    """What both ends share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.closed_by: QueuePort | None = None


class QueuePort:
    """Implements `Port` with queues; made in pairs by `queue_ports`.

    Nothing is copied: what one side sends, the other side shares.
    """

    def __init__(self, line: _Line, inbox: queue.SimpleQueue[Any], outbox: queue.SimpleQueue[Any]) -> None:
        self._line = line
        self._inbox = inbox
        self._outbox = outbox

    def send(self, frame: Mapping[str, Any]) -> None:
        """See `Port.send`."""
        with self._line.lock:
            if self._line.closed_by is not None:
                raise PortClosed(self._reason())
            self._outbox.put(frame)

    def receive(self, timeout_ms: int | None = None) -> object:
        """See `Port.receive`."""
        try:
            frame = self._inbox.get(timeout=None if timeout_ms is None else timeout_ms / 1000)
        except queue.Empty:
            raise TimeoutError(f"nothing came within {timeout_ms} ms") from None
        if frame is _End:
            self._inbox.put(_End)  # whoever asks again is told again
            raise PortClosed(self._reason())
        return frame

    def close(self) -> None:
        """See `Port.close`."""
        with self._line.lock:
            if self._line.closed_by is None:
                self._line.closed_by = self
                self._outbox.put(_End)
                self._inbox.put(_End)

    def _reason(self) -> str:
        return "it was closed here" if self._line.closed_by is self else "the other end closed it"


def queue_ports() -> tuple[QueuePort, QueuePort]:
    """Two ends of a new line: one for the gateway, one for the worker in its thread."""
    line = _Line()
    there: queue.SimpleQueue[Any] = queue.SimpleQueue()
    back: queue.SimpleQueue[Any] = queue.SimpleQueue()
    return QueuePort(line, back, there), QueuePort(line, there, back)
