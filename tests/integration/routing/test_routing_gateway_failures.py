"""The gateway that routes, when workers, endpoints and directories fail it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.routing import (
    DispatchOptions,
    EndpointMissing,
    Health,
    InMemoryWorkerDirectory,
    Job,
    LeastActiveWorkerRouter,
    NoHealthyWorker,
    PendingJob,
    RedisWorkerDirectory,
    RoutingWorkerGateway,
    TaskTypeRefused,
    UnknownWorker,
    WorkerDirectory,
)
from tests.support.poll import eventually
from tests.support.routing import RecordingGateway, job
from tests.support.valkey import OwnValkey


@pytest.fixture
def endpoints(directory: WorkerDirectory) -> dict[str, RecordingGateway]:
    """Two registered workers whose jobs end when the test says so."""
    for worker_id in ("worker-1", "worker-2"):
        directory.register(worker_id, ["echo"])
    return {"worker-1": RecordingGateway(), "worker-2": RecordingGateway()}


def active(directory: WorkerDirectory) -> dict[str, int]:
    """How many jobs each worker has."""
    return {status.worker_id: status.active_jobs for status in directory.list()}


IDLE = {"worker-1": 0, "worker-2": 0}


def test_a_missing_endpoint_is_an_error_that_names_the_worker(
    directory: WorkerDirectory, endpoints: dict[str, RecordingGateway]
) -> None:
    """Nothing stays counted."""
    gateway = RoutingWorkerGateway(
        directory, LeastActiveWorkerRouter(directory), {"worker-2": endpoints["worker-2"]}
    )
    with pytest.raises(EndpointMissing, match="no endpoint for worker 'worker-1'") as caught:
        gateway.dispatch(job()).result(0)
    assert caught.value.known == ("worker-2",)
    assert active(directory) == IDLE


@pytest.mark.parametrize("answer", [OSError("no route to host"), "no pending job"])
def test_an_endpoint_that_breaks_the_protocol_costs_no_slot(
    directory: WorkerDirectory, endpoints: dict[str, RecordingGateway], answer: object
) -> None:
    """One that raises, or returns something else than a `PendingJob`: the dispatcher gets the error."""

    class Broken(RecordingGateway):
        def dispatch(self, job: Job, options: DispatchOptions | None = None) -> PendingJob:
            if isinstance(answer, Exception):
                raise answer
            return answer  # type: ignore[return-value]  # the mistake under test

    gateway = RoutingWorkerGateway(
        directory, LeastActiveWorkerRouter(directory), endpoints | {"worker-1": Broken()}
    )
    error = gateway.dispatch(job()).exception(0)
    assert error is answer or isinstance(error, AttributeError)
    assert active(directory) == IDLE


def test_a_worker_that_refuses_what_it_was_registered_for_draws_no_more_jobs(
    directory: WorkerDirectory,
) -> None:
    """Idle for ever, it would be the least active: it is unhealthy, and says why."""
    directory.register("worker-1", ["echo", "train"])
    directory.register("worker-2", ["train"])
    endpoints = {"worker-1": RecordingGateway(types=("echo",)), "worker-2": RecordingGateway()}
    gateway = RoutingWorkerGateway(directory, LeastActiveWorkerRouter(directory), endpoints)
    with pytest.raises(TaskTypeRefused, match="'worker-1' refused task type 'train'"):
        gateway.dispatch(job("train")).result(0)
    gateway.dispatch(job("train", job_id="second"))
    assert [each.job_id for each in endpoints["worker-2"].dispatched] == ["second"]
    liar = directory.list()[0]
    assert liar.health is Health.UNHEALTHY
    assert liar.unhealthy_reason == "it refused 'train', which it was registered for"
    assert liar.active_jobs == 0


def test_a_refusal_that_can_not_be_noted_still_reaches_the_dispatcher(
    directory: WorkerDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the directory says to it."""
    lease = directory.register("worker-1", ["train"])

    class Leaves(RecordingGateway):
        def dispatch(self, job: Job, options: DispatchOptions | None = None) -> PendingJob:
            lease.stop()
            return super().dispatch(job, options)

    gateway = RoutingWorkerGateway(
        directory, LeastActiveWorkerRouter(directory), {"worker-1": Leaves(types=())}
    )
    assert isinstance(gateway.dispatch(job("train")).exception(0), TaskTypeRefused)
    assert "could not be marked unhealthy" in caplog.text


