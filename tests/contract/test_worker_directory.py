"""What a worker directory knows of its workers: ids, task types, health, heartbeats, active jobs."""

from __future__ import annotations

import pytest

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing import (
    DuplicateJob,
    DuplicateWorker,
    Health,
    UnknownWorker,
    WorkerDirectory,
    WorkerStatus,
)
from dramatiq_handshake.routing.base import HEARTBEAT_TIMEOUT_MS
from tests.contract.directories import Directories
from tests.contract.harness import FakeClock
from tests.support.poll import eventually


def status(directory: WorkerDirectory, worker_id: str) -> WorkerStatus:
    return next(each for each in directory.list() if each.worker_id == worker_id)


def ids(statuses: tuple[WorkerStatus, ...]) -> list[str]:
    return [each.worker_id for each in statuses]


def test_a_newly_registered_worker_is_healthy(
    directory: WorkerDirectory, other: WorkerDirectory, clock: FakeClock
) -> None:
    directory.register("gpu-1", ["train", "evaluate"])

    expected = WorkerStatus(
        worker_id="gpu-1",
        task_types=frozenset({"train", "evaluate"}),
        active_jobs=0,
        registered_at=clock.now_ms,
        last_heartbeat_at=clock.now_ms,
        health=Health.HEALTHY,
        unhealthy_reason=None,
    )
    assert directory.list() == other.list() == (expected,)


def test_workers_are_listed_in_the_order_of_registration(directory: WorkerDirectory) -> None:
    """Whatever their names, their load and their health."""
    for worker in ("c", "a", "b", "ä", "10", "9"):
        directory.register(worker, ["train"])
    directory.mark_unhealthy("c", "hot")
    directory.track_job_start("a", "job")
    directory.heartbeat("9")

    assert ids(directory.list()) == ["c", "a", "b", "ä", "10", "9"]


def test_capable_workers_are_those_that_run_the_task_type(directory: WorkerDirectory) -> None:
    """All of them, and only for exactly that type."""
    directory.register("both", ["train", "evaluate"])
    directory.register("other", ["evaluate", "trainer", "tra"])
    directory.register("idle", [])
    directory.register("one", ["train"])
    directory.mark_unhealthy("one", "hot")

    assert ids(directory.list_capable("train")) == ["both", "one"]
    assert directory.list_capable("train")[1].health is Health.UNHEALTHY
    assert directory.list_capable("publish") == ()


def test_a_second_registration_of_an_id_is_refused_by_name(
    directory: WorkerDirectory, other: WorkerDirectory
) -> None:
    directory.register("gpu-1", ["train"])

    for each in (directory, other):
        with pytest.raises(DuplicateWorker, match="'gpu-1'"):
            each.register("gpu-1", ["other"])
    assert directory.list()[0].task_types == {"train"}


def test_a_stopped_lease_takes_the_worker_off_and_frees_its_id(
    directory: WorkerDirectory, other: WorkerDirectory
) -> None:
    """Stopping twice is fine; the second registration of the id is not the first one's to stop."""
    lease = directory.register("gpu-1", ["train"])
    with directory.register("gpu-2", ["train"]):
        pass
    assert ids(directory.list()) == ["gpu-1"]
    lease.stop()
    assert directory.list() == directory.list_capable("train") == ()

    second = other.register("gpu-1", ["evaluate"])
    lease.stop()
    assert ids(directory.list()) == ["gpu-1"]
    assert second.worker_id == "gpu-1"


def test_a_stopped_lease_does_not_beat(directory: WorkerDirectory) -> None:
    lease = directory.register("gpu-1", ["train"])
    lease.stop()

    with pytest.raises(UnknownWorker, match="'gpu-1'"):
        lease.heartbeat()
    assert directory.list() == ()


@pytest.mark.parametrize("marked", [False, True])
def test_a_restarted_worker_takes_over_the_id_of_its_silent_predecessor(
    directory: WorkerDirectory, other: WorkerDirectory, clock: FakeClock, marked: bool
) -> None:
    """It comes last, with nothing of the other; and the other, should it only have slept, is told."""
    former = directory.register("gpu-1", ["train"])
    directory.register("gpu-2", ["train"])
    directory.track_job_start("gpu-1", "job")
    if marked:
        directory.mark_unhealthy("gpu-1", "hot")
    clock.advance(HEARTBEAT_TIMEOUT_MS)
    with pytest.raises(DuplicateWorker):
        other.register("gpu-1", ["evaluate"])
    clock.advance(1)

    lease = other.register("gpu-1", ["evaluate"])

    assert ids(directory.list()) == ["gpu-2", "gpu-1"]
    fresh = status(directory, "gpu-1")
    assert (fresh.health, fresh.active_jobs, fresh.task_types) == (Health.HEALTHY, 0, {"evaluate"})
    assert ids(directory.list_capable("train")) == ["gpu-2"]
    assert directory.get_worker_for_job("job") is None
    with pytest.raises(DuplicateWorker, match="'gpu-1'"):
        former.heartbeat()
    former.stop()
    assert ids(directory.list()) == ["gpu-2", "gpu-1"]
    lease.heartbeat()
    assert ids(directory.list()) == ["gpu-2", "gpu-1"]


