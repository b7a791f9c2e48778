"""What real processes say of themselves, read as another SDK would read it: from the contract's keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dramatiq
import pytest
import redis

from dramatiq_handshake import HandshakeEngine
from dramatiq_handshake.decide.directory import Evidence
from tests.conftest import AppFactory
from tests.support.ledger import Ledger
from tests.support.poll import eventually
from tests.support.workers import Fleet

#: The contract's life of an advertisement (design §3), in seconds.
LEASE_S = 35


def _documents(client: redis.Redis, family: str) -> dict[str, dict[str, Any]]:
    """The JSON under every key of a family, by what follows the family's name."""
    start = f"dramatiq-{family}:"
    keys = [key.decode() for key in client.scan_iter(f"{start}*", count=1000)]
    return {key.removeprefix(start): json.loads(client.get(key) or b"null") for key in sorted(keys)}


def _tokens(documents: dict[str, dict[str, Any]]) -> set[str]:
    return {key.partition(":")[0] for key in documents}


def test_a_worker_publishes_descriptor_and_heartbeat_as_it_boots(fleet: Fleet, valkey: redis.Redis) -> None:
    """Both are there, for every queue that it consumes, before it has beaten a second time."""
    fleet.start("gpu", capabilities=["gpu", "saga"])
    descriptors = eventually(lambda: _documents(valkey, "worker-descriptor"))
    heartbeats = _documents(valkey, "worker-heartbeat")
    assert descriptors.keys() == heartbeats.keys()
    assert _tokens(descriptors) == {"default", "ml"}
    (text,) = {json.dumps(document) for document in descriptors.values()}
    descriptor = json.loads(text)
    assert {key.partition(":")[2] for key in descriptors} == {descriptor["instanceId"]}
    assert (descriptor["runtime"], descriptor["sdk"]["name"]) == ("python", "dramatiq-handshake")
    assert descriptor["protocol"] == {"version": 1, "range": [1, 1]}
    assert {"gpu", "saga", "results"} <= set(descriptor["capabilities"])
    for beat in heartbeats.values():
        assert beat["status"] == "up"
        assert beat["descriptorHash"]
    lives = [valkey.ttl(key) for key in valkey.scan_iter("dramatiq-worker-*", count=1000)]
    assert lives
    assert all(0 < life <= LEASE_S for life in lives)


def test_a_worker_announces_only_what_it_can_run(fleet: Fleet, valkey: redis.Redis) -> None:
    """Not what another queue is for, not what needs a capability that it lacks, not what it merely sends."""
    fleet.start("cpu")
    fleet.start("default-only", capabilities=["gpu"], queues=["default"])
    fleet.start("gpu", capabilities=["gpu"], queues=["ml"], extras=["polish"])
    eventually(lambda: len(_documents(valkey, "worker-descriptor")) == 4)
    documents = _documents(valkey, "worker-descriptor")
    by_queues: dict[frozenset[str], dict[str, Any]] = {}
    for document in documents.values():
        queues = frozenset(key.partition(":")[0] for key in documents if key.endswith(document["instanceId"]))
        by_queues[queues] = document
    cpu = by_queues[frozenset({"default", "ml"})]
    default_only, gpu = by_queues[frozenset({"default"})], by_queues[frozenset({"ml"})]
    common = ["added_later", "double", "flaky", "greet", "hold"]
    assert cpu["workflows"] == default_only["workflows"] == common
    assert {entry["group"] for entry in cpu["registrations"]} == {"default"}
    assert gpu["workflows"] == ["embed", "train"]
    assert gpu["steps"] == ["polish"]
    announced = {entry["name"]: entry for entry in gpu["registrations"]}
    assert announced.keys() == {"embed", "train"}, "a step is announced by its name alone"
    assert announced["train"] == {
        "name": "train",
        "version": "2",
        "group": "ml",
        "requires": ["gpu"],
        "origin": "sample",
    }
    assert announced["embed"] == {"name": "embed", "group": "ml", "requires": ["gpu"]}, (
        "what the decorator leaves out stays unstated"
    )


def test_a_step_that_requires_a_capability_goes_only_to_who_has_it(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, operator: HandshakeEngine
) -> None:
    """`requires` works for a step as for any actor, though no directory lists it."""
    fleet.start("cpu", extras=["polish"])
    message = make_app(extras=["polish"])["polish"].send("lens")
    (blocked,) = operator.blocked()
    assert (blocked.message_id, blocked.requires) == (message.message_id, ("gpu",))
    fleet.start("gpu", capabilities=["gpu"], extras=["polish"])
    (ran,) = ledger.wait_for(1, actor="polish")
    assert (ran.worker, ran.message_id) == ("gpu", message.message_id)
    names = {entry.name for entry in operator.workflow_directory().workflows}
    assert "train" in names
    assert "polish" not in names


def test_an_engine_beside_a_worker_in_one_process_announces_nothing_of_its_own(
    make_app: AppFactory, valkey: redis.Redis, operator: HandshakeEngine
) -> None:
    """The worker announces; the control plane beside it states no actor, no step, no queue."""
    app = make_app()
    worker = dramatiq.Worker(app.broker, worker_timeout=100, worker_threads=1)
    worker.start()
    try:
        app["greet"].send("Ada")
        instances = {key.partition(":")[2] for key in _documents(valkey, "worker-descriptor")}
        planes = eventually(lambda: _documents(valkey, "control-plane"))
        assert len(instances) == 1
        assert [
            (plane["workflows"], plane["steps"], "registrations" in plane) for plane in planes.values()
        ] == [([], [], False)]
        (live,) = operator.fleet()
        assert {live.instance_id} == instances
        entries = {entry.name: entry.instances for entry in operator.workflow_directory().workflows}
        assert entries["greet"] == (live.instance_id,)
    finally:
        worker.stop()
    assert _documents(valkey, "worker-descriptor") == {}


def test_a_process_that_only_sends_announces_no_worker(
    make_app: AppFactory, valkey: redis.Redis, operator: HandshakeEngine
) -> None:
    """It knows how to reach every actor and can run none: a control plane, and nothing in the directory."""
    make_app()["greet"].send("Ada")
    assert eventually(lambda: _documents(valkey, "control-plane"))
    assert _documents(valkey, "worker-descriptor") == _documents(valkey, "worker-heartbeat") == {}
    assert operator.workflow_directory().workflows == ()
    assert len(operator.fleet()) == 0


@pytest.mark.parametrize("producer_has_plugin", [True, False])
def test_a_plain_fleet_is_served_as_before_and_its_queue_is_found(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, tmp_path: Path, producer_has_plugin: bool
) -> None:
    """Workers without the plugin run what they are sent, untouched; the directory shows their queue.

    On Redis a plain worker leaves a trace while it has messages in hand, so one is held while we look.
    """
    fleet.start("plain", plugin=False)
    aware = make_app()
    sender = aware if producer_has_plugin else make_app(plugin=False)
    gate = tmp_path / "gate"
    held, doubled = sender["hold"].send(str(gate)), sender["double"].send(21)
    assert "handshake" not in {**held.options, **doubled.options}
    ledger.wait_for(1, event="started", actor="hold")
    engine = aware.handshake.engine
    observed = {
        entry.name: entry.plain_consumers
        for entry in engine.workflow_directory().workflows
        if entry.evidence is Evidence.OBSERVED
    }
    assert observed == {"default": 1}
    gate.touch()
    runs = ledger.wait_for_messages([held.message_id, doubled.message_id])
    assert set(runs.values()) == {1}
    assert doubled.get_result(block=True, timeout=5000) == 42
    assert engine.blocked().needs == ()
    assert fleet.alarms == []
