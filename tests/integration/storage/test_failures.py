"""How the registry fails: one kind of error, in words, at once while an outage lasts, noticed once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.storage import RedisStore
from dramatiq_handshake.storage.breaker import Breaker
from dramatiq_handshake.storage.scripts import Batch
from tests.contract.builders import ad, lane, look_at, messages, need
from tests.integration.storage.conftest import ManualClock, StoreFactory
from tests.support.valkey import OwnValkey, free_port

SECRET = "hunter2"

EVERY_CALL: list[tuple[str, Callable[[RedisStore], Any]]] = [
    ("advertise", lambda store: store.advertise(ad())),
    ("withdraw", lambda store: store.withdraw("w1", ["ml"])),
    ("announce_control_plane", lambda store: store.announce_control_plane("cp", "{}", broker_id="b")),
    ("look", lambda store: store.look({"ml": None}, None)),
    ("class_bodies", lambda store: store.class_bodies(["c1"])),
    ("register_lane", lambda store: store.register_lane(lane())),
    ("retire_lane", lambda store: store.retire_lane("ml.need.abc", quiet_ms=0)),
    ("block", lambda store: store.block(need(), messages("m1"), lane=lane())),
    ("release", lambda store: store.release({"n1": ["m1"]})),
    ("blocked_needs", lambda store: store.blocked_needs()),
    ("blocked_messages", lambda store: store.blocked_messages("n1")),
    ("blocked_message", lambda store: store.blocked_message("m1")),
    ("workers", lambda store: store.workers()),
    ("scan_advertisements", lambda store: store.scan_advertisements()),
    ("control_planes", lambda store: store.control_planes()),
    ("unclaimed", lambda store: store.unclaimed(["b"])),
    ("now_ms", lambda store: store.now_ms()),
]


class Witness:
    """Writes down what a store tells its listeners."""

    def __init__(self, store: RedisStore) -> None:
        self.outages: list[str] = []
        self.restored = 0
        store.on_outage(lambda error: self.outages.append(str(error)))
        store.on_restored(self._count)

    def _count(self) -> None:
        self.restored += 1


@pytest.fixture
def own_store(
    own_valkey: OwnValkey, open_store: StoreFactory, patient_breaker: Callable[[], Breaker]
) -> RedisStore:
    return open_store(own_valkey.client, breaker=patient_breaker())


@pytest.mark.parametrize(("name", "call"), EVERY_CALL, ids=[name for name, _ in EVERY_CALL])
def test_every_call_fails_in_one_way_where_nobody_listens(
    open_store: StoreFactory, name: str, call: Callable[[RedisStore], Any]
) -> None:
    port = free_port()
    store = open_store(url=f"redis://someone:{SECRET}@127.0.0.1:{port}/3")

    with pytest.raises(RegistryUnavailable, match=f"127.0.0.1:{port}/3 can't be reached") as raised:
        call(store)

    assert SECRET not in str(raised.value)
    assert "someone" not in str(raised.value)


def test_a_frozen_server_costs_the_budget_once_and_then_nothing(
    own_valkey: OwnValkey, open_store: StoreFactory, patient_breaker: Callable[[], Breaker]
) -> None:
    store = open_store(own_valkey.client, registry_timeout_ms=200, breaker=patient_breaker())
    store.advertise(ad())
    own_valkey.pause()

    start = time.perf_counter()
    with pytest.raises(RegistryUnavailable, match="did not answer within 200 ms"):
        store.look({"ml": None}, None)
    assert 0.15 < time.perf_counter() - start < 2

    start = time.perf_counter()
    for _ in range(200):
        with pytest.raises(RegistryUnavailable, match="did not answer within 200 ms"):
            store.look({"ml": None}, None)
    assert time.perf_counter() - start < 0.5, "200 calls of an outage took less than three would have"


def test_an_outage_is_told_once_and_so_is_its_end(
    own_valkey: OwnValkey, own_store: RedisStore, breaker_clock: ManualClock
) -> None:
    witness = Witness(own_store)
    own_store.advertise(ad())
    assert own_store.available
    own_valkey.stop()

    for _ in range(10):
        breaker_clock.ms += 40_000
        with pytest.raises(RegistryUnavailable):
            own_store.advertise(ad())
    assert not own_store.available
    assert (len(witness.outages), witness.restored) == (1, 0)

    own_valkey.start()
    with pytest.raises(RegistryUnavailable):
        own_store.advertise(ad())
    breaker_clock.ms += 40_000
    own_store.advertise(ad())

    assert own_store.available
    assert (len(witness.outages), witness.restored) == (1, 1)


def test_a_beat_after_an_outage_brings_everything_back(
    own_valkey: OwnValkey, own_store: RedisStore, breaker_clock: ManualClock
) -> None:
    """The server came back empty: the descriptor is sent again, although its ETag is not new."""
    own_store.advertise(ad())
    own_valkey.stop()
    with pytest.raises(RegistryUnavailable):
        own_store.advertise(ad())
    own_valkey.start()
    own_valkey.client.flushall()
    breaker_clock.ms += 40_000

    own_store.advertise(ad())

    (record,) = own_store.workers()
    assert record.descriptor_json == ad().descriptor_json.encode()
    assert own_store.class_bodies(["c1"]) == {"c1": ad().class_body}
    assert len(look_at(own_store).classes) == 1


def test_a_connection_that_the_server_closed_while_idle_is_no_outage(
    own_valkey: OwnValkey, own_store: RedisStore
) -> None:
    own_store.advertise(ad())
    own_valkey.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    own_store.advertise(ad())

    assert own_store.available


def refuse_as_replica(server: OwnValkey) -> None:
    server.client.replicaof("127.0.0.1", free_port())


def refuse_as_lonely(server: OwnValkey) -> None:
    server.client.config_set("min-replicas-to-write", 1)


def refuse_as_full(server: OwnValkey) -> None:
    server.client.config_set("maxmemory-policy", "noeviction")
    server.client.config_set("maxmemory", 1)


def take_writes_again(server: OwnValkey) -> None:
    server.client.replicaof("NO", "ONE")
    server.client.config_set("min-replicas-to-write", 0)
    server.client.config_set("maxmemory", 0)


@pytest.mark.parametrize(
    ("refuse", "said"),
    [
        (refuse_as_replica, "it is a replica"),
        (refuse_as_lonely, "too few replicas"),
        (refuse_as_full, "out of memory"),
    ],
)
def test_a_server_that_takes_no_writes_is_one_outage_until_it_does(
    own_valkey: OwnValkey,
    own_store: RedisStore,
    breaker_clock: ManualClock,
    refuse: Callable[[OwnValkey], None],
    said: str,
) -> None:
    """Reading alone would succeed: it must neither end the outage nor judge a fleet that can't beat."""
    witness = Witness(own_store)
    own_store.advertise(ad())
    refuse(own_valkey)

    with pytest.raises(RegistryUnavailable, match=said):
        own_store.advertise(ad())
    for _ in range(3):
        breaker_clock.ms += 40_000
        with pytest.raises(RegistryUnavailable, match=said):
            own_store.look({"ml": None}, None)
    assert (len(witness.outages), witness.restored) == (1, 0)

    take_writes_again(own_valkey)
    breaker_clock.ms += 40_000
    assert look_at(own_store).classes
    assert witness.restored == 1


