"""How a run moves: pure functions, examined over every order in which things can happen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing import (
    EventKind,
    JobResult,
    RunSnapshot,
    RunStatus,
    Task,
    TaskError,
    TaskStatus,
    UnknownTask,
)
from dramatiq_handshake.routing.orchestrator import transitions
from dramatiq_handshake.routing.orchestrator.transitions import Step

NO = TaskError(name="ValueError", message="no")
ENDED = {
    TaskStatus.SUCCEEDED: EventKind.TASK_SUCCEEDED,
    TaskStatus.FAILED: EventKind.TASK_FAILED,
    TaskStatus.CANCELLED: EventKind.TASK_CANCELLED,
    TaskStatus.SKIPPED: EventKind.TASK_SKIPPED,
}


def task(task_id: str, *depends_on: str, **fields: int) -> Task:
    """A task."""
    return Task(task_id=task_id, task_type="train", depends_on=depends_on, **fields)


def begun(*tasks: Task) -> RunSnapshot:
    """A run that has just been started."""
    return transitions.begin("run", tasks, 0).run


def statuses(run: RunSnapshot) -> dict[str, str]:
    """Where each task is."""
    return {each.task.task_id: each.status.value for each in run.tasks}


def runnable(run: RunSnapshot, now: int = 0) -> list[str]:
    """What may begin now."""
    return [each.task.task_id for each in transitions.runnable(run, now)]


def kinds(step: Step) -> list[str]:
    """What happened."""
    return [f"{event.kind} {event.task_id}".strip() for event in step.events]


def result(task_id: str, output: object = None) -> JobResult:
    return JobResult(task_id, output, "worker-1")


def test_a_task_begins_when_all_that_it_depends_on_has_succeeded() -> None:
    """A diamond: its outputs go along."""
    run = begun(task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c"))
    assert runnable(run) == ["a"]
    run = transitions.task_started(run, "a", 0).run
    assert runnable(run) == []
    run = transitions.task_succeeded(run, "a", result("a", 1), 0).run
    assert runnable(run) == ["b", "c"]
    for task_id, output in (("b", 2), ("c", 3)):
        run = transitions.task_succeeded(
            transitions.task_started(run, task_id, 0).run, task_id, result(task_id, output), 0
        ).run
    job = transitions.job_of(run, run.task("d"))
    assert (job.job_id, job.attempt, job.outputs) == ("run:d:1", 1, {"b": 2, "c": 3})
    step = transitions.task_succeeded(transitions.task_started(run, "d", 0).run, "d", result("d"), 9)
    assert kinds(step) == ["task.succeeded d", "run.succeeded"]
    assert (step.run.status, step.run.ended_at) == (RunStatus.SUCCEEDED, 9)
    assert step.run.task("d").worker_id == "worker-1"


@pytest.mark.parametrize(
    ("tasks", "complaint"),
    [
        ([task("a"), task("a")], r"each task id once, got \['a'\] again"),
        ([task("a", "b", "c"), task("b")], r"'a' depends on \['c'\], which the run does not have"),
        ([task("a", "b"), task("b", "c"), task("c", "a")], "wait for each other: .* → "),
        ([task("a", "a")], "wait for each other: a → a"),
    ],
)
def test_tasks_that_can_never_all_run_are_refused(tasks: list[Task], complaint: str) -> None:
    """The message names them."""
    with pytest.raises(ConfigurationError, match=complaint):
        begun(*tasks)


def test_a_run_without_tasks_has_succeeded() -> None:
    """There is nothing to wait for."""
    step = transitions.begin("run", [], 5)
    assert kinds(step) == ["run.started", "run.succeeded"]
    assert step.run.over


def test_a_failed_attempt_is_followed_by_another_after_its_delay() -> None:
    """With a job id of its own, and the number of the attempt."""
    run = transitions.task_started(begun(task("a", max_attempts=2, retry_delay_ms=100)), "a", 0).run
    step = transitions.task_failed(run, "a", NO, 50)
    assert kinds(step) == ["task.retried a"]
    assert step.events[0].detail == "ValueError: no"
    assert runnable(step.run, 149) == []
    assert transitions.next_due(step.run, 149) == 150
    assert runnable(step.run, 150) == ["a"]
    assert transitions.next_due(step.run, 150) is None
    assert transitions.job_of(step.run, step.run.task("a")).job_id == "run:a:2"
    step = transitions.task_failed(transitions.task_started(step.run, "a", 150).run, "a", NO, 160)
    assert kinds(step) == ["task.failed a", "run.failed"]
    assert step.run.task("a").error == NO


def test_what_depends_on_a_failure_is_skipped_and_the_rest_goes_on() -> None:
    """To the last descendant; the reason names what did not succeed."""
    run = begun(task("a"), task("b", "a"), task("c", "b"), task("other"))
    step = transitions.task_failed(transitions.task_started(run, "a", 0).run, "a", NO, 0)
    assert kinds(step) == ["task.failed a", "task.skipped b", "task.skipped c"]
    assert step.events[1].detail == "it depends on ['a'], which did not succeed"
    assert runnable(step.run) == ["other"]
    assert not step.run.over


def test_cancelling_ends_what_waits_at_once_and_what_runs_when_it_follows() -> None:
    """A running task is not begun again, whether it follows or fails."""
    run = begun(task("a", max_attempts=3), task("b", "a"), task("c"))
    run = transitions.task_started(run, "a", 0).run
    step = transitions.cancel(run, ["a", "b", "c"], "enough", 0)
    assert kinds(step) == ["task.cancelled b", "task.cancelled c"]
    assert {event.detail for event in step.events} == {"enough"}
    assert statuses(step.run) == {"a": "running", "b": "cancelled", "c": "cancelled"}
    followed = transitions.task_cancelled(step.run, "a", "enough", 1)
    assert kinds(followed) == ["task.cancelled a", "run.cancelled"]
    failed = transitions.task_failed(step.run, "a", NO, 1)
    assert kinds(failed) == ["task.failed a", "run.failed"]
    succeeded = transitions.task_succeeded(step.run, "a", result("a"), 1)
    assert kinds(succeeded) == ["task.succeeded a", "run.cancelled"]


def test_cancelling_one_task_skips_only_what_depends_on_it() -> None:
    """The others run."""
    step = transitions.cancel(begun(task("a"), task("b", "a"), task("c")), ["a"], "", 0)
    assert statuses(step.run) == {"a": "cancelled", "b": "skipped", "c": "pending"}
    assert not step.run.over


def test_an_interrupted_run_is_taken_up_where_it_was() -> None:
    """What ran is begun again as a new attempt, which costs no retry; what was to stop is cancelled."""
    run = begun(task("done"), task("ran"), task("stopping"), task("waits", "ran"))
    for task_id in ("done", "ran", "stopping"):
        run = transitions.task_started(run, task_id, 0).run
    run = transitions.task_succeeded(run, "done", result("done", 1), 0).run
    run = transitions.cancel(run, ["stopping"], "", 0).run
    kept = RunSnapshot.model_validate_json(run.model_dump_json())
    assert kept == run
    step = transitions.recover(kept, 7)
    assert kinds(step) == ["run.recovered", "task.interrupted ran", "task.cancelled stopping"]
    assert statuses(step.run) == {
        "done": "succeeded",
        "ran": "pending",
        "stopping": "cancelled",
        "waits": "pending",
    }
    job = transitions.job_of(step.run, step.run.task("ran"))
    assert (job.job_id, job.attempt) == ("run:ran:2", 2)
    failed = transitions.task_failed(transitions.task_started(step.run, "ran", 8).run, "ran", NO, 9)
    assert failed.run.task("ran").failures == 1


def test_a_run_that_is_over_is_not_recovered() -> None:
    """Nothing happens to it any more."""
    run = begun()
    assert transitions.recover(run, 9) == Step(run)
    assert runnable(run) == []


def test_a_task_that_the_run_does_not_have_is_named() -> None:
    """By run and task."""
    with pytest.raises(UnknownTask, match="run 'run' has no task 'b'"):
        begun(task("a")).task("b")


@st.composite
def graphs(draw: st.DrawFn) -> list[Task]:
    """Tasks that depend on earlier ones, in any order."""
    number = draw(st.integers(1, 7))
    tasks = [
        task(
            f"t{index}",
            *sorted(draw(st.sets(st.sampled_from([f"t{earlier}" for earlier in range(index)]))))
            if index
            else (),
            max_attempts=draw(st.integers(1, 3)),
        )
        for index in range(number)
    ]
    return draw(st.permutations(tasks))


@given(graphs(), st.randoms(use_true_random=False))
def test_whatever_happens_every_task_ends_once_and_the_run_with_the_last(
    tasks: list[Task], chance: object
) -> None:
    """Success, failure, cancellation and interruption in any order; no task begins too early or too late."""
    pick = chance.choice  # type: ignore[attr-defined]  # a random.Random, which Hypothesis types loosely
    step = transitions.begin("run", tasks, 0)
    run, events = step.run, list(step.events)
    for _ in range(300):
        if run.over:
            break
        running = [each.task.task_id for each in run.tasks if each.status is TaskStatus.RUNNING]
        waiting = runnable(run)
        for task_id in waiting:
            assert all(
                run.task(each).status is TaskStatus.SUCCEEDED for each in run.task(task_id).task.depends_on
            )
        assert running or waiting, "a run that is not over has something to do"
        moves = ["start"] * 3 * bool(waiting) + ["succeed", "succeed", "fail", "cancelled"] * bool(running)
        move = pick([*moves, "cancel", "recover"] if pick(range(6)) == 0 else moves)
        if move == "start":
            step = transitions.task_started(run, pick(waiting), 0)
        elif move == "succeed":
            step = transitions.task_succeeded(run, pick(running), result("x"), 0)
        elif move == "fail":
            step = transitions.task_failed(run, pick(running), NO, 0)
        elif move == "cancelled":
            step = transitions.task_cancelled(run, pick(running), "", 0)
        elif move == "cancel":
            step = transitions.cancel(run, [pick(tasks).task_id], "", 0)
        else:
            step = transitions.recover(run, 0)
        run = step.run
        events += step.events
    assert run.over
    for each in run.tasks:
        mine = [event.kind for event in events if event.task_id == each.task.task_id]
        assert [kind for kind in mine if kind in ENDED.values()] == [ENDED[each.status]]
        assert each.failures <= each.task.max_attempts
        if each.status is TaskStatus.SKIPPED:
            assert any(run.task(name).status is not TaskStatus.SUCCEEDED for name in each.task.depends_on)
    assert events[-1].kind in transitions.ENDINGS.values()
    assert [event.kind for event in events].count(events[-1].kind) == 1
