"""What stays on the server: no more than what lives, and each key as long as `docs/keys.md` says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from dramatiq_handshake.storage import FleetStore
from dramatiq_handshake.storage.base import SERVED_LATELY_MS
from dramatiq_handshake.storage.keys import RegistryKeys
from dramatiq_handshake.storage.redis_context import CHUNK
from tests.contract.builders import ad, classes_on, lane, messages, need
from tests.contract.harness import PREFIX, TTL_MS, FakeClock, RedisDeployment
from tests.contract.leaks import leaks

KEYS = RegistryKeys(PREFIX)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def aged_store(clock: FakeClock, valkey: redis.Redis) -> Iterator[FleetStore]:
    """A store whose keys age by a fake clock."""
    deployment = RedisDeployment(clock, valkey)
    yield deployment.open()
    deployment.close()
    assert leaks(valkey, PREFIX) == []


def sizes(client: redis.Redis, token: str = "ml") -> dict[str, int]:
    """How many entries the collections of the index hold."""
    return {
        "live": client.zcard(KEYS.live),
        "placed": client.hlen(KEYS.placed),
        "members": client.zcard(KEYS.members(token)),
        "classes": client.zcard(KEYS.classes(token)),
    }


def test_what_lapsed_leaves_the_index_with_the_beats_of_others(
    aged_store: FleetStore, valkey: redis.Redis, clock: FakeClock
) -> None:
    for worker in range(20):
        aged_store.advertise(ad(f"w{worker}", class_id=f"c{worker}"))
    clock.advance(TTL_MS - 10_000)
    aged_store.advertise(ad("w0", class_id="c0"))
    clock.advance(10_000)

    aged_store.advertise(ad("w0", class_id="c0"))
    assert valkey.zcard(KEYS.live) == valkey.hlen(KEYS.placed) == 1

    aged_store.advertise(ad("joins", class_id="new"))
    assert sizes(valkey) == {"live": 2, "placed": 2, "members": 2, "classes": 2}


def test_pruning_takes_a_chunk_at_a_time(
    aged_store: FleetStore, valkey: redis.Redis, clock: FakeClock
) -> None:
    lapsed = {f"q:w{number}": clock() + 1 for number in range(CHUNK + 10)}
    valkey.zadd(KEYS.live, lapsed)
    valkey.hset(KEYS.placed, mapping=dict.fromkeys(lapsed, "c\nb"))
    valkey.pexpire(KEYS.live, TTL_MS)
    valkey.pexpire(KEYS.placed, TTL_MS)
    clock.advance(1_000)

    aged_store.advertise(ad())
    assert valkey.zcard(KEYS.live) == valkey.hlen(KEYS.placed) == 11

    aged_store.advertise(ad())
    assert valkey.zcard(KEYS.live) == valkey.hlen(KEYS.placed) == 1


def test_a_worker_that_withdraws_leaves_nothing_but_its_tokens_memory(
    aged_store: FleetStore, valkey: redis.Redis
) -> None:
    aged_store.advertise(ad("w1", "ml", "mail"))
    aged_store.withdraw("w1", ["mail"])
    assert valkey.hget(KEYS.instance("w1"), "tokens") == b"ml"

    aged_store.withdraw("w1", ["ml"])

    left = {key.decode() for key in valkey.scan_iter()}
    remembered = {KEYS.epoch("ml"), KEYS.epoch("mail"), KEYS.served("ml"), KEYS.served("mail")}
    assert left == remembered | {KEYS.class_body("c1")}


def test_the_longest_lease_is_found_however_many_of_other_classes_live_longer(
    aged_store: FleetStore, valkey: redis.Redis, clock: FakeClock
) -> None:
    """The search for the rest of a class goes through the members chunk by chunk."""
    aged_store.advertise(ad("stays"))
    clock.advance(1_000)
    others = {f"other{number}": clock() + TTL_MS - 1 for number in range(CHUNK + 10)}
    valkey.zadd(KEYS.members("ml"), others)
    valkey.hset(KEYS.placed, mapping={f"ml:{other}": "c2\nb" for other in others})
    aged_store.advertise(ad("leaves"))

    aged_store.withdraw("leaves", ["ml"])

    assert classes_on(aged_store) == {"c1"}


def test_old_claims_leave_when_somebody_joins(
    aged_store: FleetStore, valkey: redis.Redis, clock: FakeClock
) -> None:
    aged_store.announce_control_plane("cp", "{}", broker_id="first")
    clock.advance(SERVED_LATELY_MS - 60_000)
    aged_store.announce_control_plane("cp", "{}", broker_id="second")
    clock.advance(120_000)
    aged_store.announce_control_plane("cp", "{}", broker_id="third")
    assert valkey.zrange(KEYS.claims, 0, -1) == [b"second", b"third"]

    clock.advance(SERVED_LATELY_MS - 60_000)
    aged_store.advertise(ad(broker_id="fourth"))
    assert valkey.zrange(KEYS.claims, 0, -1) == [b"third", b"fourth"]


def test_a_released_need_leaves_nothing(aged_store: FleetStore, valkey: redis.Redis) -> None:
    aged_store.block(need(), messages("m1", "m2"), lane=None)

    aged_store.release({"n1": ["m1", "m2"]})

    assert list(valkey.scan_iter()) == []


def test_a_retired_lane_leaves_only_the_epoch_that_tells_it(
    aged_store: FleetStore, valkey: redis.Redis
) -> None:
    aged_store.register_lane(lane())

    aged_store.retire_lane("ml.need.abc", quiet_ms=0)

    assert [key.decode() for key in valkey.scan_iter()] == [KEYS.lanes_epoch]


def test_a_lost_lanes_epoch_is_made_again_by_the_next_renewal(
    aged_store: FleetStore, valkey: redis.Redis
) -> None:
    """Evicted, say: until then every look reads the lanes."""
    aged_store.register_lane(lane())
    valkey.delete(KEYS.lanes_epoch)
    assert aged_store.look({"ml": None}, "any").lanes == (lane(),)

    aged_store.register_lane(lane())

    assert aged_store.look({"ml": None}, None).lanes_epoch is not None


WEEK_MS = SERVED_LATELY_MS


@pytest.mark.parametrize(
    ("key", "life_ms"),
    [
        (f"{PREFIX}-worker-heartbeat:ml:w1", TTL_MS),
        (f"{PREFIX}-worker-descriptor:ml:w1", TTL_MS),
        (KEYS.live, TTL_MS),
        (KEYS.placed, TTL_MS),
        (KEYS.classes("ml"), TTL_MS),
        (KEYS.members("ml"), TTL_MS),
        (KEYS.class_body("c1"), 2 * TTL_MS),
        (KEYS.epoch("ml"), WEEK_MS),
        (KEYS.served("ml"), WEEK_MS),
        (KEYS.instance("w1"), WEEK_MS),
        (KEYS.claims, WEEK_MS),
    ],
)
def test_every_beat_renews_every_key_for_as_long_as_documented(
    aged_store: FleetStore, valkey: redis.Redis, key: str, life_ms: int
) -> None:
    aged_store.advertise(ad(broker_id="b1"))
    for _ in range(2):
        assert life_ms - 10_000 < valkey.pttl(key) <= life_ms
        valkey.pexpire(key, 15_000)
        aged_store.advertise(ad(broker_id="b1"))
    assert life_ms - 10_000 < valkey.pttl(key) <= life_ms


def test_a_control_planes_key_and_claim_live_as_long_as_documented(
    aged_store: FleetStore, valkey: redis.Redis
) -> None:
    for _ in range(2):
        aged_store.announce_control_plane("cp", "{}", broker_id="b1")
        assert TTL_MS - 10_000 < valkey.pttl(f"{PREFIX}-control-plane:cp") <= TTL_MS
        assert WEEK_MS - 10_000 < valkey.pttl(KEYS.claims) <= WEEK_MS
        valkey.pexpire(KEYS.claims, 15_000)
