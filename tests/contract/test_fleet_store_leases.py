"""Leases: who is live, until when, by whose clock."""

from __future__ import annotations

from dramatiq_handshake.storage.base import SERVED_LATELY_MS, FleetStore, WorkerState
from dramatiq_handshake.wire.heartbeat import read_heartbeat
from tests.contract.builders import ad, classes_on, look_at
from tests.contract.harness import TTL_MS, Deployment, FakeClock


def live(store: FleetStore) -> set[tuple[str, str]]:
    return {(record.token, record.instance_id) for record in store.workers()}


def test_an_advertised_worker_is_live_on_each_of_its_tokens(store: FleetStore, peer: FleetStore) -> None:
    store.advertise(ad("w1", "ml", "mail@davi"))

    assert live(peer) == {("ml", "w1"), ("mail@davi", "w1")}
    assert classes_on(peer, "ml") == classes_on(peer, "mail@davi") == {"c1"}


def test_a_worker_lives_as_long_as_it_beats_and_no_longer_than_its_lease(
    store: FleetStore, clock: FakeClock
) -> None:
    store.advertise(ad())
    for _ in range(5):
        clock.advance(TTL_MS - 1_000)
        store.advertise(ad())
        assert live(store) == {("ml", "w1")}

    clock.advance(TTL_MS)

    assert live(store) == set()
    assert classes_on(store) == set()


def test_lapsed_workers_are_gone_without_anybody_writing(
    store: FleetStore, peer: FleetStore, clock: FakeClock
) -> None:
    store.advertise(ad("w1", class_id="old"))
    clock.advance(TTL_MS - 5_000)
    store.advertise(ad("w2", class_id="new"))
    clock.advance(5_000)

    assert live(peer) == {("ml", "w2")}
    assert classes_on(peer) == {"new"}


def test_a_look_says_for_how_long_each_class_is_still_live(store: FleetStore, clock: FakeClock) -> None:
    store.advertise(ad("w1"))
    clock.advance(10_000)
    store.advertise(ad("w2", class_id="c2"))
    clock.advance(5_000)

    remaining = {presence.class_id: presence.remaining_ms for presence in look_at(store).classes}

    assert remaining == {"c1": TTL_MS - 15_000, "c2": TTL_MS - 5_000}


def test_a_class_is_live_as_long_as_its_longest_lived_worker(store: FleetStore, clock: FakeClock) -> None:
    store.advertise(ad("w1"))
    clock.advance(20_000)
    store.advertise(ad("w2"))
    clock.advance(20_000)

    assert live(store) == {("ml", "w2")}
    assert [presence.remaining_ms for presence in look_at(store).classes] == [TTL_MS - 20_000]


def test_when_its_longest_lived_worker_withdraws_a_class_lives_as_long_as_the_others(
    store: FleetStore, peer: FleetStore, clock: FakeClock
) -> None:
    store.advertise(ad("w1"))
    clock.advance(10_000)
    store.advertise(ad("w2"))
    clock.advance(10_000)
    store.advertise(ad("w3"))
    store.advertise(ad("other", class_id="c2"))

    peer.withdraw("w3", ["ml"])

    remaining = {presence.class_id: presence.remaining_ms for presence in look_at(store).classes}
    assert remaining == {"c1": TTL_MS - 10_000, "c2": TTL_MS}


def test_withdrawing_a_shorter_lived_worker_changes_nothing_for_its_class(
    store: FleetStore, clock: FakeClock
) -> None:
    store.advertise(ad("w1"))
    clock.advance(10_000)
    store.advertise(ad("w2"))
    before = look_at(store)

    store.withdraw("w1", ["ml"])

    assert look_at(store) == before
    assert live(store) == {("ml", "w2")}


def test_withdrawing_takes_a_worker_off_the_named_tokens_only(store: FleetStore) -> None:
    store.advertise(ad("w1", "ml", "mail"))

    store.withdraw("w1", ["ml"])

    assert live(store) == {("mail", "w1")}
    assert classes_on(store, "ml") == set()
    assert classes_on(store, "mail") == {"c1"}
    assert {record.token for record in store.scan_advertisements()} == {"mail"}


def test_withdrawing_what_was_never_advertised_is_no_mistake(store: FleetStore) -> None:
    store.advertise(ad())

    store.withdraw("nobody", ["ml", "elsewhere"])
    store.withdraw("w1", [])

    assert live(store) == {("ml", "w1")}


def test_a_beat_withdraws_the_tokens_that_are_no_longer_advertised(store: FleetStore) -> None:
    store.advertise(ad("w1", "ml", "mail"))

    store.advertise(ad("w1", "mail", "new"))

    assert live(store) == {("mail", "w1"), ("new", "w1")}
    assert classes_on(store, "ml") == set()
    assert {record.token for record in store.scan_advertisements()} == {"mail", "new"}


def test_a_worker_may_advertise_no_token_at_all(store: FleetStore) -> None:
    """Where every consumer stalls, the worker takes its last token off and comes back later."""
    store.advertise(ad("w1", "ml", broker_id="b1"))

    store.advertise(ad("w1", "ml", broker_id="b1", tokens=()))
    assert live(store) == set()
    assert store.unclaimed(["b1"]) == frozenset()

    store.advertise(ad("w1", "ml"))
    assert live(store) == {("ml", "w1")}


def test_a_draining_worker_is_listed_but_no_longer_counts(store: FleetStore) -> None:
    store.advertise(ad("w1"))
    store.advertise(ad("w1", state=WorkerState.DRAINING))

    assert classes_on(store) == set()
    assert look_at(store).served_lately
    (record,) = store.workers()
    assert read_heartbeat(record.heartbeat).state == "draining"


