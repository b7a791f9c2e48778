"""The gateway that routes, over directories in memory and on Redis."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from dramatiq_handshake.routing import (
    CancelSignal,
    DispatchOptions,
    DuplicateJob,
    DuplicateWorker,
    InMemoryWorkerGateway,
    Job,
    JobCancelled,
    JobFailed,
    LeastActiveWorkerRouter,
    NoHealthyWorker,
    PendingJob,
    RoutingWorkerGateway,
    WorkerDirectory,
    WorkersBusy,
)
from tests.integration.routing.conftest import OpenDirectory
from tests.support.apps import handlers as app
from tests.support.routing import RecordingGateway, job

WAIT_MS = 15_000


@pytest.fixture
def endpoints(directory: WorkerDirectory) -> dict[str, RecordingGateway]:
    """Two registered workers whose jobs end when the test says so."""
    for worker_id in ("worker-1", "worker-2"):
        directory.register(worker_id, ["echo"])
    return {"worker-1": RecordingGateway(), "worker-2": RecordingGateway()}


@pytest.fixture
def gateway(directory: WorkerDirectory, endpoints: dict[str, RecordingGateway]) -> RoutingWorkerGateway:
    return RoutingWorkerGateway(directory, LeastActiveWorkerRouter(directory), endpoints)


def active(directory: WorkerDirectory) -> dict[str, int]:
    """How many jobs each worker has."""
    return {status.worker_id: status.active_jobs for status in directory.list()}


IDLE = {"worker-1": 0, "worker-2": 0}


def test_the_guides_first_example_runs(directory: WorkerDirectory, closing: ExitStack) -> None:
    """Two in-memory workers, one gateway each, routed by a directory and a router."""
    handlers = app.build()
    gateways: dict[str, InMemoryWorkerGateway] = {}
    for worker_id in ("worker-1", "worker-2"):
        gateways[worker_id] = closing.enter_context(InMemoryWorkerGateway())
        gateways[worker_id].register_worker(worker_id, handlers)
        directory.register(worker_id, handlers.types())
    routing = RoutingWorkerGateway(directory, LeastActiveWorkerRouter(directory), list(gateways.items()))
    pendings = [routing.dispatch(job("echo", number)) for number in range(4)]
    results = [pending.result(WAIT_MS) for pending in pendings]
    assert [result.output["params"] for result in results] == [0, 1, 2, 3]
    assert {result.worker_id for result in results} <= {"worker-1", "worker-2"}
    assert active(directory) == IDLE


def test_jobs_go_to_the_least_active_and_count_until_they_end(
    directory: WorkerDirectory, gateway: RoutingWorkerGateway, endpoints: dict[str, RecordingGateway]
) -> None:
    """First registered on a tie; the slot is gone as soon as the result is known."""
    pendings = [gateway.dispatch(job(job_id=f"job-{number}")) for number in range(3)]
    assert [each.job_id for each in endpoints["worker-1"].dispatched] == ["job-0", "job-2"]
    assert [each.job_id for each in endpoints["worker-2"].dispatched] == ["job-1"]
    assert active(directory) == {"worker-1": 2, "worker-2": 1}
    assert directory.get_worker_for_job("job-2") == "worker-1"
    seen: list[str | None] = []
    pendings[2].add_done_callback(lambda pending: seen.append(directory.get_worker_for_job(pending.job_id)))
    endpoints["worker-1"].succeed("job-2", "done")
    assert pendings[2].result(0).output == "done"
    assert pendings[2].result(0).worker_id == "worker-1"
    assert seen == [None]
    assert active(directory) == {"worker-1": 1, "worker-2": 1}


def test_a_worker_gets_only_what_it_can_run(directory: WorkerDirectory) -> None:
    """Capability comes before load; a type that nobody runs names everybody."""
    directory.register("worker-1", ["train"])
    directory.register("worker-2", ["echo"])
    endpoints = {"worker-1": RecordingGateway(), "worker-2": RecordingGateway()}
    gateway = RoutingWorkerGateway(directory, LeastActiveWorkerRouter(directory), endpoints)
    for _ in range(3):
        gateway.dispatch(job("echo"))
    gateway.dispatch(job("train"))
    assert len(endpoints["worker-2"].dispatched) == 3
    assert len(endpoints["worker-1"].dispatched) == 1
    with pytest.raises(NoHealthyWorker, match="task type 'deploy'"):
        gateway.dispatch(job("deploy")).result(0)


@pytest.mark.parametrize("error", [JobFailed("job", "ValueError", "no"), JobCancelled("job")])
def test_a_job_that_fails_or_is_cancelled_loses_its_slot(
    directory: WorkerDirectory,
    gateway: RoutingWorkerGateway,
    endpoints: dict[str, RecordingGateway],
    error: Exception,
) -> None:
    """The error passes through as it is."""
    pending = gateway.dispatch(job(job_id="job"))
    endpoints["worker-1"].fail("job", error)
    assert pending.exception(0) is error
    assert active(directory) == IDLE


def test_each_worker_has_one_endpoint(
    directory: WorkerDirectory, gateway: RoutingWorkerGateway, endpoints: dict[str, RecordingGateway]
) -> None:
    """Duplicates are refused; endpoints may come and go later."""
    router = LeastActiveWorkerRouter(directory)
    with pytest.raises(DuplicateWorker, match="worker-1"):
        RoutingWorkerGateway(directory, router, [("worker-1", RecordingGateway())] * 2)
    with pytest.raises(DuplicateWorker, match="worker-1"):
        gateway.add_endpoint("worker-1", RecordingGateway())
    gateway.remove_endpoint("worker-1")
    gateway.remove_endpoint("worker-1")
    replacement = RecordingGateway()
    gateway.add_endpoint("worker-1", replacement)
    gateway.dispatch(job())
    assert len(replacement.dispatched) == 1


def test_a_job_id_under_way_is_refused_and_the_first_job_keeps_its_slot(
    directory: WorkerDirectory, gateway: RoutingWorkerGateway, open_directory: OpenDirectory
) -> None:
    """By the gateway itself, and through the directory by any other."""
    gateway.dispatch(job(job_id="one"))
    other = open_directory()
    elsewhere = RoutingWorkerGateway(
        other,
        LeastActiveWorkerRouter(other),
        {"worker-1": RecordingGateway(), "worker-2": RecordingGateway()},
    )
    for again in (gateway, elsewhere):
        with pytest.raises(DuplicateJob, match="'one' is under way already on worker 'worker-1'"):
            again.dispatch(job(job_id="one")).result(0)
    assert active(directory) == {"worker-1": 1, "worker-2": 0}


def test_a_router_of_ones_own_need_not_count(directory: WorkerDirectory) -> None:
    """The gateway does; and a job id that is under way elsewhere keeps its slot there."""

    class Always:
        def select(self, job: Job) -> str:
            return "worker-1"

    directory.register("worker-1", ["echo"])
    endpoints = {"worker-1": RecordingGateway()}
    first, second = (RoutingWorkerGateway(directory, Always(), endpoints) for _ in range(2))
    pending = first.dispatch(job(job_id="one"))
    assert isinstance(second.dispatch(job(job_id="one")).exception(0), DuplicateJob)
    assert active(directory) == {"worker-1": 1}
    endpoints["worker-1"].succeed("one")
    pending.result(0)
    assert active(directory) == {"worker-1": 0}


def test_a_cancellation_goes_once_to_the_endpoint_that_has_the_job(
    gateway: RoutingWorkerGateway, endpoints: dict[str, RecordingGateway]
) -> None:
    """A job that is unknown, has ended or was asked before bothers nobody."""
    gateway.dispatch(job(job_id="job-0"))
    gateway.dispatch(job(job_id="job-1"))
    gateway.request_cancel("job-1")
    gateway.request_cancel("job-1")
    gateway.request_cancel("never heard of")
    endpoints["worker-1"].succeed("job-0")
    gateway.request_cancel("job-0")
    assert endpoints["worker-1"].cancelled == []
    assert endpoints["worker-2"].cancelled == ["job-1"]


def test_a_job_is_cancelled_where_it_runs_even_after_its_endpoint_was_removed(
    gateway: RoutingWorkerGateway, endpoints: dict[str, RecordingGateway]
) -> None:
    """Removing an endpoint sends nothing new there; what runs is still within reach."""
    gateway.dispatch(job(job_id="job"))
    gateway.remove_endpoint("worker-1")
    gateway.request_cancel("job")
    assert endpoints["worker-1"].cancelled == ["job"]


def test_another_gateway_on_the_same_directory_can_cancel(
    gateway: RoutingWorkerGateway, open_directory: OpenDirectory
) -> None:
    """The directory says who has the job; whoever has an endpoint for that worker reaches it."""
    gateway.dispatch(job(job_id="job"))
    other, near, far = open_directory(), RecordingGateway(), RecordingGateway()
    RoutingWorkerGateway(other, LeastActiveWorkerRouter(other), {"worker-2": far}).request_cancel("job")
    RoutingWorkerGateway(
        other, LeastActiveWorkerRouter(other), {"worker-1": near, "worker-2": far}
    ).request_cancel("job")
    assert near.cancelled == ["job"]
    assert far.cancelled == []


def test_a_dispatch_whose_signal_is_cancelled_already_asks_nobody(
    directory: WorkerDirectory, gateway: RoutingWorkerGateway, endpoints: dict[str, RecordingGateway]
) -> None:
    """Neither router nor endpoint."""
    signal = CancelSignal()
    signal.cancel("too late")
    with pytest.raises(JobCancelled, match="too late"):
        gateway.dispatch(job(), DispatchOptions(signal=signal)).result(0)
    assert endpoints["worker-1"].dispatched == []
    assert active(directory) == IDLE


class SlowRouter(LeastActiveWorkerRouter):
    """Chooses, then waits until it is let go."""

    def __init__(self, directory: WorkerDirectory) -> None:
        super().__init__(directory)
        self.chosen, self.go = threading.Event(), threading.Event()

    def select(self, job: Job) -> str:
        worker_id = super().select(job)
        self.chosen.set()
        assert self.go.wait(15)
        return worker_id


@pytest.mark.parametrize("how", ["request", "signal"])
def test_a_job_cancelled_while_a_worker_is_chosen_never_starts(
    directory: WorkerDirectory, endpoints: dict[str, RecordingGateway], closing: ExitStack, how: str
) -> None:
    """However it was cancelled: no endpoint hears of it, and its slot is given back."""
    router = SlowRouter(directory)
    gateway = RoutingWorkerGateway(directory, router, endpoints)
    signal = CancelSignal()
    pendings: list[PendingJob] = []
    thread = threading.Thread(
        target=lambda: pendings.append(gateway.dispatch(job(job_id="job"), DispatchOptions(signal=signal)))
    )
    thread.start()
    closing.callback(thread.join)
    closing.callback(router.go.set)
    assert router.chosen.wait(15)
    if how == "request":
        gateway.request_cancel("job")
    else:
        signal.cancel()
    router.go.set()
    thread.join()
    assert isinstance(pendings[0].exception(0), JobCancelled)
    assert endpoints["worker-1"].dispatched == []
    assert active(directory) == IDLE


def test_a_job_cancelled_while_its_endpoint_takes_it_is_cancelled_there(
    directory: WorkerDirectory,
) -> None:
    """The endpoint does not know it yet when the request comes, so it is asked again."""
    directory.register("worker-1", ["echo"])

    class Cancelled(RecordingGateway):
        def dispatch(self, job: Job, options: DispatchOptions | None = None) -> PendingJob:
            gateway.request_cancel(job.job_id)
            return super().dispatch(job, options)

    endpoint = Cancelled()
    gateway = RoutingWorkerGateway(directory, LeastActiveWorkerRouter(directory), {"worker-1": endpoint})
    gateway.dispatch(job(job_id="job"))
    assert endpoint.cancelled == ["job"]


def test_a_full_worker_is_not_given_more(
    directory: WorkerDirectory, endpoints: dict[str, RecordingGateway]
) -> None:
    """The router's limit holds across dispatches; the end of a job makes room."""
    gateway = RoutingWorkerGateway(
        directory, LeastActiveWorkerRouter(directory, max_concurrency=1), endpoints
    )
    gateway.dispatch(job(job_id="job-0"))
    gateway.dispatch(job(job_id="job-1"))
    assert isinstance(gateway.dispatch(job()).exception(0), WorkersBusy)
    endpoints["worker-2"].succeed("job-1")
    gateway.dispatch(job(job_id="job-2"))
    assert active(directory) == {"worker-1": 1, "worker-2": 1}
