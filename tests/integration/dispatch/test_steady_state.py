"""What the registry costs while nothing changes, counted on a server that holds nothing but the app."""

from __future__ import annotations

import threading
import time
from collections import Counter

from tests.support.dispatching import worker_up
from tests.support.inprocess import Apps
from tests.support.monitor import CommandLog
from tests.support.poll import eventually
from tests.support.valkey import OwnValkey

SENDS = 20_000
LEAST_S = 5.1
CHUNK = 200


def kinds(commands: list[str]) -> Counter[str]:
    return Counter(command.split(" ", 1)[0].upper() for command in commands)


def test_twenty_thousand_sends_cost_one_look_a_second(apps: Apps, own_valkey: OwnValkey) -> None:
    """No more registry commands than elapsed seconds + 2, requirements and lanes included."""
    app = apps.stub(url=own_valkey.url, prefix="steady")
    plain = app.actor(actor_name="plain")
    train = app.actor(actor_name="train", requires=["gpu"])
    worker_up(
        app.binding.store,
        "plain",
        "train",
        queue="default",
        capabilities=["gpu"],
        broker=app.binding.identity.fingerprint(),
    )
    plain.send()
    train.send()

    pace = threading.Event()
    started = time.monotonic()
    with CommandLog(own_valkey.url) as log:
        for chunk in range(SENDS // CHUNK):
            for _ in range(CHUNK // 2):
                plain.send()
                train.send()
            pace.wait(max(0.0, started + LEAST_S * (chunk + 1) / (SENDS / CHUNK) - time.monotonic()))
    elapsed = time.monotonic() - started

    sent = [
        command for command in log.by_clients if not command.startswith(("ECHO", "CLIENT", "HELLO", "SELECT"))
    ]
    queues = app.broker.queues
    assert queues["default"].qsize() + queues["default.requires.gpu"].qsize() == SENDS + 2
    assert elapsed >= 5
    assert len(sent) <= elapsed + 2, kinds(sent)
    assert len(sent) >= 4, "the view was renewed all the while"


def test_a_steady_worker_beats_without_its_descriptor(apps: Apps, own_valkey: OwnValkey) -> None:
    """A tick is a beat and a look, each one round trip; the descriptor is sent once."""
    app = apps.redis(url=own_valkey.url, heartbeat_interval_ms=200, heartbeat_ttl_ms=60_000)
    app.actor(actor_name="plain")
    app.actor(actor_name="train", queue_name="ml")
    app.worker()
    agent = app.binding.agents[0]
    eventually(lambda: own_valkey.client.exists(f"dramatiq-worker-descriptor:ml:{agent.instance_id}"))
    descriptor = "dramatiq-worker-descriptor"

    with CommandLog(own_valkey.url) as log:
        beats = eventually(
            lambda: sum("dramatiq-worker-heartbeat:ml:" in command for command in log.commands) >= 5
        )

    assert beats
    assert not [command for command in log.commands if command.startswith(f"SET {descriptor}")]
    assert any(command.startswith(f"PEXPIRE {descriptor}") for command in log.commands), "it is renewed"


def test_a_beat_and_a_look_are_one_round_trip_each(apps: Apps, own_valkey: OwnValkey) -> None:
    """The server counts what it reads: each round trip is one read, whatever a pipeline holds."""
    app = apps.stub(url=own_valkey.url, heartbeat_interval_ms=100, heartbeat_ttl_ms=60_000)
    app.actor(actor_name="plain")
    app.worker()

    def counted() -> Counter[str]:
        with own_valkey.client.pipeline(transaction=False) as pipeline:
            pipeline.info("stats")
            pipeline.info("commandstats")
            stats, commands = pipeline.execute()
        beats = commands.get("cmdstat_client|id", {"calls": 0})["calls"]
        return Counter(
            reads=stats["total_reads_processed"],
            beats=beats,
            looks=commands.get("cmdstat_evalsha", {"calls": 0})["calls"] - beats,
            polls=commands["cmdstat_info"]["calls"] // 2,
        )

    eventually(lambda: counted()["beats"] >= 3, what="the worker beats")
    before = counted()
    eventually(lambda: counted()["beats"] >= before["beats"] + 10)
    since = counted()
    since.subtract(before)

    assert since["looks"] >= 9
    # At each end of the count, a round trip may be under way.
    assert since["reads"] <= since["beats"] + since["looks"] + since["polls"] + 2, since
