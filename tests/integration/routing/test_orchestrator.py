"""The orchestrator over real workers, on both kinds of directory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing import (
    HandlerRegistry,
    InMemoryOrchestratorStore,
    InMemoryWorkerGateway,
    Job,
    JobLog,
    LeastActiveWorkerRouter,
    Orchestrator,
    PooledWorkerGateway,
    RoutingWorkerGateway,
    RunInterrupted,
    RunSnapshot,
    RunStatus,
    TaskStatus,
    UnknownRun,
    UnknownTask,
    WorkerDirectory,
    WorkerGateway,
    WorkerThreadWorker,
    queue_ports,
)
from tests.support.apps import handlers as app
from tests.support.poll import eventually
from tests.support.routing import Gate, task

WAIT_MS = 15_000


@pytest.fixture
def store() -> InMemoryOrchestratorStore:
    return InMemoryOrchestratorStore()


@pytest.fixture
def handlers(gate: Gate) -> HandlerRegistry:
    """The sample handlers, and the gate."""
    registry = app.build()
    registry.register("gate", gate)
    return registry


def in_memory(directory: WorkerDirectory, handlers: HandlerRegistry, closing: ExitStack) -> WorkerGateway:
    """Two workers in memory, with one job each at a time."""
    endpoints = {}
    for worker_id in ("worker-1", "worker-2"):
        endpoints[worker_id] = closing.enter_context(InMemoryWorkerGateway())
        endpoints[worker_id].register_worker(worker_id, handlers)
        directory.register(worker_id, handlers.types())
    return RoutingWorkerGateway(directory, LeastActiveWorkerRouter(directory, max_concurrency=1), endpoints)


def pooled(directory: WorkerDirectory, handlers: HandlerRegistry, closing: ExitStack) -> WorkerGateway:
    """Two workers behind ports, with one job each at a time."""
    router = LeastActiveWorkerRouter(directory, max_concurrency=1)
    pool = closing.enter_context(PooledWorkerGateway(directory, router))
    for worker_id in ("worker-1", "worker-2"):
        here, there = queue_ports()
        closing.enter_context(WorkerThreadWorker(worker_id, handlers, there))
        pool.add_worker(worker_id, here)
    pool.wait_ready(WAIT_MS)
    return pool


Build = Callable[[WorkerDirectory, HandlerRegistry, ExitStack], WorkerGateway]


@pytest.fixture(params=[in_memory, pooled], ids=["in-memory", "pooled"])
def gateway(
    request: pytest.FixtureRequest, directory: WorkerDirectory, handlers: HandlerRegistry, closing: ExitStack
) -> WorkerGateway:
    build: Build = request.param
    return build(directory, handlers, closing)


@pytest.fixture
def lines() -> list[JobLog]:
    return []


@pytest.fixture
def orchestrator(
    store: InMemoryOrchestratorStore, gateway: WorkerGateway, lines: list[JobLog], closing: ExitStack
) -> Orchestrator:
    return closing.enter_context(Orchestrator(store, gateway, on_log=lines.append))


def test_tasks_run_in_the_order_of_what_they_depend_on(
    orchestrator: Orchestrator, directory: WorkerDirectory
) -> None:
    """Outputs are handed on; the routing gateway is passed to it as it is."""
    run_id = orchestrator.start_run(
        [
            task("last", "echo", "left", "right"),
            task("left", "echo_async", "first"),
            task("right", "echo", "first"),
            task("first", "echo", params=1),
        ]
    )
    run = orchestrator.wait_for_run(run_id).result(WAIT_MS)
    assert run.status is RunStatus.SUCCEEDED
    assert set(run.outputs["last"]["outputs"]) == {"left", "right"}
    assert run.outputs["left"]["outputs"]["first"]["params"] == 1
    assert {each.worker_id for each in run.tasks} <= {"worker-1", "worker-2"}
    assert [status.active_jobs for status in directory.list()] == [0, 0]


def test_a_coroutine_awaits_a_run(orchestrator: Orchestrator) -> None:
    """As it awaits a job; a run that is over can be asked for again."""

    async def caller() -> RunSnapshot:
        return await orchestrator.wait_for_run(orchestrator.start_run([task("a", params=5)], run_id="mine"))

    run = asyncio.run(caller())
    assert run.outputs["a"]["params"] == 5
    assert orchestrator.wait_for_run("mine").result(0) == run


def test_more_tasks_than_places_wait_for_one_and_none_fails(
    orchestrator: Orchestrator, gate: Gate, store: InMemoryOrchestratorStore
) -> None:
    """Busy workers are no failure: forty tasks, two places."""
    run_id = orchestrator.start_run([task(f"t{number}", "gate") for number in range(40)])
    gate.wait(2)
    gate.opened.set()
    run = orchestrator.wait_for_run(run_id).result(WAIT_MS)
    assert run.status is RunStatus.SUCCEEDED
    assert {each.attempt for each in run.tasks} == {1}
    assert gate.most == 2


def test_the_end_of_a_job_makes_place_for_the_next_task_at_once(
    store: InMemoryOrchestratorStore, gateway: WorkerGateway, closing: ExitStack
) -> None:
    """Without waiting for the next look: this orchestrator's clock stands still, so no look ever comes."""
    orchestrator = closing.enter_context(Orchestrator(store, gateway, now=lambda: 0))
    run_id = orchestrator.start_run([task(f"t{number}") for number in range(10)])
    assert orchestrator.wait_for_run(run_id).result(WAIT_MS).status is RunStatus.SUCCEEDED