def test_reading_goes_on_where_only_writes_are_refused_and_nobody_wrote(
    own_valkey: OwnValkey, own_store: RedisStore, open_store: StoreFactory
) -> None:
    """A process that only asks needs no writable server: every reading call works on a replica."""
    own_store.advertise(ad())
    own_store.block(need(), messages("m1"), lane=lane())
    refuse_as_replica(own_valkey)
    reader = open_store(own_valkey.client)

    assert look_at(reader).classes
    assert len(reader.workers()) == len(reader.scan_advertisements()) == 1
    assert len(reader.blocked_needs()) == len(reader.blocked_messages("n1").messages) == 1
    assert reader.unclaimed(["plain"]) == {"plain"}
    assert reader.control_planes() == ()


def test_a_key_that_another_program_wrote_is_said_to_be_so(
    own_valkey: OwnValkey, own_store: RedisStore
) -> None:
    own_valkey.client.set("{integration:handshake:1}:live", "not a sorted set")

    with pytest.raises(RegistryUnavailable, match="another program writes there"):
        own_store.advertise(ad())


def test_wrong_credentials_are_named_but_not_repeated(
    own_valkey: OwnValkey, open_store: StoreFactory
) -> None:
    own_valkey.client.config_set("requirepass", "right")
    try:
        wrong = open_store(url=f"redis://:{SECRET}@127.0.0.1:{own_valkey.port}/0")
        with pytest.raises(RegistryUnavailable, match="refused the credentials") as raised:
            wrong.now_ms()
        assert SECRET not in str(raised.value)

        none = open_store(url=f"redis://127.0.0.1:{own_valkey.port}/0")
        with pytest.raises(RegistryUnavailable, match="credentials"):
            none.now_ms()
    finally:
        redis.Redis(port=own_valkey.port, password="right").config_set("requirepass", "")


