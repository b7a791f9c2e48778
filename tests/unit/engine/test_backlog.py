"""What is left in queues and lanes that no live worker takes from, and that no entry lists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from dramatiq_handshake.decide.classes import class_of
from dramatiq_handshake.decide.directory import PlainConsumers
from dramatiq_handshake.decide.need import Need, PlaceKind, need_lane, requirement_lane
from dramatiq_handshake.engine import BlockedReport, HandshakeEngine
from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.storage import FleetStore, MemoryStore
from dramatiq_handshake.storage.base import Advertisement, BlockedMessage, BlockedNeed, OpenLane, WorkerState
from dramatiq_handshake.wire.descriptor import Sdk
from tests.support.advertising import our_descriptor
from tests.support.dispatching import WatchedStore, worker_up

TRAIN = Need("ml", "train", "2", frozenset({"gpu"}))
GPU_LANE = requirement_lane("ml", frozenset({"gpu", "saga"}))
TRAIN_LANE = need_lane(TRAIN)


class Queues:
    """A broker that holds so many messages, and counts how often it is asked."""

    def __init__(self, **depths: int) -> None:
        self.held: dict[str, int] = dict(depths)
        self.asked: list[Sequence[str]] = []

    def queues(self) -> Sequence[str]:
        return [name for name in self.held if "." not in name]

    def depths(self, queues: Sequence[str]) -> Sequence[int]:
        self.asked.append(tuple(queues))
        return [self.held.get(queue, 0) for queue in queues]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def served_lately(store: FleetStore, *queues: str) -> None:
    """A worker was there, and has left."""
    for queue in queues:
        worker_up(store, queue=queue, instance="former")
        store.withdraw("former", [queue])


def open_lanes(store: FleetStore) -> None:
    """A requirement lane and a need lane beside ``ml``."""
    store.register_lane(OpenLane(GPU_LANE, "ml", PlaceKind.REQUIREMENT.value, ("gpu", "saga")))
    store.register_lane(OpenLane(TRAIN_LANE, "ml", PlaceKind.NEED.value, ("gpu",), "train", "2"))


def asked(store: FleetStore, queues: Queues, /, **options: Any) -> BlockedReport:
    """The report of an engine with this broker."""
    return HandshakeEngine(store=store, broker="here", broker_queues=queues, **options).blocked()


def left(report: BlockedReport) -> dict[str, int]:
    """How many messages are unlisted, by place."""
    return {backlog.place: backlog.messages for backlog in report.unlisted}


def listed_as_blocked(store: FleetStore, place: str, number: int, *, broker: str = "here") -> None:
    """The blocked index lists so many messages in a place."""
    blocked = BlockedNeed("n1", "ml", "train", "2", (), 1, place, "c", "blocked: so", broker=broker)
    store.block(blocked, [BlockedMessage(f"m{each}", "n1") for each in range(number)], lane=None)


def test_what_is_left_when_the_last_worker_has_gone_is_told(store: MemoryStore) -> None:
    served_lately(store, "ml")
    report = asked(store, Queues(ml=3))
    (backlog,) = report.unlisted
    assert backlog.model_dump() == {
        "queue": "ml",
        "place": "ml",
        "messages": 3,
        "reason": "3 message(s) in 'ml', which no live worker consumes",
    }
    assert (report.total, report.needs, list(report)) == (0, (), [])
    assert report.summary == (
        "Unlisted, and kept for the next worker that can take them:\n"
        "  3 message(s) in 'ml', which no live worker consumes"
    )
    assert json.loads(report.to_json())["unlisted"] == [backlog.model_dump()]


def test_only_what_the_index_does_not_list_is_counted(store: MemoryStore) -> None:
    served_lately(store, "ml")
    listed_as_blocked(store, "ml", 2)
    report = asked(store, Queues(ml=5))
    assert report.unlisted[0].reason == "3 further message(s) in 'ml', which no live worker consumes"
    assert report.total == 2
    assert "2 message(s) blocked for 1 need(s)" in report.summary
    assert "3 further message(s)" in report.summary
    assert left(asked(store, Queues(ml=2))) == {}
    assert left(asked(store, Queues(ml=1))) == {}, "a worker took one, and the index is a moment behind"


def test_entries_of_another_broker_list_nothing_of_ours(store: MemoryStore) -> None:
    served_lately(store, "ml")
    listed_as_blocked(store, "ml", 2, broker="elsewhere")
    assert left(asked(store, Queues(ml=5))) == {"ml": 5}


def test_a_live_worker_takes_whatever_is_in_its_base_queue(store: MemoryStore) -> None:
    served_lately(store, "ml", "mail")
    worker_up(store, queue="ml")
    assert left(asked(store, Queues(ml=3, mail=1))) == {"mail": 1}


@pytest.mark.parametrize("about", [{"state": WorkerState.DRAINING}, {"broker": "elsewhere"}])
def test_who_takes_nothing_new_or_consumes_elsewhere_does_not_count(
    store: MemoryStore, about: dict[str, Any]
) -> None:
    served_lately(store, "ml")
    worker_up(store, queue="ml", **about)
    assert left(asked(store, Queues(ml=3))) == {"ml": 3}


def test_a_worker_of_another_sdk_does_not_count(store: MemoryStore) -> None:
    served_lately(store, "ml")
    foreign = our_descriptor("node-1").model_copy(update={"sdk": Sdk(name="other", version="1")})
    class_id, body = class_of(foreign, "here")
    store.advertise(Advertisement("node-1", ("ml",), foreign.to_json(), "etag", class_id, body))
    assert left(asked(store, Queues(ml=3))) == {"ml": 3}


def test_a_live_worker_whose_class_cannot_be_read_counts(store: MemoryStore) -> None:
    """It beats: nothing is known that speaks against it."""

    class Forgetful(MemoryStore):
        def class_bodies(self, class_ids: Sequence[str]) -> dict[str, str]:
            return {}

    forgetful = Forgetful()
    served_lately(forgetful, "ml")
    worker_up(forgetful, queue="ml")
    assert left(asked(forgetful, Queues(ml=3))) == {}


def test_a_queue_that_none_of_ours_ever_served_is_plain_dramatiqs(store: MemoryStore) -> None:
    assert left(asked(store, Queues(ml=3))) == {}


def test_plain_workers_take_from_a_base_queue_and_from_no_lane(store: MemoryStore) -> None:
    served_lately(store, "ml", "mail")
    open_lanes(store)
    store.announce_control_plane("cp", "{}", broker_id="ours")
    seen = [PlainConsumers("ml", ("plain",)), PlainConsumers("mail", ("ours",))]
    queues = Queues(**{"ml": 3, "mail": 1, GPU_LANE: 2})
    assert left(asked(store, queues, evidence=lambda: seen)) == {"mail": 1, GPU_LANE: 2}


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({}, {GPU_LANE: 2, TRAIN_LANE: 4}),
        ({"capabilities": ["gpu"]}, {GPU_LANE: 2}),
        ({"capabilities": ["gpu", "saga"], "version": "1"}, {TRAIN_LANE: 4}),
        ({"capabilities": ["gpu"], "version": "2"}, {GPU_LANE: 2}),
        ({"version": "2"}, {GPU_LANE: 2, TRAIN_LANE: 4}),
        ({"capabilities": ["gpu", "saga"], "version": "2"}, {}),
    ],
)
def test_a_lane_is_taken_from_by_whoever_can_serve_it(
    store: MemoryStore, about: dict[str, Any], expected: dict[str, int]
) -> None:
    open_lanes(store)
    worker_up(store, "train", **about)
    assert left(asked(store, Queues(**{"ml": 0, GPU_LANE: 2, TRAIN_LANE: 4}))) == expected


def test_a_lane_tells_what_it_asks_for(store: MemoryStore) -> None:
    open_lanes(store)
    other = OpenLane("ml.need.x", "ml", PlaceKind.NEED.value, (), "train", None, 2)
    store.register_lane(other)
    report = asked(store, Queues(**{"ml": 0, GPU_LANE: 1, TRAIN_LANE: 1, other.name: 1}))
    assert {backlog.place: backlog.reason for backlog in report.unlisted} == {
        GPU_LANE: f"1 message(s) in '{GPU_LANE}', and no live worker on queue 'ml' has gpu and saga",
        TRAIN_LANE: f"1 message(s) in '{TRAIN_LANE}', and no live worker on queue 'ml' can run "
        "actor 'train' version 2 (requires gpu)",
        "ml.need.x": "1 message(s) in 'ml.need.x', and no live worker on queue 'ml' can run "
        "actor 'train' by wire protocol 2",
    }
    assert {backlog.queue for backlog in report.unlisted} == {"ml"}


def test_a_report_on_one_queue_tells_of_that_and_one_on_an_actor_or_need_of_none(store: MemoryStore) -> None:
    """Nobody reads a message for a report, so whose it is is not known."""
    served_lately(store, "ml", "mail")
    queues = Queues(ml=3, mail=1)
    engine = HandshakeEngine(store=store, broker_queues=queues)
    assert left(engine.blocked()) == {"mail": 1, "ml": 3}
    assert left(engine.blocked(queue="mail")) == {"mail": 1}
    queues.asked.clear()
    assert left(engine.blocked(actor="train")) == left(engine.blocked(need_id="n1")) == {}
    assert queues.asked == []


def test_another_tenants_queues_are_not_looked_at(store: MemoryStore) -> None:
    served_lately(store, "ml", "ml@davi")
    queues = Queues(**{"ml": 3, "ml@davi": 1})
    assert left(asked(store, queues, namespace="davi")) == {"ml@davi": 1}
    assert queues.asked == [("ml@davi",)]


def test_a_report_costs_one_look_and_one_question_to_the_broker() -> None:
    """Where nothing is left over nobody is asked further: no classes are read, no evidence is looked for."""
    store: Any = WatchedStore(MemoryStore())
    open_lanes(store)
    worker_up(store, "train", version="2", capabilities=["gpu"])
    store.calls.clear()
    queues = Queues(ml=0, mail=0)

    def evidence() -> list[PlainConsumers]:
        raise AssertionError("nobody has to be looked for")

    assert left(asked(store, queues, evidence=evidence)) == {}
    assert [sorted(places) for places in queues.asked] == [["mail", "ml", TRAIN_LANE, GPU_LANE]]
    assert store.calls == {"look": 1, "blocked_needs": 1, "now_ms": 1}


def test_without_a_broker_or_its_queues_nothing_is_said(store: MemoryStore) -> None:
    served_lately(store, "ml")
    queues = Queues()
    assert left(asked(store, queues)) == {}
    assert queues.asked == []
    report = HandshakeEngine(store=store).blocked()
    assert (report.unlisted, report.summary) == ((), "Nothing is blocked.")


def test_a_broker_that_does_not_answer_is_an_error_and_not_an_absence(store: MemoryStore) -> None:
    class Away(Queues):
        def depths(self, queues: Sequence[str]) -> Sequence[int]:
            raise RegistryUnavailable("the broker does not answer")

    with pytest.raises(RegistryUnavailable, match="broker"):
        asked(store, Away(ml=1))
