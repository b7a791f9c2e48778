"""A pool of workers behind thread ports, over directories in memory and on Redis."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing import (
    CancelSignal,
    DispatchOptions,
    DuplicateWorker,
    Health,
    JobCancelled,
    JobFailed,
    LeastActiveWorkerRouter,
    NoHealthyWorker,
    PooledWorkerGateway,
    PortFault,
    QueuePort,
    TaskTypeRefused,
    WorkerDirectory,
    WorkerLost,
    WorkerThreadWorker,
    queue_ports,
)
from tests.integration.routing.conftest import OpenDirectory
from tests.support.apps import handlers as app
from tests.support.poll import eventually
from tests.support.routing import Log, job

WAIT_MS = 15_000


class Played:
    """A worker that the test plays: it says what it is told to say."""

    def __init__(self, worker_id: str = "worker-1") -> None:
        self.worker_id = worker_id
        self.here, self.port = queue_ports()

    def says(self, kind: str, **fields: Any) -> None:
        """Send a message."""
        if kind.startswith("worker."):
            fields.setdefault("worker_id", self.worker_id)
        self.port.send({"type": kind, "version": 1} | fields)

    def ready(self, *task_types: str) -> None:
        """Say that it takes jobs of these types."""
        self.says("worker.ready", task_types=task_types)

    def beat(self) -> None:
        """Send a heartbeat."""
        self.says("worker.heartbeat")

    def next_job(self) -> str:
        """The id of the job that it is assigned next."""
        frame = self.port.receive(WAIT_MS)
        assert isinstance(frame, dict)
        assert frame["type"] == "job.assigned"
        return str(frame["job_id"])


@pytest.fixture
def faults() -> list[PortFault]:
    return []


@pytest.fixture
def pool(directory: WorkerDirectory, faults: list[PortFault], closing: ExitStack) -> PooledWorkerGateway:
    """An empty pool."""
    return closing.enter_context(
        PooledWorkerGateway(directory, LeastActiveWorkerRouter(directory), on_fault=faults.append)
    )


def start_worker(worker_id: str, closing: ExitStack, **options: Any) -> QueuePort:
    """A real worker in a thread; returns the gateway's end of its port."""
    here, there = queue_ports()
    closing.enter_context(WorkerThreadWorker(worker_id, app.build(), there, **options))
    return here


def health(directory: WorkerDirectory) -> dict[str, Health]:
    """How each worker is."""
    return {status.worker_id: status.health for status in directory.list()}


@pytest.mark.parametrize("form", [dict, list], ids=["mapping", "pairs"])
def test_workers_register_by_themselves_and_share_the_jobs(
    directory: WorkerDirectory, closing: ExitStack, form: Any
) -> None:
    """Ready messages enter them with their types, and dispatches go through the router."""
    ports = form([(worker_id, start_worker(worker_id, closing)) for worker_id in ("worker-1", "worker-2")])
    router = LeastActiveWorkerRouter(directory)
    pool = closing.enter_context(PooledWorkerGateway(directory, router, ports))
    pool.wait_ready(WAIT_MS)
    for status in directory.list():
        assert status.health is Health.HEALTHY
        assert status.task_types == frozenset(app.build().types())
    log = Log()
    waiting = [pool.dispatch(job("until_cancelled"), log.options) for _ in range(4)]
    eventually(lambda: len(log.lines) == 4)
    assert [status.active_jobs for status in directory.list()] == [2, 2]
    assert pool.dispatch(job("echo", 7)).result(WAIT_MS).output["params"] == 7
    with pytest.raises(JobFailed, match="ValueError: no good"):
        pool.dispatch(job("boom", "good")).result(WAIT_MS)
    for pending in waiting:
        pool.request_cancel(pending.job_id)
    assert {type(pending.exception(WAIT_MS)) for pending in waiting} == {JobCancelled}
    assert [status.active_jobs for status in directory.list()] == [0, 0]


