"""The blocked index: what is blocked, since when, and how much of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.storage.base import BlockedMessage, BlockedNeed, FleetStore, Released
from tests.contract.builders import messages, need
from tests.contract.harness import Deployment, FakeClock

WEEKEND_MS = 3 * 24 * 3600 * 1000


def listed(store: FleetStore, need_id: str = "n1", limit: int = 100) -> list[str]:
    """All message ids of a need, page by page."""
    ids, cursor = [], None
    while True:
        page = store.blocked_messages(need_id, cursor=cursor, limit=limit)
        ids += [message.message_id for message in page.messages]
        cursor = page.next_cursor
        if cursor is None:
            return ids


def counts(store: FleetStore) -> dict[str, int]:
    return {blocked.need_id: blocked.messages for blocked in store.blocked_needs()}


def test_a_blocked_message_is_listed_under_its_need(
    store: FleetStore, peer: FleetStore, clock: FakeClock
) -> None:
    store.block(need(), [BlockedMessage("m1", "n1", broker_ref="r1", traceparent="00-ab-cd-01")], lane=None)

    assert peer.blocked_needs() == (replace(need(), messages=1, since_ms=clock()),)
    expected = BlockedMessage("m1", "n1", broker_ref="r1", since_ms=clock(), traceparent="00-ab-cd-01")
    assert peer.blocked_messages("n1").messages == (expected,)
    assert peer.blocked_message("m1") == expected


def test_a_need_survives_the_registry_whatever_its_fields_hold(store: FleetStore) -> None:
    odd = BlockedNeed(
        "n1",
        queue="ml",
        actor=None,
        version=None,
        requires=(),
        protocol=2,
        place="ml",
        code="protocol.incompatible",
        reason='ünïcode "quoted"\nsecond line \ud83d',
        detail='{"nested":{"a":[1,2]}}',
    )
    store.block(odd, messages("m1"), lane=None)

    (read,) = store.blocked_needs()

    assert replace(read, messages=0, since_ms=0) == odd


def test_the_index_outlives_a_weekend(store: FleetStore, clock: FakeClock) -> None:
    since = clock()
    store.block(need(), messages("m1"), lane=None)
    clock.advance(WEEKEND_MS)

    (blocked,) = store.blocked_needs()

    assert (blocked.messages, blocked.since_ms) == (1, since)
    assert listed(store) == ["m1"]


def test_needs_come_longest_blocked_first(store: FleetStore, clock: FakeClock) -> None:
    for need_id in ("second", "first", "third"):
        store.block(need(need_id), messages(f"m-{need_id}"), lane=None)
        clock.advance(1_000)
    store.block(need("first"), messages("late"), lane=None)

    assert [blocked.need_id for blocked in store.blocked_needs()] == ["second", "first", "third"]


def test_a_newer_reason_replaces_the_former_one(store: FleetStore, clock: FakeClock) -> None:
    since = clock()
    store.block(need(), messages("m1"), lane=None)
    clock.advance(1_000)

    newer = need(reason="nobody speaks protocol 1", code="protocol.incompatible", detail="[]")
    store.block(newer, messages("m2"), lane=None)

    assert store.blocked_needs() == (replace(newer, messages=2, since_ms=since),)


def test_what_a_caller_says_of_counts_and_times_is_not_believed(store: FleetStore, clock: FakeClock) -> None:
    store.block(need(messages=99, since_ms=5), [BlockedMessage("m1", "another", since_ms=7)], lane=None)

    (blocked,) = store.blocked_needs()
    assert (blocked.messages, blocked.since_ms) == (1, clock())
    assert store.blocked_message("m1") == BlockedMessage("m1", "n1", since_ms=clock())


def test_a_message_that_is_already_listed_stays_as_it_was(store: FleetStore, clock: FakeClock) -> None:
    store.block(need(), messages("m1", "m1"), lane=None)
    was = store.blocked_message("m1")
    clock.advance(1_000)

    store.block(need(), [BlockedMessage("m1", "n1", broker_ref="elsewhere")], lane=None)
    store.block(need("n2"), messages("m1", need_id="n2"), lane=None)

    assert store.blocked_message("m1") == was
    assert counts(store) == {"n1": 1}


def test_blocking_nothing_lists_no_need(store: FleetStore) -> None:
    store.block(need(), [], lane=None)

    assert store.blocked_needs() == ()


def test_a_released_message_is_gone(store: FleetStore, peer: FleetStore) -> None:
    store.block(need(), messages("m1", "m2", "m3"), lane=None)

    assert peer.release({"n1": ["m2"]}) == ()

    assert counts(store) == {"n1": 2}
    assert listed(store) == ["m1", "m3"]
    assert store.blocked_message("m2") is None


def test_a_need_is_as_old_as_its_oldest_remaining_message(store: FleetStore, clock: FakeClock) -> None:
    store.block(need(), messages("m1"), lane=None)
    clock.advance(5_000)
    store.block(need(), messages("m2"), lane=None)
    clock.advance(5_000)
    store.block(need(), messages("m3"), lane=None)

    store.release({"n1": ["m1"]})
    assert [blocked.since_ms for blocked in store.blocked_needs()] == [clock() - 5_000]

    store.release({"n1": ["m3"]})
    assert [blocked.since_ms for blocked in store.blocked_needs()] == [clock() - 5_000]


def test_the_release_of_the_last_message_tells_how_many_passed_and_for_how_long(
    store: FleetStore, clock: FakeClock
) -> None:
    since = clock()
    store.block(need(), messages("m1", "m2"), lane=None)
    clock.advance(60_000)
    store.block(need(reason="newer"), messages("m3"), lane=None)
    assert store.release({"n1": ["m1", "m2"]}) == ()
    clock.advance(1_000)

    released = store.release({"n1": ["m3"]})

    assert released == (
        Released(replace(need(reason="newer"), since_ms=since), messages=3, blocked_ms=61_000),
    )
    assert store.blocked_needs() == ()
    assert listed(store) == []


def test_a_need_that_was_released_starts_anew(store: FleetStore, clock: FakeClock) -> None:
    store.block(need(), messages("m1"), lane=None)
    store.release({"n1": ["m1"]})
    clock.advance(5_000)
    store.block(need(), messages("m1"), lane=None)
    clock.advance(2_000)

    (released,) = store.release({"n1": ["m1"]})

    assert (released.messages, released.blocked_ms) == (1, 2_000)


def test_several_needs_are_released_at_once(store: FleetStore) -> None:
    for need_id in ("a", "b", "c"):
        store.block(need(need_id), messages(f"{need_id}1", f"{need_id}2", need_id=need_id), lane=None)

    released = store.release({"a": ["a1", "a2"], "b": ["b1"], "c": ["c2", "c1"], "unheard of": ["x"]})

    assert {done.need.need_id for done in released} == {"a", "c"}
    assert counts(store) == {"b": 1}
    assert store.release({}) == ()


def test_a_message_is_not_released_under_a_need_that_is_not_its_own(store: FleetStore) -> None:
    store.block(need("a"), messages("m1", need_id="a"), lane=None)
    store.block(need("b"), messages("m2", need_id="b"), lane=None)

    assert store.release({"b": ["m1"]}) == ()

    assert counts(store) == {"a": 1, "b": 1}
    assert store.blocked_message("m1") is not None


def test_an_unknown_id_changes_nothing_where_everything_is_listed(store: FleetStore) -> None:
    store.block(need(), messages("m1"), lane=None)

    assert store.release({"n1": ["unknown"]}) == ()

    assert counts(store) == {"n1": 1}


def test_messages_beyond_the_cap_are_counted_but_not_listed(deployment: Deployment) -> None:
    store = deployment.open(listed_max=3)
    store.block(need(), messages("m1", "m2"), lane=None)
    store.block(need(), messages("m3", "m4", "m5"), lane=None)

    assert counts(store) == {"n1": 5}
    assert listed(store) == ["m1", "m2", "m3"]
    assert store.blocked_message("m4") is None


def test_the_cap_is_each_needs_own(deployment: Deployment) -> None:
    store = deployment.open(listed_max=2)
    store.block(need("a"), messages("a1", "a2", "a3", need_id="a"), lane=None)
    store.block(need("b"), messages("b1", "b2", need_id="b"), lane=None)

    assert listed(store, "b") == ["b1", "b2"]


def test_unknown_ids_count_against_what_is_beyond_the_cap(deployment: Deployment) -> None:
    store = deployment.open(listed_max=2)
    store.block(need(), messages("m1", "m2", "m3", "m4"), lane=None)

    assert store.release({"n1": ["m4"]}) == ()
    assert counts(store) == {"n1": 3}
    assert store.release({"n1": ["m1", "m2"]}) == ()
    assert counts(store) == {"n1": 1}

    (released,) = store.release({"n1": ["m3"]})

    assert released.messages == 4


def test_a_need_with_only_uncounted_messages_left_lists_new_ones_again(
    deployment: Deployment, clock: FakeClock
) -> None:
    store = deployment.open(listed_max=1)
    since = clock()
    store.block(need(), messages("m1", "m2"), lane=None)
    store.release({"n1": ["m1"]})
    assert [blocked.since_ms for blocked in store.blocked_needs()] == [since]
    clock.advance(1_000)

    store.block(need(), messages("m3"), lane=None)

    assert counts(store) == {"n1": 2}
    assert listed(store) == ["m3"]
    assert [blocked.since_ms for blocked in store.blocked_needs()] == [since]


@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_pages_list_every_message_once_oldest_first(store: FleetStore, clock: FakeClock, limit: int) -> None:
    """Also where many were blocked in the same millisecond, and where the clock was set back."""
    ids = [f"m{number:02}" for number in range(40)]
    store.block(need(), messages(*ids[:25]), lane=None)
    clock.set_back(60_000)
    store.block(need(), messages(*ids[25:]), lane=None)

    assert listed(store, limit=limit) == ids


def test_a_page_goes_on_where_the_last_one_ended_whatever_left_or_came_meanwhile(
    store: FleetStore,
) -> None:
    store.block(need(), messages(*(f"m{number}" for number in range(6))), lane=None)
    first = store.blocked_messages("n1", limit=3)
    store.release({"n1": ["m0", "m2", "m3"]})
    store.block(need(), messages("m6"), lane=None)

    second = store.blocked_messages("n1", cursor=first.next_cursor, limit=3)

    assert [message.message_id for message in second.messages] == ["m4", "m5", "m6"]
    assert second.next_cursor is None


def test_a_page_is_never_larger_than_a_thousand(store: FleetStore) -> None:
    store.block(need(), messages(*(f"m{number}" for number in range(1_200))), lane=None)

    page = store.blocked_messages("n1", limit=50_000)

    assert len(page.messages) == 1_000
    assert len(listed(store, limit=50_000)) == 1_200


def test_a_need_without_messages_has_one_empty_page(store: FleetStore) -> None:
    page = store.blocked_messages("unheard of")

    assert (page.messages, page.next_cursor) == ((), None)


@pytest.mark.parametrize("cursor", ["", "abc", "-1", "1.5", "٣", "9" * 40])
def test_a_made_up_cursor_is_refused_in_words(store: FleetStore, cursor: str) -> None:
    with pytest.raises(ConfigurationError, match="next_cursor"):
        store.blocked_messages("n1", cursor=cursor)


def test_many_messages_are_released_in_one_call(store: FleetStore) -> None:
    ids = [f"m{number}" for number in range(1_300)]
    store.block(need(), messages(*ids), lane=None)
    assert counts(store) == {"n1": 1_300}

    (released,) = store.release({"n1": ids})

    assert released.messages == 1_300
    assert store.blocked_needs() == ()