@pytest.mark.parametrize("timeout_ms", [1, 5_000, None])
def test_a_worker_is_stale_exactly_when_its_heartbeat_is_older_than_the_timeout(
    directories: Directories, clock: FakeClock, timeout_ms: int | None
) -> None:
    """The timeout can be set, and is 30 s."""
    options = {} if timeout_ms is None else {"heartbeat_timeout_ms": timeout_ms}
    directory = directories.open(**options)
    directory.register("gpu-1", ["train"])

    clock.advance(timeout_ms or 30_000)
    assert status(directory, "gpu-1").health is Health.HEALTHY
    clock.advance(1)
    assert status(directory, "gpu-1").health is Health.STALE
    assert directory.list_capable("train")[0].health is Health.STALE

    directory.heartbeat("gpu-1")
    assert status(directory, "gpu-1").health is Health.HEALTHY
    assert status(directory, "gpu-1").last_heartbeat_at == clock.now_ms


def test_a_worker_that_is_marked_unhealthy_is_not_stale(directory: WorkerDirectory, clock: FakeClock) -> None:
    directory.register("gpu-1", ["train"])
    directory.mark_unhealthy("gpu-1", "GPU at 97 °C")
    clock.advance(HEARTBEAT_TIMEOUT_MS + 1)

    assert status(directory, "gpu-1").health is Health.UNHEALTHY
    assert status(directory, "gpu-1").unhealthy_reason == "GPU at 97 °C"


@pytest.mark.parametrize("reason", ["hot", ""])
def test_a_heartbeat_makes_healthy_and_clears_the_reason(directory: WorkerDirectory, reason: str) -> None:
    lease = directory.register("gpu-1", ["train"])
    for beat in (lambda: directory.heartbeat("gpu-1"), lease.heartbeat):
        directory.mark_unhealthy("gpu-1", reason)
        assert status(directory, "gpu-1").health is Health.UNHEALTHY
        assert status(directory, "gpu-1").unhealthy_reason == reason

        beat()
        assert status(directory, "gpu-1").health is Health.HEALTHY
        assert status(directory, "gpu-1").unhealthy_reason is None


def test_a_heartbeat_counts_from_when_it_was(directory: WorkerDirectory, clock: FakeClock) -> None:
    """One that arrives late, or claims to be from the future, moves nothing back or ahead."""
    lease = directory.register("gpu-1", ["train"])
    start = clock.now_ms
    clock.advance(10_000)

    for beat, expected in ((start + 4_000, 4_000), (start + 1_000, 4_000), (start + 99_000, 10_000)):
        directory.heartbeat("gpu-1", beat)
        assert status(directory, "gpu-1").last_heartbeat_at == start + expected
    clock.advance(10_000)
    lease.heartbeat(start + 15_000)
    assert status(directory, "gpu-1").last_heartbeat_at == start + 15_000


def test_unknown_workers_are_a_clear_error(directory: WorkerDirectory) -> None:
    """It names the worker, and those that are known."""
    directory.register("gpu-1", ["train"])
    directory.register("cpu-1", ["train"])

    for call in (
        lambda: directory.heartbeat("gpu-7"),
        lambda: directory.mark_unhealthy("gpu-7", "hot"),
        lambda: directory.track_job_start("gpu-7", "job"),
    ):
        with pytest.raises(UnknownWorker, match=r"unknown worker 'gpu-7'.*'gpu-1', 'cpu-1'"):
            call()
    assert directory.get_worker_for_job("job") is None


def test_jobs_are_counted_from_start_to_end(directory: WorkerDirectory, other: WorkerDirectory) -> None:
    directory.register("gpu-1", ["train"])
    directory.register("gpu-2", ["train"])

    directory.track_job_start("gpu-2", "a")
    other.track_job_start("gpu-2", "b")
    assert [each.active_jobs for each in other.list()] == [0, 2]
    assert other.get_worker_for_job("a") == directory.get_worker_for_job("b") == "gpu-2"

    directory.track_job_end("a")
    assert [each.active_jobs for each in other.list()] == [0, 1]
    assert other.get_worker_for_job("a") is None
    other.track_job_end("b")
    assert [each.active_jobs for each in other.list()] == [0, 0]


def test_the_end_of_an_unknown_job_is_no_error(directory: WorkerDirectory) -> None:
    """Nor is a second end."""
    directory.register("gpu-1", ["train"])
    directory.track_job_end("never")
    directory.track_job_start("gpu-1", "a")
    directory.track_job_start("gpu-1", "b")
    directory.track_job_end("a")
    directory.track_job_end("a")

    assert status(directory, "gpu-1").active_jobs == 1
    assert directory.get_worker_for_job("never") is None


def test_a_job_that_is_under_way_does_not_start_again(
    directory: WorkerDirectory, other: WorkerDirectory
) -> None:
    directory.register("gpu-1", ["train"])
    directory.register("gpu-2", ["train"])
    directory.track_job_start("gpu-1", "job")

    for each in (directory, other):
        with pytest.raises(DuplicateJob, match=r"'job'.*'gpu-1'"):
            each.track_job_start("gpu-2", "job")
    assert [each.active_jobs for each in directory.list()] == [1, 0]


