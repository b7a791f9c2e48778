"""Choosing counts: a job's slot on a worker, from the choice to the end, whoever dies on the way."""

from __future__ import annotations

import pytest

from dramatiq_handshake.routing import (
    DuplicateJob,
    DuplicateWorker,
    LeastActiveWorkerRouter,
    NoHealthyWorker,
    ReservationLapsed,
    UnknownWorker,
    WorkerDirectory,
    WorkersBusy,
)
from dramatiq_handshake.routing.base import HEARTBEAT_TIMEOUT_MS, RESERVATION_MS
from tests.contract.directories import Directories, active_jobs, job
from tests.contract.harness import FakeClock

#: The default: twice the heartbeat timeout.
JOB_LEASE_MS = 2 * HEARTBEAT_TIMEOUT_MS


def test_choosing_counts_at_once_for_everybody(directory: WorkerDirectory, other: WorkerDirectory) -> None:
    directory.register("gpu-1", ["train"])
    directory.register("gpu-2", ["train"])
    chosen = [
        LeastActiveWorkerRouter(each).select(job(name)) for each, name in ((directory, "a"), (other, "b"))
    ]

    assert chosen == ["gpu-1", "gpu-2"]
    assert active_jobs(directory) == active_jobs(other) == {"gpu-1": 1, "gpu-2": 1}
    assert directory.get_worker_for_job("b") == "gpu-2"


def test_starting_a_chosen_job_counts_it_once(directory: WorkerDirectory) -> None:
    directory.register("gpu-1", ["train"])
    LeastActiveWorkerRouter(directory).select(job("a"))
    directory.track_job_start("gpu-1", "a")

    assert active_jobs(directory) == {"gpu-1": 1}
    directory.track_job_end("a")
    assert active_jobs(directory) == {"gpu-1": 0}


def test_what_was_chosen_and_never_started_can_be_given_back(directory: WorkerDirectory) -> None:
    directory.register("gpu-1", ["train"])
    LeastActiveWorkerRouter(directory).select(job("a"))
    directory.track_job_end("a")

    assert active_jobs(directory) == {"gpu-1": 0}


def test_a_dispatcher_that_dies_between_choosing_and_sending_gives_the_slot_back(
    directory: WorkerDirectory, other: WorkerDirectory, clock: FakeClock
) -> None:
    """After exactly the reservation's time; the job can then be chosen a worker by another."""
    directory.register("gpu-1", ["train"])
    LeastActiveWorkerRouter(directory, max_concurrency=1).select(job("a"))
    clock.advance(RESERVATION_MS - 1)
    with pytest.raises(WorkersBusy):
        LeastActiveWorkerRouter(other, max_concurrency=1).select(job("b"))
    clock.advance(1)

    assert other.get_worker_for_job("a") is None
    assert active_jobs(other) == {"gpu-1": 0}
    assert LeastActiveWorkerRouter(other, max_concurrency=1).select(job("b")) == "gpu-1"


def test_the_time_of_a_reservation_can_be_set(directories: Directories, clock: FakeClock) -> None:
    directory = directories.open(reservation_ms=50)
    directory.register("gpu-1", ["train"])
    LeastActiveWorkerRouter(directory).select(job("a"))
    clock.advance(49)
    assert active_jobs(directory) == {"gpu-1": 1}
    clock.advance(1)
    assert active_jobs(directory) == {"gpu-1": 0}


def test_choosing_again_for_the_same_job_keeps_its_slot(
    directory: WorkerDirectory, other: WorkerDirectory, clock: FakeClock
) -> None:
    """So that a choice whose answer got lost can be asked for again; and its time begins anew."""
    directory.register("gpu-1", ["train"])
    directory.register("gpu-2", ["train"])
    router = LeastActiveWorkerRouter(directory, max_concurrency=1)
    first = router.select(job("a"))
    LeastActiveWorkerRouter(other).select(job("b"))
    clock.advance(RESERVATION_MS - 1)

    assert router.select(job("a")) == first == "gpu-1"
    assert active_jobs(directory) == {"gpu-1": 1, "gpu-2": 1}
    clock.advance(RESERVATION_MS - 1)
    assert active_jobs(directory) == {"gpu-1": 1, "gpu-2": 0}


