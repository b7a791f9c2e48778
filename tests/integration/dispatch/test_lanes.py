"""Lanes open and close beside a worker's life: pausing, stopping, losing and gaining capabilities."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import dramatiq
import pytest

from dramatiq_handshake.decide.need import Need, need_lane
from dramatiq_handshake.dispatch import agent as agent_module
from dramatiq_handshake.dispatch import lanes as lanes_module
from dramatiq_handshake.dispatch import service as service_module
from dramatiq_handshake.dispatch.consumers import Whitelist
from tests.support.dispatching import WatchedStore
from tests.support.inprocess import App, Apps
from tests.support.poll import eventually
from tests.support.queues import Queues

JOIN_MS = 15_000
GPU_LANE = "default.requires.gpu"
CAPABILITIES = ("gpu", "saga")


def trained(apps: Apps, kind: str, **handshake: Any) -> App:
    """An app with an actor that asks nothing and one for each capability."""
    app: App = getattr(apps, kind)(**handshake)
    app.actor(actor_name="plain")
    for name in CAPABILITIES:
        app.actor(actor_name=f"needs_{name}", requires=[name])
    return app


# -- opening and closing ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stub", "redis"])
def test_a_worker_serves_the_lanes_of_what_its_actors_require_and_it_can_do(apps: Apps, kind: str) -> None:
    app = trained(apps, kind, capabilities={"gpu"})
    worker = app.worker()
    app.wait_for_lanes(worker, GPU_LANE)

    app.handshake.add_capability("saga")
    app.wait_for_lanes(worker, GPU_LANE, "default.requires.saga")
    app.handshake.remove_capability("gpu")
    app.wait_for_lanes(worker, "default.requires.saga")


@pytest.mark.parametrize("kind", ["stub", "redis"])
def test_a_worker_serves_a_lane_of_anybody_that_it_has_the_capabilities_for(apps: Apps, kind: str) -> None:
    """A lane's messages may be for an actor that it lacks; then it carries them to their own lane, once."""
    app = apps.stub(capabilities={"gpu"}) if kind == "stub" else apps.redis(capabilities={"gpu"})
    app.actor(actor_name="plain")
    worker = app.worker()
    sent = dramatiq.Message("default", "unknown", (), {}, {"requires": ["gpu"]})
    app.broker.enqueue(sent)

    lane = need_lane(Need("default", "unknown", requires=frozenset({"gpu"})))
    eventually(lambda: [entry.place for entry in app.binding.store.blocked_needs()] == [lane])
    assert lane not in app.lanes(worker)

    app.actor(actor_name="unknown")
    app.log.wait_for(1)
    assert lane in app.lanes(worker)


def test_a_lane_closes_with_work_in_hand_on_a_server_too(apps: Apps, queues: Queues) -> None:
    """What runs finishes, what waits returns to the lane, nothing runs twice, and the lane's thread ends."""
    app = apps.redis(capabilities={"gpu"})
    running, may_finish = threading.Semaphore(0), threading.Event()

    def train(number: int) -> None:
        running.release()
        assert may_finish.wait(10)
        app.log(number)

    actor = app.actor(train, requires=["gpu"])
    worker = app.worker(threads=2)
    app.wait_for_lanes(worker, GPU_LANE)
    thread = worker.consumers.thread(GPU_LANE)
    for number in range(20):
        actor.send(number)
    for _ in range(2):
        assert running.acquire(timeout=10)
    eventually(lambda: worker.work_queue.qsize() > 0, what="some are prefetched")

    app.handshake.remove_capability("gpu")
    eventually(lambda: queues.depth(GPU_LANE) == 18, what="what waited is back", state=queues.unfinished)
    assert queues.unacknowledged() == 2
    assert thread.is_alive(), "it keeps its connection until what runs is acknowledged"
    may_finish.set()
    app.wait_for_lanes(worker)
    assert not thread.is_alive()
    assert sorted(app.log.entries) == sorted(set(app.log.entries))
    assert len(app.log.entries) == 2

    app.handshake.add_capability("gpu")
    app.log.wait_for(20)
    queues.wait_empty()
    assert app.log.count() == dict.fromkeys(range(20), 1)


