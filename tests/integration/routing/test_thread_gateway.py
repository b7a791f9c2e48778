"""A gateway behind a port, as its worker sees it: against messages of every kind, broken ones too."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from dramatiq_handshake.routing import (
    CancelSignal,
    DispatchOptions,
    DuplicateJob,
    HandlerRegistry,
    JobCancelled,
    JobFailed,
    Port,
    PortFault,
    TaskTypeRefused,
    Unsendable,
    WorkerLost,
    WorkerThreadGateway,
    WorkerThreadWorker,
    queue_ports,
)
from tests.support.apps import handlers as app
from tests.support.routing import Gate, Log, connection_ports, job, received

WAIT_MS = 15_000


@pytest.fixture
def worker(
    ports: tuple[Port, Port], faults: list[PortFault], closing: ExitStack
) -> Iterator[WorkerThreadWorker]:
    with WorkerThreadWorker("worker-1", app.build(), ports[1], on_fault=faults.append) as at_work:
        yield at_work


@pytest.fixture
def gateway(ports: tuple[Port, Port], faults: list[PortFault]) -> Iterator[WorkerThreadGateway]:
    with WorkerThreadGateway("worker-1", ports[0], on_fault=faults.append) as listening:
        yield listening


def test_a_gateway_assigns_and_cancels_in_this_order(
    ports: tuple[Port, Port], gateway: WorkerThreadGateway
) -> None:
    """Cancelling twice is cancelling once, and an unknown job is nobody's."""
    pending = gateway.dispatch(job("echo", {"n": 1}, job_id="job", attempt=2, outputs={"before": 3}))
    gateway.request_cancel("unknown")
    gateway.request_cancel("job")
    gateway.request_cancel("job")
    first, second = received(ports[1]), received(ports[1])
    assert {
        "type": "job.assigned",
        "job_id": "job",
        "attempt": 2,
        "params": {"n": 1},
    }.items() <= first.items()
    assert first["outputs"] == {"before": 3}
    assert (second["type"], second["job_id"]) == ("job.cancel", "job")
    ports[1].send({"type": "job.cancelled", "version": 1, "job_id": "job"})
    assert isinstance(pending.exception(WAIT_MS), JobCancelled)
    with pytest.raises(TimeoutError):
        ports[1].receive(20)


def test_a_dispatch_whose_signal_is_cancelled_already_is_not_sent(
    ports: tuple[Port, Port], gateway: WorkerThreadGateway
) -> None:
    """And a signal that is cancelled later is passed on with its reason."""
    signal = CancelSignal()
    gateway.dispatch(job(job_id="job"), DispatchOptions(signal=signal))
    signal.cancel("not needed")
    late = gateway.dispatch(job(job_id="late"), DispatchOptions(signal=signal))
    assert isinstance(late.exception(0), JobCancelled)
    assert received(ports[1])["job_id"] == "job"
    cancel = received(ports[1])
    assert (cancel["type"], cancel["job_id"], cancel["reason"]) == ("job.cancel", "job", "not needed")
    ports[1].send({"type": "job.succeeded", "version": 1, "job_id": "job"})


def test_a_gateway_reports_and_skips_garbage(
    ports: tuple[Port, Port], gateway: WorkerThreadGateway, faults: list[PortFault]
) -> None:
    """Broken messages, another worker's, and those of jobs that are not there."""
    pending = gateway.dispatch(job(job_id="job"))
    received(ports[1])
    broken: list[Any] = [
        "garbage",
        None,
        {"type": "job.succeeded", "version": 1},
        {"type": "job.cancel", "version": 1, "job_id": "job"},
        {"type": "worker.heartbeat", "version": 1, "worker_id": "worker-2"},
        {"type": "job.succeeded", "version": 1, "job_id": "unknown"},
    ]
    for frame in broken:
        ports[1].send(frame)
    ports[1].send({"type": "job.started", "version": 1, "job_id": "job"})
    ports[1].send({"type": "job.succeeded", "version": 1, "job_id": "job", "output": 5})
    assert pending.result(WAIT_MS).output == 5
    assert len(faults) == len(broken)
    assert "another worker, 'worker-2'" in faults[4].detail
    assert "job 'unknown'" in faults[5].detail


