"""The directory on a real server: what it costs, and who renews what."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis.connection import AbstractConnection

from dramatiq_handshake.routing import (
    Health,
    LeastActiveWorkerRouter,
    RedisWorkerDirectory,
    WorkersBusy,
)
from dramatiq_handshake.routing.keys import RoutingKeys
from tests.contract.directories import active_jobs, job
from tests.integration.routing.conftest import OpenImpatient
from tests.integration.storage.test_connection import documented_acl
from tests.support.poll import eventually
from tests.support.threads import our_threads
from tests.support.valkey import OwnValkey

#: Short enough to be waited for, long enough for a thread that is late on a busy machine.
SHORT = {"heartbeat_timeout_ms": 300, "reservation_ms": 150, "job_lease_ms": 600}


def server_ms(client: redis.Redis) -> int:
    seconds, microseconds = client.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


def all_along(client: redis.Redis, look: Callable[[], dict[str, int]]) -> dict[str, int]:
    """What is seen, always the same, for three leases long."""
    end, seen = server_ms(client) + 3 * SHORT["job_lease_ms"], [look()]
    eventually(lambda: seen.append(look()) or server_ms(client) > end, what="time passes")
    assert all(each == seen[0] for each in seen), seen
    return seen[0]


def test_every_call_is_one_round_trip(
    valkey: redis.Redis, open_impatient: OpenImpatient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the server knows the scripts; also choosing, and also a refusal that names everyone."""
    directory = open_impatient(valkey)
    sent: list[object] = []
    send = AbstractConnection.send_packed_command

    def counting(connection: AbstractConnection, command: Any, *args: Any, **options: Any) -> Any:
        sent.append(command)
        return send(connection, command, *args, **options)

    def refused() -> None:
        with pytest.raises(WorkersBusy):
            LeastActiveWorkerRouter(directory, 1).select(job("b"))

    def trips() -> list[int]:
        taken = []
        lease = directory.register("gpu-1", ["train"])
        for call in (
            lambda: LeastActiveWorkerRouter(directory, 1).select(job("a")),
            lambda: directory.track_job_start("gpu-1", "a"),
            refused,
            lambda: lease.begin("a"),
            lease.heartbeat,
            lambda: lease.finish("a"),
            lambda: directory.track_job_end("a"),
            lambda: directory.heartbeat("gpu-1"),
            lambda: directory.mark_unhealthy("gpu-1", "hot"),
            lambda: directory.get_worker_for_job("a"),
            directory.list,
            lambda: directory.list_capable("train"),
            lease.stop,
        ):
            sent.clear()
            call()
            taken.append(len(sent))
        return taken

    monkeypatch.setattr(AbstractConnection, "send_packed_command", counting)
    trips()
    assert trips() == [1] * 13


