"""The process's view of the fleet, by a clock that the test moves."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.decide.need import Need, PlaceKind, need_place
from dramatiq_handshake.decide.plan import DispatchStatus
from dramatiq_handshake.dispatch import view as view_module
from dramatiq_handshake.dispatch.registrar import open_lane
from dramatiq_handshake.dispatch.view import INTEREST_S, RENEW_AFTER_S, USABLE_FOR_S, FleetView
from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.storage import MemoryStore
from dramatiq_handshake.storage.base import HEARTBEAT_TTL_MS, WorkerState
from tests.support.dispatching import Hands, WatchedStore, view_of, worker_up

TRAIN = Need("ml", "train")
GPU = Need("ml", "train", requires=frozenset({"gpu"}))
TTL_S = HEARTBEAT_TTL_MS / 1000


def nobody_else() -> bool:
    return False


class World:
    """A store, one process's view of it, and the clock of both."""

    def __init__(self, **options: Any) -> None:
        self.hands = Hands()
        self.store = WatchedStore(MemoryStore(now_ms=self.hands.ms))
        self.view = view_of(self.store, self.hands, **options)

    def status(self, need: Need = TRAIN) -> DispatchStatus | None:
        plan = self.view.plan(need, plain_workers=nobody_else)
        return None if plan is None else plan.status

    @property
    def looks(self) -> int:
        return self.store.calls["look"]


@pytest.fixture
def world() -> World:
    return World()


# -- what a steady dispatch costs ------------------------------------------------------------------


def test_a_known_plan_asks_the_registry_nothing_for_five_seconds(world: World) -> None:
    worker_up(world.store, "train")
    assert world.status() is DispatchStatus.ROUTABLE
    assert world.view.is_free("ml", "train", world.hands.s())

    world.hands.advance(USABLE_FOR_S - 0.01)
    assert world.status() is DispatchStatus.ROUTABLE
    assert world.view.is_free("ml", "train", world.hands.s())
    assert world.looks == 1

    world.hands.advance(0.02)
    assert not world.view.is_free("ml", "train", world.hands.s()), "too old to go by"
    assert world.status() is DispatchStatus.ROUTABLE
    assert world.looks == 2


def test_a_view_is_renewed_at_most_once_a_second(world: World) -> None:
    world.status()

    for _ in range(40):
        world.hands.advance(0.1)
        world.view.renew_if_due()

    assert world.looks == 1 + 4


def test_only_an_actor_that_goes_to_its_base_is_free(world: World) -> None:
    worker_up(world.store, "train", capabilities=["gpu"])
    worker_up(world.store, "other", instance="py-2")

    assert world.status(GPU) is DispatchStatus.ROUTABLE
    assert world.status(TRAIN) is DispatchStatus.ROUTABLE
    assert not world.view.is_free("ml", "train", world.hands.s()), "py-2 could not run it"


def test_class_bodies_are_read_once(world: World) -> None:
    worker_up(world.store, "train")
    world.status()
    worker_up(world.store, "train", instance="py-2")
    worker_up(world.store, "infer", instance="py-3")
    world.view.renew(["ml"])
    world.view.renew(["ml", "other"])

    assert world.store.calls["class_bodies"] == 2, "one for each class"


# -- how the view follows the fleet ----------------------------------------------------------------


def test_a_message_is_called_blocked_only_by_a_view_of_this_second(world: World) -> None:
    worker_up(world.store, "other")
    assert world.status() is DispatchStatus.BLOCKED
    worker_up(world.store, "train", instance="py-2")

    world.hands.advance(RENEW_AFTER_S)
    assert world.status() is DispatchStatus.BLOCKED, "a second old still counts"

    world.hands.advance(0.01)
    assert world.status() is DispatchStatus.ROUTABLE
    assert world.looks == 2


def test_a_class_that_lapses_counts_no_longer_though_nobody_wrote_that(world: World) -> None:
    worker_up(world.store, "train")
    world.hands.advance(TTL_S - 3)
    assert world.status() is DispatchStatus.ROUTABLE

    world.hands.advance(3)

    assert not world.view.is_free("ml", "train", world.hands.s())
    assert world.status() is DispatchStatus.BLOCKED


def test_the_first_of_several_classes_to_lapse_ends_what_was_planned_on_it(world: World) -> None:
    worker_up(world.store, "train")
    world.hands.advance(10)
    worker_up(world.store, "other", instance="py-2")
    world.hands.advance(TTL_S - 12)
    assert world.status() is DispatchStatus.ROUTABLE

    world.hands.advance(2.1)

    assert not world.view.is_free("ml", "train", world.hands.s())
    assert world.status() is DispatchStatus.BLOCKED


def test_beats_prolong_a_class_without_a_new_epoch(world: World) -> None:
    worker_up(world.store, "train")

    for _ in range(30):
        world.hands.advance(TTL_S / 3)
        worker_up(world.store, "train")
        assert world.status() is DispatchStatus.ROUTABLE
        assert world.view.is_free("ml", "train", world.hands.s())