def test_tasks_wait_for_places_that_others_take(
    orchestrator: Orchestrator, gateway: WorkerGateway, gate: Gate
) -> None:
    """Nobody tells the orchestrator when jobs of others end: it looks again by itself."""
    others = [gateway.dispatch(Job(f"other-{number}", "r", "t", "gate")) for number in range(2)]
    gate.wait(2)
    run_id = orchestrator.start_run([task("a")])
    with pytest.raises(TimeoutError):
        orchestrator.wait_for_run(run_id).result(120)
    gate.opened.set()
    for pending in others:
        pending.result(WAIT_MS)
    assert orchestrator.wait_for_run(run_id).result(WAIT_MS).status is RunStatus.SUCCEEDED


def test_a_failed_attempt_is_made_again_until_there_are_no_more(
    orchestrator: Orchestrator, store: InMemoryOrchestratorStore
) -> None:
    """The error of the last is kept, with its stack."""
    run_id = orchestrator.start_run(
        [
            task("hopeless", "boom", max_attempts=2, params="good"),
            task("after", "echo", "hopeless"),
        ]
    )
    run = orchestrator.wait_for_run(run_id).result(WAIT_MS)
    assert run.status is RunStatus.FAILED
    hopeless = run.task("hopeless")
    assert hopeless.error is not None
    assert (hopeless.attempt, hopeless.error.name, hopeless.error.message) == (2, "ValueError", "no good")
    assert "in boom" in hopeless.error.stack
    assert run.task("after").status is TaskStatus.SKIPPED
    assert [str(event.kind) for event in store.events(run_id)] == [
        "run.started",
        "task.started",
        "task.retried",
        "task.started",
        "task.failed",
        "task.skipped",
        "run.failed",
    ]


def test_nobody_to_run_a_task_is_a_failed_attempt(orchestrator: Orchestrator) -> None:
    """The run does not wait for a worker that may never come."""
    run_id = orchestrator.start_run([task("a", "deploy", max_attempts=2)])
    run = orchestrator.wait_for_run(run_id).result(WAIT_MS)
    error = run.task("a").error
    assert error is not None
    assert error.name == "NoHealthyWorker"
    assert "task type 'deploy'" in error.message
    assert run.task("a").attempt == 2


@pytest.mark.parametrize("task_type", ["until_cancelled", "until_cancelled_async"])
def test_cancelling_a_run_reaches_the_workers_that_run_it(
    orchestrator: Orchestrator, lines: list[JobLog], store: InMemoryOrchestratorStore, task_type: str
) -> None:
    """What waits is cancelled at once; twice is once, also when it is over."""
    run_id = orchestrator.start_run([task("a", task_type), task("b", task_type), task("c", "echo", "a")])
    eventually(lambda: len(lines) == 2)
    orchestrator.cancel_run(run_id, "not needed")
    orchestrator.cancel_run(run_id)
    run = orchestrator.wait_for_run(run_id).result(WAIT_MS)
    assert run.status is RunStatus.CANCELLED
    assert {each.status for each in run.tasks} == {TaskStatus.CANCELLED}
    details = {event.detail for event in store.events(run_id) if event.kind == "task.cancelled"}
    assert details == {"not needed"}
    orchestrator.cancel_run(run_id)
    assert orchestrator.wait_for_run(run_id).result(0) == run