def test_both_ends_work_together(
    ports: tuple[Port, Port], worker: WorkerThreadWorker, gateway: WorkerThreadGateway
) -> None:
    """Success, failure, refusal and log, as with a worker in memory."""
    result = gateway.dispatch(job("echo_async", [1, 2])).result(WAIT_MS)
    assert (result.output["params"], result.worker_id) == ([1, 2], "worker-1")
    with pytest.raises(JobFailed, match="ValueError: no good") as failed:
        gateway.dispatch(job("boom", "good")).result(WAIT_MS)
    assert "in boom" in failed.value.stack
    with pytest.raises(TaskTypeRefused, match="'worker-1' refused task type 'train'") as refused:
        gateway.dispatch(job("train")).result(WAIT_MS)
    assert refused.value.types == app.build().types()
    log = Log()
    gateway.dispatch(job("talk"), log.options).result(WAIT_MS)
    assert [line.message for line in log.lines] == ["on it", "an object"]
    assert log.lines[0].fields == {"step": 1}


@pytest.mark.parametrize("task_type", ["until_cancelled", "until_cancelled_async"])
def test_a_cancellation_reaches_the_handler(
    ports: tuple[Port, Port], worker: WorkerThreadWorker, gateway: WorkerThreadGateway, task_type: str
) -> None:
    """Through the port."""
    log = Log()
    pending = gateway.dispatch(job(task_type), log.options)
    log.wait_for("waiting")
    gateway.request_cancel(pending.job_id)
    assert isinstance(pending.exception(WAIT_MS), JobCancelled)


def test_a_job_id_is_used_once_at_a_time(ports: tuple[Port, Port], gateway: WorkerThreadGateway) -> None:
    """The first keeps its place."""
    first = gateway.dispatch(job(job_id="job"))
    assert isinstance(gateway.dispatch(job(job_id="job")).exception(0), DuplicateJob)
    ports[1].send({"type": "job.succeeded", "version": 1, "job_id": "job"})
    first.result(WAIT_MS)


def test_a_port_that_closes_rejects_what_is_pending_and_what_comes(
    ports: tuple[Port, Port], gateway: WorkerThreadGateway
) -> None:
    """With the reason."""
    pendings = [gateway.dispatch(job()) for _ in range(3)]
    ports[1].close()
    for pending in pendings:
        with pytest.raises(WorkerLost, match="'worker-1' was lost: the other end closed it"):
            pending.result(WAIT_MS)
    assert isinstance(gateway.dispatch(job()).exception(0), WorkerLost)
    gateway.request_cancel(pendings[0].job_id)
    assert "the other end closed it" in repr(gateway)


def test_a_port_that_fails_rejects_what_is_pending(caplog: pytest.LogCaptureFixture) -> None:
    """A port of one's own may raise anything."""
    unplug = threading.Event()

    class Breaking:
        def send(self, frame: Mapping[str, Any]) -> None: ...

        def receive(self, timeout_ms: int | None = None) -> object:
            unplug.wait()
            raise OSError("unplugged")

        def close(self) -> None: ...

    gateway = WorkerThreadGateway("worker-1", Breaking())
    pending = gateway.dispatch(job())
    unplug.set()
    with pytest.raises(WorkerLost, match="its port failed: OSError: unplugged"):
        pending.result(WAIT_MS)
    gateway.close()