def test_a_started_job_is_counted_however_long_it_takes(
    directory: WorkerDirectory, other: WorkerDirectory, clock: FakeClock
) -> None:
    directory.register("gpu-1", ["train"])
    directory.track_job_start("gpu-1", "job")

    for _ in range(3):
        clock.advance(8 * 3600 * 1000 - 1)
        other.heartbeat("gpu-1")
        assert status(other, "gpu-1").active_jobs == 1
    assert other.get_worker_for_job("job") == "gpu-1"
    directory.track_job_end("job")
    assert status(other, "gpu-1").active_jobs == 0


def test_jobs_of_a_worker_that_left_are_not_counted_for_its_successor(directory: WorkerDirectory) -> None:
    lease = directory.register("gpu-1", ["train"])
    directory.track_job_start("gpu-1", "old")
    lease.stop()
    assert directory.get_worker_for_job("old") is None
    directory.register("gpu-1", ["train"])
    directory.track_job_start("gpu-1", "new")
    directory.track_job_end("old")

    assert status(directory, "gpu-1").active_jobs == 1


def test_who_is_silent_for_long_is_forgotten_at_the_next_registration(
    directories: Directories, clock: FakeClock
) -> None:
    """Ids that are new at every boot must not pile up; one who comes back is the last."""
    directory = directories.open(forget_after_ms=60_000)
    sleeper = directory.register("sleeper", ["train"])
    directory.register("steady", ["train"])
    clock.advance(60_000)
    directory.heartbeat("steady")
    directory.register("early", ["train"])
    assert ids(directory.list()) == ["sleeper", "steady", "early"]
    clock.advance(1)
    directory.register("late", ["train"])
    assert ids(directory.list()) == ["steady", "early", "late"]
    assert ids(directory.list_capable("train")) == ["steady", "early", "late"]

    sleeper.heartbeat()
    assert ids(directory.list()) == ["steady", "early", "late", "sleeper"]
    assert status(directory, "sleeper").registered_at == clock.now_ms
    sleeper.stop()
    assert ids(directory.list()) == ["steady", "early", "late"]


def test_a_lease_beats_by_itself_until_it_is_stopped(directory: WorkerDirectory, clock: FakeClock) -> None:
    with directory.register("gpu-1", ["train"], heartbeat_interval_ms=2):
        directory.mark_unhealthy("gpu-1", "hot")
        clock.now_ms += HEARTBEAT_TIMEOUT_MS + 1
        eventually(lambda: status(directory, "gpu-1").last_heartbeat_at == clock.now_ms)
        eventually(lambda: status(directory, "gpu-1").health is Health.HEALTHY)
    assert directory.list() == ()


@pytest.mark.parametrize(
    ("worker_id", "task_types", "complaint"),
    [
        ("", ["train"], "a worker's id: expected a text that is not empty, got ''"),
        (7, ["train"], "got 7"),
        ("w", "train", r"task types: expected a collection, as in \['train'\], got 'train'"),
        ("w", None, "got None"),
        ("w", ["train", ""], "not empty, got ''"),
        ("w", ["a\nb"], "texts of one line"),
    ],
)
def test_a_worker_that_can_not_be_registered_is_refused_with_the_reason(
    directory: WorkerDirectory, worker_id: str, task_types: list[str], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        directory.register(worker_id, task_types)
    assert directory.list() == ()


@pytest.mark.parametrize("interval_ms", [0, -5, 1.5, True])
def test_an_interval_that_is_none_is_refused(directory: WorkerDirectory, interval_ms: int) -> None:
    with pytest.raises(ConfigurationError, match="heartbeat_interval_ms: expected a whole number"):
        directory.register("w", ["train"], heartbeat_interval_ms=interval_ms)
    assert directory.list() == ()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"heartbeat_timeout_ms": 0}, "heartbeat_timeout_ms: expected a whole number"),
        ({"reservation_ms": -1}, "reservation_ms: expected"),
        ({"job_lease_ms": 29_999}, r"job_lease_ms: expected at least heartbeat_timeout_ms \(30000\)"),
        ({"forget_after_ms": 1}, "forget_after_ms: expected at least"),
    ],
)
def test_durations_that_make_no_sense_are_refused(
    directories: Directories, options: dict[str, int], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        directories.open(**options)


@pytest.mark.parametrize("name", ["wörker ☂", "a b", "a:b", "a\nb", '"', "{x}", "\ud800"])
def test_any_text_is_a_workers_id(directory: WorkerDirectory, name: str) -> None:
    """Also one that JSON or a key would have to escape."""
    lease = directory.register(name, [f"type {name}".replace("\n", " ")])
    directory.track_job_start(name, f"job {name}")
    lease.begin(f"job {name}")
    lease.heartbeat()

    assert [(each.worker_id, each.active_jobs) for each in directory.list()] == [(name, 1)]
    assert directory.get_worker_for_job(f"job {name}") == name
    lease.finish(f"job {name}")
    assert directory.list()[0].active_jobs == 0