def test_every_state_but_up_takes_a_worker_out_of_its_class(store: FleetStore) -> None:
    for state in WorkerState:
        store.advertise(ad("w1", state=state))
        assert classes_on(store) == ({"c1"} if state is WorkerState.UP else set())


def test_a_worker_that_changes_class_leaves_the_former_one(store: FleetStore, clock: FakeClock) -> None:
    store.advertise(ad("w1", class_id="cpu"))
    store.advertise(ad("w2", class_id="cpu"))
    clock.advance(1_000)

    store.advertise(ad("w1", class_id="gpu"))

    remaining = {presence.class_id: presence.remaining_ms for presence in look_at(store).classes}
    assert remaining == {"cpu": TTL_MS - 1_000, "gpu": TTL_MS}

    store.advertise(ad("w2", class_id="gpu"))
    assert classes_on(store) == {"gpu"}


def test_a_lease_beyond_now_plus_ttl_counts_as_lapsed(store: FleetStore, clock: FakeClock) -> None:
    """After a failover to a server whose clock is behind, nobody knows how old such a lease is."""
    store.advertise(ad("w1"))
    clock.set_back(TTL_MS + 1_000)

    assert live(store) == set()
    assert classes_on(store) == set()

    store.advertise(ad("w2", class_id="c2"))
    assert live(store) == {("ml", "w2")}
    assert classes_on(store) == {"c2"}


def test_a_beat_after_the_clock_was_set_back_brings_the_worker_back(
    store: FleetStore, clock: FakeClock
) -> None:
    store.advertise(ad("w1"))
    store.advertise(ad("dead", class_id="c2"))
    clock.set_back(3_600_000)

    store.advertise(ad("w1"))

    assert live(store) == {("ml", "w1")}
    (presence,) = look_at(store).classes
    assert (presence.class_id, presence.remaining_ms) == ("c1", TTL_MS)

    for _ in range(120):
        clock.advance(30_000)
        store.advertise(ad("w1"))
    assert classes_on(store) == {"c1"}, "what was stamped before the correction must not come back to life"
    assert live(store) == {("ml", "w1")}


def test_an_advertisement_carries_heartbeat_descriptor_and_broker(
    store: FleetStore, peer: FleetStore
) -> None:
    advertised = ad("w1", threads=8, in_flight=3)
    store.advertise(advertised)

    (record,) = peer.workers()

    beat = read_heartbeat(record.heartbeat)
    assert (record.token, record.instance_id, record.broker) == ("ml", "w1", "broker-1")
    assert record.descriptor_json == advertised.descriptor_json.encode()
    assert (beat.state, beat.descriptor_hash, beat.threads, beat.in_flight) == ("up", "etag-c1", 8, 3)
    assert (record.indexed, record.remaining_ms) == (True, TTL_MS)


def test_the_heartbeat_tells_the_callers_time(store: FleetStore, clock: FakeClock) -> None:
    store.advertise(ad("w1"))
    clock.advance(10_000)
    store.advertise(ad("w1"))

    (record,) = store.workers()

    assert read_heartbeat(record.heartbeat).last_beat_at == clock()


def test_a_new_descriptor_replaces_the_former_one_on_every_token(store: FleetStore) -> None:
    store.advertise(ad("w1", "ml", "mail", etag="1", descriptor_json='{"v":1}'))

    store.advertise(ad("w1", "ml", "mail", etag="2", descriptor_json='{"v":2}'))

    assert {record.descriptor_json for record in store.workers()} == {b'{"v":2}'}


def test_a_vanished_descriptor_is_written_again_by_the_next_beat(
    store: FleetStore, deployment: Deployment
) -> None:
    store.advertise(ad("w1", "ml", "mail"))
    deployment.lose("ml", "w1", descriptor=True)
    assert [record.descriptor_json is None for record in store.workers()] == [False, True]

    store.advertise(ad("w1", "ml", "mail"))

    assert all(record.descriptor_json for record in store.workers())


def test_the_body_of_a_class_can_be_read_while_it_is_live(
    store: FleetStore, peer: FleetStore, clock: FakeClock
) -> None:
    store.advertise(ad("w1", class_id="c1"))
    store.advertise(ad("w2", class_id="c2"))
    for _ in range(4):
        clock.advance(TTL_MS - 1_000)
        store.advertise(ad("w1", class_id="c1"))

    assert peer.class_bodies(["c1", "c2", "never"]) == {"c1": '{"class":"c1"}'}
    assert peer.class_bodies([]) == {}


def test_a_class_seen_in_its_last_moment_can_still_be_read(store: FleetStore, clock: FakeClock) -> None:
    store.advertise(ad("w1"))
    clock.advance(TTL_MS + 1_000)

    assert "c1" in store.class_bodies(["c1"])


def test_a_token_is_remembered_as_served_for_a_week(store: FleetStore, clock: FakeClock) -> None:
    assert not look_at(store).served_lately
    store.advertise(ad())
    store.withdraw("w1", ["ml"])

    clock.advance(SERVED_LATELY_MS - 60_000)
    assert look_at(store).served_lately

    clock.advance(60_000)
    assert not look_at(store).served_lately


def test_the_store_tells_the_servers_time(store: FleetStore, clock: FakeClock) -> None:
    clock.advance(12_345)

    assert store.now_ms() == clock()


def test_a_store_may_be_used_again_after_it_was_closed(store: FleetStore) -> None:
    store.advertise(ad())
    store.close()

    assert live(store) == {("ml", "w1")}
