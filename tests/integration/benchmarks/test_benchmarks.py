"""The benchmarks on a real server: small runs, judged by what does not depend on the machine.

And each check of a benchmark's work, held against work that was not done: a check that can't fail would
let a benchmark meet its bar by doing less.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from benchmarks.applications import QUEUE, Application, redis_application, stub_application
from benchmarks.cli import main
from benchmarks.fleet import SimulatedFleet, advertisement_of
from benchmarks.harness.figures import WrongResult
from benchmarks.harness.server import Server
from benchmarks.suites.beat import BEATS, count_beats
from benchmarks.suites.enqueue import RedisSends, StubSends
from benchmarks.suites.resume import Runs, check_ran
from dramatiq_handshake import HandshakeEngine
from dramatiq_handshake.storage import RedisStore
from dramatiq_handshake.wire.keys import ContractKeys
from tests.support.poll import eventually

SMALL = ("--pairs", "2", "--operations", "60")


class Bench:
    """The command, run small."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self.capsys = capsys
        self.folder = folder

    def __call__(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        code = main([*arguments, *SMALL, "--json", "--keep", str(self.folder)])
        document = json.loads(self.capsys.readouterr().out)
        assert "error" not in document, document["error"]
        return code, document


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Bench:
    return Bench(capsys, tmp_path)


@pytest.fixture
def server(valkey: redis.Redis, valkey_url: str) -> Iterator[Server]:
    server = Server(valkey_url)
    with server.client:
        yield server


# -- the benchmarks themselves ----------------------------------------------------------------------


def test_enqueue_measures_both_brokers_and_counts_no_command_beyond_the_views_own(bench: Bench) -> None:
    _, document = bench("enqueue")

    assert document["extra_commands"] == 0
    assert document["ratio"] > 0
    assert len(document["samples"]["ratio"]) == len(document["samples"]["stub_added_us"]) == 2
    assert document["details"]["counted_sends"] == 300
    assert document["samples"]["extra_commands"][0]["bare"] == {"EVALSHA": 300}
    assert set(document["bars"]) == {"ratio", "stub_added_us", "extra_commands"}


def test_a_beat_is_one_round_trip_of_less_than_half_the_plain_beats_bytes(bench: Bench) -> None:
    code, document = bench("beat")

    assert code == 0
    assert document["round_trips"] == 1
    assert 0 < document["bytes_ratio"] <= 0.5
    assert document["details"]["plain_round_trips"] == 10, "two for each of five tokens"


def test_a_round_trip_more_in_twenty_beats_makes_beat_fall_short(bench: Bench) -> None:
    code, document = bench("beat", "--plant", "5")

    assert code == 1
    assert document["round_trips"] == 1.05


def test_resume_runs_every_blocked_message_and_times_the_first(bench: Bench) -> None:
    _, document = bench("resume")

    assert document["details"]["depths"] == [1, 30, 300]
    assert document["first_ms"] == max(document[f"first_ms_{depth}"] for depth in (1, 30, 300))
    assert all(0 < waited < 30_000 for waited in document["samples"]["first_ms_30"])
    assert document["drain_ratio"] > 0


# -- the server counts ------------------------------------------------------------------------------


def test_a_pipeline_is_one_round_trip_and_its_bytes_are_counted_both_ways(
    server: Server, valkey_url: str
) -> None:
    with redis.Redis.from_url(valkey_url) as client:
        client.ping()
        with server.counting_traffic() as traffic, client.pipeline(transaction=False) as pipeline:
            pipeline.set("key", "value")
            pipeline.get("key")
            pipeline.execute()

        assert traffic.reads == 1
        assert traffic.bytes_in == len(
            b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"
        )
        assert traffic.bytes_out == len(b"+OK\r\n$5\r\nvalue\r\n")
        assert traffic.bytes == traffic.bytes_in + traffic.bytes_out

        with server.counting_traffic() as traffic:
            client.ping()
            client.ping()

        assert traffic.reads == 2


def test_a_connection_that_closes_during_a_count_is_told(server: Server, valkey_url: str) -> None:
    client = redis.Redis.from_url(valkey_url)
    closing = str(client.client_id())

    def is_gone() -> bool:
        return closing not in {connection["id"] for connection in server.client.client_list()}

    def close_during_a_count() -> None:
        with server.counting_traffic():
            client.close()
            eventually(is_gone)

    with pytest.raises(RuntimeError, match="a connection closed during the count"):
        close_during_a_count()


def test_a_script_is_one_command_of_its_client_and_the_observer_is_left_out(
    server: Server, valkey_url: str
) -> None:
    with redis.Redis.from_url(valkey_url) as client:
        client.ping()
        with server.counting_commands() as commands:
            client.eval("redis.call('SET', KEYS[1], '1') return redis.call('GET', KEYS[1])", 1, "key")
            client.get("key")
            client.get("key")

    assert commands.by_name == {"EVAL": 1, "GET": 2}
    assert commands.total == 3


# -- no benchmark passes with its work undone -------------------------------------------------------


@pytest.fixture
def bare(valkey_url: str) -> Iterator[Application]:
    application = redis_application(valkey_url, "bench-test")
    yield application
    application.close()


def test_sends_that_all_arrived_pass_and_leave_nothing_behind(server: Server, bare: Application) -> None:
    sends = RedisSends(server, bare)
    for operations in (5, 3):
        sends.run(operations)
        sends.check(operations)

    assert server.client.keys(f"bench-test:{QUEUE}*") == []


@pytest.mark.parametrize("what", ["missing", "one too many", "without its body", "out of order", "changed"])
def test_a_send_that_did_not_arrive_as_it_should_fails_the_run(
    server: Server, bare: Application, what: str
) -> None:
    sends = RedisSends(server, bare)
    sends.run(5)
    queue, bodies = f"bench-test:{QUEUE}", f"bench-test:{QUEUE}.msgs"
    if what == "missing":
        server.client.hdel(bodies, server.client.lpop(queue))
    elif what == "one too many":
        bare.work.send(4)
    elif what == "without its body":
        server.client.hdel(bodies, server.client.lindex(queue, 2))
    elif what == "out of order":
        server.client.rpush(queue, server.client.lpop(queue))
    else:
        last = server.client.rpop(queue)
        server.client.hdel(bodies, last)
        bare.work.send_with_options(args=(4,), handshake={"version": "1"})

    with pytest.raises(WrongResult):
        sends.check(5)


def test_a_send_that_is_not_on_the_stub_broker_fails_the_run() -> None:
    application = stub_application()
    sends = StubSends(application)
    sends.run(5)
    sends.check(5)
    sends.run(4)

    with pytest.raises(WrongResult, match="expected 5 messages"):
        sends.check(5)


@pytest.mark.parametrize("undone", ["heartbeat", "descriptor", "leases"])
def test_a_beat_that_does_not_keep_its_worker_alive_fails_the_run(
    server: Server, valkey_url: str, undone: str
) -> None:
    worker, keys, beats = advertisement_of("w1", {"queue-0": ["actor"]}), ContractKeys("bench"), 0
    store = RedisStore(url=valkey_url, prefix="bench")

    def beat() -> None:
        nonlocal beats
        beats += 1
        if undone != "leases" or beats <= 2:
            store.advertise(worker)
        if undone != "leases" and beats == 2 + BEATS:
            server.client.set(getattr(keys, undone)("queue-0", "w1"), "{}", px=35_000)

    with pytest.raises(WrongResult):
        count_beats(worker, server, beat=beat, stumble=store.now_ms, times=0)
    store.close()


@pytest.mark.parametrize(
    ("ran", "left"), [([0, 1, 2], 0), ([0, 1, 2, 3, 3], 0), ([0, 1, 2, 3], 1), ([0, 1, 2, 3, 9], 0)]
)
def test_a_drain_that_lost_doubled_left_or_made_up_a_message_fails_the_run(ran: list[int], left: int) -> None:
    check_ran([3, 2, 1, 0], range(4), 0)
    with pytest.raises(WrongResult, match="expected every message to run once"):
        check_ran(ran, range(4), left)


def test_runs_are_waited_for_and_told_where_they_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.suites.resume.RUN_WAIT_S", 0.01)
    runs = Runs()
    runs.expect(2)
    with pytest.raises(WrongResult, match="no blocked message ran"):
        runs.wait_for_first()
    before = time.time_ns()
    runs(7)
    runs.wait_for_first()
    assert before <= runs.first_ns <= time.time_ns()
    with pytest.raises(WrongResult, match="only 1 of 2 messages ran"):
        runs.wait_for_all()
    runs(8)
    runs.wait_for_all()
    assert runs.numbers == [7, 8]


# -- the fleet that a producer sees -----------------------------------------------------------------


def test_a_simulated_fleet_is_live_to_whoever_looks_and_leaves_no_trace(
    valkey: redis.Redis, valkey_url: str
) -> None:
    workers = [
        advertisement_of(f"w{number}", {QUEUE: ["work"]}, build=str(number % 2)) for number in range(4)
    ]
    fleet = SimulatedFleet(valkey_url, "bench-test", workers)
    fleet.beat_if_due()

    with HandshakeEngine(valkey_url, prefix="bench-test") as engine:
        seen = engine.fleet()
        assert {worker.instance_id for worker in seen} == {"w0", "w1", "w2", "w3"}
        (entry, other) = engine.workflow_directory().workflows
        assert {entry.version, other.version} == {"0", "1"}
        fleet.close()
        assert list(engine.fleet()) == []
    assert len({worker.class_id for worker in workers}) == 2, "two builds are two classes"