def test_a_listener_that_fails_does_not_hide_the_failure(
    own_store: RedisStore, own_valkey: OwnValkey, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: RegistryUnavailable) -> None:
        raise RuntimeError("a mistake of the listener's")

    own_store.on_outage(broken)
    own_valkey.stop()

    with pytest.raises(RegistryUnavailable):
        own_store.now_ms()

    assert "a mistake of the listener's" in caplog.text


def test_a_listener_may_use_the_store_at_once(
    own_store: RedisStore, own_valkey: OwnValkey, breaker_clock: ManualClock
) -> None:
    """Who hears that the registry is back advertises again, inside the very call that found out."""
    own_store.on_restored(lambda: own_store.advertise(ad("w2")))
    own_valkey.stop()
    with pytest.raises(RegistryUnavailable):
        own_store.advertise(ad("w1"))
    own_valkey.start()
    breaker_clock.ms += 1_000

    own_store.advertise(ad("w1"))

    assert {record.instance_id for record in own_store.workers()} == {"w1", "w2"}


def test_a_beat_whose_answer_was_lost_leaves_nothing_behind_for_good(
    open_store: StoreFactory,
    valkey: redis.Redis,
    patient_breaker: Callable[[], Breaker],
    breaker_clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server did what it was told, and we don't know it: the next beat trusts nothing."""
    store = open_store(valkey, breaker=patient_breaker())
    store.advertise(ad("w1", "ml", etag="old", descriptor_json='{"v":"old"}'))
    send = Batch.send

    def deaf(batch: Batch, **options: Any) -> list[Any]:
        send(batch, **options)
        raise redis.TimeoutError("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(Batch, "send", deaf)
        with pytest.raises(RegistryUnavailable):
            store.advertise(ad("w1", "ml", "mail", etag="new", descriptor_json='{"v":"new"}'))
    breaker_clock.ms += 1_000

    store.advertise(ad("w1", "ml", etag="old", descriptor_json='{"v":"old"}'))

    (record,) = store.workers()
    assert (record.token, record.descriptor_json) == ("ml", b'{"v":"old"}')


def test_a_probe_that_fails_by_our_own_mistake_leaves_the_probing_to_the_next_call(
    own_store: RedisStore, own_valkey: OwnValkey, breaker_clock: ManualClock
) -> None:
    own_valkey.stop()
    with pytest.raises(RegistryUnavailable):
        own_store.now_ms()
    own_valkey.start()
    breaker_clock.ms += 1_000
    with pytest.raises(AttributeError):
        own_store.block(need(), [None], lane=None)  # type: ignore[list-item]  # the mistake

    assert own_store.now_ms() > 0


def test_our_own_mistake_is_no_outage(own_store: RedisStore) -> None:
    """A caller's bad value must not blind the process to the fleet."""
    with pytest.raises(AttributeError):
        own_store.block(need(), [None], lane=None)  # type: ignore[list-item]  # the mistake

    assert own_store.available
    assert own_store.now_ms() > 0
