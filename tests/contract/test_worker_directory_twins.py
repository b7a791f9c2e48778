"""Whatever happens in whatever order, the directory on Redis answers what the one in memory does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dramatiq_handshake.routing import (
    LeastActiveWorkerRouter,
    RoundRobinRouter,
    RoutingError,
    StickyRouter,
    WeightedRouter,
    WorkerDirectory,
    WorkerLease,
)
from tests.contract.directories import Directories, MemoryDirectories, RedisDirectories, job
from tests.contract.harness import FakeClock

TIMES = {"heartbeat_timeout_ms": 100, "reservation_ms": 40, "job_lease_ms": 200, "forget_after_ms": 100_000}
WORKERS = ["w1", "w2", "w3"]
JOBS = [f"j{n}" for n in range(7)]
TYPES = ["train", "mail"]

workers, jobs, types = st.sampled_from(WORKERS), st.sampled_from(JOBS), st.sampled_from(TYPES)
routers = st.sampled_from(
    ["least", "least of 2", "in turn", "in turn of 1", "weighted", "sticky", "sticky of 1"]
)
steps = st.one_of(
    st.tuples(st.just("select"), routers, jobs, types),
    st.tuples(st.just("select"), routers, jobs, types),
    st.tuples(st.just("start"), workers, jobs),
    st.tuples(st.just("end"), jobs),
    st.tuples(st.just("begin"), workers, jobs),
    st.tuples(st.just("finish"), workers, jobs),
    st.tuples(st.just("beat"), workers),
    st.tuples(st.just("lease beats"), workers, st.none() | st.integers(-150, 50)),
    st.tuples(st.just("mark"), workers),
    st.tuples(st.just("register"), workers, st.sets(types)),
    st.tuples(st.just("stop"), workers),
    st.tuples(st.just("wait"), st.sampled_from([1, 39, 40, 100, 101, 200, 1_001])),
)


@dataclass
class World:
    """A kind of directory, and the leases of its workers."""

    directory: WorkerDirectory
    clock: FakeClock
    leases: dict[str, WorkerLease]

    @classmethod
    def of(cls, directories: Directories, clock: FakeClock) -> World:
        world = cls(directories.open(**TIMES), clock, {})
        for worker in WORKERS[:2]:
            world.register(worker, {"train", "mail"})
        return world

    def register(self, worker: str, task_types: set[str]) -> None:
        self.leases[worker] = self.directory.register(worker, task_types)

    def select(self, router: str, job_id: str, task_type: str) -> str:
        made: dict[str, Callable[[], Any]] = {
            "least": lambda: LeastActiveWorkerRouter(self.directory),
            "least of 2": lambda: LeastActiveWorkerRouter(self.directory, 2),
            "in turn": lambda: RoundRobinRouter(self.directory),
            "in turn of 1": lambda: RoundRobinRouter(self.directory, 1),
            "weighted": lambda: WeightedRouter(self.directory, {"w1": 0.3, "w2": 0, "w3": 7}),
            "sticky": lambda: StickyRouter(self.directory, lambda some: some.job_id),
            "sticky of 1": lambda: StickyRouter(self.directory, lambda some: some.task_type, 1),
        }
        chosen: str = made[router]().select(job(job_id, task_type))
        return chosen

    def take(self, step: tuple[Any, ...]) -> object:
        """Take a step; what comes of it, as something that can be compared."""
        kind, *rest = step
        actions: dict[str, Callable[..., object]] = {
            "select": self.select,
            "start": self.directory.track_job_start,
            "end": self.directory.track_job_end,
            "begin": lambda worker, job_id: self.leases[worker].begin(job_id),
            "finish": lambda worker, job_id: self.leases[worker].finish(job_id),
            "beat": self.directory.heartbeat,
            "lease beats": lambda worker, ago: self.leases[worker].heartbeat(
                None if ago is None else self.clock.now_ms + ago
            ),
            "mark": lambda worker: self.directory.mark_unhealthy(worker, f"{worker} is hot"),
            "register": self.register,
            "stop": lambda worker: self.leases[worker].stop(),
        }
        try:
            return actions[kind](*rest)
        except KeyError:
            return "no lease yet"
        except RoutingError as error:
            return type(error), str(error)

    def seen(self) -> object:
        return self.directory.list(), [self.directory.get_worker_for_job(each) for each in JOBS]


@given(st.lists(steps, min_size=5, max_size=40))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_memory_and_redis_agree_step_by_step(valkey: redis.Redis, sequence: list[tuple[Any, ...]]) -> None:
    """Outcomes, errors in their words, statuses and slots; and counts equal a recount of the slots."""
    valkey.flushall()
    clock = FakeClock()
    on_redis = RedisDirectories(clock, valkey)
    kinds = [World.of(MemoryDirectories(clock), clock), World.of(on_redis, clock)]
    try:
        for step in sequence:
            if step[0] == "wait":
                clock.advance(step[1])
                continue
            in_memory, shared = (world.take(step) for world in kinds)
            assert in_memory == shared, step
            in_memory, shared = (world.seen() for world in kinds)
            assert in_memory == shared, step
            statuses, places = shared
            recount = Counter(place for place in places if place is not None)
            assert {each.worker_id: each.active_jobs for each in statuses if each.active_jobs} == recount
    finally:
        on_redis.close()