def test_a_worker_that_drains_counts_no_longer(world: World) -> None:
    worker_up(world.store, "train")
    assert world.status() is DispatchStatus.ROUTABLE

    worker_up(world.store, "train", state=WorkerState.DRAINING)
    world.hands.advance(RENEW_AFTER_S)
    world.view.renew_if_due()

    assert world.status() is DispatchStatus.BLOCKED


def test_workers_of_another_broker_are_no_candidates() -> None:
    world = World(broker=lambda: "production")
    worker_up(world.store, "train", broker="staging")
    assert world.status(GPU) is DispatchStatus.BLOCKED
    plan = world.view.plan(GPU, plain_workers=nobody_else)
    assert plan is not None
    assert plan.verdicts == (), "they are not even looked at"

    worker_up(world.store, "train", instance="py-2", broker="production", capabilities=["gpu"])
    world.view.renew(["ml"])
    assert world.status(GPU) is DispatchStatus.ROUTABLE


def test_a_class_whose_body_is_gone_is_legacy_until_the_body_is_back() -> None:
    world = World()
    class_id = worker_up(world.store, "other")
    bodies = world.store.store._bodies
    body = bodies.get(class_id, world.hands.ms())
    assert body is not None
    bodies.put(class_id, body, world.hands.ms())  # it has lapsed by now

    assert world.status() is DispatchStatus.ROUTABLE, "legacy v1, assumed compatible"

    worker_up(world.store, "other")
    world.hands.advance(TTL_S - 2)
    worker_up(world.store, "other")
    assert world.status() is DispatchStatus.BLOCKED


def test_the_memory_for_classes_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "MAX_CLASSES", 3)
    for number in range(9):
        worker_up(world.store, f"actor{number}", "train", instance="py-1")
        world.view.renew(["ml"])
        assert world.status() is DispatchStatus.ROUTABLE

    assert len(world.view._bodies) <= 3


def test_the_memory_for_plans_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "MAX_PLANS", 10)
    worker_up(world.store, "train", version="1")

    for number in range(95):
        assert world.status(Need("ml", "train", version=str(number))) is not None

    assert len(world.view._queues["ml"].plans) <= 10


# -- interest --------------------------------------------------------------------------------------


def asked(world: World) -> set[str]:
    return set(world.view._queues)


def test_a_queue_that_nothing_was_sent_to_is_asked_for_no_longer(world: World) -> None:
    world.status(Need("quiet", "train"))
    world.status(Need("busy", "train"))

    for _ in range(3):
        world.hands.advance(INTEREST_S / 2 - 1)
        world.status(Need("busy", "train"))
        world.view.renew_if_due()

    assert asked(world) == {"busy"}


def test_lanes_beside_a_queue_that_is_new_to_the_view_are_learned(world: World) -> None:
    """Their epoch may be known already, from a look that did not ask for this queue."""
    lane = open_lane(TRAIN, need_place(TRAIN))
    world.store.register_lane(lane)
    world.status(Need("elsewhere", "train"))
    assert world.view.lanes == ()

    world.view.renew(["ml"])

    assert world.view.lanes == (lane,)


def test_lanes_follow_their_registration_and_retirement(world: World) -> None:
    world.view.renew(["ml"])
    lane = open_lane(TRAIN, need_place(TRAIN))

    world.store.register_lane(lane)
    world.view.renew(["ml"])
    assert world.view.lanes == (lane,)

    world.view.renew(["ml"])
    assert world.view.lanes == (lane,), "nothing new is not nothing there"

    world.store.retire_lane(lane.name, quiet_ms=0)
    world.view.renew(["ml"])
    assert world.view.lanes == ()


# -- without the registry --------------------------------------------------------------------------


def test_without_the_registry_a_view_serves_five_seconds_and_then_nobody_can_tell(world: World) -> None:
    worker_up(world.store, "train")
    world.status()
    world.store.away = True

    world.hands.advance(USABLE_FOR_S - 0.1)
    world.view.renew_if_due()
    assert world.status() is DispatchStatus.ROUTABLE
    world.hands.advance(0.2)
    assert world.status() is None
    with pytest.raises(RegistryUnavailable):
        world.view.renew(["ml"])


def test_without_the_registry_nobody_is_called_blocked_by_an_old_view(world: World) -> None:
    worker_up(world.store, "other")
    assert world.status() is DispatchStatus.BLOCKED
    world.store.away = True
    world.hands.advance(RENEW_AFTER_S + 0.1)

    assert world.status() is None


def test_after_an_outage_an_absence_proves_nothing_for_one_beat(world: World) -> None:
    worker_up(world.store, "other")
    assert world.status() is DispatchStatus.BLOCKED

    world.view.distrust_blocked()

    assert world.status() is None
    assert world.status(Need("ml", "other")) is DispatchStatus.ROUTABLE, "a presence does"
    world.hands.advance(9.9)
    assert world.status() is None
    world.hands.advance(0.2)
    assert world.status() is DispatchStatus.BLOCKED


