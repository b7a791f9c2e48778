"""A run as something to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

from dramatiq_handshake.routing.orchestrator.models import RunSnapshot

__all__ = ["PendingRun"]


class PendingRun:
    """A run under way: threads call `result`, coroutines ``await`` it, as with `PendingJob`.

    Args:
        run_id: The run.
        future: Completed by the orchestrator.
    """

    def __init__(self, run_id: str, future: Future[RunSnapshot]) -> None:
        self.run_id = run_id
        self._future = future
        future.set_running_or_notify_cancel()  # so that nobody who merely waits can cancel it

    def __repr__(self) -> str:
        return f"<PendingRun {self.run_id!r} {'over' if self.done() else 'under way'}>"

    def __await__(self) -> Generator[Any, None, RunSnapshot]:
        return asyncio.wrap_future(self._future).__await__()

    def done(self) -> bool:
        """Whether it is over."""
        return self._future.done()

    def result(self, timeout_ms: int | None = None) -> RunSnapshot:
        """Wait for its end. A run that failed or was cancelled is a result too: see its status.

        Raises:
            TimeoutError: It is still under way after `timeout_ms`.
            RunInterrupted: The orchestrator was closed before it ended.
        """
        return self._future.result(None if timeout_ms is None else timeout_ms / 1000)

    def add_done_callback(self, callback: Callable[[PendingRun], object]) -> None:
        """Call `callback` with this object at its end; at once if that has come already."""
        self._future.add_done_callback(lambda _: callback(self))
