"""What a port promises: frames that arrive whole and in order, or the news that it is closed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from dramatiq_handshake.routing.errors import RoutingError

__all__ = ["Port", "PortClosed", "Unsendable"]


class PortClosed(RoutingError):
    """Nothing passes through the port any more.

    Args:
        reason: What closed it.
    """

    _arguments = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the port is closed: {reason}")


class Unsendable(RoutingError):
    """A message holds what the port can't carry; the port itself is unharmed.

    Args:
        kind: The message, e.g. ``job.assigned``.
        reason: What is in the way.
    """

    _arguments = ("kind", "reason")

    def __init__(self, kind: str, reason: str) -> None:
        self.kind = kind
        self.reason = reason
        super().__init__(f"a {kind} message can't be sent: {reason}")


class Port(Protocol):
    """One end of a two-way line. Any thread may send and close; one thread receives."""

    def send(self, frame: Mapping[str, Any]) -> None:
        """Send without waiting for the other end to receive.

        Raises:
            PortClosed: It can't be sent any more.
            Unsendable: The frame holds what this port can't carry.
        """
        ...

    def receive(self, timeout_ms: int | None = None) -> object:
        """Wait for the next frame: a mapping, or whatever garbage came instead.

        Raises:
            TimeoutError: Nothing came within `timeout_ms`.
            PortClosed: Nothing will come any more; what was sent before has all been received.
        """
        ...

    def close(self) -> None:
        """Close this end; the other end receives what was sent before, then learns of it."""
        ...