def test_what_must_happen_before_a_look_may_call_it_off() -> None:
    def refuse() -> None:
        raise RegistryUnavailable("not now")

    world = World(before_look=refuse)
    assert world.status() is None
    assert world.looks == 0


# -- plain workers ---------------------------------------------------------------------------------


def test_plain_workers_are_asked_about_only_where_the_answer_hangs_on_them(world: World) -> None:
    asked_for: list[Need] = []

    def plan(need: Need) -> DispatchStatus:
        def possible() -> bool:
            asked_for.append(need)
            return True

        answer = world.view.plan(need, plain_workers=possible)
        assert answer is not None
        return answer.status

    worker_up(world.store, "train", capabilities=["gpu"])
    assert plan(TRAIN) is DispatchStatus.ROUTABLE
    assert plan(Need("ml", "x", requires=frozenset({"tpu"}))) is DispatchStatus.BLOCKED
    assert plan(Need("unserved", "train")) is DispatchStatus.LEGACY
    assert asked_for == []

    unknown = Need("ml", "unknown")
    assert plan(unknown) is DispatchStatus.LEGACY
    assert plan(unknown) is DispatchStatus.LEGACY
    assert asked_for == [unknown, unknown], "plain workers come and go: it is asked each time"
    assert world.status(unknown) is DispatchStatus.BLOCKED


# -- threads and forks -----------------------------------------------------------------------------


def test_whoever_waits_too_long_for_another_threads_look_goes_on_without_a_view(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "SINGLE_FLIGHT_WAIT_S", 0.05)
    with world.store.paused("before look") as barrier:
        slow = threading.Thread(target=world.status)
        slow.start()
        barrier.wait_for_caller()
        assert world.status() is None
        world.view.renew_if_due()
    slow.join()
    assert world.looks == 1
    assert world.status() is DispatchStatus.LEGACY


def test_a_forked_child_looks_for_itself_though_a_thread_was_looking(world: World) -> None:
    worker_up(world.store, "train")
    world.status()
    world.view._looking.acquire()  # by a thread that the child does not have

    world.view.reset_after_fork()

    assert world.status() is DispatchStatus.ROUTABLE
    assert world.looks == 2


# -- the property ----------------------------------------------------------------------------------

ACTORS = ("train", "infer")
INSTANCES = ("py-1", "py-2", "py-3")
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("beat"),
            st.sampled_from(INSTANCES),
            st.sets(st.sampled_from(ACTORS)),
            st.sets(st.sampled_from(["gpu", "saga"])),
            st.sampled_from(["here", "there"]),
            st.sampled_from([WorkerState.UP, WorkerState.DRAINING]),
        ),
        st.tuples(st.just("leave"), st.sampled_from(INSTANCES)),
        st.tuples(st.just("wait"), st.floats(0, 40)),
        st.tuples(st.just("send"), st.sampled_from(["ml", "other"])),
        st.tuples(st.just("lane"), st.sampled_from(ACTORS), st.sampled_from(["ml", "other"])),
        st.tuples(st.just("retire"), st.sampled_from(ACTORS), st.sampled_from(["ml", "other"])),
    ),
    max_size=25,
)


@given(steps)
def test_a_renewed_view_says_what_a_new_one_would(history: list[tuple[Any, ...]]) -> None:
    """Whatever happened, and however old what it remembers is: plans and lanes are those of a first look."""
    world = World()
    for step in history:
        _take(world, *step)
        world.view.renew(["ml"])
        fresh = view_of(world.store.store, world.hands)
        fresh.renew(["ml", *asked(world)])
        for need in _needs():
            assert _verdict(world.view, need) == _verdict(fresh, need), step
        assert set(world.view.lanes) == set(fresh.lanes)


def _needs() -> list[Need]:
    return [
        Need("ml", actor, requires=requires)
        for actor in ACTORS
        for requires in (frozenset[str](), frozenset({"gpu"}))
    ]


def _verdict(view: FleetView, need: Need) -> tuple[Any, ...]:
    plan = view.plan(need, plain_workers=nobody_else)
    assert plan is not None
    return plan.status, plan.place, plan.code, plan.reason


def _take(world: World, kind: str, *what: Any) -> None:
    if kind == "beat":
        instance, actors, capabilities, broker, state = what
        worker_up(
            world.store,
            *sorted(actors),
            instance=instance,
            capabilities=capabilities,
            broker=broker,
            state=state,
        )
    elif kind == "leave":
        world.store.withdraw(what[0], ["ml"])
    elif kind == "wait":
        world.hands.advance(what[0])
    elif kind == "send":
        world.status(Need(what[0], "train"))
    else:
        need = Need(what[1], what[0])
        place = need_place(need)
        assert place.kind is PlaceKind.NEED
        if kind == "lane":
            world.store.register_lane(open_lane(need, place))
        else:
            world.store.retire_lane(place.queue, quiet_ms=0)
