"""Ports between processes: a `multiprocessing.connection.Connection` that carries JSON.

JSON and not pickle: what arrives is data and never code, whoever wrote it, and a broken frame breaks
nothing but itself.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing.ports.base import PortClosed, Unsendable

__all__ = ["MAX_FRAME_BYTES", "ConnectionPort"]

#: Larger frames are refused on both sides: the length of a frame comes first, and a wrong one would make
#: the reader wait for, and keep, gigabytes.
MAX_FRAME_BYTES = 64 * 1024 * 1024
#: How a peer that is gone shows; a reset, where it left something unread.
HUNG_UP = (EOFError, ConnectionResetError, BrokenPipeError)
#: How long a process whose connection has ended has to end itself, so that its exit code can be told.
EXIT_CODE_S = 1.0
#: How long a peer has, once the port is closed, to take what was sent before.
FLUSH_S = 1.0


class ConnectionPort:
    """Implements `Port` over a connection, which it owns from now on.

    A thread of its own writes, so that a peer that is stopped and reads nothing blocks nobody who sends.

    Args:
        connection: A two-way one, from `multiprocessing.Pipe`, or of a `multiprocessing.connection`
            ``Listener`` or ``Client``.
        process: Who holds the other end. Its exit closes the port even while a third process still
            holds an inherited copy of that end, which keeps the connection itself open.

    Raises:
        ConfigurationError: The connection is closed, or goes one way only.
    """

    def __init__(self, connection: Connection, *, process: BaseProcess | None = None) -> None:
        if connection.closed or not (connection.readable and connection.writable):
            raise ConfigurationError(f"expected an open two-way connection; got {connection!r}")
        self._connection = connection
        self._process = process
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._receiving = False
        self._writer = threading.Thread(target=self._write, name="dramatiq-handshake-port", daemon=True)
        self._writer.start()

    def send(self, frame: Mapping[str, Any]) -> None:
        """See `Port.send`."""
        data = _encoded(frame)
        with self._lock:
            if self._reason is not None:
                raise PortClosed(self._reason)
            self._outbox.put(data)

    def receive(self, timeout_ms: int | None = None) -> object:
        """See `Port.receive`."""
        with self._lock:
            if self._reason is not None:
                raise PortClosed(self._reason)
            self._receiving = True
        try:
            return self._received(None if timeout_ms is None else timeout_ms / 1000)
        finally:
            with self._lock:
                self._receiving = False
                over = self._reason is not None
            if over:
                self._release()

    def close(self) -> None:
        """See `Port.close`. Waits up to a second for the peer to take what was sent before."""
        self._end("it was closed here")
        if threading.current_thread() is not self._writer:
            self._writer.join(FLUSH_S)
            self._hang_up()
            self._writer.join()
        self._release()

    def _received(self, timeout_s: float | None) -> object:
        exits = [self._process.sentinel] if self._process is not None else []
        ready = wait([self._connection, *exits], timeout_s)
        if not ready:
            raise TimeoutError(f"nothing came within {timeout_s} s")
        if self._connection not in ready:  # what a process sent before it ended comes first
            raise PortClosed(self._end(self._exit()))
        try:
            data = self._connection.recv_bytes(MAX_FRAME_BYTES)
        except HUNG_UP:
            raise PortClosed(self._end(self._exit())) from None
        except OSError as error:
            raise PortClosed(self._end(f"it can't be read: {error}")) from error
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return data

    def _write(self) -> None:
        while (data := self._outbox.get()) is not None:
            try:
                self._connection.send_bytes(data)
            except HUNG_UP:
                self._end(self._exit())
                break
            except OSError as error:
                self._end(f"it can't be written: {error}")
                break
        self._hang_up()

    def _end(self, reason: str) -> str:
        """Close it for a reason, unless it is closed for another. Returns the one that holds."""
        with self._lock:
            if self._reason is None:
                self._reason = reason
                self._outbox.put(None)
            return self._reason

    def _hang_up(self) -> None:
        """End whatever either thread waits for on the connection; the peer can still read what was sent."""
        with self._lock, suppress(OSError):
            if not self._connection.closed:
                with socket.socket(fileno=os.dup(self._connection.fileno())) as line:
                    line.shutdown(socket.SHUT_RDWR)

    def _release(self) -> None:
        """Close the file descriptor, once no thread uses it: its number may be another's a moment later."""
        if threading.current_thread() is not self._writer:
            self._writer.join()
        with self._lock:
            if not self._receiving and not self._connection.closed:
                self._connection.close()

    def _exit(self) -> str:
        process = self._process
        if process is None:
            return "the other end closed it"
        process.join(EXIT_CODE_S)
        code = process.exitcode
        if code is None:
            return f"process {process.pid} closed it"
        return f"process {process.pid} ended with exit code {code}"


def _encoded(frame: object) -> bytes:
    kind = str(frame.get("type") if isinstance(frame, Mapping) else type(frame).__name__)
    try:
        data = json.dumps(frame, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Unsendable(kind, f"between processes everything must be JSON, and {error}") from error
    if len(data) > MAX_FRAME_BYTES:
        raise Unsendable(
            kind, f"expected at most {MAX_FRAME_BYTES} bytes, got {len(data)}: send a reference to the data"
        )
    return data