class Leaving(LeastActiveWorkerRouter):
    """The chosen worker leaves before the job is started, so many times."""

    def __init__(self, directory: WorkerDirectory, leases: list[Any]) -> None:
        super().__init__(directory)
        self._leases = leases

    def select(self, job: Job) -> str:
        worker_id = super().select(job)
        if self._leases:
            self._leases.pop(0).stop()
        return worker_id


def test_a_worker_that_leaves_between_choosing_and_sending_is_replaced(directory: WorkerDirectory) -> None:
    """Somebody else is chosen; where nobody is left, the dispatcher learns that."""
    leases = [directory.register(f"worker-{number}", ["echo"]) for number in (1, 2, 3)]
    endpoint = RecordingGateway()
    endpoints = {f"worker-{number}": endpoint for number in (1, 2, 3)}
    gateway = RoutingWorkerGateway(directory, Leaving(directory, leases[:2]), endpoints)
    pending = gateway.dispatch(job(job_id="job"))
    endpoint.succeed("job")
    assert pending.result(0).worker_id == "worker-3"
    last = RoutingWorkerGateway(directory, Leaving(directory, leases[2:]), endpoints)
    assert isinstance(last.dispatch(job()).exception(0), NoHealthyWorker)


def test_a_job_whose_workers_leave_again_and_again_is_given_up(directory: WorkerDirectory) -> None:
    """Three are chosen, and no more."""
    leases = [directory.register(f"worker-{number}", ["echo"]) for number in range(4)]
    endpoint = RecordingGateway()
    gateway = RoutingWorkerGateway(
        directory,
        Leaving(directory, leases[:3]),
        {f"worker-{number}": endpoint for number in range(4)},
    )
    with pytest.raises(UnknownWorker, match="'worker-2'"):
        gateway.dispatch(job()).result(0)
    assert endpoint.dispatched == []
    assert active(directory) == {"worker-3": 0}


def test_a_dispatch_that_is_interrupted_gives_its_slot_back(
    directory: WorkerDirectory, endpoints: dict[str, RecordingGateway]
) -> None:
    """Ctrl-C at an unlucky moment passes through."""

    class Interrupted(RecordingGateway):
        def dispatch(self, job: Job, options: DispatchOptions | None = None) -> PendingJob:
            raise KeyboardInterrupt

    gateway = RoutingWorkerGateway(
        directory, LeastActiveWorkerRouter(directory), endpoints | {"worker-1": Interrupted()}
    )
    with pytest.raises(KeyboardInterrupt):
        gateway.dispatch(job())
    assert active(directory) == IDLE


def test_a_directory_that_breaks_the_protocol_costs_no_result(caplog: pytest.LogCaptureFixture) -> None:
    """One of one's own that raises where none may: the result is known, so it is told."""

    class Broken(InMemoryWorkerDirectory):
        def track_job_end(self, job_id: str) -> None:
            raise OSError("the disk is full")

    directory = Broken()
    directory.register("worker-1", ["echo"])
    endpoint = RecordingGateway()
    gateway = RoutingWorkerGateway(directory, LeastActiveWorkerRouter(directory), {"worker-1": endpoint})
    pending = gateway.dispatch(job(job_id="job"))
    endpoint.succeed("job", "done")
    assert pending.result(0).output == "done"
    assert "the directory could not be told" in caplog.text


def test_an_unreachable_directory_is_an_error_of_the_dispatch_and_costs_no_result(
    own_valkey: OwnValkey, closing: ExitStack
) -> None:
    """What runs goes on and its result arrives; a new job can't be counted, so it is not sent."""
    directory = RedisWorkerDirectory(own_valkey.client, registry_timeout_ms=200)
    closing.callback(directory.close)
    directory.register("worker-1", ["echo"])
    endpoint = RecordingGateway()
    gateway = RoutingWorkerGateway(directory, LeastActiveWorkerRouter(directory), {"worker-1": endpoint})
    running = gateway.dispatch(job(job_id="running"))
    own_valkey.stop()
    assert isinstance(gateway.dispatch(job(job_id="late")).exception(0), RegistryUnavailable)
    gateway.request_cancel("running")
    with pytest.raises(RegistryUnavailable):
        gateway.request_cancel("of another gateway")
    endpoint.succeed("running", "done")
    assert running.result(0).output == "done"
    assert [each.job_id for each in endpoint.dispatched] == ["running"]
    assert endpoint.cancelled == ["running"]
    own_valkey.start()
    eventually(lambda: isinstance(gateway.dispatch(job()), PendingJob) and endpoint.dispatched[1:])
