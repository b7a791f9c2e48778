"""Workers in this process: how handlers run and end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable
from contextlib import ExitStack

import pytest

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing import (
    DispatchOptions,
    DuplicateJob,
    DuplicateWorker,
    HandlerRegistry,
    InMemoryWorkerGateway,
    JobContext,
    JobFailed,
    NoHealthyWorker,
    TaskTypeRefused,
)
from tests.support.apps import handlers as app
from tests.support.routing import Gate, Log, job

WAIT_MS = 15_000


@pytest.fixture
def gateway(closing: ExitStack) -> InMemoryWorkerGateway:
    """One worker with the sample handlers."""
    opened = closing.enter_context(InMemoryWorkerGateway())
    opened.register_worker("worker-1", app.build())
    return opened


@pytest.mark.parametrize("task_type", ["echo", "echo_async"])
def test_a_handler_runs_in_this_process_with_what_the_job_holds(
    gateway: InMemoryWorkerGateway, task_type: str
) -> None:
    """Plain or async: params, outputs and attempt arrive, the result names the worker."""
    params = {"live": object()}
    pending = gateway.dispatch(job(task_type, params, outputs={"before": 1}, attempt=2))
    result = pending.result(WAIT_MS)
    assert result.job_id == pending.job_id
    assert result.worker_id == "worker-1"
    assert result.output == {
        "params": params,
        "outputs": {"before": 1},
        "attempt": 2,
        "worker": "worker-1",
        "pid": os.getpid(),
    }


def test_a_coroutine_awaits_a_job_and_may_stop_waiting_for_it(
    gateway: InMemoryWorkerGateway, gate: Gate
) -> None:
    """The loop is not blocked, and giving up waiting does not stop the job."""
    gateway.register_worker("worker-2", HandlerRegistry({"gate": gate}))

    async def caller() -> object:
        assert (await gateway.dispatch(job("echo", 7))).output["params"] == 7
        pending = gateway.dispatch(job("gate"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_of(pending), 0.01)
        assert not pending.done()
        gate.opened.set()
        return (await pending).output

    assert asyncio.run(caller()) == "through"


async def _of(awaitable: Awaitable[object]) -> object:
    return await awaitable


def test_a_handler_that_raises_fails_the_job_with_name_message_and_stack(
    gateway: InMemoryWorkerGateway,
) -> None:
    """The error itself is the cause, since it is at hand."""
    with pytest.raises(JobFailed, match="ValueError: no good") as caught:
        gateway.dispatch(job("boom", "good")).result(WAIT_MS)
    assert (caught.value.name, caught.value.message) == ("ValueError", "no good")
    assert "in boom" in caught.value.stack
    assert isinstance(caught.value.__cause__, ValueError)


def test_lines_of_log_arrive_and_a_listener_that_fails_harms_nothing(
    gateway: InMemoryWorkerGateway, caplog: pytest.LogCaptureFixture
) -> None:
    """Logging is no part of the job."""
    log = Log()
    gateway.dispatch(job("talk"), log.options).result(WAIT_MS)
    assert [(line.level, line.message) for line in log.lines] == [("warning", "on it"), ("info", "an object")]
    assert log.lines[0].fields == {"step": 1}

    def broken(line: object) -> None:
        raise RuntimeError("the listener is broken")

    assert gateway.dispatch(job("talk"), DispatchOptions(on_log=broken)).result(WAIT_MS).output == "said"
    assert "the listener for its log failed" in caplog.text


def test_no_more_plain_handlers_run_at_once_than_allowed(gateway: InMemoryWorkerGateway, gate: Gate) -> None:
    """The others wait for their turn, and all run."""
    gateway.register_worker("worker-2", HandlerRegistry({"gate": gate}), concurrency=3)
    pendings = [gateway.dispatch(job("gate")) for _ in range(12)]
    gate.wait(3)
    gate.opened.set()
    assert {pending.result(WAIT_MS).output for pending in pendings} == {"through"}
    assert gate.most == 3


def test_a_handler_that_exits_takes_nothing_with_it(gateway: InMemoryWorkerGateway) -> None:
    """Neither its thread nor the loop: the worker's other jobs go on."""

    def leaves(context: JobContext) -> None:
        sys.exit("bye")

    async def leaves_async(context: JobContext) -> None:
        sys.exit("bye")

    gateway.register_worker(
        "worker-2", HandlerRegistry({"leaves": leaves, "leaves_async": leaves_async}), concurrency=1
    )
    for task_type in ("leaves", "leaves_async") * 2:
        error = gateway.dispatch(job(task_type)).exception(WAIT_MS)
        assert isinstance(error, JobFailed)
        assert (error.name, error.message) == ("SystemExit", "bye")


