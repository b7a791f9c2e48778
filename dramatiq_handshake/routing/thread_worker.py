"""The worker's end of a port: takes jobs, runs them, tells how they go, and beats."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing.arguments import checked_duration, checked_id, checked_limit
from dramatiq_handshake.routing.errors import DuplicateJob
from dramatiq_handshake.routing.handlers import HandlerRegistry, TaskTypeRefused
from dramatiq_handshake.routing.in_memory import CLOSE_TIMEOUT_MS
from dramatiq_handshake.routing.jobs import Job, JobLog
from dramatiq_handshake.routing.ports.base import Port, PortClosed, Unsendable
from dramatiq_handshake.routing.ports.faults import FaultReporter, PortFault
from dramatiq_handshake.routing.ports.messages import (
    JobAssigned,
    JobCancel,
    JobCancelled,
    JobFailed,
    JobLogged,
    JobStarted,
    JobSucceeded,
    MessageInvalid,
    WorkerHeartbeat,
    WorkerReady,
    from_gateway,
)
from dramatiq_handshake.routing.running import Cancelled, Failed, JobRunner, Lost, Outcome, Refused, Succeeded
from dramatiq_handshake.routing.running.runner import CONCURRENCY

__all__ = ["WorkerThreadWorker"]

logger = logging.getLogger(__name__)

Told = JobStarted | JobLogged | JobSucceeded | JobFailed | JobCancelled


class WorkerThreadWorker:
    """A worker behind a port, at work from its construction until the port is closed, by either end.

    One thread receives and beats. So its heartbeat says that the worker still comes round to its port,
    not merely that its process lives.

    Args:
        worker_id: Its id, the one under which the gateway knows the port.
        handlers: What it runs.
        port: Its end of the line, which it owns from now on.
        heartbeat_interval_ms: How often it beats; ``None`` for never, and then the directory's timeout
            makes it stale.
        concurrency: How many plain handlers run at once; further jobs wait for their turn.
        close_timeout_ms: How long running handlers have to follow their signal when the port is closed.
        on_fault: Called with every message that was skipped because it was broken.

    Raises:
        ConfigurationError: An argument is not what it must be.
    """

    def __init__(
        self,
        worker_id: str,
        handlers: HandlerRegistry,
        port: Port,
        heartbeat_interval_ms: int | None = None,
        *,
        concurrency: int = CONCURRENCY,
        close_timeout_ms: int = CLOSE_TIMEOUT_MS,
        on_fault: Callable[[PortFault], None] | None = None,
    ) -> None:
        checked_limit(concurrency)
        if heartbeat_interval_ms is not None:
            checked_duration("heartbeat_interval_ms", heartbeat_interval_ms)
        if not isinstance(handlers, HandlerRegistry):
            raise ConfigurationError(f"worker {worker_id!r}: expected a HandlerRegistry, got {handlers!r}")
        self.worker_id = checked_id(worker_id)
        self._port = port
        self._interval_s = heartbeat_interval_ms / 1000 if heartbeat_interval_ms is not None else None
        self._close_timeout_ms = close_timeout_ms
        self._faults = FaultReporter(worker_id, on_fault)
        self._runner = JobRunner(worker_id, handlers, concurrency=concurrency)
        self._thread = threading.Thread(
            target=self._work, name=f"dramatiq-handshake-worker-{worker_id}", daemon=True
        )
        self._thread.start()

    def __repr__(self) -> str:
        return f"<WorkerThreadWorker {self.worker_id!r} {'at work' if self.alive else 'closed'}>"

    @property
    def alive(self) -> bool:
        """Whether it still takes jobs or waits for running ones."""
        return self._thread.is_alive()

    def join(self, timeout_ms: int | None = None) -> bool:
        """Wait until it has ended. Returns whether it has."""
        self._thread.join(None if timeout_ms is None else timeout_ms / 1000)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Close the port, cancel what runs, and wait for that as long as ``close_timeout_ms`` says."""
        self._port.close()
        self.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _work(self) -> None:
        try:
            self._port.send(
                WorkerReady(worker_id=self.worker_id, task_types=self._runner.handlers.types()).to_frame()
            )
            self._serve()
        except PortClosed as closed:
            logger.debug("worker %r: %s", self.worker_id, closed)
        except Exception:  # a port of one's own may raise anything; without it there is no work to do
            logger.exception("worker %r: its port failed", self.worker_id)
        self._port.close()
        left = self._runner.close(self._close_timeout_ms)
        if left:
            logger.warning("worker %r ended, and the handlers of %s go on", self.worker_id, ", ".join(left))

    def _serve(self) -> None:
        """Receive, and beat whenever it is time, until the port raises."""
        next_beat = _after(self._interval_s)
        while True:
            if next_beat is not None and time.monotonic() >= next_beat:
                self._port.send(WorkerHeartbeat(worker_id=self.worker_id).to_frame())
                next_beat = _after(self._interval_s)
            try:
                frame = self._port.receive(_ms_until(next_beat))
            except TimeoutError:
                continue
            self._take(frame)

    def _take(self, frame: object) -> None:
        try:
            message = from_gateway(frame)
        except MessageInvalid as invalid:
            self._faults.report(f"skipped a broken message: {invalid}")
            return
        match message:
            case JobAssigned():
                job = message.job()
                try:
                    self._runner.run(job, _Telling(self._port, job, self.worker_id))
                except DuplicateJob as duplicate:
                    self._faults.report(f"skipped a job: {duplicate}")
            case JobCancel():
                self._runner.cancel(message.job_id, message.reason)


