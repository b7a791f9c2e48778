"""Workers in processes of their own."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from types import TracebackType
from typing import Self

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing.arguments import checked_duration, checked_id, checked_limit
from dramatiq_handshake.routing.handlers import HandlerRegistry
from dramatiq_handshake.routing.in_memory import CLOSE_TIMEOUT_MS
from dramatiq_handshake.routing.ports.connections import ConnectionPort
from dramatiq_handshake.routing.running.runner import CONCURRENCY
from dramatiq_handshake.routing.thread_worker import WorkerThreadWorker

__all__ = ["HEARTBEAT_INTERVAL_MS", "Handlers", "WorkerProcess"]

#: How often the worker in a process beats, unless it is told otherwise.
HEARTBEAT_INTERVAL_MS = 1_000
#: How long a process has to follow SIGTERM before it is killed.
TERMINATE_S = 1.0

#: A registry that pickles, or the function of a module that makes it in the worker's process.
Handlers = HandlerRegistry | Callable[[], HandlerRegistry]


class WorkerProcess:
    """A process of its own with a `WorkerThreadWorker` in it, started at construction.

    A fresh interpreter, not a fork: it holds no copies of this process's sockets and locks. It ends when
    its port is closed, and so also when this process ends, however that happens.

    Args:
        worker_id: The worker's id.
        handlers: What it runs; a function is called in the new process.
        heartbeat_interval_ms: How often it beats.
        concurrency: How many of its plain handlers run at once.
        close_timeout_ms: How long running handlers have to follow their signal when the port is closed.
        context: Another way to start processes, such as a ``forkserver`` that has imported the handlers
            already; by default ``spawn``. With ``fork``, the process would inherit held locks.

    Raises:
        ConfigurationError: An argument is not what it must be, or can't be brought to another process.
    """

    def __init__(
        self,
        worker_id: str,
        handlers: Handlers,
        *,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        concurrency: int = CONCURRENCY,
        close_timeout_ms: int = CLOSE_TIMEOUT_MS,
        context: SpawnContext | ForkServerContext | None = None,
    ) -> None:
        checked_duration("heartbeat_interval_ms", heartbeat_interval_ms)
        checked_limit(concurrency)
        self.worker_id = checked_id(worker_id)
        self._close_timeout_ms = close_timeout_ms
        context = context or multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        self._process = context.Process(
            target=_serve,
            kwargs={
                "worker_id": worker_id,
                "handlers": handlers,
                "connection": there,
                "heartbeat_interval_ms": heartbeat_interval_ms,
                "concurrency": concurrency,
                "close_timeout_ms": close_timeout_ms,
            },
            name=f"dramatiq-handshake-worker-{worker_id}",
            daemon=True,
        )
        try:
            self._process.start()
        except (pickle.PicklingError, AttributeError, TypeError, ValueError) as error:  # what pickling raises
            here.close()
            raise ConfigurationError(
                f"worker {worker_id!r}: expected handlers that another process can import, functions of a "
                f"module; got {handlers!r}: {error}"
            ) from error
        finally:
            there.close()
        self.port = ConnectionPort(here, process=self._process)

    def __repr__(self) -> str:
        return f"<WorkerProcess {self.worker_id!r} pid {self.pid}{'' if self.alive else ' (ended)'}>"

    @property
    def pid(self) -> int | None:
        """The process's id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        """Its exit code; negative for a signal, ``None`` while it runs."""
        return self._process.exitcode

    def kill(self) -> None:
        """End it at once (SIGKILL); whoever listens to its port learns of it."""
        self._process.kill()

    def stop(self, *, timeout_ms: int | None = None) -> None:
        """Close its port and wait; a process that does not end is terminated, at last killed.

        Args:
            timeout_ms: How long it has to end by itself; by default its ``close_timeout_ms`` and a second.
        """
        self.port.close()
        self._process.join(((self._close_timeout_ms + 1000) if timeout_ms is None else timeout_ms) / 1000)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(TERMINATE_S)
        if self._process.is_alive():  # stopped, or it ignores SIGTERM
            self._process.kill()
        self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def _serve(
    *,
    worker_id: str,
    handlers: Handlers,
    connection: Connection,
    heartbeat_interval_ms: int,
    concurrency: int,
    close_timeout_ms: int,
) -> None:
    """What the process does."""
    # A Ctrl-C reaches the whole terminal group; it is the parent that decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    registry = handlers if isinstance(handlers, HandlerRegistry) else handlers()
    worker = WorkerThreadWorker(
        worker_id,
        registry,
        ConnectionPort(connection),
        heartbeat_interval_ms,
        concurrency=concurrency,
        close_timeout_ms=close_timeout_ms,
    )
    worker.join()