def test_choosing_again_leaves_a_worker_that_is_not_fit_any_more(directory: WorkerDirectory) -> None:
    directory.register("gpu-1", ["train"])
    directory.register("gpu-2", ["train", "evaluate"])
    router = LeastActiveWorkerRouter(directory)
    assert router.select(job("a")) == "gpu-1"
    directory.mark_unhealthy("gpu-1", "hot")
    assert router.select(job("a")) == "gpu-2"
    assert active_jobs(directory) == {"gpu-1": 0, "gpu-2": 1}

    directory.heartbeat("gpu-1")
    assert router.select(job("b", "train")) == "gpu-1"
    assert router.select(job("b", "evaluate")) == "gpu-2"
    assert active_jobs(directory) == {"gpu-1": 0, "gpu-2": 2}


def test_choosing_again_where_nobody_is_fit_gives_the_slot_back(directory: WorkerDirectory) -> None:
    directory.register("gpu-1", ["train"])
    router = LeastActiveWorkerRouter(directory)
    router.select(job("a"))
    directory.mark_unhealthy("gpu-1", "hot")
    with pytest.raises(NoHealthyWorker):
        router.select(job("a"))

    assert active_jobs(directory) == {"gpu-1": 0}


def test_a_started_job_is_not_chosen_a_worker_again(
    directory: WorkerDirectory, other: WorkerDirectory
) -> None:
    directory.register("gpu-1", ["train"])
    LeastActiveWorkerRouter(directory).select(job("a"))
    directory.track_job_start("gpu-1", "a")

    for each in (directory, other):
        with pytest.raises(DuplicateJob, match=r"'a' is under way already on worker 'gpu-1'"):
            LeastActiveWorkerRouter(each).select(job("a"))
    assert active_jobs(directory) == {"gpu-1": 1}


def test_a_router_of_ones_own_may_start_a_job_elsewhere(directory: WorkerDirectory) -> None:
    """The slot moves along; nothing is counted twice."""
    directory.register("gpu-1", ["train"])
    directory.register("gpu-2", ["train"])
    LeastActiveWorkerRouter(directory).select(job("a"))
    directory.track_job_start("gpu-2", "a")

    assert active_jobs(directory) == {"gpu-1": 0, "gpu-2": 1}
    assert directory.get_worker_for_job("a") == "gpu-2"


def test_a_dispatcher_that_comes_late_takes_the_slot_only_where_there_is_room(
    directory: WorkerDirectory, other: WorkerDirectory, clock: FakeClock
) -> None:
    """It was suspended between choosing and sending; its reservation lapsed meanwhile."""
    directory.register("gpu-1", ["train"])
    router = LeastActiveWorkerRouter(directory, max_concurrency=2)
    for name in ("a", "b"):
        assert router.select(job(name)) == "gpu-1"
    clock.advance(RESERVATION_MS)
    assert LeastActiveWorkerRouter(other, max_concurrency=2).select(job("c")) == "gpu-1"

    directory.track_job_start("gpu-1", "a")
    with pytest.raises(ReservationLapsed, match=r"'b' has no place on worker 'gpu-1'.*select a worker again"):
        directory.track_job_start("gpu-1", "b")
    assert active_jobs(directory) == {"gpu-1": 2}


def test_a_worker_takes_over_the_slot_and_alone_gives_it_back(
    directory: WorkerDirectory, other: WorkerDirectory
) -> None:
    """A dispatcher whose connection broke says that the job ended; while it runs, it counts."""
    lease = directory.register("gpu-1", ["train"])
    LeastActiveWorkerRouter(other).select(job("a"))
    other.track_job_start("gpu-1", "a")
    lease.begin("a")
    other.track_job_end("a")

    assert active_jobs(other) == {"gpu-1": 1}
    assert other.get_worker_for_job("a") == "gpu-1"
    lease.finish("a")
    lease.finish("a")
    assert active_jobs(other) == {"gpu-1": 0}
    other.track_job_end("a")
    assert active_jobs(other) == {"gpu-1": 0}


