"""Jobs, what accompanies them, and what becomes of them.

A job that was dispatched is a `PendingJob`: threads call `PendingJob.result`, coroutines ``await`` it.
One `dispatch` thus serves both, and no method exists twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from dramatiq_handshake.routing.signals import CancelSignal

__all__ = ["DispatchOptions", "Job", "JobLog", "JobResult", "PendingJob"]


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt at one task, for one worker.

    Attributes:
        job_id: Unique among all attempts of all tasks.
        run_id: The run that the task belongs to.
        task_id: The task within its run.
        task_type: What a worker must be able to run.
        attempt: Counts from 1.
        params: What the task was given. Over a process port, it must be JSON.
        outputs: The outputs of the tasks that this one depends on, by task id.
    """

    job_id: str
    run_id: str
    task_id: str
    task_type: str
    attempt: int = 1
    params: Any = None
    outputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobResult:
    """What came of a job that succeeded; one that did not raises.

    Attributes:
        job_id: The job.
        output: What its handler returned.
        worker_id: Who ran it; ``""`` where the gateway has no names for workers.
    """

    job_id: str
    output: Any = None
    worker_id: str = ""


@dataclass(frozen=True, slots=True)
class JobLog:
    """A line that a running job wrote.

    Attributes:
        job_id: The job.
        level: A name of the `logging` module, in lower case: ``info``.
        message: The text.
        fields: What else belongs to it.
    """

    job_id: str
    level: str
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DispatchOptions:
    """What accompanies a dispatch and stays on the dispatching side.

    Attributes:
        signal: Cancels the job. A dispatch whose signal is cancelled already never starts.
        on_log: Called with every line that the job writes, in whatever thread hears of it.
    """

    signal: CancelSignal | None = None
    on_log: Callable[[JobLog], None] | None = None


class PendingJob:
    """A job under way.

    Waiting for it can be given up (a timeout, a cancelled coroutine) without any effect on the job: to
    stop that, cancel its signal or call `WorkerGateway.request_cancel`.

    Args:
        job_id: The job.
        future: Completed by the gateway. It is marked as running, so that nobody who merely waits can
            cancel it.
    """

    def __init__(self, job_id: str, future: Future[JobResult]) -> None:
        self.job_id = job_id
        self._future = future
        if not future.running() and not future.done():
            future.set_running_or_notify_cancel()

    def __repr__(self) -> str:
        return f"<PendingJob {self.job_id!r} {'done' if self.done() else 'under way'}>"

    def __await__(self) -> Generator[Any, None, JobResult]:
        return asyncio.wrap_future(self._future).__await__()

    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._future.done()

    def result(self, timeout_ms: int | None = None) -> JobResult:
        """Wait for the result.

        Raises:
            TimeoutError: It is still under way after `timeout_ms`.
            JobFailed: Its handler raised.
            JobCancelled: It was cancelled.
            RoutingError: It could not be brought to a worker, or the worker was lost.
        """
        return self._future.result(None if timeout_ms is None else timeout_ms / 1000)

    def exception(self, timeout_ms: int | None = None) -> BaseException | None:
        """Wait for the end and return the error that `result` would raise, or ``None``."""
        return self._future.exception(None if timeout_ms is None else timeout_ms / 1000)

    def add_done_callback(self, callback: Callable[[PendingJob], object]) -> None:
        """Call `callback` with this object at its end; at once if that has come already."""
        self._future.add_done_callback(lambda _: callback(self))