def test_a_watcher_that_fails_does_not_cost_a_job_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever of the worker it fails at."""

    class Broken:
        def ready(self, worker_id: str, task_types: tuple[str, ...]) -> None:
            raise RuntimeError("ready")

        def beat(self, worker_id: str) -> None:
            raise RuntimeError("beat")

        def lost(self, worker_id: str, reason: str) -> None:
            raise RuntimeError("lost")

    here, there = queue_ports()
    gateway = WorkerThreadGateway("worker-1", here, watcher=Broken())
    first, second = gateway.dispatch(job(job_id="first")), gateway.dispatch(job(job_id="second"))
    there.send({"type": "worker.ready", "version": 1, "worker_id": "worker-1", "task_types": ["echo"]})
    there.send({"type": "worker.heartbeat", "version": 1, "worker_id": "worker-1"})
    there.send({"type": "job.succeeded", "version": 1, "job_id": "first", "output": 1})
    there.close()
    assert first.result(WAIT_MS).output == 1
    assert isinstance(second.exception(WAIT_MS), WorkerLost)
    gateway.close()
    for moment in ("at a worker.ready", "at a worker.heartbeat", "at its loss"):
        assert f"who watches it failed {moment}" in caplog.text


def test_a_job_for_a_port_that_was_closed_behind_the_gateways_back_is_lost(
    ports: tuple[Port, Port], gateway: WorkerThreadGateway
) -> None:
    """Before or after the gateway has heard of it."""
    ports[0].close()
    assert isinstance(gateway.dispatch(job()).exception(0), WorkerLost)


def test_an_unsendable_job_is_an_error_of_its_dispatch(closing: ExitStack) -> None:
    """The worker never hears of it, and others are sent."""
    here, there = connection_ports()
    closing.callback(there.close)
    gateway = closing.enter_context(WorkerThreadGateway("worker-1", here))
    assert isinstance(gateway.dispatch(job(params={1, 2})).exception(0), Unsendable)
    assert isinstance(gateway.dispatch(job(attempt=0)).exception(0), Unsendable)
    pending = gateway.dispatch(job(job_id="fine"))
    assert received(there)["job_id"] == "fine"
    there.close()
    pending.exception(WAIT_MS)


def test_an_unsendable_output_fails_the_job_and_an_unsendable_field_becomes_text(closing: ExitStack) -> None:
    """Nobody waits for an answer that can't be said."""
    here, there = connection_ports()
    closing.enter_context(WorkerThreadWorker("worker-1", app.build(), there))
    gateway = closing.enter_context(WorkerThreadGateway("worker-1", here))
    with pytest.raises(JobFailed, match=r"Unsendable: a job.succeeded message can't be sent: .*JSON"):
        gateway.dispatch(job("unsendable")).result(WAIT_MS)
    log = Log()
    gateway.dispatch(job("talk"), log.options).result(WAIT_MS)
    assert log.lines[1].fields == {"thing": "(1+2j)"}


def test_closing_a_gateway_cancels_what_runs_and_then_closes_the_port(
    ports: tuple[Port, Port], worker: WorkerThreadWorker, gateway: WorkerThreadGateway
) -> None:
    """The worker ends with it."""
    log = Log()
    pending = gateway.dispatch(job("until_cancelled"), log.options)
    log.wait_for("waiting")
    assert gateway.close() == ()
    assert isinstance(pending.exception(0), JobCancelled)
    assert isinstance(gateway.dispatch(job()).exception(0), WorkerLost)
    assert worker.join(WAIT_MS)


def test_closing_a_gateway_does_not_wait_for_a_handler_that_never_returns(
    ports: tuple[Port, Port], gate: Gate, closing: ExitStack
) -> None:
    """It is named, and whoever waits for it gets an error; on either side."""
    worker = WorkerThreadWorker("worker-1", HandlerRegistry({"gate": gate}), ports[1], close_timeout_ms=1)
    gateway = closing.enter_context(WorkerThreadGateway("worker-1", ports[0]))
    pending = gateway.dispatch(job("gate", job_id="stubborn"))
    gate.wait()
    assert gateway.close(timeout_ms=1) == ("stubborn",)
    assert isinstance(pending.exception(0), WorkerLost)
    assert worker.join(WAIT_MS)
    gate.opened.set()


def test_a_job_can_close_the_gateway_that_it_came_through(
    ports: tuple[Port, Port], worker: WorkerThreadWorker, gateway: WorkerThreadGateway
) -> None:
    """From its log, which is heard in the thread that listens to the port."""
    closed = threading.Event()

    def close(_line: object) -> None:
        gateway.close()
        closed.set()

    pending = gateway.dispatch(job("talk"), DispatchOptions(on_log=close))
    assert closed.wait(15)
    assert isinstance(pending.exception(WAIT_MS), WorkerLost | None)  # whatever was under way already
