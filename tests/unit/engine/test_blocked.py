"""The blocked report: every message with its exact delta, paged, grouped and scoped."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dramatiq_handshake.decide.candidate import Candidate
from dramatiq_handshake.decide.need import Need
from dramatiq_handshake.decide.plan import FleetSnapshot, plan_dispatch
from dramatiq_handshake.engine import BlockedReport, HandshakeEngine, LackReport, NearestWorker
from dramatiq_handshake.engine.blocked import MAX_LIMIT
from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.storage import MemoryStore
from dramatiq_handshake.storage.base import BlockedMessage, BlockedNeed
from tests.support.advertising import Clock, our_descriptor


def need(need_id: str = "n1", **changes: object) -> BlockedNeed:
    """A need as the gate hands it to the registry."""
    base = BlockedNeed(
        need_id=need_id,
        queue="ml",
        actor="train",
        version="2",
        requires=("gpu",),
        protocol=1,
        place=f"ml.need.{need_id}",
        code="capability.unavailable",
        reason="blocked: no compatible worker (requires gpu)",
        broker="broker-1",
    )
    return replace(base, **changes)  # type: ignore[arg-type]  # by name


def block(store: MemoryStore, blocked: BlockedNeed, *ids: str) -> None:
    """List messages as blocked."""
    store.block(
        blocked,
        [BlockedMessage(message_id, blocked.need_id, traceparent=f"00-{message_id}") for message_id in ids],
        lane=None,
    )


def ids_of(report: BlockedReport) -> list[str]:
    """The ids of the listed messages, in order."""
    return [message.message_id for message in report]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(now_ms=clock)


def test_a_message_tells_why_since_when_and_who_came_nearest(store: MemoryStore, clock: Clock) -> None:
    """From the plan as it was made to the report: nothing of the delta gets lost."""
    wanted = Need("ml", "train", "2", frozenset({"gpu", "saga"}))
    near = Candidate("class-7", capabilities=frozenset({"saga"}), announced={"train": frozenset({"2"})})
    far = Candidate("class-9", capabilities=frozenset(), announced={})
    control_plane = our_descriptor("cp")
    plan = plan_dispatch(wanted, FleetSnapshot("ml", (far, near)), control_plane)
    assert plan.code is not None
    blocked = need(
        wanted.id,
        requires=("gpu", "saga"),
        place=plan.place.queue,
        code=str(plan.code),
        reason=plan.reason,
        detail=json.dumps(plan.detail()),
    )
    since_ms = clock.now_ms
    block(store, blocked, "m1", "m2")
    clock.advance(90_000)
    report = HandshakeEngine(store=store).blocked()
    message = report.messages[0]
    assert message.model_dump() == {
        "need_id": wanted.id,
        "queue": "ml",
        "actor": "train",
        "version": "2",
        "requires": ("gpu", "saga"),
        "code": "capability.unavailable",
        "reason": plan.reason,
        "missing": ("gpu",),
        "nearest": NearestWorker(
            worker="class-7", lacks=(LackReport(kind="capability", wanted="gpu", reason="lacks gpu"),)
        ).model_dump(),
        "place": "ml.requires.gpu.saga",
        "since_ms": since_ms,
        "age_ms": 90_000,
        "message_id": "m1",
        "traceparent": "00-m1",
    }
    (group,) = report.needs
    assert (group.messages, group.since_ms, group.age_ms, group.broker) == (2, since_ms, 90_000, "broker-1")
    assert group.detail["controlPlane"]["instanceId"] == "cp"
    assert report.summary == (
        "2 message(s) blocked for 1 need(s), the oldest for 1 min 30 s:\n"
        f"  2 for train version 2 on ml, kept in ml.requires.gpu.saga for 1 min 30 s: {plan.reason}; "
        "nearest: worker class-7 lacks gpu"
    )
    assert str(report) == report.summary


def test_nothing_blocked_is_said_in_words(store: MemoryStore) -> None:
    report = HandshakeEngine(store=store).blocked()
    assert (list(report), report.total, report.summary) == ([], 0, "Nothing is blocked.")
    assert report


def test_needs_come_longest_blocked_first_and_their_messages_oldest_first(
    store: MemoryStore, clock: Clock
) -> None:
    for number, (need_id, message) in enumerate([("b", "1"), ("a", "2"), ("b", "3"), ("c", "4")]):
        clock.advance(number)
        block(store, need(need_id), message)
    report = HandshakeEngine(store=store).blocked()
    assert [group.need_id for group in report.needs] == ["b", "a", "c"]
    assert ids_of(report) == ["1", "3", "2", "4"]
    assert report.total == 4


def test_the_groups_count_what_is_beyond_the_cap() -> None:
    store = MemoryStore(listed_max=2)
    block(store, need(), *"abcde")
    report = HandshakeEngine(store=store).blocked()
    assert (ids_of(report), report.needs[0].messages, report.total) == (["a", "b"], 5, 5)
    assert report.next_cursor is None


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, ["1", "2", "3"]),
        ({"queue": "ml"}, ["1", "2"]),
        ({"actor": "sum"}, ["2", "3"]),
        ({"queue": "ml", "actor": "sum"}, ["2"]),
        ({"need_id": "c"}, ["3"]),
        ({"actor": "nobody"}, []),
    ],
)
def test_a_report_is_about_what_was_asked(
    store: MemoryStore, asked: dict[str, str], found: list[str]
) -> None:
    block(store, need("a"), "1")
    block(store, need("b", actor="sum"), "2")
    block(store, need("c", queue="cpu", actor="sum"), "3")
    report = HandshakeEngine(store=store).blocked(**asked)
    assert (ids_of(report), report.total, len(report.needs)) == (found, len(found), len(found))


@pytest.mark.parametrize(
    ("namespace", "broker", "found"),
    [
        (None, "", ["1", "2", "3", "4"]),
        ("a", "", ["2"]),
        ("default", "", ["1", "3", "4"]),
        (None, "broker-1", ["1", "2", "4"]),
        (None, "broker-2", ["3", "4"]),
    ],
)
def test_other_tenants_and_brokers_are_not_shown(
    store: MemoryStore, namespace: str | None, broker: str, found: list[str]
) -> None:
    block(store, need("a"), "1")
    block(store, need("b", queue="ml@a"), "2")
    block(store, need("c", broker="broker-2"), "3")
    block(store, need("d", broker=""), "4")
    engine = HandshakeEngine(store=store, namespace=namespace, broker=broker)
    assert ids_of(engine.blocked()) == found


@given(
    sizes=st.lists(st.integers(min_value=1, max_value=5), min_size=1, max_size=4),
    limit=st.integers(min_value=1, max_value=7),
)
def test_pages_of_any_size_give_every_message_once_in_order(sizes: list[int], limit: int) -> None:
    clock = Clock()
    store = MemoryStore(now_ms=clock)
    for number, size in enumerate(sizes):
        clock.advance(1)
        block(store, need(f"n{number}"), *(f"{number}.{message}" for message in range(size)))
    engine = HandshakeEngine(store=store)
    everything = ids_of(engine.blocked())
    listed: list[str] = []
    cursor = None
    while True:
        page = engine.blocked(limit=limit, cursor=cursor)
        assert len(page) == min(limit, len(everything) - len(listed))
        assert page.total == len(everything)
        listed += ids_of(page)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert listed == everything


@given(st.integers(min_value=0))
def test_what_stays_blocked_is_listed_whatever_leaves_between_two_pages(seed: int) -> None:
    random = Random(seed)
    clock = Clock()
    store = MemoryStore(now_ms=clock)
    blocked = {}
    for number in range(9):
        clock.advance(1)
        need_id = random.choice("abc")
        block(store, need(need_id), f"m{number}")
        blocked[f"m{number}"] = need_id
    engine = HandshakeEngine(store=store)
    listed: set[str] = set()
    cursor = None
    while True:
        page = engine.blocked(limit=2, cursor=cursor)
        listed |= set(ids_of(page))
        cursor = page.next_cursor
        if cursor is None:
            break
        for message in random.sample(sorted(blocked), min(len(blocked), random.randint(0, 2))):
            store.release({blocked.pop(message): [message]})
    assert set(blocked) <= listed


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_a_need_whose_oldest_messages_leave_does_not_make_the_walk_skip_another(
    store: MemoryStore, clock: Clock, limit: int
) -> None:
    """The need in hand moves behind those that follow; they are listed all the same."""
    for message, need_id in (("1", "a"), ("2", "b"), ("3", "a"), ("4", "a")):
        clock.advance(1)
        block(store, need(need_id), message)
    engine = HandshakeEngine(store=store)
    listed, cursor = [], engine.blocked(limit=1).next_cursor
    store.release({"a": ["1"]})
    while cursor is not None:
        page = engine.blocked(limit=limit, cursor=cursor)
        assert len(set(ids_of(page))) == len(page)
        listed, cursor = listed + ids_of(page), page.next_cursor
    assert "2" in listed


def test_a_limit_of_zero_gives_groups_and_a_place_to_begin(store: MemoryStore, clock: Clock) -> None:
    for message in "12":
        block(store, need(f"n{message}"), message)
        clock.advance(1)
    engine = HandshakeEngine(store=store)
    counts = engine.blocked(limit=0)
    assert (ids_of(counts), counts.total) == ([], 2)
    assert ids_of(engine.blocked(cursor=counts.next_cursor)) == ["1", "2"]


def test_a_page_may_end_with_a_need(store: MemoryStore, clock: Clock) -> None:
    for message in "123":
        block(store, need(f"n{message}"), message)
        clock.advance(1)
    engine = HandshakeEngine(store=store)
    first = engine.blocked(limit=1)
    store.release({"n1": ["1"], "n2": ["2"]})
    assert ids_of(engine.blocked(cursor=first.next_cursor)) == ["3"]


@pytest.mark.parametrize("limit", [-1, MAX_LIMIT + 1, True, 2.0, "5", None])
def test_a_limit_out_of_bounds_is_refused(store: MemoryStore, limit: object) -> None:
    with pytest.raises(ConfigurationError, match="expected a number from 0 to 10000"):
        HandshakeEngine(store=store).blocked(limit=limit)  # type: ignore[arg-type]  # what the test is about


KEYS = st.sampled_from(["workers", "missingCapabilities", "id", "lacks", "kind", "wanted", "reason", "other"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


#: A cursor holds three things; the examples below have three wrong ones.
NO_CURSOR = JSON.filter(lambda value: not isinstance(value, list) or len(value) != 3)


def as_cursor(value: object) -> str:
    """A value in the clothes of a cursor."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@given(st.one_of(st.text(), st.integers(), NO_CURSOR.map(as_cursor)))
