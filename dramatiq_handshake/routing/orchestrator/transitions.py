"""How a run moves: pure functions from a snapshot to the next, and the events on the way.

No clock, no thread, no gateway: time is a parameter (ms since the epoch), and whoever calls keeps the
snapshot. Every function but `begin` leaves a run that is over as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing.jobs import Job, JobResult
from dramatiq_handshake.routing.orchestrator.models import (
    EventKind,
    RunEvent,
    RunSnapshot,
    RunStatus,
    Task,
    TaskError,
    TaskSnapshot,
    TaskStatus,
)

__all__ = [
    "Step",
    "begin",
    "cancel",
    "job_of",
    "next_due",
    "recover",
    "runnable",
    "task_cancelled",
    "task_failed",
    "task_started",
    "task_succeeded",
]

#: What a run that has ended is called, and the event that says so.
ENDINGS = {
    RunStatus.SUCCEEDED: EventKind.RUN_SUCCEEDED,
    RunStatus.FAILED: EventKind.RUN_FAILED,
    RunStatus.CANCELLED: EventKind.RUN_CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Step:
    """A run's next snapshot, and what happened on the way there."""

    run: RunSnapshot
    events: tuple[RunEvent, ...] = ()


def begin(run_id: str, tasks: Iterable[Task], now: int) -> Step:
    """Start a run.

    Raises:
        ConfigurationError: Task ids repeat, or what a task depends on is missing or, in the end, itself.
    """
    given = tuple(tasks)
    ids = [task.task_id for task in given]
    if repeated := sorted({each for each in ids if ids.count(each) > 1}):
        raise ConfigurationError(f"run {run_id!r}: expected each task id once, got {repeated} again")
    for task in given:
        if missing := sorted(set(task.depends_on) - set(ids)):
            raise ConfigurationError(
                f"run {run_id!r}: task {task.task_id!r} depends on {missing}, which the run does not have"
            )
    try:
        TopologicalSorter({task.task_id: task.depends_on for task in given}).prepare()
    except CycleError as error:
        circle = " → ".join(reversed(error.args[1]))
        raise ConfigurationError(f"run {run_id!r}: tasks wait for each other: {circle}") from None
    run = RunSnapshot(run_id=run_id, tasks=tuple(TaskSnapshot(task=task) for task in given), started_at=now)
    return _settled(run, [RunEvent(run_id=run_id, kind=EventKind.RUN_STARTED, at=now)], now)


def recover(run: RunSnapshot, now: int) -> Step:
    """Take up a run whose orchestrator went away: attempts that ran are begun again, as new ones."""
    if run.over:
        return Step(run)
    events = [RunEvent(run_id=run.run_id, kind=EventKind.RUN_RECOVERED, at=now)]
    for each in run.tasks:
        if each.status is not TaskStatus.RUNNING:
            continue
        if each.cancel_requested:
            run = _with(run, each, status=TaskStatus.CANCELLED)
            events.append(_event(run, each, EventKind.TASK_CANCELLED, now))
        else:
            run = _with(run, each, status=TaskStatus.PENDING)
            events.append(_event(run, each, EventKind.TASK_INTERRUPTED, now))
    return _settled(run, events, now)


def runnable(run: RunSnapshot, now: int) -> tuple[TaskSnapshot, ...]:
    """The tasks that may begin now."""
    return tuple(each for each in _unblocked(run) if each.due_at <= now)


def next_due(run: RunSnapshot, now: int) -> int | None:
    """When the next of its tasks may begin; ``None`` where none but those that may now."""
    return min((each.due_at for each in _unblocked(run) if each.due_at > now), default=None)


def job_of(run: RunSnapshot, each: TaskSnapshot) -> Job:
    """The job of a task's next attempt."""
    attempt = each.attempt + 1
    outputs = run.outputs
    return Job(
        job_id=f"{run.run_id}:{each.task.task_id}:{attempt}",
        run_id=run.run_id,
        task_id=each.task.task_id,
        task_type=each.task.task_type,
        attempt=attempt,
        params=each.task.params,
        outputs={task_id: outputs[task_id] for task_id in each.task.depends_on},
    )


def task_started(run: RunSnapshot, task_id: str, now: int) -> Step:
    """Its next attempt was given to a worker."""
    each = run.task(task_id)
    started = each.model_copy(update={"status": TaskStatus.RUNNING, "attempt": each.attempt + 1})
    return Step(_replaced(run, started), (_event(run, started, EventKind.TASK_STARTED, now),))


