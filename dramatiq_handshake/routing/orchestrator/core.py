"""The orchestrator: runs tasks in the order of what they depend on, through a worker gateway.

Invariant: one thread moves all runs. Whatever comes from elsewhere, the end of a job or a cancellation,
is put into its inbox, so that no two transitions of a run ever compete.
"""

from __future__ import annotations

import logging
import queue
import threading
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Self

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing.base import WorkerGateway
from dramatiq_handshake.routing.errors import JobCancelled, JobFailed, WorkersBusy
from dramatiq_handshake.routing.jobs import DispatchOptions, JobLog, PendingJob
from dramatiq_handshake.routing.orchestrator import transitions
from dramatiq_handshake.routing.orchestrator.errors import RunInterrupted, UnknownRun
from dramatiq_handshake.routing.orchestrator.models import (
    RunSnapshot,
    Task,
    TaskError,
    TaskSnapshot,
    TaskStatus,
)
from dramatiq_handshake.routing.orchestrator.pending import PendingRun
from dramatiq_handshake.routing.orchestrator.store import OrchestratorStore
from dramatiq_handshake.routing.orchestrator.transitions import Step
from dramatiq_handshake.routing.settling import rejected
from dramatiq_handshake.storage.clock import wall_clock_ms

__all__ = ["Orchestrator"]

logger = logging.getLogger(__name__)

#: How long a task waits where all workers of its type are busy and no job of ours ends meanwhile: their
#: jobs are then those of other orchestrators, whose ends nobody tells us.
BUSY_PAUSE_MS = 50


