"""Listings: the index and the contract's own keys tell the same story."""

from __future__ import annotations

import random

from dramatiq_handshake.storage.base import SERVED_LATELY_MS, ControlPlaneRecord, FleetStore, WorkerRecord
from tests.contract.builders import ad
from tests.contract.harness import TTL_MS, Deployment, FakeClock


def places(records: tuple[WorkerRecord, ...]) -> list[tuple[str, str]]:
    return [(record.token, record.instance_id) for record in records]


def test_an_empty_registry_lists_nothing(store: FleetStore) -> None:
    assert store.workers() == ()
    assert store.scan_advertisements() == ()
    assert store.control_planes() == ()


def test_workers_come_in_a_stable_order(store: FleetStore) -> None:
    for instance in ("w2", "w1", "w3"):
        store.advertise(ad(instance, "ml", "mail"))

    expected = [(token, instance) for token in ("mail", "ml") for instance in ("w1", "w2", "w3")]
    assert places(store.workers()) == places(store.scan_advertisements()) == expected


def test_a_worker_of_another_sdk_is_found_by_scan_only(store: FleetStore, deployment: Deployment) -> None:
    store.advertise(ad("w1"))
    deployment.publish("ml", "node:7", heartbeat="1767225600000", descriptor='{"instanceId":"node:7"}')
    deployment.publish("mail@davi", "legacy", heartbeat="{}")

    assert places(store.workers()) == [("ml", "w1")]
    legacy, node, ours = sorted(store.scan_advertisements(), key=lambda record: record.instance_id)
    assert (ours.instance_id, ours.indexed, ours.broker) == ("w1", True, "broker-1")
    assert (node.instance_id, node.indexed, node.broker) == ("node:7", False, "")
    assert node.descriptor_json == b'{"instanceId":"node:7"}'
    assert (legacy.token, legacy.heartbeat, legacy.descriptor_json) == ("mail@davi", b"{}", None)


def test_a_scan_tells_how_long_another_sdks_worker_still_lives(
    store: FleetStore, deployment: Deployment, clock: FakeClock
) -> None:
    deployment.publish("ml", "node-7", heartbeat="{}")
    clock.advance(15_000)

    (record,) = store.scan_advertisements()

    assert record.remaining_ms is not None
    assert TTL_MS - 20_000 < record.remaining_ms <= TTL_MS - 15_000


def test_an_index_entry_without_its_keys_is_never_returned(store: FleetStore, deployment: Deployment) -> None:
    store.advertise(ad("gone"))
    store.advertise(ad("no-beat"))
    store.advertise(ad("no-descriptor"))
    deployment.lose("ml", "gone", heartbeat=True, descriptor=True)
    deployment.lose("ml", "no-beat", heartbeat=True)
    deployment.lose("ml", "no-descriptor", descriptor=True)

    no_beat, no_descriptor = store.workers()

    assert (no_beat.instance_id, no_beat.heartbeat) == ("no-beat", None)
    assert (no_descriptor.instance_id, no_descriptor.descriptor_json) == ("no-descriptor", None)


def test_index_and_scan_agree_while_workers_die_at_random(
    store: FleetStore, deployment: Deployment, clock: FakeClock
) -> None:
    """Deaths of every kind: silence, withdrawal, eviction, a token dropped, all workers of a token."""
    chance = random.Random(20_261_130)
    tokens = [f"q{number}" for number in range(6)]
    alive = {f"w{number:02}": chance.sample(tokens, chance.randint(1, 4)) for number in range(24)}
    for instance, held in alive.items():
        store.advertise(ad(instance, *held, class_id=f"c{len(held)}"))

    for _ in range(25):
        # Steps as wide as these keep clear of the lease's end, since real time passes as well.
        clock.advance(chance.choice([5_000, 10_000]))
        for instance in list(alive):
            fate = chance.random()
            if fate < 0.70:
                store.advertise(ad(instance, *alive[instance], class_id=f"c{len(alive[instance])}"))
            elif fate < 0.76:
                store.withdraw(instance, alive.pop(instance))
            elif fate < 0.82:
                deployment.lose(alive[instance][0], instance, heartbeat=True, descriptor=True)
            elif fate < 0.86 and len(alive[instance]) > 1:
                alive[instance] = alive[instance][1:]
                store.advertise(ad(instance, *alive[instance]))
            elif fate < 0.90:
                del alive[instance]

        assert store.workers() == store.scan_advertisements()
        for token in tokens:
            counted = {
                presence.class_id for presence in store.look({token: None}, None).tokens[token].classes
            }
            assert bool(counted) >= bool([place for place in places(store.workers()) if place[0] == token])


def test_control_planes_are_listed_until_they_lapse(
    store: FleetStore, peer: FleetStore, clock: FakeClock
) -> None:
    store.announce_control_plane("cp-2", '{"instanceId":"cp-2"}')
    clock.advance(20_000)
    store.announce_control_plane("cp-1", '{"v":1}')
    store.announce_control_plane("cp-1", '{"v":2}')

    assert peer.control_planes() == (
        ControlPlaneRecord("cp-1", b'{"v":2}'),
        ControlPlaneRecord("cp-2", b'{"instanceId":"cp-2"}'),
    )

    clock.advance(16_000)
    assert [record.instance_id for record in peer.control_planes()] == ["cp-1"]


def test_a_control_plane_is_no_worker(store: FleetStore) -> None:
    store.announce_control_plane("cp", "{}")

    assert store.scan_advertisements() == store.workers() == ()


def test_broker_ids_are_claimed_by_workers_and_control_planes_for_a_week(
    store: FleetStore, peer: FleetStore, clock: FakeClock
) -> None:
    store.advertise(ad("w1", broker_id="of-a-worker"))
    store.announce_control_plane("cp", "{}", broker_id="of-a-producer")
    store.announce_control_plane("cp-2", "{}")
    asked = ["of-a-worker", "plain", "of-a-producer", ""]

    assert peer.unclaimed(asked) == {"plain", ""}
    assert peer.unclaimed([]) == frozenset()

    clock.advance(SERVED_LATELY_MS - 1_000)
    store.announce_control_plane("cp", "{}", broker_id="of-a-producer")
    clock.advance(1_000)
    assert peer.unclaimed(asked) == {"plain", "", "of-a-worker"}
