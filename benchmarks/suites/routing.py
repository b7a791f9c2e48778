"""routing: what it costs to choose a worker, and how well the choice fills them.

`select_ms` is one choice among 1,000 workers in memory, `select_round_trips` the same on the server, by its
own count. For `makespan_ratio`, jobs of 10 to 200 ms are dispatched to workers of this process, each as
soon as somebody may have it; what that takes is compared with the ideal list schedule of the same lengths,
which knows of no cost at all: whoever is free first takes the next. `shared_makespan` is the same
with the directory on the server: three round trips a job.
"""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from benchmarks.harness.figures import Figure, Outcome, WrongResult, at_least, at_most, of_estimate
from benchmarks.harness.pairs import Method
from benchmarks.harness.server import Server
from benchmarks.harness.statistics import median_estimate
from dramatiq_handshake.routing import (
    HandlerRegistry,
    InMemoryWorkerDirectory,
    InMemoryWorkerGateway,
    Job,
    JobContext,
    LeastActiveWorkerRouter,
    PendingJob,
    RedisWorkerDirectory,
    RoundRobinRouter,
    RoutingWorkerGateway,
    WorkerDirectory,
    WorkerRouter,
)

__all__ = ["Makespan", "ideal_makespan_s", "run", "time_selects"]

WORKERS = 1_000
#: How many choices one sample times, and how many are counted on the server.
SELECTS = 100
JOBS = 400
LENGTHS_MS = (10, 200)
#: Workers of the makespan, and how many jobs each may have at once.
POOL, PLACES = 16, 1
#: How often the makespan is measured.
RUNS = 7
PATIENCE_S = 60.0


def run(method: Method, server: Server) -> Outcome:
    """Measure; see the module."""
    runs, jobs = min(RUNS, method.pairs), min(JOBS, method.operations)
    selects_ms = [time_selects(SELECTS) * 1000 for _ in range(method.pairs)]
    rng = random.Random(method.seed)  # noqa: S311  # draws lengths, keeps no secret
    lengths_s = [rng.uniform(*LENGTHS_MS) / 1000 for _ in range(jobs)]
    ideal_s = ideal_makespan_s(lengths_s, POOL * PLACES)
    makespan = Makespan(lengths_s)
    least_active, shared, in_turn = [], [], []
    for _ in range(runs):
        least_active.append(makespan.measure(_least_active, at_once=POOL * PLACES))
        shared.append(makespan.measure(_least_active, at_once=POOL * PLACES, server=server))
        in_turn.append(makespan.measure(RoundRobinRouter))
    return Outcome(
        (
            of_estimate(
                "select_ms",
                median_estimate(selects_ms, seed=method.seed),
                meaning="one choice among 1,000 workers in memory (ms)",
                bar=at_most(1),
                samples=selects_ms,
            ),
            Figure(
                "select_round_trips",
                _count_round_trips(server),
                "round trips of one choice among 1,000 workers on the server",
                bar=at_most(1),
            ),
            of_estimate(
                "makespan_ratio",
                median_estimate([taken_s / ideal_s for taken_s in least_active], seed=method.seed),
                meaning=f"what {jobs} jobs of 10 to 200 ms took, as a multiple of the ideal list schedule",
                bar=at_most(1.1),
                samples=least_active,
            ),
            of_estimate(
                "shared_makespan",
                median_estimate([taken_s / ideal_s for taken_s in shared], seed=method.seed),
                meaning="the same with the directory on the server",
                bar=at_most(1.1),
                samples=shared,
            ),
            of_estimate(
                "round_robin_ratio",
                median_estimate(
                    [turn_s / least_s for turn_s, least_s in zip(in_turn, least_active, strict=True)],
                    seed=method.seed,
                ),
                meaning="the same jobs dispatched in turn, as a multiple of the least-active router's",
                bar=at_least(1),
                samples=in_turn,
            ),
        ),
        {"workers": POOL, "places_each": PLACES, "jobs": jobs, "runs": runs, "ideal_s": ideal_s},
    )


def _least_active(directory: WorkerDirectory) -> WorkerRouter:
    return LeastActiveWorkerRouter(directory, max_concurrency=PLACES)


def _job(job_id: str, length_s: float = 0.0) -> Job:
    return Job(job_id, "bench", job_id, "work", params=length_s)


