"""Workers in this process: how jobs are cancelled, and what closing does to them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack

import pytest

from dramatiq_handshake.routing import (
    CancelSignal,
    DispatchOptions,
    HandlerRegistry,
    InMemoryWorkerGateway,
    JobCancelled,
    JobContext,
    JobFailed,
    WorkerLost,
)
from tests.support.apps import handlers as app
from tests.support.poll import eventually
from tests.support.routing import Gate, Log, job

WAIT_MS = 15_000


BOTH_KINDS = pytest.mark.parametrize("task_type", ["until_cancelled", "until_cancelled_async"])


@pytest.fixture
def gateway(closing: ExitStack) -> InMemoryWorkerGateway:
    """One worker with the sample handlers."""
    opened = closing.enter_context(InMemoryWorkerGateway())
    opened.register_worker("worker-1", app.build())
    return opened


@BOTH_KINDS
def test_cancelling_aborts_the_handlers_signal(gateway: InMemoryWorkerGateway, task_type: str) -> None:
    """A plain handler follows its signal, an async one is cancelled where it awaits; twice is once."""
    log = Log()
    pending = gateway.dispatch(job(task_type), log.options)
    log.wait_for("waiting")
    gateway.request_cancel(pending.job_id)
    gateway.request_cancel(pending.job_id)
    assert isinstance(pending.exception(WAIT_MS), JobCancelled)
    gateway.request_cancel(pending.job_id)
    gateway.request_cancel("never heard of")


@BOTH_KINDS
def test_the_dispatchers_signal_cancels_the_job_with_its_reason(
    gateway: InMemoryWorkerGateway, task_type: str
) -> None:
    """One signal may accompany many jobs; a job cancelled by itself leaves the others alone."""
    log, signal = Log(), CancelSignal()
    options = DispatchOptions(signal=signal, on_log=log.options.on_log)
    pendings = [gateway.dispatch(job(task_type), options) for _ in range(3)]
    eventually(lambda: len(log.lines) == 3)
    gateway.request_cancel(pendings[0].job_id)
    assert isinstance(pendings[0].exception(WAIT_MS), JobCancelled)
    assert not any(pending.done() for pending in pendings[1:])
    assert not signal.cancelled
    signal.cancel("not needed")
    for pending in pendings[1:]:
        with pytest.raises(JobCancelled, match="not needed"):
            pending.result(WAIT_MS)


def test_a_dispatch_whose_signal_is_cancelled_already_never_starts(gateway: InMemoryWorkerGateway) -> None:
    """The handler is not called."""
    called: list[JobContext] = []
    gateway.register_worker("worker-2", HandlerRegistry({"note": called.append}))
    signal = CancelSignal()
    signal.cancel("too late")
    with pytest.raises(JobCancelled, match="too late"):
        gateway.dispatch(job("note"), DispatchOptions(signal=signal)).result(0)
    gateway.dispatch(job("note")).result(WAIT_MS)
    assert len(called) == 1


def test_a_job_that_waits_for_its_turn_is_cancelled_at_once(
    gateway: InMemoryWorkerGateway, gate: Gate
) -> None:
    """No more plain handlers run at once than the worker allows; what waits can be cancelled."""
    called: list[JobContext] = []
    gateway.register_worker("worker-2", HandlerRegistry({"gate": gate, "note": called.append}), concurrency=1)
    first = gateway.dispatch(job("gate"))
    gate.wait()
    waiting = gateway.dispatch(job("note"))
    gateway.request_cancel(waiting.job_id)
    assert isinstance(waiting.exception(0), JobCancelled)
    gate.opened.set()
    first.result(WAIT_MS)
    gateway.dispatch(job("note")).result(WAIT_MS)
    assert len(called) == 1


def test_a_handler_that_returns_in_spite_of_its_signal_succeeded(
    gateway: InMemoryWorkerGateway, gate: Gate
) -> None:
    """Cancelling asks; what was done counts."""
    gateway.register_worker("worker-2", HandlerRegistry({"gate": gate}))
    pending = gateway.dispatch(job("gate"))
    gate.wait()
    gateway.request_cancel(pending.job_id)
    gate.opened.set()
    assert pending.result(WAIT_MS).output == "through"


def test_a_handler_that_breaks_on_its_way_out_failed(gateway: InMemoryWorkerGateway) -> None:
    """A cancelled job does not hide an error."""

    def breaks(context: JobContext) -> None:
        context.log("waiting")
        context.signal.wait()
        raise OSError("could not clean up")

    gateway.register_worker("worker-2", HandlerRegistry({"breaks": breaks}))
    log = Log()
    pending = gateway.dispatch(job("breaks"), log.options)
    log.wait_for("waiting")
    gateway.request_cancel(pending.job_id)
    with pytest.raises(JobFailed, match="OSError: could not clean up"):
        pending.result(WAIT_MS)


def test_a_handler_that_raises_cancelled_without_being_asked_failed(gateway: InMemoryWorkerGateway) -> None:
    """Only who was asked to stop can have been cancelled."""

    async def confused(context: JobContext) -> None:
        raise asyncio.CancelledError

    gateway.register_worker("worker-2", HandlerRegistry({"confused": confused}))
    error = gateway.dispatch(job("confused")).exception(WAIT_MS)
    assert isinstance(error, JobFailed)
    assert error.name == "CancelledError"


@BOTH_KINDS
def test_closing_cancels_what_runs_and_ends_every_thread(
    gateway: InMemoryWorkerGateway, task_type: str
) -> None:
    """The fixture `no_thread_of_ours_is_left` looks at the threads."""
    log = Log()
    pending = gateway.dispatch(job(task_type), log.options)
    log.wait_for("waiting")
    assert gateway.close() == ()
    assert isinstance(pending.exception(0), JobCancelled)


def test_a_handler_that_never_returns_does_not_keep_close_or_its_dispatcher(
    gateway: InMemoryWorkerGateway, gate: Gate
) -> None:
    """Who waits learns that the job was left behind, and close names it."""
    gateway.register_worker("worker-2", HandlerRegistry({"gate": gate}))
    pending = gateway.dispatch(job("gate", job_id="stubborn"))
    gate.wait()
    assert gateway.close(timeout_ms=1) == ("stubborn",)
    with pytest.raises(WorkerLost, match="'worker-2' was lost: it was closed while the handler went on"):
        pending.result(0)
    gate.opened.set()


def test_an_async_handler_that_blocks_its_loop_does_not_keep_close(
    gateway: InMemoryWorkerGateway, gate: Gate
) -> None:
    """It is left behind as a plain one is; so is one that swallows its cancellation."""

    async def blocks(context: JobContext) -> str:
        return gate(context)

    gateway.register_worker("worker-2", HandlerRegistry({"blocks": blocks}))
    pending = gateway.dispatch(job("blocks", job_id="stubborn"))
    gate.wait()
    assert gateway.close(timeout_ms=1) == ("stubborn",)
    assert isinstance(pending.exception(0), WorkerLost)
    gate.opened.set()


def test_an_async_handler_can_close_its_own_gateway(gateway: InMemoryWorkerGateway) -> None:
    """Its loop's thread is the one that close can't wait for."""

    async def closes(context: JobContext) -> None:
        gateway.unregister_worker("worker-2", timeout_ms=WAIT_MS)

    gateway.register_worker("worker-2", HandlerRegistry({"closes": closes}))
    assert isinstance(gateway.dispatch(job("closes")).exception(WAIT_MS), WorkerLost)


def test_a_callback_of_the_handlers_signal_that_fails_does_not_keep_the_job(
    gateway: InMemoryWorkerGateway, caplog: pytest.LogCaptureFixture
) -> None:
    """It is the handler's own; the cancellation goes on."""

    def broken() -> None:
        raise RuntimeError("the callback is broken")

    def careful(context: JobContext) -> None:
        context.signal.on_cancel(broken)
        app.until_cancelled(context)

    gateway.register_worker("worker-2", HandlerRegistry({"careful": careful}))
    log = Log()
    pending = gateway.dispatch(job("careful"), log.options)
    log.wait_for("waiting")
    gateway.request_cancel(pending.job_id)
    assert isinstance(pending.exception(WAIT_MS), JobCancelled)
    assert "a callback of its cancel signal failed" in caplog.text


def test_a_handler_that_closes_its_own_gateway_does_not_wait_for_itself(
    gateway: InMemoryWorkerGateway,
) -> None:
    """Its own thread is the one that close can't wait for."""

    def closes(context: JobContext) -> str:
        gateway.unregister_worker("worker-2", timeout_ms=WAIT_MS)
        return "closed"

    gateway.register_worker("worker-2", HandlerRegistry({"closes": closes}))
    error = gateway.dispatch(job("closes")).exception(WAIT_MS)
    assert isinstance(error, WorkerLost)


def test_handlers_run_in_daemon_threads(gateway: InMemoryWorkerGateway, gate: Gate) -> None:
    """One that never returns does not keep the interpreter from ending."""
    gateway.register_worker("worker-2", HandlerRegistry({"gate": gate}))
    gateway.dispatch(job("gate"))
    gate.wait()
    threads = [each for each in threading.enumerate() if each.name.startswith("dramatiq-handshake-jobs")]
    assert threads
    assert all(thread.daemon for thread in threads)