class Orchestrator:
    """Runs that live in this process, over any `WorkerGateway`; at work from its construction on.

    Nearly always, Dramatiq is the better choice: its messages survive this process, and pipelines and
    groups order them. This one is for work that belongs to the process which waits for it.

    Args:
        store: Keeps snapshots and events.
        worker_gateway: Brings each attempt to a worker.
        on_log: Called with every line that a job writes.
        now: The clock (ms since the epoch).
    """

    def __init__(
        self,
        store: OrchestratorStore,
        worker_gateway: WorkerGateway,
        *,
        on_log: Callable[[JobLog], None] | None = None,
        now: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._store = store
        self._gateway = worker_gateway
        self._options = DispatchOptions(on_log=on_log)
        self._now = now
        self._lock = threading.Lock()
        self._live: dict[str, _Live] = {}
        self._closed = False
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._busy: dict[str, int] = {}
        self._thread = threading.Thread(
            target=self._serve, name="dramatiq-handshake-orchestrator", daemon=True
        )
        self._thread.start()

    def start_run(self, tasks: Iterable[Task], *, run_id: str | None = None) -> str:
        """Start a run, and return its id.

        Args:
            tasks: What it is made of.
            run_id: Its id; by default a new one.

        Raises:
            ConfigurationError: Task ids repeat, or what a task depends on is missing or, in the end,
                itself; or the run id was used before.
            RunInterrupted: The orchestrator is closed.
        """
        step = transitions.begin(run_id if run_id is not None else uuid.uuid4().hex, tasks, self._now())
        if self._store.get(step.run.run_id) is not None:
            raise ConfigurationError(
                f"run {step.run.run_id!r} exists already: give each run an id of its own"
            )
        self._take(step)
        return step.run.run_id

    def recover(self, run: RunSnapshot | None = None) -> tuple[str, ...]:
        """Take up interrupted runs; attempts that were running are begun again, as new ones.

        Args:
            run: A snapshot, from wherever it was kept; by default every unfinished run of the store.

        Returns:
            The ids of the runs that go on; those that are over, or under way here, are not among them.

        Raises:
            RunInterrupted: The orchestrator is closed.
        """
        taken = []
        for each in (run,) if run is not None else self._store.unfinished():
            with self._lock:
                live = each.run_id in self._live
            if not live and not each.over:
                self._take(transitions.recover(each, self._now()))
                taken.append(each.run_id)
        return tuple(taken)

    def wait_for_run(self, run_id: str) -> PendingRun:
        """The run as something to wait for: ``.result(timeout_ms)`` in a thread, ``await`` in a coroutine.

        Raises:
            UnknownRun: There is none of this id, or none any more.
        """
        with self._lock:
            live = self._live.get(run_id)
        if live is not None:
            return live.pending
        run = self._store.get(run_id)
        if run is None:
            raise UnknownRun(run_id)
        future: Future[RunSnapshot] = Future()
        pending = PendingRun(run_id, future)
        if run.over:
            future.set_result(run)
        else:
            future.set_exception(RunInterrupted(run_id, "nobody runs it here"))
        return pending

    def cancel_run(self, run_id: str, reason: str = "") -> None:
        """Cancel whatever of a run is not over; does nothing for a run that is.

        Tasks that run are asked to stop, and the run ends when they have.

        Raises:
            UnknownRun: There is none of this id, or none any more.
        """
        run = self._known(run_id)
        self._cancel(run_id, [each.task.task_id for each in run.tasks], reason)

    def cancel_task(self, run_id: str, task_id: str, reason: str = "") -> None:
        """Cancel one task; those that depend on it are skipped. Does nothing for a task that is over.

        Raises:
            UnknownRun: There is no run of this id, or none any more.
            UnknownTask: The run has no task of this id.
        """
        self._known(run_id).task(task_id)
        self._cancel(run_id, [task_id], reason)

    def close(self) -> None:
        """Begin nothing more, and end the thread.

        Jobs that run are the gateway's to end. Runs that are not over are interrupted: whoever waits for
        them gets `RunInterrupted`, and another orchestrator can `recover` them.
        """
        with self._lock:
            self._closed = True
        self._inbox.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _take(self, step: Step) -> None:
        run = step.run
        live = _Live(run)
        with self._lock:
            if self._closed:
                raise RunInterrupted(run.run_id, "the orchestrator is closed")
            if run.run_id in self._live:
                raise ConfigurationError(f"run {run.run_id!r} exists already: give each run an id of its own")
            self._live[run.run_id] = live
        try:
            self._store.save(run, step.events)
        except BaseException:
            with self._lock:
                del self._live[run.run_id]
            raise
        self._inbox.put(lambda: self._advance(live))

    def _known(self, run_id: str) -> RunSnapshot:
        run = self._store.get(run_id)
        if run is None:
            raise UnknownRun(run_id)
        return run

    def _cancel(self, run_id: str, task_ids: list[str], reason: str) -> None:
        with self._lock:
            live = self._live.get(run_id)
        if live is not None:
            self._inbox.put(lambda: self._cancelled(live, task_ids, reason))

    # From here on, everything runs in the orchestrator's thread.

    def _serve(self) -> None:
        while True:
            try:
                command = self._inbox.get(timeout=self._pause_s())
            except queue.Empty:
                command = self._advance_all
            if command is None:
                break
            try:
                command()
            except Exception:
                logger.exception("the orchestrator's step failed")
        with self._lock:
            lives = tuple(self._live.values())
            self._live.clear()
        for live in lives:
            live.future.set_exception(RunInterrupted(live.run.run_id, "its orchestrator was closed"))

    def _pause_s(self) -> float | None:
        now = self._now()
        with self._lock:
            runs = [live.run for live in self._live.values()]
        dues = [due for run in runs if (due := transitions.next_due(run, now)) is not None]
        dues += self._busy.values()
        return max(0, min(dues) - now) / 1000 if dues else None

    def _advance_all(self) -> None:
        now = self._now()
        self._busy = {task_type: due for task_type, due in self._busy.items() if due > now}
        with self._lock:
            lives = tuple(self._live.values())
        for live in lives:
            self._advance(live)

    def _advance(self, live: _Live) -> None:
        """Begin what may begin now, and end the run where it is over."""
        for each in transitions.runnable(live.run, self._now()):
            if live.interrupted:
                return
            if each.task.task_type not in self._busy:
                self._begin(live, each)
        if live.run.over and not live.pending.done():
            with self._lock:
                self._live.pop(live.run.run_id, None)
            live.future.set_result(live.run)

    def _begin(self, live: _Live, each: TaskSnapshot) -> None:
        job = transitions.job_of(live.run, each)
        try:
            pending = self._gateway.dispatch(job, self._options)
        except Exception as error:  # noqa: BLE001 - a gateway of one's own
            pending = rejected(job.job_id, error)
        if pending.done() and isinstance(pending.exception(), WorkersBusy):
            self._busy[each.task.task_type] = self._now() + BUSY_PAUSE_MS
            return
        # Saved after the dispatch, or each look at a busy pool would be an attempt. A crash in between
        # leaves a task that is begun again, as a crash a moment later would.
        task_id = each.task.task_id
        if self._step(live, transitions.task_started(live.run, task_id, self._now())):
            live.jobs[task_id] = job.job_id
            ended = partial(self._ended, live, task_id, job.job_id)
            pending.add_done_callback(lambda done: self._inbox.put(lambda: ended(done)))

    def _ended(self, live: _Live, task_id: str, job_id: str, pending: PendingJob) -> None:
        if live.interrupted or live.jobs.get(task_id) != job_id:
            return
        del live.jobs[task_id]
        self._busy.clear()
        error, now = pending.exception(), self._now()
        if error is None:
            step = transitions.task_succeeded(live.run, task_id, pending.result(), now)
        elif isinstance(error, JobCancelled):
            reason = error.reason or live.reasons.get(task_id, "")
            step = transitions.task_cancelled(live.run, task_id, reason, now)
        else:
            step = transitions.task_failed(live.run, task_id, _told(error), now)
        if self._step(live, step):
            self._advance_all()

    def _cancelled(self, live: _Live, task_ids: list[str], reason: str) -> None:
        if live.interrupted:
            return
        if not self._step(live, transitions.cancel(live.run, task_ids, reason, self._now())):
            return
        for task_id in task_ids:
            live.reasons.setdefault(task_id, reason)
            if live.run.task(task_id).status is TaskStatus.RUNNING:
                try:
                    self._gateway.request_cancel(live.jobs[task_id])
                except Exception:  # the registry may be away; the job goes on, and is not begun again
                    logger.exception("job %r could not be cancelled", live.jobs[task_id])
        self._advance(live)

    def _step(self, live: _Live, step: Step) -> bool:
        """Move a run and save it. A store that fails interrupts the run: returns whether it goes on."""
        live.run = step.run
        try:
            self._store.save(step.run, step.events)
        except Exception as error:
            logger.exception("run %r could not be saved", step.run.run_id)
            with self._lock:
                self._live.pop(step.run.run_id, None)
            live.interrupted = True
            live.future.set_exception(RunInterrupted(step.run.run_id, f"its store failed: {error}"))
            return False
        return True


class _Live:
    """A run under way here."""

    def __init__(self, run: RunSnapshot) -> None:
        self.run = run
        self.future: Future[RunSnapshot] = Future()
        self.pending = PendingRun(run.run_id, self.future)
        #: Task id → the job of the attempt that runs.
        self.jobs: dict[str, str] = {}
        #: Task id → why it was asked to stop; a gateway is not told.
        self.reasons: dict[str, str] = {}
        self.interrupted = False


def _told(error: BaseException) -> TaskError:
    if isinstance(error, JobFailed):
        return TaskError(name=error.name, message=error.message, stack=error.stack)
    return TaskError(name=type(error).__name__, message=str(error))
