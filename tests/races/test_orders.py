"""Two orders meet: "lane into the registry, then publish" and "advertise, then look at the open lanes".

Whichever way the four steps interleave, one of the two sides sees the other. Each interleaving is forced
by stopping a side at a point in the store, on both kinds of store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import dramatiq
import pytest

from dramatiq_handshake.decide.need import Need, need_lane
from tests.support.dispatching import WatchedStore, worker_up
from tests.support.inprocess import App, Apps
from tests.support.poll import eventually

LANE = need_lane(Need("default", "late"))
#: A worker looks every second; the rest is for a busy machine.
LONGEST_WAIT_S = 2.0


class Scene:
    """A worker that lacks the actor `late` lives; one side sends for it, the other comes to have it."""

    def __init__(self, sender: App, worker: App, arrive: Callable[[], object]) -> None:
        self.sender = sender
        self.worker = worker
        self._arrive = arrive
        self._threads: list[threading.Thread] = []
        #: The sides' own stores; on a StubBroker they are one.
        self.sender_store: WatchedStore
        self.worker_store: WatchedStore

    def send(self) -> None:
        """Begin to send."""
        message = dramatiq.Message("default", "late", ("ran",), {}, {})
        self._begin(lambda: self.sender.broker.enqueue(message))

    def arrive(self) -> None:
        """Begin to be able to run it."""
        self._begin(self._arrive)

    def _begin(self, side: Callable[[], object]) -> None:
        self._threads.append(threading.Thread(target=side))
        self._threads[-1].start()

    def wait_for_both(self) -> None:
        """Wait until whoever has begun is through."""
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def finish(self) -> float:
        """Wait until both sides are through and the message has run. Returns how long that took (s)."""
        self.wait_for_both()
        through = time.monotonic()
        assert self.worker.log.wait_for(1) == ["ran"]
        return time.monotonic() - through

    def published(self) -> int:
        """How many messages the lane holds."""
        return self.sender.binding._carrier.depths([LANE])[0]

    def registered(self) -> bool:
        """Whether the registry knows the lane."""
        look = self.sender_store.store.look({"default": None}, None)
        return LANE in {lane.name for lane in look.lanes or ()}

    def lane_is_open(self) -> bool:
        return any(LANE in worker.consumers for worker in self.worker.workers)


@pytest.fixture(params=["stub", "redis"])
def scene(request: pytest.FixtureRequest, apps: Apps, watched_stores: list[WatchedStore]) -> Scene:
    if request.param == "stub":
        app = apps.stub()
        app.actor(actor_name="known")
        app.worker()
        scene = Scene(app, app, lambda: app.actor(actor_name="late"))
        scene.sender_store = scene.worker_store = watched_stores[0]
        other = app.binding.identity.fingerprint()
        worker_up(scene.worker_store, "known", queue="default", broker=other, instance="without-late")
    else:
        old, sender, new = apps.redis(), apps.redis(), apps.redis()
        for app in (old, sender, new):
            app.actor(actor_name="known")
        new.actor(actor_name="late")
        old.worker()
        scene = Scene(sender, new, new.worker)
        _, scene.sender_store, scene.worker_store = watched_stores
    return scene


def test_the_worker_comes_between_the_registration_and_the_publish(scene: Scene) -> None:
    """Register; advertise, look; publish: the worker opens a lane that is still empty."""
    with scene.sender_store.paused("after block") as sender:
        scene.send()
        sender.wait_for_caller()
        scene.arrive()
        eventually(scene.lane_is_open)
        assert scene.published() == 0

    assert scene.finish() < LONGEST_WAIT_S


def test_the_sender_comes_between_the_advertisement_and_the_look(scene: Scene) -> None:
    """Advertise; register, publish; look: the worker finds a full lane at its first look."""
    with scene.sender_store.paused("before block") as sender:
        scene.send()
        sender.wait_for_caller()
        assert (scene.registered(), scene.published()) == (False, 0)
        with scene.worker_store.paused("after advertise") as worker:
            scene.arrive()
            worker.wait_for_caller()
            if scene.worker is not scene.sender:
                assert scene.worker_store.calls["look"] == 0, "it has advertised, and looks only then"
            sender.open()
            eventually(lambda: any(need.place == LANE for need in scene.sender_store.store.blocked_needs()))
            assert not scene.lane_is_open()

    assert scene.finish() < LONGEST_WAIT_S


def test_the_worker_has_looked_before_a_lane_is_registered_for_it(scene: Scene) -> None:
    """Plan; advertise, look; register, publish: the worker's next look finds the lane."""
    with scene.sender_store.paused("before block") as sender:
        scene.send()
        sender.wait_for_caller()
        looks = scene.worker_store.calls["look"]
        scene.arrive()
        eventually(lambda: scene.worker_store.calls["look"] > looks)
        assert not scene.lane_is_open()

    assert scene.finish() < LONGEST_WAIT_S


@pytest.mark.parametrize("point", ["before register_lane", "after register_lane"])
def test_the_worker_is_there_when_the_sender_plans(scene: Scene, point: str) -> None:
    """Advertise, look; plan, register, publish: it is routable, and the worker's next look finds the lane."""
    scene.arrive()
    scene.wait_for_both()
    with scene.sender_store.paused(point) as sender:
        scene.send()
        sender.wait_for_caller()
        assert (scene.registered(), scene.published()) == (point == "after register_lane", 0)

    assert scene.finish() < LONGEST_WAIT_S
    assert scene.sender_store.store.blocked_needs() == ()


def test_the_sender_is_through_before_the_worker_comes(scene: Scene) -> None:
    """Register, publish; advertise, look."""
    scene.send()
    eventually(lambda: any(need.place == LANE for need in scene.sender_store.store.blocked_needs()))
    scene.arrive()

    assert scene.finish() < LONGEST_WAIT_S
    eventually(lambda: scene.sender_store.store.blocked_needs() == (), what="the entry is cleared")
