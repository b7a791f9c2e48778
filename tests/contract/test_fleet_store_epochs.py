"""Epochs: a look tells what changed, and never misses a change."""

from __future__ import annotations

import pytest

from dramatiq_handshake.storage.base import SERVED_LATELY_MS, FleetStore, Mark, WorkerState
from tests.contract.builders import ad, lane, look_at
from tests.contract.harness import TTL_MS, FakeClock


def mark_of(store: FleetStore, token: str = "ml") -> Mark:
    mark = look_at(store, token).mark
    assert mark is not None
    return mark


def changed(store: FleetStore, mark: Mark | None, token: str = "ml") -> bool:
    return token in store.look({token: mark}, None).tokens


def test_an_unchanged_token_is_not_in_the_answer(store: FleetStore, peer: FleetStore) -> None:
    store.advertise(ad("w1", "ml", "mail"))
    known = {"ml": mark_of(store), "mail": mark_of(store, "mail")}

    assert peer.look(known, None).tokens == {}


def test_beats_of_a_known_class_change_nothing_however_many_workers_it_has(
    store: FleetStore, clock: FakeClock
) -> None:
    store.advertise(ad("w0"))
    mark = mark_of(store)

    for beat in range(3):
        clock.advance(10_000)
        for worker in range(10):
            store.advertise(ad(f"w{worker}", etag=f"etag-{worker}-{beat}"))

    assert not changed(store, mark)


def test_a_class_that_appears_changes_its_token_only(store: FleetStore) -> None:
    store.advertise(ad("w1", "ml", "mail"))
    ml, mail = mark_of(store, "ml"), mark_of(store, "mail")

    store.advertise(ad("w2", "ml", class_id="c2"))

    assert store.look({"ml": ml, "mail": mail}, None).tokens.keys() == {"ml"}


def test_a_class_whose_last_worker_withdraws_changes_its_token(store: FleetStore) -> None:
    store.advertise(ad("w1"))
    store.advertise(ad("w2"))
    mark = mark_of(store)

    store.withdraw("w1", ["ml"])
    assert not changed(store, mark)

    store.withdraw("w2", ["ml"])
    assert changed(store, mark)


def test_a_class_whose_last_worker_drains_changes_its_token(store: FleetStore) -> None:
    store.advertise(ad("w1"))
    mark = mark_of(store)

    store.advertise(ad("w1", state=WorkerState.DRAINING))

    assert changed(store, mark)


def test_a_dropped_token_changes_that_token_only(store: FleetStore) -> None:
    store.advertise(ad("w1", "ml", "mail"))
    known = {"ml": mark_of(store), "mail": mark_of(store, "mail")}

    store.advertise(ad("w1", "mail"))

    assert store.look(known, None).tokens.keys() == {"ml"}


def test_a_class_that_lapses_changes_its_token_though_nobody_writes(
    store: FleetStore, peer: FleetStore, clock: FakeClock
) -> None:
    store.advertise(ad("w1", class_id="c1"))
    clock.advance(10_000)
    store.advertise(ad("w2", class_id="c2"))
    mark = mark_of(store)

    clock.advance(TTL_MS - 10_000)

    assert changed(peer, mark)
    assert mark_of(peer) == Mark(mark.epoch, 1)


@pytest.mark.parametrize("others", [[], ["w2"]], ids=["alone", "among others"])
def test_a_class_that_lapsed_and_came_back_is_a_change(
    store: FleetStore, clock: FakeClock, others: list[str]
) -> None:
    """Else a reader that slept in between would take the new lease for the old one's."""
    for instance in ("w1", *others):
        store.advertise(ad(instance, class_id=f"of {instance}"))
    mark = mark_of(store)
    clock.advance(TTL_MS - 1_000)
    for instance in others:
        store.advertise(ad(instance, class_id=f"of {instance}"))
    clock.advance(2_000)

    store.advertise(ad("w1", class_id="of w1"))

    assert mark_of(store).classes == mark.classes
    assert changed(store, mark)


@pytest.mark.parametrize("brought_back_by", ["w1", "w2"])
def test_a_class_that_comes_back_after_the_clock_was_set_back_is_a_change(
    store: FleetStore, clock: FakeClock, brought_back_by: str
) -> None:
    store.advertise(ad("w1"))
    mark = mark_of(store)
    clock.set_back(3_600_000)

    store.advertise(ad(brought_back_by))

    assert mark_of(store).classes == mark.classes
    assert changed(store, mark)


def test_one_class_in_place_of_another_is_a_change_though_their_number_is_the_same(
    store: FleetStore, clock: FakeClock
) -> None:
    store.advertise(ad("w1", class_id="c1"))
    clock.advance(TTL_MS - 1_000)
    mark = mark_of(store)
    clock.advance(1_000)

    store.advertise(ad("w2", class_id="c2"))

    assert mark_of(store).classes == mark.classes
    assert changed(store, mark)


def test_a_token_that_nobody_ever_served_is_never_known(store: FleetStore) -> None:
    first = look_at(store)

    assert first.mark is None
    assert first.classes == ()
    assert changed(store, first.mark)
    assert changed(store, Mark("", 0))


def test_a_token_whose_fleet_is_gone_stays_known_while_it_counts_as_served(
    store: FleetStore, clock: FakeClock
) -> None:
    store.advertise(ad("w1"))
    clock.advance(TTL_MS)
    mark = mark_of(store)
    assert mark.classes == 0

    clock.advance(SERVED_LATELY_MS - TTL_MS - 60_000)
    assert not changed(store, mark)

    clock.advance(60_000)
    seen = look_at(store)
    assert (seen.mark, seen.served_lately) == (None, False)


def test_epochs_never_repeat(store: FleetStore) -> None:
    """They are compared for equality only, so one that came back would hide a change."""
    seen = set()
    for _ in range(20):
        store.advertise(ad("w1"))
        seen.add(mark_of(store).epoch)
        store.withdraw("w1", ["ml"])
        seen.add(mark_of(store).epoch)

    assert len(seen) == 40


def test_lanes_are_in_the_answer_only_when_their_epoch_moved(store: FleetStore, peer: FleetStore) -> None:
    store.register_lane(lane())
    first = peer.look({"ml": None}, None)
    assert first.lanes == (lane(),)

    assert peer.look({"ml": None}, first.lanes_epoch).lanes is None

    store.register_lane(lane())
    assert peer.look({"ml": None}, first.lanes_epoch).lanes is None, "renewed is not new"

    store.register_lane(lane("ml.need.def"))
    assert len(peer.look({"ml": None}, first.lanes_epoch).lanes or ()) == 2


def test_an_unknown_lanes_epoch_is_never_taken_for_known(store: FleetStore) -> None:
    seen = store.look({"ml": None}, None)

    assert (seen.lanes, seen.lanes_epoch) == ((), None)
    assert store.look({"ml": None}, "made up").lanes == ()


def test_a_look_at_no_token_tells_the_lanes_epoch(store: FleetStore) -> None:
    store.register_lane(lane())

    seen = store.look({}, None)

    assert seen.tokens == {}
    assert seen.lanes == ()
    assert seen.lanes_epoch is not None