def test_cancelling_a_task_leaves_the_others_alone(orchestrator: Orchestrator, lines: list[JobLog]) -> None:
    """What depends on it is skipped."""
    run_id = orchestrator.start_run(
        [task("a", "until_cancelled"), task("b", "echo", "a"), task("c", "echo", params=3)]
    )
    eventually(lambda: lines)
    orchestrator.cancel_task(run_id, "a")
    run = orchestrator.wait_for_run(run_id).result(WAIT_MS)
    assert [each.status.value for each in run.tasks] == ["cancelled", "skipped", "succeeded"]


def test_what_is_unknown_is_named(orchestrator: Orchestrator) -> None:
    """Runs, and tasks of runs."""
    for ask in (orchestrator.wait_for_run, orchestrator.cancel_run):
        with pytest.raises(UnknownRun, match="unknown run 'x'"):
            ask("x")
    run_id = orchestrator.start_run([task("a")])
    with pytest.raises(UnknownTask, match="has no task 'b'"):
        orchestrator.cancel_task(run_id, "b")
    orchestrator.wait_for_run(run_id).result(WAIT_MS)


def test_a_run_that_can_not_be_is_refused(orchestrator: Orchestrator) -> None:
    """Its tasks, or an id that was used."""
    with pytest.raises(ConfigurationError, match="wait for each other"):
        orchestrator.start_run([task("a", "echo", "b"), task("b", "echo", "a")])
    orchestrator.start_run([], run_id="one")
    with pytest.raises(ConfigurationError, match="'one' exists already"):
        orchestrator.start_run([], run_id="one")


def test_interrupted_work_is_recovered_from_its_snapshot(
    store: InMemoryOrchestratorStore, gateway: WorkerGateway, gate: Gate, closing: ExitStack
) -> None:
    """The orchestrator went away with a task running; another one takes the run up from JSON."""
    first = Orchestrator(store, gateway)
    run_id = first.start_run([task("a", params=1), task("b", "gate", "a"), task("c", "echo", "b")])
    gate.wait()
    waiting = first.wait_for_run(run_id)
    first.close()
    with pytest.raises(RunInterrupted, match="recover it"):
        waiting.result(0)
    with pytest.raises(RunInterrupted):
        first.start_run([])
    kept = store.get(run_id)
    assert kept is not None
    gate.opened.set()

    elsewhere = InMemoryOrchestratorStore()
    second = closing.enter_context(Orchestrator(elsewhere, gateway))
    assert second.recover(RunSnapshot.model_validate_json(kept.model_dump_json())) == (run_id,)
    run = second.wait_for_run(run_id).result(WAIT_MS)
    assert run.status is RunStatus.SUCCEEDED
    assert [each.attempt for each in run.tasks] == [1, 2, 1]
    assert run.outputs["c"]["outputs"] == {"b": "through"}
    assert "task.interrupted" in [event.kind for event in elsewhere.events(run_id)]
    assert second.recover(run) == ()


def test_every_unfinished_run_of_a_store_is_recovered(
    store: InMemoryOrchestratorStore, gateway: WorkerGateway, gate: Gate, closing: ExitStack
) -> None:
    """Those that are over stay over; those under way here are left alone."""
    first = Orchestrator(store, gateway)
    runs = [first.start_run([task("a", "gate")]) for _ in range(2)]
    over = first.start_run([])
    gate.wait(2)
    first.wait_for_run(over).result(WAIT_MS)
    first.close()
    second = closing.enter_context(Orchestrator(store, gateway))
    with pytest.raises(RunInterrupted, match="nobody runs it here"):
        second.wait_for_run(runs[0]).result(0)
    assert second.recover() == tuple(runs)
    assert second.recover() == ()
    gate.opened.set()
    for run_id in runs:
        assert second.wait_for_run(run_id).result(WAIT_MS).status is RunStatus.SUCCEEDED