def test_a_lost_capability_counts_while_the_registry_is_away(
    apps: Apps, watched_stores: list[WatchedStore]
) -> None:
    """The GPU dies during an outage: what was prefetched for it must not run."""
    app = apps.stub(capabilities={"gpu"})
    running, may_finish = threading.Event(), threading.Event()

    def train(number: int) -> None:
        running.set()
        assert may_finish.wait(10)
        app.log(number)

    actor = app.actor(train, requires=["gpu"])
    worker = app.worker(threads=1)
    app.wait_for_lanes(worker, GPU_LANE)
    for number in range(6):
        actor.send(number)
    assert running.wait(10)

    watched_stores[0].away = True
    app.handshake.remove_capability("gpu")
    eventually(lambda: app.broker.queues[GPU_LANE].qsize() == 5, what="the prefetched ones are back")
    may_finish.set()
    app.wait_for_lanes(worker)
    assert app.log.entries == [0]


def test_an_empty_need_lane_is_retired_and_closed(
    apps: Apps, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "LANE_QUIET_MS", 300)
    old, new = apps.redis(), apps.redis(heartbeat_interval_ms=100)
    old.actor(actor_name="plain")
    old.worker()
    blocked = new.actor(actor_name="added_later")
    blocked.send("ran")
    lane = need_lane(Need("default", "added_later"))
    eventually(lambda: queues.unfinished() == {lane: 1}, state=queues.unfinished)

    worker = new.worker()
    new.log.wait_for(1)
    assert lane in new.lanes(worker)
    new.wait_for_lanes(worker)
    assert new.binding.store.look({"default": None}, None).lanes == ()
    assert not worker.consumers.thread(lane)