def test_times_are_the_servers(
    valkey: redis.Redis, open_impatient: OpenImpatient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process whose clock is an hour off sees and does the same."""
    directory = open_impatient(valkey)
    monkeypatch.setattr("time.time_ns", lambda: 1)
    monkeypatch.setattr("time.time", lambda: 1.0)
    before = server_ms(valkey)
    directory.register("gpu-1", ["train"])
    (worker,) = directory.list()

    assert before <= worker.registered_at == worker.last_heartbeat_at <= server_ms(valkey)
    assert worker.health is Health.HEALTHY


def test_two_deployments_on_one_server_do_not_meet(
    valkey: redis.Redis, open_impatient: OpenImpatient
) -> None:
    one, other = open_impatient(valkey), open_impatient(valkey, prefix="other")
    one.register("gpu-1", ["train"])
    assert other.list() == ()
    other.register("gpu-1", ["train"])
    one.track_job_start("gpu-1", "a")

    assert other.get_worker_for_job("a") is None
    assert active_jobs(other) == {"gpu-1": 0}


def test_every_key_expires_once_nobody_uses_it(valkey: redis.Redis, open_impatient: OpenImpatient) -> None:
    directory = open_impatient(valkey, forget_after_ms=3_600_000)
    lease = directory.register("gpu-1", ["train"])
    LeastActiveWorkerRouter(directory).select(job("a"))
    lease.begin("a")
    directory.mark_unhealthy("gpu-1", "hot")

    keys = list(valkey.scan_iter())
    assert {key.decode() for key in keys} <= set(RoutingKeys("test").all)
    assert all(3_500_000 < valkey.pttl(key) <= 3_600_000 for key in keys)


def test_a_job_under_way_is_renewed_as_long_as_its_dispatcher_lives(
    valkey: redis.Redis, open_impatient: OpenImpatient
) -> None:
    """And counts no more soon after it died; the thread that renews ends with the last job."""
    before = our_threads()
    dispatcher, onlooker = open_impatient(valkey, **SHORT), open_impatient(valkey, **SHORT)
    with onlooker.register("gpu-1", ["train"], heartbeat_interval_ms=50):
        for name in ("a", "b"):
            dispatcher.track_job_start("gpu-1", name)
        assert all_along(valkey, lambda: active_jobs(onlooker)) == {"gpu-1": 2}
        dispatcher.track_job_end("a")
        assert active_jobs(onlooker) == {"gpu-1": 1}

        dispatcher.close()
        eventually(lambda: active_jobs(onlooker) == {"gpu-1": 0}, what="the slot of the dead lapses")
    onlooker.register("gpu-1", ["train"])
    onlooker.track_job_start("gpu-1", "c")
    onlooker.track_job_end("c")
    eventually(lambda: our_threads() == before, what="nothing is left to renew")


def test_a_worker_that_took_its_job_over_needs_no_dispatcher(
    valkey: redis.Redis, open_impatient: OpenImpatient
) -> None:
    """The dispatcher dies after sending; the job counts until the worker has finished it."""
    dispatcher, workers = open_impatient(valkey, **SHORT), open_impatient(valkey, **SHORT)
    with workers.register("gpu-1", ["train"], heartbeat_interval_ms=50) as lease:
        LeastActiveWorkerRouter(dispatcher).select(job("a"))
        dispatcher.track_job_start("gpu-1", "a")
        lease.begin("a")
        dispatcher.close()
        assert all_along(valkey, lambda: active_jobs(workers)) == {"gpu-1": 1}
        lease.finish("a")
        assert active_jobs(workers) == {"gpu-1": 0}


def test_a_dispatcher_does_not_renew_what_the_worker_holds(
    valkey: redis.Redis, open_impatient: OpenImpatient
) -> None:
    """Otherwise a job that the worker has finished would count again for a dispatcher that waits on."""
    dispatcher = open_impatient(valkey)
    lease = dispatcher.register("gpu-1", ["train"])
    dispatcher.track_job_start("gpu-1", "a")
    lease.begin("a")
    dispatcher._dispatches.renew()
    lease.finish("a")
    dispatcher._dispatches.renew()

    assert active_jobs(dispatcher) == {"gpu-1": 0}


def test_more_slots_than_one_call_takes_back_lapse_together(
    valkey: redis.Redis, open_impatient: OpenImpatient
) -> None:
    """A call costs the server a bounded time; until all are taken back, none of them counts for its job."""
    now = [1_000_000]
    directory = open_impatient(valkey, now=lambda: now[0])
    directory.register("gpu-1", ["train"])
    router = LeastActiveWorkerRouter(directory)
    for number in range(1_200):
        router.select(job(f"j{number}"))
    assert active_jobs(directory) == {"gpu-1": 1_200}
    now[0] += 10_000

    assert directory.get_worker_for_job("j999") is None, "not among the first 500"
    assert [active_jobs(directory)["gpu-1"] for _ in range(2)] == [199, 0]
    assert not valkey.exists(*(key for key in RoutingKeys("test").all if key.endswith((":jobs", ":lapses"))))


def test_a_user_with_the_documented_rights_can_use_a_directory(
    own_valkey: OwnValkey, open_impatient: OpenImpatient
) -> None:
    rights = [right.replace("registry", "test") for right in documented_acl()]
    own_valkey.client.execute_command(
        "ACL", "SETUSER", "router", "on", ">secret", "resetkeys", "-@all", "~{test:handshake:1}:*", *rights
    )
    restricted = redis.Redis.from_url(f"redis://router:secret@127.0.0.1:{own_valkey.port}/0")
    directory = open_impatient(restricted)
    with directory.register("gpu-1", ["train"]) as lease:
        LeastActiveWorkerRouter(directory).select(job("a"))
        directory.track_job_start("gpu-1", "a")
        lease.begin("a")
        lease.heartbeat()
        directory.mark_unhealthy("gpu-1", "hot")
        directory.heartbeat("gpu-1")
        directory._dispatches.renew()
        lease.finish("a")
        directory.track_job_end("a")
        assert active_jobs(directory) == {"gpu-1": 0}
        assert directory.get_worker_for_job("a") is None
    restricted.close()
    denied = {entry["object"] for entry in own_valkey.client.acl_log()}
    assert denied <= {"client|setinfo"}


def test_many_dispatchers_at_once_take_each_place_once(
    valkey: redis.Redis, open_impatient: OpenImpatient
) -> None:
    """8 of them want 200 slots on 4 workers that have 40 places: 40 are given, no worker has more than 10."""
    directories = [open_impatient(valkey) for _ in range(8)]
    for number in range(4):
        directories[0].register(f"gpu-{number}", ["train"])
    chosen: list[str] = []
    refused: list[WorkersBusy] = []
    start = threading.Barrier(8)

    def dispatch(directory: RedisWorkerDirectory) -> None:
        router = LeastActiveWorkerRouter(directory, max_concurrency=10)
        start.wait()
        for _ in range(25):
            try:
                chosen.append(router.select(job()))
            except WorkersBusy as busy:
                refused.append(busy)

    threads = [threading.Thread(target=dispatch, args=(each,)) for each in directories]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(chosen), len(refused)) == (40, 160)
    assert active_jobs(directories[0]) == {f"gpu-{number}": 10 for number in range(4)}