def test_coroutines_dispatch_and_await(pool: PooledWorkerGateway, closing: ExitStack) -> None:
    """A hundred at once, over two threads' workers."""
    for worker_id in ("worker-1", "worker-2"):
        pool.add_worker(worker_id, start_worker(worker_id, closing))
    pool.wait_ready(WAIT_MS)

    async def caller(number: int) -> Any:
        return (await pool.dispatch(job("echo_async", number))).output["params"]

    async def callers() -> list[Any]:
        return await asyncio.gather(*(caller(number) for number in range(100)))

    assert asyncio.run(callers()) == list(range(100))


def test_a_pool_refuses_a_worker_id_that_it_has(
    directory: WorkerDirectory, pool: PooledWorkerGateway
) -> None:
    """At construction, before any port is listened to, and later."""
    here, there = queue_ports()
    with pytest.raises(DuplicateWorker, match="worker-1"):
        PooledWorkerGateway(
            directory, LeastActiveWorkerRouter(directory), [("worker-1", here), ("worker-1", there)]
        )
    pool.add_worker("worker-1", here)
    with pytest.raises(DuplicateWorker, match="worker-1"):
        pool.add_worker("worker-1", there)
    with pytest.raises(ConfigurationError, match="id"):
        pool.add_worker("", there)


def test_heartbeats_keep_a_worker_from_going_stale(
    open_directory: OpenDirectory, faults: list[PortFault], closing: ExitStack
) -> None:
    """One that beats stays healthy, a silent one goes stale and gets no jobs until it beats."""
    directory = open_directory(heartbeat_timeout_ms=300)
    pool = closing.enter_context(
        PooledWorkerGateway(directory, LeastActiveWorkerRouter(directory), on_fault=faults.append)
    )
    silent = Played("silent")
    silent.ready("echo")
    pool.add_worker("silent", silent.here)
    pool.wait_ready(WAIT_MS)
    pool.add_worker("beating", start_worker("beating", closing, heartbeat_interval_ms=20))
    pool.wait_ready(WAIT_MS)
    eventually(lambda: health(directory) == {"silent": Health.STALE, "beating": Health.HEALTHY})
    assert pool.dispatch(job("echo")).result(WAIT_MS).worker_id == "beating"
    silent.beat()
    eventually(lambda: health(directory)["silent"] is Health.HEALTHY)
    pool.dispatch(job("echo", job_id="first"))
    assert silent.next_job() == "first"
    assert faults == []
    silent.port.close()


def test_a_heartbeat_makes_a_worker_healthy_that_was_marked(
    directory: WorkerDirectory, pool: PooledWorkerGateway
) -> None:
    """As the spec says of heartbeats."""
    played = Played()
    pool.add_worker("worker-1", played.here)
    played.ready("echo")
    pool.wait_ready(WAIT_MS)
    directory.mark_unhealthy("worker-1", "its disk is full")
    with pytest.raises(NoHealthyWorker, match="its disk is full"):
        pool.dispatch(job("echo")).result(0)
    played.beat()
    eventually(lambda: health(directory) == {"worker-1": Health.HEALTHY})


def test_a_port_that_closes_takes_its_worker_off_before_its_jobs_are_rejected(
    directory: WorkerDirectory, pool: PooledWorkerGateway, closing: ExitStack
) -> None:
    """So a retry never goes to the one that was just lost; another of its id may come."""
    played = Played()
    pool.add_worker("worker-1", played.here)
    played.ready("echo")
    pool.wait_ready(WAIT_MS)
    pendings = [pool.dispatch(job("echo")) for _ in range(3)]
    retries: list[BaseException | None] = []
    pendings[0].add_done_callback(lambda _: retries.append(pool.dispatch(job("echo")).exception(0)))
    played.port.close()
    for pending in pendings:
        with pytest.raises(WorkerLost, match="'worker-1' was lost: the other end closed it"):
            pending.result(WAIT_MS)
    eventually(lambda: retries)
    assert isinstance(retries[0], NoHealthyWorker)
    assert directory.list() == ()
    pool.add_worker("worker-1", start_worker("worker-1", closing))
    pool.wait_ready(WAIT_MS)
    assert pool.dispatch(job("echo")).result(WAIT_MS).worker_id == "worker-1"


