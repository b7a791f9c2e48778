"""What others put under the contract's keys: listed as far as it goes, and never in anybody's way."""

from __future__ import annotations

import os

import pytest
import redis

from dramatiq_handshake.storage import RedisStore
from tests.contract.builders import ad, messages, need
from tests.integration.storage.conftest import PREFIX, StoreFactory

HEARTBEAT = f"{PREFIX}-worker-heartbeat:ml:"
DESCRIPTOR = f"{PREFIX}-worker-descriptor:ml:"


@pytest.fixture
def kept_apart(open_store: StoreFactory, valkey: redis.Redis) -> RedisStore:
    """A registry with one good worker, which every listing must go on showing."""
    store = open_store(valkey)
    store.advertise(ad("good"))
    return store


def found(store: RedisStore) -> dict[str, tuple[bytes | None, bytes | None, str]]:
    return {
        record.instance_id: (record.heartbeat, record.descriptor_json, record.descriptor_kind)
        for record in store.scan_advertisements()
        if record.instance_id != "good"
    }


def good_is_listed(store: RedisStore) -> bool:
    return any(
        record.instance_id == "good" and record.descriptor_json for record in store.scan_advertisements()
    )


def test_random_bytes_are_handed_on_as_they_are(kept_apart: RedisStore, valkey: redis.Redis) -> None:
    """Reading them is the wire's business; a store parses nothing."""
    beat, descriptor = os.urandom(200), os.urandom(2_000)
    valkey.set(HEARTBEAT + "w", beat, ex=35)
    valkey.set(DESCRIPTOR + "w", descriptor, ex=35)

    assert found(kept_apart) == {"w": (beat, descriptor, "")}
    assert good_is_listed(kept_apart)


def test_a_descriptor_of_ten_megabytes_costs_the_others_nothing(
    kept_apart: RedisStore, valkey: redis.Redis
) -> None:
    valkey.set(HEARTBEAT + "w", "{}", ex=35)
    valkey.set(DESCRIPTOR + "w", b"x" * 10_000_000, ex=35)

    (entry,) = found(kept_apart).values()

    assert len(entry[1] or b"") == 10_000_000
    assert good_is_listed(kept_apart)


def test_a_value_that_is_no_text_is_named_by_its_kind(kept_apart: RedisStore, valkey: redis.Redis) -> None:
    valkey.set(HEARTBEAT + "w", "{}", ex=35)
    valkey.rpush(DESCRIPTOR + "w", "x")
    valkey.expire(DESCRIPTOR + "w", 35)
    valkey.sadd(HEARTBEAT + "odd-beat", "x")
    valkey.expire(HEARTBEAT + "odd-beat", 35)

    assert found(kept_apart) == {"w": (b"{}", None, "list"), "odd-beat": (b"", None, "")}
    assert good_is_listed(kept_apart)


def test_keys_that_only_look_like_the_contracts_are_passed_over(
    kept_apart: RedisStore, valkey: redis.Redis
) -> None:
    for key in (HEARTBEAT, f"{PREFIX}-worker-heartbeat:no-instance", f"{PREFIX}-worker-heartbeat::w"):
        valkey.set(key, "{}", ex=35)
    valkey.set((HEARTBEAT + "bytes-").encode() + b"\xff\xfe", "{}", ex=35)

    assert found(kept_apart) == {}
    assert good_is_listed(kept_apart)


def test_a_control_plane_with_an_odd_value_is_passed_over(
    kept_apart: RedisStore, valkey: redis.Redis
) -> None:
    valkey.hset(f"{PREFIX}-control-plane:odd", "a", "b")
    valkey.expire(f"{PREFIX}-control-plane:odd", 35)
    kept_apart.announce_control_plane("good", "{}")

    assert [record.instance_id for record in kept_apart.control_planes()] == ["good"]


def test_entries_of_the_blocked_index_that_cannot_be_read_cost_no_others(
    kept_apart: RedisStore, valkey: redis.Redis
) -> None:
    kept_apart.block(need("good"), messages("m1", "m2", need_id="good"), lane=None)
    kept_apart.block(need("bad"), messages("m3", need_id="bad"), lane=None)
    root = f"{{{PREFIX}:handshake:1}}"
    valkey.hset(f"{root}:blocked-need:bad", "spec", "{broken")
    valkey.hset(f"{root}:blocked-messages", "m1", "broken")

    assert [found.need_id for found in kept_apart.blocked_needs()] == ["good"]
    assert [message.message_id for message in kept_apart.blocked_messages("good").messages] == ["m2"]
    assert kept_apart.blocked_message("m1") is None
    assert kept_apart.release({"bad": ["m3"]}) == ()
    assert [done.messages for done in kept_apart.release({"good": ["m1", "m2"]})] == [2]
