"""The gateway's end of a port: sends jobs to one worker, and hears how they go.

Invariant: every job that was sent ends for its dispatcher, by the worker's word or, once the port is
closed, as `WorkerLost`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Protocol, Self

from dramatiq_handshake.routing.arguments import checked_id
from dramatiq_handshake.routing.errors import DuplicateJob, JobCancelled, RoutingError, WorkerLost
from dramatiq_handshake.routing.in_memory import CLOSE_TIMEOUT_MS
from dramatiq_handshake.routing.jobs import DispatchOptions, Job, JobLog, JobResult, PendingJob
from dramatiq_handshake.routing.ports import messages
from dramatiq_handshake.routing.ports.base import Port, PortClosed
from dramatiq_handshake.routing.ports.faults import FaultReporter, PortFault
from dramatiq_handshake.routing.ports.messages import JobAssigned, JobCancel, MessageInvalid, from_worker
from dramatiq_handshake.routing.running import Cancelled, Failed, Outcome, Refused, Succeeded
from dramatiq_handshake.routing.running.outcome import complete
from dramatiq_handshake.routing.settling import deliver_log, rejected

__all__ = ["WorkerThreadGateway", "WorkerWatcher"]

logger = logging.getLogger(__name__)

Ending = messages.JobSucceeded | messages.JobFailed | messages.JobCancelled


class WorkerWatcher(Protocol):
    """Who keeps account of a worker behind a port; called in the thread that listens to it."""

    def ready(self, worker_id: str, task_types: tuple[str, ...]) -> None:
        """It takes jobs of these types from now on."""
        ...

    def beat(self, worker_id: str) -> None:
        """It lives."""
        ...

    def lost(self, worker_id: str, reason: str) -> None:
        """It is gone for good; called before its pending jobs are rejected."""
        ...


class WorkerThreadGateway:
    """Implements `WorkerGateway` for the one worker behind a port; listens from its construction on.

    Args:
        worker_id: The worker; a message that names another one is broken.
        port: The gateway's end of the line, which it owns from now on.
        watcher: Hears of the worker itself.
        on_fault: Called with every message that was skipped because it was broken.

    Raises:
        ConfigurationError: The id is no text, or empty.
    """

    def __init__(
        self,
        worker_id: str,
        port: Port,
        *,
        watcher: WorkerWatcher | None = None,
        on_fault: Callable[[PortFault], None] | None = None,
    ) -> None:
        self.worker_id = checked_id(worker_id)
        self._port = port
        self._watcher = watcher
        self._faults = FaultReporter(worker_id, on_fault)
        self._changed = threading.Condition()
        self._sent: dict[str, _Sent] = {}
        self._gone: str | None = None
        self._thread = threading.Thread(
            target=self._listen, name=f"dramatiq-handshake-gateway-{worker_id}", daemon=True
        )
        self._thread.start()

    def __repr__(self) -> str:
        return f"<WorkerThreadGateway {self.worker_id!r} {self._gone or 'open'}>"

    def dispatch(self, job: Job, options: DispatchOptions | None = None) -> PendingJob:
        """See `WorkerGateway.dispatch`.

        The `PendingJob` raises `WorkerLost` where the worker is gone, and `Unsendable` where the port
        can't carry the job's params.
        """
        options = options or DispatchOptions()
        signal = options.signal
        if signal is not None and signal.cancelled:
            return rejected(job.job_id, JobCancelled(job.job_id, signal.reason))
        sent = _Sent(job, options)
        try:
            self._send(sent)
        except RoutingError as error:
            return rejected(job.job_id, error)
        if signal is not None:
            unfollow = signal.on_cancel(lambda: self._cancel(job.job_id, signal.reason))
            sent.pending.add_done_callback(lambda _: unfollow())
        return sent.pending

    def request_cancel(self, job_id: str) -> None:
        """See `WorkerGateway.request_cancel`."""
        self._cancel(job_id, "")

    def retire(self, reason: str = "its gateway is closing") -> None:
        """Take no more jobs, and cancel those that run."""
        with self._changed:
            self._gone = self._gone or reason
            job_ids = tuple(self._sent)
        for job_id in job_ids:
            self._cancel(job_id, reason)

    def close(self, *, timeout_ms: int = CLOSE_TIMEOUT_MS) -> tuple[str, ...]:
        """Cancel every job, wait for them at most `timeout_ms`, close the port and end the thread.

        Returns:
            The jobs that had not ended: their dispatchers get `WorkerLost`.
        """
        self.retire()
        listening = threading.current_thread() is self._thread
        deadline = time.monotonic() + (0 if listening else timeout_ms / 1000)
        with self._changed:
            self._changed.wait_for(lambda: not self._sent, max(0.0, deadline - time.monotonic()))
            left = tuple(self._sent)
        self._port.close()
        if not listening:
            self._thread.join()
        return left

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _send(self, sent: _Sent) -> None:
        job = sent.job
        frame = JobAssigned.of(job).to_frame()
        # Sent while the lock is held: a cancellation that overtook its job would find nothing to cancel.
        with self._changed:
            if self._gone is not None:
                raise WorkerLost(self.worker_id, self._gone)
            if job.job_id in self._sent:
                raise DuplicateJob(job.job_id, self.worker_id)
            try:
                self._port.send(frame)
            except PortClosed as closed:
                raise WorkerLost(self.worker_id, closed.reason) from closed
            self._sent[job.job_id] = sent

    def _cancel(self, job_id: str, reason: str) -> None:
        with self._changed:
            sent = self._sent.get(job_id)
            if sent is None or sent.cancel_sent:
                return
            sent.cancel_sent = True
            try:
                self._port.send(JobCancel(job_id=job_id, reason=reason).to_frame())
            except PortClosed:
                logger.debug("job %r: its worker is gone and needs no cancellation", job_id)

    def _listen(self) -> None:
        reason = ""
        while not reason:
            try:
                frame = self._port.receive()
            except PortClosed as closed:
                reason = closed.reason
            except Exception as error:
                logger.exception("worker %r: its port failed", self.worker_id)
                reason = f"its port failed: {type(error).__name__}: {error}"
            else:
                self._take(frame)
        self._port.close()
        self._lost(reason)

    def _take(self, frame: object) -> None:
        try:
            message = from_worker(frame)
        except MessageInvalid as invalid:
            self._faults.report(f"skipped a broken message: {invalid}")
            return
        if isinstance(message, messages.WorkerReady | messages.WorkerHeartbeat):
            self._hear_worker(message)
            return
        with self._changed:
            sent = self._sent.get(message.job_id)
        if sent is None:
            self._faults.report(
                f"a {message.type} message for job {message.job_id!r}, which it does not have"
            )
            return
        match message:
            case messages.JobStarted():
                pass
            case messages.JobLogged():
                line = JobLog(message.job_id, message.level, message.message, message.fields)
                deliver_log(sent.options, line)
            case _:
                self._end(sent, _outcome(message))

    def _hear_worker(self, message: messages.WorkerReady | messages.WorkerHeartbeat) -> None:
        if message.worker_id != self.worker_id:
            self._faults.report(f"skipped a {message.type} of another worker, {message.worker_id!r}")
        elif self._watcher is not None:
            try:
                if isinstance(message, messages.WorkerReady):
                    self._watcher.ready(self.worker_id, message.task_types)
                else:
                    self._watcher.beat(self.worker_id)
            except Exception:  # a watcher that fails must not make the jobs of the worker endless
                logger.exception("worker %r: who watches it failed at a %s", self.worker_id, message.type)

    def _end(self, sent: _Sent, outcome: Outcome) -> None:
        with self._changed:
            self._sent.pop(sent.job.job_id, None)
        sent.end(outcome, self.worker_id)
        with self._changed:
            self._changed.notify_all()

    def _lost(self, reason: str) -> None:
        with self._changed:
            self._gone = self._gone or reason
        if self._watcher is not None:
            try:
                self._watcher.lost(self.worker_id, reason)
            except Exception:
                logger.exception("worker %r: who watches it failed at its loss", self.worker_id)
        with self._changed:
            left = tuple(self._sent.values())
            self._sent.clear()
        for sent in left:
            sent.lose(WorkerLost(self.worker_id, reason))
        with self._changed:
            self._changed.notify_all()


class _Sent:
    """A job at the worker, and who waits for it."""

    def __init__(self, job: Job, options: DispatchOptions) -> None:
        self.job = job
        self.options = options
        self.cancel_sent = False
        self._future: Future[JobResult] = Future()
        self.pending = PendingJob(job.job_id, self._future)

    def end(self, outcome: Outcome, worker_id: str) -> None:
        """Complete it by the worker's word."""
        complete(
            self._future,
            outcome,
            job_id=self.job.job_id,
            task_type=self.job.task_type,
            worker_id=worker_id,
        )

    def lose(self, error: WorkerLost) -> None:
        """Complete it without the worker."""
        self._future.set_exception(error)


def _outcome(message: Ending) -> Outcome:
    match message:
        case messages.JobSucceeded():
            return Succeeded(message.output)
        case messages.JobFailed(refused=True):
            return Refused(message.types)
        case messages.JobFailed():
            return Failed(message.name, message.message, message.stack)
        case messages.JobCancelled():
            return Cancelled(message.reason)
