"""The routers: who is chosen, who is passed over, and what is said where nobody is left."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing import (
    LeastActiveWorkerRouter,
    NoHealthyWorker,
    RoundRobinRouter,
    StickyRouter,
    WeightedRouter,
    WorkerDirectory,
    WorkerRouter,
    WorkersBusy,
)
from dramatiq_handshake.routing.base import HEARTBEAT_TIMEOUT_MS
from tests.contract.directories import job
from tests.contract.harness import FakeClock


def by_run(some: Any) -> str:
    key: str = some.run_id
    return key


def all_routers(directory: WorkerDirectory, max_concurrency: int | None = None) -> list[WorkerRouter]:
    return [
        LeastActiveWorkerRouter(directory, max_concurrency),
        RoundRobinRouter(directory, max_concurrency),
        WeightedRouter(directory, {"gpu-1": 3}, max_concurrency),
        StickyRouter(directory, by_run, max_concurrency),
    ]


def register(directory: WorkerDirectory, *workers: str, task_types: tuple[str, ...] = ("train",)) -> None:
    for worker in workers:
        directory.register(worker, task_types)


def test_the_least_active_worker_is_chosen(directory: WorkerDirectory) -> None:
    register(directory, "gpu-1", "gpu-2", "gpu-3")
    for name, worker in (("a", "gpu-1"), ("b", "gpu-1"), ("c", "gpu-2"), ("d", "gpu-3"), ("e", "gpu-3")):
        directory.track_job_start(worker, name)

    router = LeastActiveWorkerRouter(directory)
    assert router.select(job()) == "gpu-2"
    directory.track_job_end("d")
    directory.track_job_end("e")
    assert router.select(job()) == "gpu-3"


def test_on_a_tie_the_worker_registered_first_is_chosen(directory: WorkerDirectory) -> None:
    """By registration, not by name; and one that registered again comes last."""
    register(directory, "z", "m", "a")
    router = LeastActiveWorkerRouter(directory)
    assert [router.select(job()) for _ in range(6)] == ["z", "m", "a", "z", "m", "a"]


def test_a_worker_that_registered_again_is_the_last_of_a_tie(directory: WorkerDirectory) -> None:
    lease = directory.register("z", ["train"])
    register(directory, "m")
    lease.stop()
    register(directory, "z")
    assert LeastActiveWorkerRouter(directory).select(job()) == "m"


def test_every_router_chooses_only_who_runs_the_task_type(directory: WorkerDirectory) -> None:
    register(directory, "other", task_types=("evaluate", "trainer", "rain"))
    register(directory, "gpu-1", "gpu-2")
    for router in all_routers(directory):
        assert {router.select(job(run_id=str(n))) for n in range(20)} == {"gpu-1", "gpu-2"}


def test_every_router_passes_over_stale_and_unhealthy_workers(
    directory: WorkerDirectory, clock: FakeClock
) -> None:
    register(directory, "silent", "hot", "gpu-1")
    clock.advance(HEARTBEAT_TIMEOUT_MS + 1)
    directory.heartbeat("hot")
    directory.heartbeat("gpu-1")
    directory.mark_unhealthy("hot", "97 °C")
    for router in all_routers(directory):
        assert {router.select(job(run_id=str(n))) for n in range(10)} == {"gpu-1"}

    directory.heartbeat("hot")
    directory.heartbeat("silent")
    for router in all_routers(directory):
        chosen = {router.select(job(run_id=str(n))) for n in range(120)}
        assert chosen == {"silent", "hot", "gpu-1"}, router


def test_who_is_not_fit_hides_nobody(directory: WorkerDirectory) -> None:
    """A healthy worker with one place is found behind one that is as idle and unhealthy."""
    register(directory, "hot", "gpu-1")
    directory.mark_unhealthy("hot", "97 °C")
    for router in all_routers(directory, max_concurrency=1):
        one = job()
        assert router.select(one) == "gpu-1", router
        directory.track_job_end(one.job_id)


def test_one_of_many_is_found(directory: WorkerDirectory) -> None:
    """However many come before it: a large fleet is looked through in parts."""
    everyone = [f"gpu-{number}" for number in range(650)]
    register(directory, *everyone)
    register(directory, "mail-1", task_types=("mail",))

    assert [each.worker_id for each in directory.list()] == [*everyone, "mail-1"]
    for router in all_routers(directory):
        assert router.select(job(task_type="mail")) == "mail-1"
    with pytest.raises(NoHealthyWorker) as refused:
        LeastActiveWorkerRouter(directory).select(job(task_type="paint"))
    assert list(refused.value.reasons) == [*everyone, "mail-1"]


def test_no_router_exceeds_its_limit(directory: WorkerDirectory) -> None:
    register(directory, "gpu-1", "gpu-2")
    for router in all_routers(directory, max_concurrency=2):
        jobs = [job(run_id="same") for _ in range(4)]
        assert Counter(map(router.select, jobs)) == {"gpu-1": 2, "gpu-2": 2}, router
        with pytest.raises(WorkersBusy, match=r"'gpu-1' is busy: it has 2 of at most 2 jobs"):
            router.select(job())
        directory.track_job_end(jobs[0].job_id)
        again = job()
        router.select(again)
        for each in (*jobs, again):
            directory.track_job_end(each.job_id)


def test_where_nobody_is_fit_it_is_said_why_of_everyone(directory: WorkerDirectory, clock: FakeClock) -> None:
    """The task type, and per worker the reason; capable ones first, in the order of registration."""
    register(directory, "mail-1", task_types=("mail",))
    register(directory, "silent", "hot", "cold")
    clock.advance(HEARTBEAT_TIMEOUT_MS + 1)
    directory.mark_unhealthy("hot", "97 °C")
    directory.mark_unhealthy("cold", "")

    for router in all_routers(directory):
        with pytest.raises(NoHealthyWorker) as refused:
            router.select(job(task_type="train"))
        assert type(refused.value) is NoHealthyWorker
        assert refused.value.task_type == "train"
        assert list(refused.value.reasons.items()) == [
            ("silent", "is stale: its last heartbeat was 30001 ms ago, more than 30000 ms"),
            ("hot", "is unhealthy: 97 °C"),
            ("cold", "is unhealthy: no reason was given"),
            ("mail-1", "does not run it"),
        ]
        assert str(refused.value).startswith("no healthy worker for task type 'train': 'silent' is stale")


def test_an_empty_directory_says_so(directory: WorkerDirectory) -> None:
    for router in all_routers(directory):
        with pytest.raises(NoHealthyWorker, match="'train': no worker is registered"):
            router.select(job())


def test_round_robin_takes_one_after_the_other_for_everybody(
    directory: WorkerDirectory, other: WorkerDirectory
) -> None:
    """Two processes share the turn; how busy a worker is does not matter."""
    register(directory, "b", "a", "c")
    directory.track_job_start("b", "long")
    routers = [RoundRobinRouter(directory), RoundRobinRouter(other)]

    assert [routers[n % 2].select(job()) for n in range(7)] == ["b", "a", "c", "b", "a", "c", "b"]


def test_round_robin_does_not_make_up_for_an_absence(directory: WorkerDirectory) -> None:
    """Who was unhealthy, or joined late, gets its turn like everyone else, and no flood."""
    register(directory, "a", "b")
    directory.mark_unhealthy("b", "hot")
    router = RoundRobinRouter(directory)
    assert [router.select(job()) for _ in range(5)] == ["a"] * 5
    directory.heartbeat("b")
    register(directory, "c")

    assert Counter(router.select(job()) for _ in range(9)) == {"a": 3, "b": 3, "c": 3}


def test_a_weighted_router_shares_by_weight(directory: WorkerDirectory) -> None:
    """Exactly, in any stretch of the length of all weights; who is not named has 1, and 0 gets nothing."""
    register(directory, "big", "middle", "small", "none")
    router = WeightedRouter(directory, {"big": 3, "middle": 1.5, "none": 0})
    chosen = [router.select(job()) for _ in range(55)]

    assert Counter(chosen) == {"big": 30, "middle": 15, "small": 10}
    for start in range(0, 55, 11):
        assert Counter(chosen[start : start + 11]) == {"big": 6, "middle": 3, "small": 2}


def test_a_weight_of_zero_is_a_reason(directory: WorkerDirectory) -> None:
    register(directory, "none")
    with pytest.raises(NoHealthyWorker, match="'none' has the weight 0"):
        WeightedRouter(directory, {"none": 0}).select(job())


def test_equal_keys_stick_to_a_worker(directory: WorkerDirectory, other: WorkerDirectory) -> None:
    """Whoever chooses, and however busy it is; different keys are spread."""
    register(directory, *(f"gpu-{n}" for n in range(5)))
    mine, theirs = StickyRouter(directory, by_run), StickyRouter(other, by_run)
    chosen = {str(n): mine.select(job(run_id=str(n))) for n in range(60)}

    assert {key: theirs.select(job(run_id=key)) for key in chosen} == chosen
    assert set(Counter(chosen.values())) == {f"gpu-{n}" for n in range(5)}


def test_only_the_keys_of_a_worker_that_goes_move(directory: WorkerDirectory) -> None:
    """And they come back with it."""
    register(directory, *(f"gpu-{n}" for n in range(5)))
    router = StickyRouter(directory, by_run)

    def placed() -> dict[str, str]:
        return {str(n): router.select(job(run_id=str(n))) for n in range(60)}

    before = placed()
    directory.mark_unhealthy("gpu-2", "hot")
    without = placed()
    assert {key for key in before if without[key] != before[key]} == {
        key for key, worker in before.items() if worker == "gpu-2"
    }
    directory.heartbeat("gpu-2")
    assert placed() == before


def test_a_key_whose_worker_is_full_goes_to_its_second_choice(directory: WorkerDirectory) -> None:
    register(directory, "gpu-1", "gpu-2", "gpu-3")
    router = StickyRouter(directory, by_run, max_concurrency=1)
    first = job(run_id="k")
    order = [router.select(each) for each in (first, job(run_id="k"), job(run_id="k"))]
    assert len(set(order)) == 3

    directory.track_job_end(first.job_id)
    assert router.select(job(run_id="k")) == order[0]


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "2"])
def test_a_limit_that_is_none_is_refused(directory: WorkerDirectory, limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_concurrency: expected a whole number, at least 1"):
        LeastActiveWorkerRouter(directory, limit)
    with pytest.raises(ConfigurationError, match="max_concurrency"):
        StickyRouter(directory, by_run, limit)


@pytest.mark.parametrize("weight", [-1, math.inf, math.nan, "2", 10**9])
def test_a_weight_that_is_none_is_refused(directory: WorkerDirectory, weight: Any) -> None:
    with pytest.raises(ConfigurationError, match="the weight of worker 'gpu-1': expected a number"):
        WeightedRouter(directory, {"gpu-1": weight})