def test_a_lane_that_is_idle_and_not_empty_is_not_retired(
    apps: Apps, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paused worker delivers nothing; what came meanwhile must not be forgotten."""
    monkeypatch.setattr(service_module, "LANE_QUIET_MS", 200)
    old, app = apps.redis(), apps.redis(heartbeat_interval_ms=50)
    old.actor(actor_name="plain")
    old.worker()
    later = app.actor(actor_name="added_later")
    worker = app.worker()
    later.send("first")
    app.log.wait_for(1)
    worker.pause()
    later.send("second")
    lane = need_lane(Need("default", "added_later"))
    assert queues.depth(lane) == 1
    looked = app.binding._view._looked_at
    eventually(lambda: app.binding._view._looked_at > looked + 0.6, what="it has been quiet for long enough")

    assert lane in {one.name for one in app.binding.store.look({"default": None}, None).lanes}
    worker.resume()
    assert app.log.wait_for(2) == ["first", "second"]


def test_a_lane_in_use_is_not_retired(apps: Apps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "LANE_QUIET_MS", 300)
    app = apps.stub(heartbeat_interval_ms=100)
    running, may_finish = threading.Event(), threading.Event()

    def slow() -> None:
        running.set()
        may_finish.wait(10)
        app.log("done")

    app.actor(actor_name="plain")
    worker = app.worker()
    app.broker.enqueue(dramatiq.Message("default", "slow", (), {}, {}))
    lane = need_lane(Need("default", "slow"))
    eventually(lambda: lane in app.broker.queues)
    app.actor(slow)
    assert running.wait(10)
    ticks = app.binding._view._looked_at
    eventually(lambda: app.binding._view._looked_at > ticks + 0.8, what="the worker ticks many times")

    assert lane in app.lanes(worker)
    may_finish.set()
    app.wait_for_lanes(worker)
    assert app.log.entries == ["done"]


def test_a_lane_whose_thread_ended_is_opened_again(apps: Apps) -> None:
    app = trained(apps, "stub", capabilities={"gpu"})
    worker = app.worker()
    app.wait_for_lanes(worker, GPU_LANE)
    thread = worker.consumers.thread(GPU_LANE)
    thread.stop()
    thread.join(10)

    app.broker.actors["needs_gpu"].send("ran")
    assert app.log.wait_for(1) == ["ran"]


def test_many_lanes_are_worth_a_word(apps: Apps, caplog: pytest.LogCaptureFixture) -> None:
    app = apps.stub()
    for number in range(lanes_module.MANY_LANES + 1):
        app.actor(actor_name=f"actor{number}", requires=[f"capability{number}"])
    worker = app.worker()
    eventually(lambda: len(app.lanes(worker)) == lanes_module.MANY_LANES + 1)
    assert f"more than {lanes_module.MANY_LANES} lanes" in caplog.text


# -- pausing, joining, stopping --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stub", "redis"])
def test_a_lane_that_opens_while_the_worker_is_paused_starts_paused(apps: Apps, kind: str) -> None:
    app = trained(apps, kind, capabilities=())
    worker = app.worker()
    worker.pause()
    app.handshake.add_capability("gpu")
    app.wait_for_lanes(worker, GPU_LANE)
    app.broker.actors["needs_gpu"].send("ran")
    eventually(worker.consumers.thread(GPU_LANE).paused_event.is_set)
    assert app.log.entries == []

    worker.pause()
    worker.resume()
    assert app.log.wait_for(1) == ["ran"]


def test_pausing_waits_for_no_lane_that_has_left(apps: Apps, monkeypatch: pytest.MonkeyPatch) -> None:
    app = trained(apps, "stub", capabilities={"gpu"})
    worker = app.worker()
    app.wait_for_lanes(worker, GPU_LANE)
    monkeypatch.setattr(
        app.binding.agents[0]._service, "sync", lambda bases: None
    )  # it stays in the dictionary
    thread = worker.consumers.thread(GPU_LANE)
    thread.stop()
    thread.join(10)

    for _ in range(2):
        pausing = threading.Thread(target=worker.pause, daemon=True)
        pausing.start()
        pausing.join(10)
        assert not pausing.is_alive()
        worker.resume()


def test_worker_join_includes_lanes(apps: Apps) -> None:
    app = trained(apps, "stub")
    worker = app.worker()
    for number in range(50):
        app.broker.actors["needs_gpu"].send(number)
    app.broker.join("default", timeout=JOIN_MS)
    worker.join()
    assert len(app.log.entries) == 50
    assert not worker.work_queue.unfinished_tasks


def test_no_lane_opens_once_the_worker_stops(apps: Apps) -> None:
    app = trained(apps, "stub", capabilities=())
    worker = app.worker()
    agent = app.binding.agents[0]
    app.stop(worker)
    app.handshake.add_capability("gpu")
    agent._service.sync(["default"])
    assert app.lanes(worker) == set()
    app.actor(actor_name="late", queue_name="late")
    assert "late" not in worker.consumers


Step = Callable[[App, list[dramatiq.Worker], random.Random], None]


def pause(app: App, workers: list[dramatiq.Worker], chance: random.Random) -> None:
    workers[-1].pause()


def resume(app: App, workers: list[dramatiq.Worker], chance: random.Random) -> None:
    workers[-1].resume()


def lose(app: App, workers: list[dramatiq.Worker], chance: random.Random) -> None:
    app.handshake.remove_capability(chance.choice(CAPABILITIES))


def gain(app: App, workers: list[dramatiq.Worker], chance: random.Random) -> None:
    app.handshake.add_capability(chance.choice(CAPABILITIES))


def tick(app: App, workers: list[dramatiq.Worker], chance: random.Random) -> None:
    app.binding.agents[0]._tick()


def exchange(app: App, workers: list[dramatiq.Worker], chance: random.Random) -> None:
    workers[-1].resume()
    app.stop(workers.pop())
    workers.append(app.worker())


#: A stub keeps no account of what a stopped worker had prefetched from a base queue, in stock as well.
STEPS: dict[str, list[Step]] = {
    "stub": [pause, resume, lose, gain, tick],
    "redis": [pause, resume, lose, gain, tick, exchange],
}


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_to_a_worker_each_message_runs_once(
    apps: Apps, request: pytest.FixtureRequest, kind: str, seed: int
) -> None:
    """Random sequences of pausing, resuming, stopping, losing and gaining, while messages arrive."""
    chance = random.Random(seed)
    app = trained(apps, kind, capabilities=CAPABILITIES)
    threads = set(threading.enumerate())
    workers = [app.worker(threads=3)]
    sent = 0
    taken: list[str] = []
    for _ in range(14):
        for _ in range(chance.randrange(8)):
            app.broker.actors[chance.choice(["plain", "needs_gpu", "needs_saga"])].send(sent)
            sent += 1
        step = chance.choice(STEPS[kind])
        taken.append(step.__name__)
        step(app, workers, chance)

    workers[-1].resume()
    for name in CAPABILITIES:
        app.handshake.add_capability(name)
    app.log.wait_for(sent)
    if kind == "redis":
        request.getfixturevalue("queues").wait_empty()
    else:
        app.broker.join("default", timeout=JOIN_MS)
    assert app.log.count() == dict.fromkeys(range(sent), 1), taken
    app.stop(workers.pop())
    eventually(lambda: not set(threading.enumerate()) - threads, what="every thread ended")


# -- which queues ----------------------------------------------------------------------------------


def test_q_takes_base_names_and_brings_their_lanes_along(apps: Apps) -> None:
    app = apps.stub()
    app.actor(actor_name="here", queue_name="here", requires=["gpu"])
    app.actor(actor_name="there", queue_name="there", requires=["gpu"])
    worker = app.worker(queues={"here"})

    app.wait_for_lanes(worker, "here.requires.gpu")
    assert set(worker.consumers) == {"here", "here.DQ", "here.requires.gpu"}
    (record,) = app.binding.store.workers()
    assert record.token == "here"


def test_q_need_not_name_the_tenant(apps: Apps) -> None:
    app = apps.stub(namespace="acme")
    record = app.actor(queue_name="ml", requires=["gpu"])
    app.actor(actor_name="other", queue_name="other")
    worker = app.worker(queues={"ml"})
    record.send("ran")
    app.broker.join("ml@acme", timeout=JOIN_MS)

    assert app.log.entries == ["ran"]
    assert set(worker.consumers) == {"ml@acme", "ml@acme.DQ", "ml@acme.requires.gpu"}


def test_a_queue_that_is_only_published_to_is_not_consumed(apps: Apps) -> None:
    """On RabbitMQ publishing declares a queue, and a worker would consume it from then on."""
    app = apps.stub()
    app.actor()
    worker = app.worker()
    app.broker.declare_queue("elsewhere")
    app.broker.enqueue(dramatiq.Message("elsewhere", "theirs", (), {}, {}))
    assert set(worker.consumers) == {"default", "default.DQ"}


@pytest.mark.parametrize("admitted", [None, set(), {"a"}, {"a", "b"}])
def test_the_whitelist_is_never_false_and_admits_what_it_names(admitted: set[str] | None) -> None:
    whitelist = Whitelist(admitted, lambda base: base != "foreign")
    assert whitelist
    for base in ("a", "b", "foreign"):
        expected = base != "foreign" and (not admitted or base in admitted)
        assert (base in whitelist) == expected
        assert (f"{base}.DQ" in whitelist) == expected
        assert f"{base}.requires.gpu" not in whitelist
        assert whitelist.admits(base) == expected
    whitelist.close()
    assert whitelist
    assert "a" not in whitelist


@pytest.mark.parametrize("kind", ["stub", "redis"])
def test_what_was_taken_soon_ceases_to_be_listed_as_blocked(
    apps: Apps, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sees a message run and then asks finds nothing blocked; the next tick is far away."""
    monkeypatch.setattr(agent_module, "TICK_S", 60.0)
    app = trained(apps, kind, capabilities={"gpu"})
    app.broker.actors["needs_gpu"].send()
    assert [need.messages for need in app.binding.store.blocked_needs()] == [1]

    app.worker()
    app.log.wait_for(1)
    eventually(lambda: app.binding.store.blocked_needs() == (), timeout_s=5)
