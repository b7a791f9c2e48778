"""What a process writes to the registry beside its beat: lanes, itself, and what is blocked."""

from __future__ import annotations

import logging
from typing import Any

import dramatiq
import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from dramatiq_handshake import Code, RegistryUnavailable
from dramatiq_handshake.decide.need import Need, need_place, requirement_place
from dramatiq_handshake.decide.plan import DispatchPlan, FleetSnapshot, plan_dispatch
from dramatiq_handshake.dispatch import registrar as registrar_module
from dramatiq_handshake.dispatch.blocked import RELEASE_BATCH, BlockedIndex
from dramatiq_handshake.dispatch.carriers import StubCarrier
from dramatiq_handshake.dispatch.control_plane import ControlPlane
from dramatiq_handshake.dispatch.diagnostics import Diagnostics
from dramatiq_handshake.dispatch.options import ActorProfile
from dramatiq_handshake.dispatch.registrar import TRUSTED_FOR_S, LaneRegistrar, open_lane
from dramatiq_handshake.storage import MemoryStore
from dramatiq_handshake.wire.descriptor import parse_descriptor
from tests.support.advertising import our_descriptor
from tests.support.dispatching import Hands, WatchedStore

LOGGER = logging.getLogger("tests.registering")
TRAIN = Need("ml", "train", "2", frozenset({"gpu"}))


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def store(hands: Hands) -> WatchedStore:
    return WatchedStore(MemoryStore(now_ms=hands.ms))


# -- lanes -----------------------------------------------------------------------------------------


def test_a_lane_is_registered_at_most_once_in_a_few_seconds(store: WatchedStore, hands: Hands) -> None:
    registrar = LaneRegistrar(store, clock=hands.s)
    lane = open_lane(TRAIN, need_place(TRAIN))
    for _ in range(100):
        registrar.ensure(lane)
    assert store.calls["register_lane"] == 1

    hands.advance(TRUSTED_FOR_S)
    registrar.ensure(lane)
    assert store.calls["register_lane"] == 2


def test_a_lane_that_could_not_be_registered_is_tried_with_the_next_message(
    store: WatchedStore, hands: Hands
) -> None:
    registrar = LaneRegistrar(store, clock=hands.s)
    lane = open_lane(TRAIN, need_place(TRAIN))
    store.away = True
    registrar.ensure(lane)
    store.away = False
    registrar.ensure(lane)
    assert store.look({"ml": None}, None).lanes == (lane,)


def test_the_memory_for_registered_lanes_is_bounded(
    store: WatchedStore, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registrar_module, "MAX_TRUSTED", 5)
    registrar = LaneRegistrar(store, clock=hands.s)
    for number in range(50):
        need = Need("ml", f"actor{number}")
        registrar.ensure(open_lane(need, need_place(need)))
    assert len(registrar._registered_at) <= 5


def test_a_requirement_lane_is_for_everybody_with_the_capabilities() -> None:
    lane = open_lane(TRAIN, requirement_place(TRAIN))
    assert (lane.name, lane.base, lane.kind, lane.requires) == (
        "ml.requires.gpu",
        "ml",
        "requirement",
        ("gpu",),
    )
    assert (lane.actor, lane.version, lane.protocol) == (None, None, 1)


def test_a_need_lane_is_for_exactly_this_need() -> None:
    lane = open_lane(TRAIN, need_place(TRAIN))
    assert lane.kind == "need"
    assert Need(lane.base, lane.actor, lane.version, frozenset(lane.requires), lane.protocol) == TRAIN


# -- the control plane -----------------------------------------------------------------------------


def control_plane(store: Any, **profiles: ActorProfile) -> ControlPlane:
    return ControlPlane(
        store,
        profiles=profiles,
        protocol=(1, 2),
        namespace="acme",
        claim=lambda: "broker-1",
        interval_ms=10_000,
    )


def test_only_a_process_that_enqueues_is_announced(store: WatchedStore) -> None:
    plane = control_plane(store)
    plane.announce_if_due()
    assert store.control_planes() == ()

    for _ in range(10):
        plane.touch()
        plane.announce_if_due()
    assert store.calls["announce_control_plane"] == 1
    assert store.unclaimed(["broker-1", "broker-2"]) == {"broker-2"}


def test_a_control_plane_demands_what_its_actors_require_and_announces_nothing(store: WatchedStore) -> None:
    plane = control_plane(
        store,
        train=ActorProfile(requires=frozenset({"gpu"})),
        refund=ActorProfile(requires=frozenset({"saga"}), step=True),
    )
    plane.touch()
    plane.announce_if_due()
    (record,) = store.control_planes()
    descriptor = parse_descriptor(record.descriptor_json)

    assert descriptor.capabilities == ("gpu", "saga")
    assert (descriptor.workflows, descriptor.steps, descriptor.registrations) == ((), (), None)
    assert (descriptor.protocol.range, descriptor.namespace, descriptor.partition) == ((1, 2), "acme", "acme")