def _fill(directory: WorkerDirectory) -> None:
    for number in range(WORKERS):
        directory.register(f"worker-{number}", ["work", "other"])


def time_selects(selects: int) -> float:
    """How long one choice among all workers takes in memory (seconds)."""
    directory = InMemoryWorkerDirectory()
    _fill(directory)
    router = LeastActiveWorkerRouter(directory)
    jobs = [_job(str(number)) for number in range(selects)]
    started = time.perf_counter()
    chosen = [router.select(job) for job in jobs]
    taken_s = (time.perf_counter() - started) / selects
    if chosen != [f"worker-{number}" for number in range(selects)]:
        raise WrongResult("the choices were not the least active workers in the order of registration")
    return taken_s


def _count_round_trips(server: Server) -> float:
    server.client.flushall()
    directory = RedisWorkerDirectory(url=server.url, prefix="bench")
    try:
        _fill(directory)
        router = LeastActiveWorkerRouter(directory)
        router.select(_job("first"))
        with server.counting_traffic() as traffic:
            chosen = {router.select(_job(str(number))) for number in range(SELECTS)}
    finally:
        directory.close()
    if len(chosen) != SELECTS:
        raise WrongResult(f"{SELECTS} choices went to {len(chosen)} workers, and all were idle")
    return traffic.reads / SELECTS


def ideal_makespan_s(lengths_s: Sequence[float], places: int) -> float:
    """When the last job ends if each, in its order, is taken by the place that is free first."""
    free = [0.0] * places
    for length_s in lengths_s:
        heapq.heapreplace(free, free[0] + length_s)
    return max(free)


class Makespan:
    """Jobs of given lengths, dispatched in their order.

    Args:
        lengths_s: How long each takes (seconds).
    """

    def __init__(self, lengths_s: Sequence[float]) -> None:
        self._lengths_s = lengths_s
        self._changed = threading.Condition()
        self._ended: list[PendingJob] = []

    def measure(
        self,
        route: Callable[[WorkerDirectory], WorkerRouter],
        *,
        at_once: int | None = None,
        server: Server | None = None,
    ) -> float:
        """From the first dispatch to the last end (seconds).

        Args:
            route: Makes the router.
            at_once: How many jobs are under way at most; ``None``: all are dispatched at once, and wait
                for their turn at the worker that was chosen.
            server: Where the directory is; ``None``: in memory.
        """
        self._ended = []
        with ExitStack() as stack:
            directory = self._directory(server, stack)
            endpoints = {}
            for number in range(POOL):
                endpoint = InMemoryWorkerGateway()
                stack.callback(endpoint.close)
                endpoint.register_worker(
                    f"worker-{number}", HandlerRegistry({"work": _sleep}), concurrency=PLACES
                )
                endpoints[f"worker-{number}"] = endpoint
                stack.enter_context(directory.register(f"worker-{number}", ["work"]))
            gateway = RoutingWorkerGateway(directory, route(directory), endpoints)
            started = time.perf_counter()
            for number, length_s in enumerate(self._lengths_s):
                if at_once is not None:
                    self._wait_for(number - at_once + 1)
                gateway.dispatch(_job(f"{number}", length_s)).add_done_callback(self._note)
            self._wait_for(len(self._lengths_s))
            taken_s = time.perf_counter() - started
            self._check(directory)
        return taken_s

    def _directory(self, server: Server | None, stack: ExitStack) -> WorkerDirectory:
        if server is None:
            return InMemoryWorkerDirectory()
        server.client.flushall()
        directory = RedisWorkerDirectory(url=server.url, prefix="bench")
        stack.callback(directory.close)
        return directory

    def _note(self, ended: PendingJob) -> None:
        with self._changed:
            self._ended.append(ended)
            self._changed.notify_all()

    def _wait_for(self, ended: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._ended) >= ended, PATIENCE_S):
                raise WrongResult(f"{len(self._ended)} jobs ended, {ended} were waited for")

    def _check(self, directory: WorkerDirectory) -> None:
        done = {job.result().output for job in self._ended}
        if len(done) != len(self._lengths_s):
            raise WrongResult(f"{len(done)} of {len(self._lengths_s)} jobs were run")
        if any(worker.active_jobs for worker in directory.list()):
            raise WrongResult("jobs are counted although all have ended")


def _sleep(context: JobContext) -> str:
    time.sleep(context.params)
    return context.job.job_id
