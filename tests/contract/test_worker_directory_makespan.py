"""Jobs of mixed lengths, by a simulated clock: the least-active router schedules them as the ideal does."""

from __future__ import annotations

import heapq
import random

import pytest

from benchmarks.suites.routing import ideal_makespan_s
from dramatiq_handshake.routing import (
    LeastActiveWorkerRouter,
    RoundRobinRouter,
    WorkerDirectory,
    WorkerRouter,
    WorkersBusy,
)
from tests.contract.directories import job

WORKERS, PLACES, JOBS = 5, 2, 400


def simulated(directory: WorkerDirectory, router: WorkerRouter, lengths: list[float]) -> float:
    """When the last job ends, if each is dispatched as soon as somebody may have it.

    A worker runs what it has in its order, on as many places as it has.
    """
    now, ends = 0.0, list[tuple[float, str]]()
    free = {each.worker_id: [0.0] * PLACES for each in directory.list()}
    for length in lengths:
        while True:
            one = job()
            try:
                worker = router.select(one)
            except WorkersBusy:
                now, ended = heapq.heappop(ends)
                directory.track_job_end(ended)
            else:
                break
        directory.track_job_start(worker, one.job_id)
        end = max(now, free[worker][0]) + length
        heapq.heapreplace(free[worker], end)
        heapq.heappush(ends, (end, one.job_id))
    last = max(end for end, _ in ends)
    for _, job_id in ends:
        directory.track_job_end(job_id)
    return last


@pytest.mark.parametrize("seed", range(3))
def test_least_active_with_a_limit_is_the_ideal_and_better_than_in_turn(
    directory: WorkerDirectory, seed: int
) -> None:
    rng = random.Random(seed)
    lengths = [rng.uniform(10, 200) for _ in range(JOBS)]
    for number in range(WORKERS):
        directory.register(f"worker-{number}", ["train"])

    ideal = ideal_makespan_s(lengths, WORKERS * PLACES)
    least_active = simulated(directory, LeastActiveWorkerRouter(directory, max_concurrency=PLACES), lengths)
    in_turn = simulated(directory, RoundRobinRouter(directory), lengths)

    assert least_active == pytest.approx(ideal)
    assert in_turn > ideal * 1.02