def test_a_finished_job_does_not_count_for_a_dispatcher_that_has_not_heard_of_it(
    directory: WorkerDirectory, other: WorkerDirectory, clock: FakeClock
) -> None:
    """It renews what it has under way, and what is over is not."""
    lease = directory.register("gpu-1", ["train"])
    other.track_job_start("gpu-1", "a")
    with lease.running("a"):
        pass
    for _ in range(3):
        clock.advance(JOB_LEASE_MS // 3)
        assert active_jobs(directory) == {"gpu-1": 0}
    assert directory.get_worker_for_job("a") is None


def test_a_job_of_a_worker_that_left_does_not_count_for_its_successor(
    directory: WorkerDirectory, other: WorkerDirectory, clock: FakeClock
) -> None:
    """Its dispatcher still waits for it, and renews what it has under way."""
    lease = directory.register("gpu-1", ["train"])
    other.track_job_start("gpu-1", "a")
    lease.stop()
    directory.register("gpu-1", ["train"])
    clock.advance(JOB_LEASE_MS // 3)

    assert active_jobs(directory) == {"gpu-1": 0}


def test_a_worker_may_begin_what_is_only_reserved(directory: WorkerDirectory, clock: FakeClock) -> None:
    lease = directory.register("gpu-1", ["train"])
    LeastActiveWorkerRouter(directory).select(job("a"))
    with lease.running("a"):
        clock.advance(RESERVATION_MS)
        assert active_jobs(directory) == {"gpu-1": 1}

    assert active_jobs(directory) == {"gpu-1": 0}


def test_the_slot_is_given_back_when_the_handler_raises(directory: WorkerDirectory) -> None:
    lease = directory.register("gpu-1", ["train"])
    LeastActiveWorkerRouter(directory).select(job("a"))
    with pytest.raises(ZeroDivisionError), lease.running("a"):
        raise ZeroDivisionError

    assert active_jobs(directory) == {"gpu-1": 0}


def test_a_worker_does_not_begin_a_job_without_a_slot_there(
    directory: WorkerDirectory, clock: FakeClock
) -> None:
    """Never chosen, chosen elsewhere, lapsed, or ended by its dispatcher."""
    lease = directory.register("gpu-1", ["train"])
    directory.register("gpu-2", ["train"])
    router = LeastActiveWorkerRouter(directory)
    assert [router.select(job(name)) for name in ("mine", "theirs", "ended")] == ["gpu-1", "gpu-2", "gpu-1"]
    directory.track_job_end("ended")

    for name in ("never", "theirs", "ended"):
        with pytest.raises(ReservationLapsed, match=f"{name!r} has no place on worker 'gpu-1'"):
            lease.begin(name)
    clock.advance(RESERVATION_MS)
    with pytest.raises(ReservationLapsed):
        lease.begin("mine")
    assert active_jobs(directory) == {"gpu-1": 0, "gpu-2": 0}


def test_a_job_that_arrives_twice_begins_once(directory: WorkerDirectory) -> None:
    lease = directory.register("gpu-1", ["train"])
    LeastActiveWorkerRouter(directory).select(job("a"))
    lease.begin("a")
    with pytest.raises(DuplicateJob, match="'a'"):
        lease.begin("a")

    lease.finish("a")
    with pytest.raises(ReservationLapsed):
        lease.begin("a")
    assert active_jobs(directory) == {"gpu-1": 0}


def test_a_worker_that_has_left_begins_nothing(directory: WorkerDirectory) -> None:
    lease = directory.register("gpu-1", ["train"])
    LeastActiveWorkerRouter(directory).select(job("a"))
    lease.stop()
    with pytest.raises(UnknownWorker, match="'gpu-1'"):
        lease.begin("a")


def test_a_worker_whose_id_was_taken_over_begins_nothing(
    directory: WorkerDirectory, other: WorkerDirectory, clock: FakeClock
) -> None:
    """It slept; what it still runs is not its successor's."""
    former = directory.register("gpu-1", ["train"])
    LeastActiveWorkerRouter(directory).select(job("a"))
    former.begin("a")
    clock.advance(HEARTBEAT_TIMEOUT_MS + 1)
    lease = other.register("gpu-1", ["train"])
    for name in ("a", "b"):
        LeastActiveWorkerRouter(other).select(job(name))

    with pytest.raises(DuplicateWorker, match="'gpu-1'"):
        former.begin("b")
    former.finish("a")
    assert active_jobs(other) == {"gpu-1": 2}
    for name in ("a", "b"):
        lease.begin(name)
        lease.finish(name)
    assert active_jobs(other) == {"gpu-1": 0}


def test_what_a_worker_runs_counts_for_as_long_as_it_beats(
    directory: WorkerDirectory, clock: FakeClock
) -> None:
    lease = directory.register("gpu-1", ["train"])
    LeastActiveWorkerRouter(directory).select(job("a"))
    lease.begin("a")
    for _ in range(20):
        clock.advance(HEARTBEAT_TIMEOUT_MS)
        lease.heartbeat()
        assert active_jobs(directory) == {"gpu-1": 1}
    clock.advance(JOB_LEASE_MS - 1)
    assert active_jobs(directory) == {"gpu-1": 1}

    clock.advance(1)
    assert active_jobs(directory) == {"gpu-1": 0}
    assert directory.get_worker_for_job("a") is None


def test_somebody_elses_beat_does_not_renew_what_the_worker_runs(
    directory: WorkerDirectory, clock: FakeClock
) -> None:
    """Only the worker knows what it runs."""
    lease = directory.register("gpu-1", ["train"])
    LeastActiveWorkerRouter(directory).select(job("a"))
    lease.begin("a")
    for _ in range(2):
        clock.advance(HEARTBEAT_TIMEOUT_MS)
        directory.heartbeat("gpu-1")

    assert active_jobs(directory) == {"gpu-1": 0}


def test_a_worker_that_wakes_up_states_what_it_still_runs(
    directory: WorkerDirectory, other: WorkerDirectory, clock: FakeClock
) -> None:
    """Its slots lapsed while it was suspended; its next beat brings health and slots back together."""
    lease = directory.register("gpu-1", ["train"])
    router = LeastActiveWorkerRouter(other, max_concurrency=2)
    for name in ("a", "b"):
        router.select(job(name))
        lease.begin(name)
    clock.advance(JOB_LEASE_MS)
    assert active_jobs(other) == {"gpu-1": 0}
    with pytest.raises(NoHealthyWorker, match="stale"):
        router.select(job("c"))

    lease.heartbeat()
    assert active_jobs(other) == {"gpu-1": 2}
    with pytest.raises(WorkersBusy):
        router.select(job("c"))
    lease.finish("a")
    assert router.select(job("c")) == "gpu-1"


def test_a_worker_never_begins_more_than_the_limit_its_jobs_were_chosen_within(
    directory: WorkerDirectory, other: WorkerDirectory, clock: FakeClock
) -> None:
    """The directory has lost what runs, as a server may that crashed, and filled the worker anew."""
    lease = directory.register("gpu-1", ["train"])
    router = LeastActiveWorkerRouter(other, max_concurrency=2)
    for name in ("a", "b"):
        router.select(job(name))
        lease.begin(name)
    clock.advance(JOB_LEASE_MS)
    directory.heartbeat("gpu-1")
    assert [router.select(job(name)) for name in ("c", "d")] == ["gpu-1", "gpu-1"]
    other.track_job_start("gpu-1", "c")

    for name in ("c", "d"):
        with pytest.raises(ReservationLapsed):
            lease.begin(name)
    assert active_jobs(other) == {"gpu-1": 2}
    assert other.get_worker_for_job("a") == other.get_worker_for_job("b") == "gpu-1"
    lease.finish("a")
    assert router.select(job("c")) == "gpu-1"
    lease.begin("c")
    assert active_jobs(other) == {"gpu-1": 2}


def test_slots_go_with_the_worker_that_leaves(directory: WorkerDirectory, other: WorkerDirectory) -> None:
    lease = directory.register("gpu-1", ["train"])
    router = LeastActiveWorkerRouter(other)
    for name in ("reserved", "started", "begun"):
        router.select(job(name))
    other.track_job_start("gpu-1", "started")
    lease.begin("begun")
    lease.stop()

    assert [other.get_worker_for_job(name) for name in ("reserved", "started", "begun")] == [None] * 3
    other.track_job_end("started")
    second = directory.register("gpu-1", ["train"])
    assert active_jobs(other) == {"gpu-1": 0}
    for name in ("reserved", "started", "begun"):
        assert router.select(job(name)) == "gpu-1"
    second.begin("begun")
    assert active_jobs(other) == {"gpu-1": 3}