def test_a_worker_that_refuses_what_it_named_gets_nothing_until_it_says_what_it_runs(
    directory: WorkerDirectory, pool: PooledWorkerGateway, faults: list[PortFault]
) -> None:
    """Its heartbeats don't make it healthy; its next ready does."""
    liar = Played()
    pool.add_worker("worker-1", liar.here)
    liar.ready("echo", "train")
    pool.wait_ready(WAIT_MS)
    pending = pool.dispatch(job("train"))
    refusal = {"name": "TaskTypeRefused", "message": "no", "refused": True, "types": ["echo"]}
    liar.says("job.failed", job_id=liar.next_job(), **refusal)
    with pytest.raises(TaskTypeRefused, match=r"'worker-1' refused task type 'train'.*'echo'"):
        pending.result(WAIT_MS)
    liar.beat()
    liar.port.send({})
    eventually(lambda: faults, what="what came after the heartbeat was heard")
    with pytest.raises(NoHealthyWorker, match=r"it refused 'train', which it had named in worker\.ready"):
        pool.dispatch(job("echo")).result(0)
    assert health(directory) == {"worker-1": Health.UNHEALTHY}
    liar.ready("echo")
    eventually(lambda: health(directory) == {"worker-1": Health.HEALTHY})
    assert directory.list_capable("train") == ()
    pool.dispatch(job("echo", job_id="after"))
    assert liar.next_job() == "after"
    liar.port.close()


def test_garbage_is_reported_and_skipped(
    directory: WorkerDirectory, pool: PooledWorkerGateway, faults: list[PortFault]
) -> None:
    """A heartbeat before ready, another worker's ready, and what is no message at all."""
    played = Played()
    pool.add_worker("worker-1", played.here)
    played.beat()
    played.says("worker.ready", worker_id="worker-2", task_types=["echo"])
    played.says("worker.ready", task_types="echo")
    played.ready("echo")
    pool.wait_ready(WAIT_MS)
    assert [fault.worker_id for fault in faults] == ["worker-1"] * 3
    assert "has not said worker.ready" in faults[0].detail
    assert list(health(directory)) == ["worker-1"]


def test_a_worker_id_that_the_directory_knows_joins_as_soon_as_it_is_free(
    directory: WorkerDirectory, pool: PooledWorkerGateway, faults: list[PortFault]
) -> None:
    """The refusal is reported, and tried again with each heartbeat."""
    lease = directory.register("worker-1", ["other"])
    played = Played()
    pool.add_worker("worker-1", played.here)
    played.ready("echo")
    eventually(lambda: faults)
    assert "'worker-1' is registered already" in faults[0].detail
    with pytest.raises(TimeoutError, match="not ready after 1 ms: worker-1"):
        pool.wait_ready(1)
    lease.stop()
    played.beat()
    pool.wait_ready(WAIT_MS)
    assert directory.list()[0].task_types == {"echo"}


def test_a_worker_that_the_directory_lost_is_entered_again(
    open_directory: OpenDirectory, faults: list[PortFault], closing: ExitStack
) -> None:
    """It was silent for too long, and somebody else had its id for a while."""
    directory = open_directory(heartbeat_timeout_ms=200)
    pool = closing.enter_context(
        PooledWorkerGateway(directory, LeastActiveWorkerRouter(directory), on_fault=faults.append)
    )
    played = Played()
    pool.add_worker("worker-1", played.here)
    played.ready("echo")
    pool.wait_ready(WAIT_MS)
    eventually(lambda: health(directory)["worker-1"] is Health.STALE)
    other = directory.register("worker-1", ["other"], heartbeat_interval_ms=20)
    played.beat()
    eventually(lambda: faults)
    assert "refused its sign of life" in faults[0].detail
    assert directory.list()[0].task_types == {"other"}
    other.stop()
    assert directory.list() == ()
    played.beat()
    eventually(lambda: [status.task_types for status in directory.list()] == [{"echo"}])


