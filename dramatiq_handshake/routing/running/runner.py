"""Runs jobs with handlers, in this process.

Invariant: each job that `JobRunner.run` took ends exactly once for its listener, whatever its handler
does; a handler that never returns ends with `JobRunner.close`.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from dramatiq_handshake.routing.errors import DuplicateJob
from dramatiq_handshake.routing.handlers import Handler, HandlerRegistry, JobContext
from dramatiq_handshake.routing.jobs import Job, JobLog
from dramatiq_handshake.routing.running.loop import JobLoop
from dramatiq_handshake.routing.running.outcome import (
    Cancelled,
    Lost,
    Outcome,
    Refused,
    Succeeded,
    outcome_of,
)
from dramatiq_handshake.routing.running.threads import JobThreads
from dramatiq_handshake.routing.signals import CancelSignal

__all__ = ["CONCURRENCY", "JobRunner", "Listener"]

logger = logging.getLogger(__name__)

#: How many plain handlers of a worker run at once, unless it is told otherwise: each is a thread.
CONCURRENCY = 64


class Listener(Protocol):
    """Who hears what becomes of a job, in whatever thread it happens."""

    def started(self) -> None:
        """The handler is about to be called."""
        ...

    def log(self, line: JobLog) -> None:
        """The handler wrote a line."""
        ...

    def ended(self, outcome: Outcome) -> None:
        """The job is over; nothing follows."""
        ...


class JobRunner:
    """The handlers of one worker at work.

    Args:
        worker_id: The worker.
        handlers: What it runs.
        concurrency: How many plain handlers run at once; further jobs wait for their turn. Async
            handlers share one event loop and are not counted.
    """

    def __init__(self, worker_id: str, handlers: HandlerRegistry, *, concurrency: int = CONCURRENCY) -> None:
        self.worker_id = worker_id
        self.handlers = handlers
        self._threads = JobThreads(f"dramatiq-handshake-jobs-{worker_id}", concurrency)
        self._loop = JobLoop(f"dramatiq-handshake-loop-{worker_id}")
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}
        self._closed = False

    @property
    def active_jobs(self) -> int:
        """How many jobs have been taken and have not ended."""
        with self._lock:
            return len(self._running)

    def run(self, job: Job, listener: Listener) -> None:
        """Take a job; how it goes is told to the listener.

        Raises:
            DuplicateJob: A job of this id has not ended.
        """
        handler = self.handlers.get(job.task_type)
        if handler is None:
            listener.ended(Refused(self.handlers.types()))
            return
        running = _Running(job, self.worker_id, listener, self._forget)
        with self._lock:
            if job.job_id in self._running:
                raise DuplicateJob(job.job_id, self.worker_id)
            closed = self._closed
            if not closed:
                self._running[job.job_id] = running
        if closed:
            listener.ended(Cancelled("the worker is closed"))
        elif _is_async(handler):
            running.cancelled_by(self._loop.run(lambda: running.awaited(handler), running.returned))
        else:
            self._threads.submit(lambda: self._call(running, handler))

    def cancel(self, job_id: str, reason: str = "") -> None:
        """Cancel a job's signal; a job that has not begun ends at once. Unknown jobs are no error."""
        with self._lock:
            running = self._running.get(job_id)
        if running is not None:
            running.cancel(reason)

    def close(self, timeout_ms: int) -> tuple[str, ...]:
        """Cancel every job and wait for them, together at most `timeout_ms`; take no more.

        Returns:
            The jobs whose handlers go on, for nothing can end a thread but itself. For their listeners
            they have ended: as lost.
        """
        with self._lock:
            self._closed = True
            jobs = tuple(self._running.values())
        for running in jobs:
            running.cancel("the worker is closing")
        deadline = time.monotonic() + timeout_ms / 1000
        self._threads.close(timeout_ms)
        self._loop.close(max(0, round((deadline - time.monotonic()) * 1000)))
        with self._lock:
            left = tuple(self._running.values())
        for running in left:
            running.end(Lost("it was closed while the handler went on"))
        return tuple(running.job.job_id for running in left)

    def _call(self, running: _Running, handler: Handler) -> None:
        if not running.begin():
            return
        try:
            result = handler(running.context)
        except BaseException as error:  # noqa: BLE001 - also a handler's sys.exit() must not take the thread
            running.returned(None, error)
            return
        if inspect.isawaitable(result):
            running.cancelled_by(self._loop.run(lambda: result, running.returned))
        else:
            running.returned(result, None)

    def _forget(self, running: _Running) -> None:
        with self._lock:
            self._running.pop(running.job.job_id, None)


class _Running:
    """A job between `run` and its end."""

    def __init__(
        self, job: Job, worker_id: str, listener: Listener, forget: Callable[[_Running], None]
    ) -> None:
        self.job = job
        self.context = JobContext(job, worker_id, CancelSignal(), listener.log)
        self._listener = listener
        self._forget = forget
        self._lock = threading.Lock()
        self._begun = False
        self._over = False
        self._interrupt: Callable[[], None] | None = None

    def begin(self) -> bool:
        """The handler is about to be called, unless the job is over already."""
        with self._lock:
            if self._over:
                return False
            self._begun = True
        self._listener.started()
        return True

    async def awaited(self, handler: Handler) -> Any:
        """Begin, and await the handler."""
        return await handler(self.context) if self.begin() else None

    def cancelled_by(self, interrupt: Callable[[], None]) -> None:
        """Learn how to cancel the task in which the handler is awaited."""
        with self._lock:
            self._interrupt = interrupt
        if self.context.signal.cancelled:
            interrupt()

    def cancel(self, reason: str) -> None:
        """Cancel the handler's signal, and the task where it is awaited."""
        try:
            self.context.signal.cancel(reason)
        except Exception:
            logger.exception("job %r: a callback of its cancel signal failed", self.job.job_id)
        with self._lock:
            waiting = not self._begun and not self._over
            self._over = self._over or waiting
            interrupt = self._interrupt
        if waiting:
            self._tell(Cancelled(reason))
        elif interrupt is not None:
            interrupt()

    def returned(self, result: object, error: BaseException | None) -> None:
        """The handler returned, or raised."""
        self.end(Succeeded(result) if error is None else outcome_of(error, self.context.signal))

    def end(self, outcome: Outcome) -> None:
        """Tell how the job ended; only the first time counts."""
        with self._lock:
            if self._over:
                return
            self._over = True
        self._tell(outcome)

    def _tell(self, outcome: Outcome) -> None:
        self._forget(self)
        self._listener.ended(outcome)


def _is_async(handler: Handler) -> bool:
    """Whether calling `handler` only makes a coroutine, so that it may be called on the loop."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
