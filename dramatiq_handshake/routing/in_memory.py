"""Workers in this process: for development, tests, and trusted code."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing.arguments import checked_id, checked_limit
from dramatiq_handshake.routing.errors import DuplicateJob, DuplicateWorker, JobCancelled, NoHealthyWorker
from dramatiq_handshake.routing.handlers import HandlerRegistry
from dramatiq_handshake.routing.jobs import DispatchOptions, Job, JobLog, JobResult, PendingJob
from dramatiq_handshake.routing.running import JobRunner, Outcome
from dramatiq_handshake.routing.running.outcome import complete
from dramatiq_handshake.routing.running.runner import CONCURRENCY
from dramatiq_handshake.routing.settling import deliver_log, rejected

__all__ = ["CLOSE_TIMEOUT_MS", "InMemoryWorkerGateway"]

#: How long `close` waits for running handlers, unless it is told otherwise.
CLOSE_TIMEOUT_MS = 5_000


class InMemoryWorkerGateway:
    """Implements `WorkerGateway` with handlers of this process.

    **This is no sandbox.** Handlers share the process with everything else: its memory, its credentials,
    its interpreter lock. Params and outputs are handed over as they are, not copied. Run only code here
    that you would call yourself.

    A plain handler runs in a thread, an async one on an event loop of its worker, so neither blocks who
    dispatches. With several workers in one gateway a job goes to the one that has the fewest.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runners: dict[str, JobRunner] = {}
        self._jobs: dict[str, JobRunner] = {}

    def register_worker(
        self, worker_id: str, handlers: HandlerRegistry, *, concurrency: int = CONCURRENCY
    ) -> None:
        """Add a worker.

        Args:
            worker_id: Its id.
            handlers: What it runs.
            concurrency: How many of its plain handlers run at once; further jobs wait for their turn.

        Raises:
            DuplicateWorker: There is a worker of this id here.
            ConfigurationError: An argument is not what it must be.
        """
        checked_id(worker_id)
        checked_limit(concurrency)
        if not isinstance(handlers, HandlerRegistry):
            raise ConfigurationError(f"worker {worker_id!r}: expected a HandlerRegistry, got {handlers!r}")
        with self._lock:
            if worker_id in self._runners:
                raise DuplicateWorker(worker_id)
            self._runners[worker_id] = JobRunner(worker_id, handlers, concurrency=concurrency)

    def unregister_worker(self, worker_id: str, *, timeout_ms: int = CLOSE_TIMEOUT_MS) -> tuple[str, ...]:
        """Remove a worker, as `close` does. Unknown ids are no error."""
        with self._lock:
            runner = self._runners.pop(worker_id, None)
        return runner.close(timeout_ms) if runner is not None else ()

    def dispatch(self, job: Job, options: DispatchOptions | None = None) -> PendingJob:
        """See `WorkerGateway.dispatch`.

        A job of a type that no worker here runs is refused (`TaskTypeRefused`), and without any worker
        there is `NoHealthyWorker`.
        """
        options = options or DispatchOptions()
        if options.signal is not None and options.signal.cancelled:
            return rejected(job.job_id, JobCancelled(job.job_id, options.signal.reason))
        with self._lock:
            runner = self._chosen(job.task_type)
            known = self._jobs.get(job.job_id)
            if runner is not None and known is None:
                self._jobs[job.job_id] = runner
        if known is not None:
            return rejected(job.job_id, DuplicateJob(job.job_id, known.worker_id))
        if runner is None:
            return rejected(job.job_id, NoHealthyWorker(job.task_type, {}))
        dispatched = _Dispatched(job, runner.worker_id, options, self._forget)
        runner.run(job, dispatched)
        dispatched.follow(lambda reason: runner.cancel(job.job_id, reason))
        return dispatched.pending

    def request_cancel(self, job_id: str) -> None:
        """See `WorkerGateway.request_cancel`."""
        with self._lock:
            runner = self._jobs.get(job_id)
        if runner is not None:
            runner.cancel(job_id)

    def close(self, *, timeout_ms: int = CLOSE_TIMEOUT_MS) -> tuple[str, ...]:
        """Cancel every job, wait for each worker at most `timeout_ms`, and end their threads.

        Returns:
            The jobs whose handlers go on in spite of it: nothing but itself ends a thread. Whoever waits
            for them gets `WorkerLost`.
        """
        with self._lock:
            worker_ids = tuple(self._runners)
        left = [self.unregister_worker(worker_id, timeout_ms=timeout_ms) for worker_id in worker_ids]
        return tuple(job_id for jobs in left for job_id in jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _chosen(self, task_type: str) -> JobRunner | None:
        """The worker for a type; one that refuses it where nobody runs it."""
        return min(
            self._runners.values(),
            key=lambda runner: (task_type not in runner.handlers, runner.active_jobs),
            default=None,
        )

    def _forget(self, job_id: str) -> None:
        with self._lock:
            self._jobs.pop(job_id, None)


class _Dispatched:
    """The dispatching side of a job: a `Listener` that completes the `PendingJob`."""

    def __init__(
        self, job: Job, worker_id: str, options: DispatchOptions, forget: Callable[[str], None]
    ) -> None:
        self._job = job
        self._worker_id = worker_id
        self._options = options
        self._forget = forget
        self._future: Future[JobResult] = Future()
        self.pending = PendingJob(job.job_id, self._future)

    def started(self) -> None:
        """Nobody waits for this."""

    def log(self, line: JobLog) -> None:
        """Pass the line on."""
        deliver_log(self._options, line)

    def ended(self, outcome: Outcome) -> None:
        """Complete the `PendingJob`."""
        self._forget(self._job.job_id)
        complete(
            self._future,
            outcome,
            job_id=self._job.job_id,
            task_type=self._job.task_type,
            worker_id=self._worker_id,
        )

    def follow(self, cancel: Callable[[str], None]) -> None:
        """Cancel the job when the dispatcher's signal is cancelled, for as long as it runs."""
        signal = self._options.signal
        if signal is not None:
            unfollow = signal.on_cancel(lambda: cancel(signal.reason))
            self.pending.add_done_callback(lambda _: unfollow())
