"""Open lanes: found by whoever consumes their base, and never retired under a publisher."""

from __future__ import annotations

import pytest

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.storage.base import FleetStore, OpenLane
from tests.contract.builders import ad, lane, messages, need
from tests.contract.harness import FakeClock

WEEKEND_MS = 3 * 24 * 3600 * 1000


def lanes_beside(store: FleetStore, *tokens: str) -> set[str]:
    return {found.name for found in store.look(dict.fromkeys(tokens), None).lanes or ()}


def test_a_lane_is_found_beside_its_own_base(store: FleetStore, peer: FleetStore) -> None:
    store.register_lane(lane("ml.need.a"))
    store.register_lane(lane("mail@davi.requires.gpu", "mail@davi", kind="requirement", actor=None))

    assert lanes_beside(peer, "ml") == {"ml.need.a"}
    assert lanes_beside(peer, "mail@davi") == {"mail@davi.requires.gpu"}
    assert lanes_beside(peer, "ml", "mail@davi", "else") == {"ml.need.a", "mail@davi.requires.gpu"}
    assert lanes_beside(peer, "else") == set()


def test_a_lane_comes_back_as_it_was_registered(store: FleetStore, peer: FleetStore) -> None:
    registered = OpenLane("ml.need.a", "ml", "need", ("gpu", "saga"), "train", "2", 3)
    store.register_lane(registered)

    assert peer.look({"ml": None}, None).lanes == (registered,)


def test_a_lane_registered_with_other_content_is_seen_as_changed(store: FleetStore) -> None:
    store.register_lane(lane(version="1"))
    epoch = store.look({"ml": None}, None).lanes_epoch

    store.register_lane(lane(version="2"))

    assert store.look({"ml": None}, epoch).lanes == (lane(version="2"),)


def test_a_lane_outlives_a_weekend_without_any_worker(store: FleetStore, clock: FakeClock) -> None:
    store.register_lane(lane())
    epoch = store.look({"ml": None}, None).lanes_epoch
    clock.advance(WEEKEND_MS)

    seen = store.look({"ml": None}, None)

    assert (seen.lanes, seen.lanes_epoch) == ((lane(),), epoch)


def test_a_retired_lane_is_gone_and_its_going_is_noticed(store: FleetStore, peer: FleetStore) -> None:
    store.register_lane(lane("ml.need.a"))
    store.register_lane(lane("ml.need.b"))
    epoch = store.look({"ml": None}, None).lanes_epoch

    assert peer.retire_lane("ml.need.a", quiet_ms=0) is True

    assert lanes_beside(store, "ml") == {"ml.need.b"}
    assert store.look({"ml": None}, epoch).lanes is not None


def test_a_lane_is_not_retired_while_somebody_may_be_publishing_to_it(
    store: FleetStore, clock: FakeClock
) -> None:
    store.register_lane(lane())
    clock.advance(4_999)
    assert store.retire_lane("ml.need.abc", quiet_ms=5_000) is False
    assert lanes_beside(store, "ml") == {"ml.need.abc"}

    store.register_lane(lane())
    clock.advance(4_999)
    assert store.retire_lane("ml.need.abc", quiet_ms=5_000) is False, "renewing starts the quiet time again"

    clock.advance(1)
    assert store.retire_lane("ml.need.abc", quiet_ms=5_000) is True
    assert lanes_beside(store, "ml") == set()


def test_a_lane_that_was_not_kept_open_changes_no_epoch(store: FleetStore) -> None:
    store.register_lane(lane())
    epoch = store.look({"ml": None}, None).lanes_epoch

    assert store.retire_lane("ml.need.abc", quiet_ms=5_000) is False

    assert store.look({"ml": None}, epoch).lanes is None


def test_retiring_a_lane_that_is_not_open_says_that_it_is_not_open(store: FleetStore) -> None:
    assert store.retire_lane("ml.need.never", quiet_ms=5_000) is True


def test_blocking_registers_the_lane_along(store: FleetStore, peer: FleetStore, clock: FakeClock) -> None:
    store.block(need(), messages("m1"), lane=lane())

    assert lanes_beside(peer, "ml") == {"ml.need.abc"}
    clock.advance(4_000)
    store.block(need(), messages("m2"), lane=lane())
    clock.advance(4_000)
    assert peer.retire_lane("ml.need.abc", quiet_ms=5_000) is False, "blocking renews it"


def test_lanes_are_no_business_of_beats(store: FleetStore) -> None:
    store.register_lane(lane())
    epoch = store.look({"ml": None}, None).lanes_epoch

    store.advertise(ad())
    store.withdraw("w1", ["ml"])

    assert store.look({"ml": None}, epoch).lanes is None


@pytest.mark.parametrize("name", ["ml", "other.need.abc", "mlx.requires.gpu"])
def test_a_lane_whose_name_belongs_to_another_base_is_refused(store: FleetStore, name: str) -> None:
    wrong = lane(name, "sound")

    with pytest.raises(ConfigurationError, match="sound"):
        store.register_lane(wrong)
    with pytest.raises(ConfigurationError, match="sound"):
        store.block(need(), messages("m1"), lane=wrong)

    assert store.blocked_needs() == ()
