"""The orchestrator against its own seams: clocks, gateways, stores and listeners, broken ones too."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from dramatiq_handshake.routing import (
    DispatchOptions,
    HandlerRegistry,
    InMemoryOrchestratorStore,
    InMemoryWorkerGateway,
    Job,
    JobContext,
    Orchestrator,
    PendingJob,
    RunEvent,
    RunInterrupted,
    RunSnapshot,
    RunStatus,
    TaskStatus,
)
from tests.support.apps import handlers as app
from tests.support.poll import eventually
from tests.support.routing import RecordingGateway, task

WAIT_MS = 15_000


@pytest.fixture
def store() -> InMemoryOrchestratorStore:
    return InMemoryOrchestratorStore()


def test_a_retry_waits_for_its_delay_and_may_succeed(
    store: InMemoryOrchestratorStore, closing: ExitStack
) -> None:
    """By the orchestrator's own clock."""
    attempts: list[int] = []

    def flaky(context: JobContext) -> str:
        attempts.append(context.attempt)
        if context.attempt < 3:
            raise ValueError
        return "at last"

    gateway = closing.enter_context(InMemoryWorkerGateway())
    gateway.register_worker("worker-1", HandlerRegistry({"flaky": flaky}))
    orchestrator = closing.enter_context(Orchestrator(store, gateway))
    run_id = orchestrator.start_run([task("a", "flaky", max_attempts=3, retry_delay_ms=30)])
    run = orchestrator.wait_for_run(run_id).result(WAIT_MS)
    assert run.outputs == {"a": "at last"}
    assert attempts == [1, 2, 3]
    retried = [event.at for event in store.events(run_id) if event.kind == "task.retried"]
    started = [event.at for event in store.events(run_id) if event.kind == "task.started"]
    assert all(begun - failed >= 30 for failed, begun in zip(retried, started[1:], strict=True))


def test_a_gateway_that_breaks_the_protocol_fails_the_task(closing: ExitStack) -> None:
    """One that raises in dispatch, or can't cancel."""

    class Broken(RecordingGateway):
        def dispatch(self, job: Job, options: DispatchOptions | None = None) -> PendingJob:
            if job.task_id == "raises":
                raise OSError("no route to host")
            return super().dispatch(job, options)

        def request_cancel(self, job_id: str) -> None:
            super().request_cancel(job_id)
            raise OSError("no route to host")

    gateway = Broken()
    orchestrator = closing.enter_context(Orchestrator(InMemoryOrchestratorStore(), gateway))
    run_id = orchestrator.start_run([task("raises"), task("runs")], run_id="run")
    eventually(lambda: gateway.dispatched)
    orchestrator.cancel_run(run_id)
    eventually(lambda: gateway.cancelled == ["run:runs:1"])
    gateway.succeed("run:runs:1")
    run = orchestrator.wait_for_run(run_id).result(WAIT_MS)
    assert [each.status.value for each in run.tasks] == ["failed", "succeeded"]
    error = run.task("raises").error
    assert error is not None
    assert error.message == "no route to host"


def test_a_store_that_fails_interrupts_the_run_and_no_other(closing: ExitStack) -> None:
    """Who waits learns it."""

    class Failing(InMemoryOrchestratorStore):
        def save(self, run: RunSnapshot, events: Sequence[RunEvent]) -> None:
            if run.run_id == "doomed" and run.task("a").status is not TaskStatus.PENDING:
                raise OSError("the disk is full")
            super().save(run, events)

    gateway = RecordingGateway()
    orchestrator = closing.enter_context(Orchestrator(Failing(), gateway))
    doomed = orchestrator.start_run([task("a"), task("b")], run_id="doomed")
    with pytest.raises(RunInterrupted, match="its store failed: the disk is full"):
        orchestrator.wait_for_run(doomed).result(WAIT_MS)
    orchestrator.start_run([task("a")], run_id="fine")
    eventually(lambda: "fine:a:1" in gateway.futures)
    gateway.succeed("fine:a:1")
    assert orchestrator.wait_for_run("fine").result(WAIT_MS).status is RunStatus.SUCCEEDED
    assert "doomed:b:1" not in gateway.futures


@pytest.mark.parametrize("moment", ["cancel", "end"])
def test_a_store_that_fails_later_interrupts_the_run_too(closing: ExitStack, moment: str) -> None:
    """While it is cancelled, or at the end of a job; what comes afterwards is not noted any more."""

    class Failing(InMemoryOrchestratorStore):
        broken = False

        def save(self, run: RunSnapshot, events: Sequence[RunEvent]) -> None:
            if self.broken:
                raise OSError("the disk is full")
            super().save(run, events)

    store, gateway = Failing(), RecordingGateway()
    orchestrator = closing.enter_context(Orchestrator(store, gateway))
    orchestrator.start_run([task("a"), task("b")], run_id="run")
    pending = orchestrator.wait_for_run("run")
    eventually(lambda: store.get("run") and len(store.events("run")) == 3)
    store.broken = True
    if moment == "cancel":
        orchestrator.cancel_run("run")
        orchestrator.cancel_run("run")
    else:
        gateway.succeed("run:a:1")
    with pytest.raises(RunInterrupted, match="its store failed: the disk is full"):
        pending.result(WAIT_MS)
    store.broken = False
    for job_id, future in gateway.futures.items():
        if not future.done():
            gateway.succeed(job_id)
    assert orchestrator.wait_for_run(orchestrator.start_run([])).result(WAIT_MS).over
    assert len(store.events("run")) == 3
    assert gateway.cancelled == []


def test_a_run_that_can_not_be_saved_is_not_started(closing: ExitStack) -> None:
    """Whoever starts it gets the store's own error, and may try again."""

    class Full(InMemoryOrchestratorStore):
        broken = True

        def save(self, run: RunSnapshot, events: Sequence[RunEvent]) -> None:
            if self.broken:
                raise OSError("the disk is full")
            super().save(run, events)

    store = Full()
    orchestrator = closing.enter_context(Orchestrator(store, RecordingGateway()))
    with pytest.raises(OSError, match="the disk is full"):
        orchestrator.start_run([], run_id="run")
    store.broken = False
    assert orchestrator.wait_for_run(orchestrator.start_run([], run_id="run")).result(WAIT_MS).over


def test_a_listener_may_start_the_next_run(closing: ExitStack) -> None:
    """It is called in the orchestrator's own thread."""
    started = threading.Event()

    def listen(event: RunEvent) -> None:
        if event.kind == "run.succeeded" and event.run_id == "first":
            orchestrator.start_run([], run_id="second")
            started.set()

    orchestrator = closing.enter_context(
        Orchestrator(InMemoryOrchestratorStore(on_event=listen), RecordingGateway())
    )
    orchestrator.start_run([], run_id="first")
    assert started.wait(15)
    assert orchestrator.wait_for_run("second").result(WAIT_MS).status is RunStatus.SUCCEEDED


def test_an_idle_orchestrator_sleeps(closing: ExitStack) -> None:
    """After its last run it waits for the next without looking at the clock."""
    looks: list[int] = []

    def clock() -> int:
        looks.append(1)
        return len(looks)

    gateway = closing.enter_context(InMemoryWorkerGateway())
    gateway.register_worker("worker-1", app.build())
    orchestrator = closing.enter_context(Orchestrator(InMemoryOrchestratorStore(), gateway, now=clock))
    orchestrator.wait_for_run(orchestrator.start_run([task("a")])).result(WAIT_MS)
    eventually(lambda: _unchanged(looks))


def _unchanged(looks: list[int]) -> bool:
    before = len(looks)
    threading.Event().wait(0.05)
    return len(looks) == before