def test_waiting_for_a_pool_tells_of_a_worker_that_was_lost(pool: PooledWorkerGateway) -> None:
    """Nobody waits for one that will not come."""
    played = Played()
    pool.add_worker("worker-1", played.here)
    played.port.close()
    with pytest.raises(WorkerLost, match="'worker-1' was lost: before it was ready: the other end"):
        pool.wait_ready(WAIT_MS)


def test_cancelling_is_for_jobs_that_run(pool: PooledWorkerGateway, closing: ExitStack) -> None:
    """Twice, unknown, and before the dispatch."""
    pool.add_worker("worker-1", start_worker("worker-1", closing))
    pool.wait_ready(WAIT_MS)
    log, signal = Log(), CancelSignal()
    pending = pool.dispatch(
        job("until_cancelled_async"), DispatchOptions(signal=signal, on_log=log.options.on_log)
    )
    log.wait_for("waiting")
    pool.request_cancel("never heard of")
    signal.cancel("not needed")
    pool.request_cancel(pending.job_id)
    pool.request_cancel(pending.job_id)
    with pytest.raises(JobCancelled, match="not needed"):
        pending.result(WAIT_MS)
    with pytest.raises(JobCancelled, match="not needed"):
        pool.dispatch(job("echo"), DispatchOptions(signal=signal)).result(0)


def test_closing_a_pool_cancels_everything_and_empties_the_directory(
    directory: WorkerDirectory, pool: PooledWorkerGateway, closing: ExitStack
) -> None:
    """At once for all workers; their threads end with their ports."""
    for worker_id in ("worker-1", "worker-2", "worker-3"):
        pool.add_worker(worker_id, start_worker(worker_id, closing))
    pool.wait_ready(WAIT_MS)
    log = Log()
    pendings = [pool.dispatch(job("until_cancelled"), log.options) for _ in range(6)]
    eventually(lambda: len(log.lines) == 6)
    assert pool.close() == ()
    assert {type(pending.exception(0)) for pending in pendings} == {JobCancelled}
    assert directory.list() == ()
    assert isinstance(pool.dispatch(job("echo")).exception(0), NoHealthyWorker)
    assert pool.close() == ()


def test_closing_a_pool_cancels_the_jobs_of_all_workers_before_it_waits_for_any(
    pool: PooledWorkerGateway, closing: ExitStack
) -> None:
    """No worker goes on working while another is waited for."""
    played = [Played(f"worker-{number}") for number in range(3)]
    for each in played:
        pool.add_worker(each.worker_id, each.here)
        each.ready("echo")
    pool.wait_ready(WAIT_MS)
    pendings = [pool.dispatch(job("echo")) for _ in played]
    assigned = [each.next_job() for each in played]
    thread = threading.Thread(target=pool.close, kwargs={"timeout_ms": WAIT_MS})
    thread.start()
    closing.callback(thread.join)
    cancels = [each.port.receive(WAIT_MS) for each in played]
    assert [cancel["job_id"] for cancel in cancels if isinstance(cancel, dict)] == assigned
    for each, job_id in zip(played, assigned, strict=True):
        each.says("job.cancelled", job_id=job_id)
    assert {type(pending.exception(WAIT_MS)) for pending in pendings} == {JobCancelled}


def test_closing_a_pool_waits_once_for_all_that_never_return(pool: PooledWorkerGateway) -> None:
    """They are named."""
    played = [Played(f"worker-{number}") for number in range(3)]
    for each in played:
        pool.add_worker(each.worker_id, each.here)
        each.ready("echo")
    pool.wait_ready(WAIT_MS)
    pendings = [pool.dispatch(job("echo", job_id=f"job-{number}")) for number in range(3)]
    assert sorted(pool.close(timeout_ms=30)) == ["job-0", "job-1", "job-2"]
    assert {type(pending.exception(0)) for pending in pendings} == {WorkerLost}