def test_a_forked_child_is_another_control_plane(store: WatchedStore) -> None:
    plane = control_plane(store)
    parent = plane.descriptor().instance_id
    plane.touch()
    plane.announce_if_due()
    plane.reset_after_fork()
    plane.touch()
    plane.announce_if_due()
    assert {record.instance_id for record in store.control_planes()} == {
        parent,
        plane.descriptor().instance_id,
    }
    assert plane.descriptor().instance_id != parent


def test_an_announcement_that_failed_is_made_with_the_next_look(store: WatchedStore) -> None:
    plane = control_plane(store)
    plane.touch()
    store.away = True
    with pytest.raises(RegistryUnavailable):
        plane.announce_if_due()
    store.away = False
    plane.announce_if_due()
    assert len(store.control_planes()) == 1


# -- the blocked index -----------------------------------------------------------------------------


def message(number: int = 1) -> dramatiq.Message[Any]:
    return dramatiq.Message("ml", "train", (number,), {}, {}, message_id=f"m-{number}")


def blocked_plan(need: Need = TRAIN) -> DispatchPlan:
    return plan_dispatch(need, FleetSnapshot(token="ml", served_lately=True), our_descriptor("cp-1"))


class Index:
    """A blocked index with its surroundings."""

    def __init__(self, store: WatchedStore, hands: Hands) -> None:
        self.diagnostics = Diagnostics(LOGGER, clock=hands.s)
        self.registrar = LaneRegistrar(store, clock=hands.s)
        self.index = BlockedIndex(
            store,
            self.registrar,
            self.diagnostics,
            identity=StubCarrier(dramatiq.brokers.stub.StubBroker()),
            logger=LOGGER,
        )

    def add(self, number: int, need: Need = TRAIN) -> bool:
        return self.index.add(need, blocked_plan(need), message(number), reference=f"r-{number}")


@pytest.fixture
def index(store: WatchedStore, hands: Hands) -> Index:
    return Index(store, hands)


def test_a_listed_message_names_its_need_its_place_and_how_the_broker_keeps_it(
    store: WatchedStore, index: Index
) -> None:
    assert index.add(1)

    (need,) = store.blocked_needs()
    assert (need.queue, need.actor, need.version, need.requires) == ("ml", "train", "2", ("gpu",))
    assert need.place == "ml.requires.gpu"
    assert need.code == "capability.unavailable"
    assert need.broker.startswith("stub:")
    entry = store.blocked_message("m-1")
    assert (entry.need_id, entry.broker_ref, entry.traceparent) == (TRAIN.id, "r-1", "")


def test_listing_a_message_registers_its_lane_on_the_way(store: WatchedStore, index: Index) -> None:
    index.add(1)
    (lane,) = store.look({"ml": None}, None).lanes or ()
    assert lane.name == "ml.requires.gpu"
    index.registrar.ensure(lane)
    assert store.calls["register_lane"] == 0, "it has just been registered"


def test_the_trace_of_the_send_is_kept(store: WatchedStore, index: Index) -> None:
    context = SpanContext(0x1234, 0x5678, is_remote=False, trace_flags=TraceFlags(1))
    with trace.use_span(NonRecordingSpan(context)):
        index.add(1)
    assert store.blocked_message("m-1").traceparent == f"00-{0x1234:032x}-{0x5678:016x}-01"


def test_without_the_registry_nothing_is_listed_and_nothing_raises(store: WatchedStore, index: Index) -> None:
    store.away = True
    assert not index.add(1)
    index.index.retract(TRAIN, message(1))


def test_taken_messages_are_cleared_in_batches_and_the_restored_need_is_told(
    store: WatchedStore, hands: Hands, index: Index
) -> None:
    heard: list[Any] = []
    index.diagnostics.on(Code.CAPABILITY_RESTORED, heard.append)
    number = RELEASE_BATCH * 2 + 1
    for one in range(number):
        index.add(one)
    hands.advance(90)
    for one in range(number):
        index.index.taken(TRAIN.id, message(one))
    assert store.calls["release"] == 0

    index.index.flush()

    assert store.calls["release"] == 3
    assert store.blocked_needs() == ()
    (restored,) = heard
    assert restored.attributes["actor"] == "train"
    assert restored.attributes["blocked_ms"] == 90_000
    index.index.flush()
    assert store.calls["release"] == 3, "there is nothing more to tell"


def test_an_outage_while_clearing_loses_no_entry(store: WatchedStore, index: Index) -> None:
    for one in range(3):
        index.add(one)
        index.index.taken(TRAIN.id, message(one))
    store.away = True
    with pytest.raises(RegistryUnavailable):
        index.index.flush()
    store.away = False
    index.index.flush()
    assert store.blocked_needs() == ()


def test_a_retracted_message_is_listed_no_more(store: WatchedStore, index: Index) -> None:
    index.add(1)
    index.add(2)
    index.index.retract(TRAIN, message(1))
    assert store.blocked_message("m-1") is None
    assert store.blocked_message("m-2") is not None