def test_an_error_that_can_not_be_printed_still_fails_its_job(gateway: InMemoryWorkerGateway) -> None:
    """A foreign object's own text may raise."""

    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def mute(context: JobContext) -> None:
        raise MuteError

    gateway.register_worker("worker-2", HandlerRegistry({"mute": mute}))
    error = gateway.dispatch(job("mute")).exception(WAIT_MS)
    assert isinstance(error, JobFailed)
    assert error.name == "MuteError"
    assert "can't be read" in error.message


def test_what_a_plain_handler_returns_is_awaited_where_it_can_be(gateway: InMemoryWorkerGateway) -> None:
    """A plain function around an async one is a handler too, and so is an object with an async call."""

    def around(context: JobContext) -> object:
        return app.echo_async(context)

    class Callable:
        async def __call__(self, context: JobContext) -> object:
            return await app.echo_async(context)

    gateway.register_worker("worker-2", HandlerRegistry({"around": around, "object": Callable()}))
    for task_type in ("around", "object"):
        assert gateway.dispatch(job(task_type, 5)).result(WAIT_MS).output["params"] == 5


def test_async_handlers_of_a_worker_share_one_loop(gateway: InMemoryWorkerGateway) -> None:
    """So they can share what belongs to a loop."""

    async def loop(context: JobContext) -> int:
        return id(asyncio.get_running_loop())

    gateway.register_worker("worker-2", HandlerRegistry({"loop": loop}))
    pendings = [gateway.dispatch(job("loop")) for _ in range(5)]
    assert len({pending.result(WAIT_MS).output for pending in pendings}) == 1


def test_ids_are_used_once(gateway: InMemoryWorkerGateway, gate: Gate) -> None:
    """A worker's and, while the job runs, a job's."""
    with pytest.raises(DuplicateWorker, match="worker-1"):
        gateway.register_worker("worker-1", app.build())
    gateway.register_worker("worker-2", HandlerRegistry({"gate": gate}))
    first = gateway.dispatch(job("gate", job_id="one"))
    gate.wait()
    assert isinstance(gateway.dispatch(job("gate", job_id="one")).exception(0), DuplicateJob)
    assert not first.done()
    gate.opened.set()
    first.result(WAIT_MS)
    gateway.dispatch(job("gate", job_id="one")).result(WAIT_MS)


@pytest.mark.parametrize(
    "arguments",
    [("", app.build(), 1), ("worker-2", {"echo": app.echo}, 1), ("worker-2", app.build(), 0)],
)
def test_what_is_no_worker_is_refused(
    gateway: InMemoryWorkerGateway, arguments: tuple[str, HandlerRegistry, int]
) -> None:
    """Configuration errors come at registration."""
    worker_id, handlers, concurrency = arguments
    with pytest.raises(ConfigurationError, match="expected"):
        gateway.register_worker(worker_id, handlers, concurrency=concurrency)


def test_a_type_that_nobody_runs_is_refused_by_name(gateway: InMemoryWorkerGateway) -> None:
    """And without any worker there is nobody to refuse it."""
    with pytest.raises(TaskTypeRefused, match="'worker-1' refused task type 'train'"):
        gateway.dispatch(job("train")).result(0)
    gateway.unregister_worker("worker-1")
    gateway.unregister_worker("worker-1")
    with pytest.raises(NoHealthyWorker, match="no worker is registered"):
        gateway.dispatch(job("echo")).result(0)


def test_among_its_own_workers_a_gateway_takes_the_least_active(
    gateway: InMemoryWorkerGateway, gate: Gate
) -> None:
    """Among those that run the type."""
    for worker_id in ("worker-2", "worker-3"):
        gateway.register_worker(worker_id, HandlerRegistry({"gate": gate}))
    pendings = [gateway.dispatch(job("gate")) for _ in range(4)]
    gate.wait(4)
    gate.opened.set()
    workers = [pending.result(WAIT_MS).worker_id for pending in pendings]
    assert workers == ["worker-2", "worker-3"] * 2


def test_an_error_whose_traceback_can_not_be_read_still_fails_its_job(gateway: InMemoryWorkerGateway) -> None:
    """Formatting reads attributes of a foreign object."""

    class UnreadableError(Exception):
        @property
        def __notes__(self) -> list[str]:
            raise RuntimeError

    def unreadable(context: JobContext) -> None:
        raise UnreadableError("no")

    gateway.register_worker("worker-2", HandlerRegistry({"unreadable": unreadable}))
    error = gateway.dispatch(job("unreadable")).exception(WAIT_MS)
    assert isinstance(error, JobFailed)
    assert (error.name, error.message) == ("UnreadableError", "no")