class _Telling:
    """A `Listener` that tells the gateway; what it can't be told any more, nobody waits for."""

    def __init__(self, port: Port, job: Job, worker_id: str) -> None:
        self._port = port
        self._job = job
        self._worker_id = worker_id

    def started(self) -> None:
        """Say that the handler is about to be called."""
        self._tell(JobStarted(job_id=self._job.job_id))

    def log(self, line: JobLog) -> None:
        """Send the line; what the port can't carry of it is sent as text."""

        def message(fields: dict[str, object]) -> JobLogged:
            return JobLogged(job_id=line.job_id, level=line.level, message=line.message, fields=fields)

        try:
            self._tell(message(dict(line.fields)))
        except Unsendable:
            self._tell(message({name: repr(value) for name, value in line.fields.items()}))

    def ended(self, outcome: Outcome) -> None:
        """Say how it ended; an output that the port can't carry makes the job a failed one."""
        message = self._message(outcome)
        if message is None:
            return
        try:
            self._tell(message)
        except Unsendable as unsendable:
            name = type(unsendable).__name__
            self._tell(JobFailed(job_id=self._job.job_id, name=name, message=str(unsendable)))

    def _message(self, outcome: Outcome) -> Told | None:
        job_id = self._job.job_id
        match outcome:
            case Succeeded(output):
                return JobSucceeded(job_id=job_id, output=output)
            case Failed(name, message, stack):
                return JobFailed(job_id=job_id, name=name, message=message, stack=stack)
            case Refused(types):
                refusal = TaskTypeRefused(self._worker_id, self._job.task_type, types)
                name = type(refusal).__name__
                return JobFailed(job_id=job_id, name=name, message=str(refusal), refused=True, types=types)
            case Cancelled(reason):
                return JobCancelled(job_id=job_id, reason=reason)
            case Lost():  # the port was closed before, so the gateway knows
                return None

    def _tell(self, message: Told) -> None:
        try:
            self._port.send(message.to_frame())
        except PortClosed:
            logger.debug("job %r: nobody hears of it any more", self._job.job_id)


def _after(interval_s: float | None) -> float | None:
    return None if interval_s is None else time.monotonic() + interval_s


def _ms_until(moment: float | None) -> int | None:
    return None if moment is None else max(0, round((moment - time.monotonic()) * 1000))