def task_succeeded(run: RunSnapshot, task_id: str, result: JobResult, now: int) -> Step:
    """Its attempt succeeded, even if it was asked to stop."""
    each = run.task(task_id)
    run = _with(
        run,
        each,
        status=TaskStatus.SUCCEEDED,
        output=result.output,
        worker_id=result.worker_id,
        error=None,
    )
    return _settled(run, [_event(run, each, EventKind.TASK_SUCCEEDED, now)], now)


def task_failed(run: RunSnapshot, task_id: str, error: TaskError, now: int) -> Step:
    """Its attempt failed: it is begun again later, or has failed for good."""
    each = run.task(task_id)
    failures = each.failures + 1
    again = failures < each.task.max_attempts and not each.cancel_requested
    run = _with(
        run,
        each,
        status=TaskStatus.PENDING if again else TaskStatus.FAILED,
        failures=failures,
        due_at=now + each.task.retry_delay_ms,
        error=error,
    )
    kind = EventKind.TASK_RETRIED if again else EventKind.TASK_FAILED
    return _settled(run, [_event(run, each, kind, now, f"{error.name}: {error.message}")], now)


def task_cancelled(run: RunSnapshot, task_id: str, reason: str, now: int) -> Step:
    """Its attempt was cancelled, by whomever: it is not begun again."""
    each = run.task(task_id)
    run = _with(run, each, status=TaskStatus.CANCELLED, cancel_requested=True)
    return _settled(run, [_event(run, each, EventKind.TASK_CANCELLED, now, reason)], now)


def cancel(run: RunSnapshot, task_ids: Iterable[str], reason: str, now: int) -> Step:
    """Ask these tasks to stop: waiting ones are cancelled, running ones are not begun again."""
    events = []
    for task_id in task_ids:
        each = run.task(task_id)
        if each.status is TaskStatus.PENDING:
            run = _with(run, each, status=TaskStatus.CANCELLED, cancel_requested=True)
            events.append(_event(run, each, EventKind.TASK_CANCELLED, now, reason))
        elif each.status is TaskStatus.RUNNING:
            run = _with(run, each, cancel_requested=True)
    return _settled(run, events, now)


def _unblocked(run: RunSnapshot) -> list[TaskSnapshot]:
    if run.over:
        return []
    done = run.outputs.keys()
    return [
        each
        for each in run.tasks
        if each.status is TaskStatus.PENDING and all(task_id in done for task_id in each.task.depends_on)
    ]


def _settled(run: RunSnapshot, events: list[RunEvent], now: int) -> Step:
    """Skip what can't run any more, and end the run where nothing can."""
    if run.over:
        return Step(run, tuple(events))
    skipping = True
    while skipping:  # a skipped task skips those that depend on it
        skipping = False
        failed = {
            each.task.task_id for each in run.tasks if each.over and each.status is not TaskStatus.SUCCEEDED
        }
        for each in run.tasks:
            lacking = sorted(failed.intersection(each.task.depends_on))
            if each.status is TaskStatus.PENDING and lacking:
                run = _with(run, each, status=TaskStatus.SKIPPED)
                detail = f"it depends on {lacking}, which did not succeed"
                events.append(_event(run, each, EventKind.TASK_SKIPPED, now, detail))
                skipping = True
    if all(each.over for each in run.tasks):
        status = _ending(run)
        run = run.model_copy(update={"status": status, "ended_at": now})
        events.append(RunEvent(run_id=run.run_id, kind=ENDINGS[status], at=now))
    return Step(run, tuple(events))


def _ending(run: RunSnapshot) -> RunStatus:
    statuses = {each.status for each in run.tasks}
    if TaskStatus.FAILED in statuses:
        return RunStatus.FAILED
    return RunStatus.CANCELLED if TaskStatus.CANCELLED in statuses else RunStatus.SUCCEEDED


def _with(run: RunSnapshot, each: TaskSnapshot, **changes: Any) -> RunSnapshot:
    return _replaced(run, each.model_copy(update=changes))


def _replaced(run: RunSnapshot, changed: TaskSnapshot) -> RunSnapshot:
    tasks = tuple(changed if each.task.task_id == changed.task.task_id else each for each in run.tasks)
    return run.model_copy(update={"tasks": tasks})


def _event(run: RunSnapshot, each: TaskSnapshot, kind: EventKind, now: int, detail: str = "") -> RunEvent:
    return RunEvent(
        run_id=run.run_id,
        kind=kind,
        at=now,
        task_id=each.task.task_id,
        attempt=each.attempt,
        detail=detail,
    )