@example(as_cursor([1, 2, None]))
@example(as_cursor([True, "n1", None]))
@example(as_cursor([1, "n1", 5]))
def test_a_cursor_of_somebody_else_is_refused(cursor: object) -> None:
    store = MemoryStore()
    block(store, need(), "1")
    with pytest.raises(ConfigurationError, match="expected the next_cursor of an earlier report"):
        HandshakeEngine(store=store).blocked(cursor=cursor)  # type: ignore[arg-type]  # what the test is about


@given(st.one_of(st.text(), JSON.map(json.dumps), st.just("[" * 100_000)))
def test_a_delta_that_another_release_wrote_does_not_break_the_report(detail: str) -> None:
    store = MemoryStore()
    block(store, need(detail=detail), "1")
    report = HandshakeEngine(store=store).blocked()
    assert ids_of(report) == ["1"]
    assert json.loads(report.to_json())["needs"][0]["reason"] == need().reason
    assert report.summary


def test_the_json_of_a_blocked_report_keeps_its_field_names(store: MemoryStore) -> None:
    detail = {"workers": [{"id": "c", "lacks": [{"kind": "actor", "wanted": "a", "reason": "lacks a"}]}]}
    block(store, need(detail=json.dumps(detail)), "1")
    answer = json.loads(HandshakeEngine(store=store).blocked().to_json())
    shared = {
        *("need_id", "queue", "actor", "version", "requires", "code", "reason", "missing", "nearest"),
        *("place", "since_ms", "age_ms"),
    }
    assert set(answer) == {"supported", "needs", "messages", "total", "limit", "next_cursor", "unlisted"}
    assert set(answer["messages"][0]) == shared | {"message_id", "traceparent"}
    assert set(answer["needs"][0]) == shared | {"messages", "protocol", "broker", "detail"}
    assert set(answer["messages"][0]["nearest"]) == {"worker", "lacks"}
    assert set(answer["messages"][0]["nearest"]["lacks"][0]) == {"kind", "wanted", "reason"}
