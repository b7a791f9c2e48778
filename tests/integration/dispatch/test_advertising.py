"""What a worker says of itself while it boots, works, stalls, pauses and leaves."""

from __future__ import annotations

import json
import threading
from typing import Any

import dramatiq
import pytest
import redis

from dramatiq_handshake import Diagnostic
from dramatiq_handshake.dispatch import advertiser as advertiser_module
from dramatiq_handshake.wire.descriptor import parse_descriptor
from dramatiq_handshake.wire.etag import descriptor_etag
from tests.support.inprocess import App, Apps
from tests.support.poll import eventually


def described(app: App) -> dict[str, Any]:
    """The advertisements of this app's registry by queue."""
    return {record.token: parse_descriptor(record.descriptor_json) for record in app.binding.store.workers()}


def beats(app: App) -> dict[str, Any]:
    """The latest heartbeats by queue."""
    return {record.token: json.loads(record.heartbeat) for record in app.binding.store.workers()}


def test_a_booted_worker_is_a_visible_one(apps: Apps) -> None:
    app = apps.stub(capabilities={"gpu"})
    app.actor(
        actor_name="train", queue_name="ml", requires=["gpu"], version="2", accepts=["1"], origin="vision"
    )
    app.actor(actor_name="refund", queue_name="ml", requires=["saga"])
    app.actor(actor_name="charge", step=True)
    app.worker(threads=3)

    advertised = described(app)
    assert set(advertised) == {"ml", "default"}, "lanes and delay queues are not advertised"
    (first, second) = advertised.values()
    assert first == second
    assert first.workflows == ("train",), "announce only what you can run"
    assert first.steps == ("charge",)
    assert {(one.version, one.group, one.requires, one.origin) for one in first.registrations} == {
        (version, "ml", ("gpu",), "vision") for version in ("1", "2")
    }
    assert {"gpu", "retries", "pipelines", "priority"} <= set(first.capabilities)
    assert "saga" not in first.capabilities
    assert beats(app)["ml"]["load"]["threads"] == 3


def test_an_actor_declared_late_is_advertised_at_once(apps: Apps) -> None:
    app = apps.stub()
    app.actor(actor_name="early")
    app.worker()
    app.actor(actor_name="late", queue_name="other")
    eventually(lambda: "late" in described(app).get("other", described(app)["default"]).workflows)


def test_a_consumer_that_stands_still_takes_its_queue_off(
    apps: Apps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process beats on, but nobody there takes anything from the queue (field notes 5)."""
    monkeypatch.setattr(advertiser_module, "STALLED_AFTER_S", 0.3)
    app = apps.stub(heartbeat_interval_ms=50)
    app.actor(actor_name="plain")
    app.actor(actor_name="train", queue_name="ml")
    heard: list[Diagnostic] = []
    worker = app.worker()
    app.handshake.on("worker.stalled", heard.append)
    go_on = threading.Event()
    inner = worker.consumers.thread("ml").consumer.inner
    real = inner.queue.get

    def stuck(*args: Any, **kwargs: Any) -> Any:
        go_on.wait(20)
        return real(*args, **kwargs)

    inner.queue.get = stuck
    eventually(lambda: set(described(app)) == {"default"}, what="the stalled queue is taken off")
    assert described(app)["default"].workflows == ("plain",)
    assert [one.attributes["token"] for one in heard] == ["ml"]

    go_on.set()
    eventually(lambda: set(described(app)) == {"default", "ml"}, what="and is back when it goes on")
    assert len(heard) == 1


def test_a_worker_that_leaves_is_planned_to_no_more_while_it_finishes(apps: Apps) -> None:
    app = apps.redis()
    running, may_finish = threading.Event(), threading.Event()

    def slow() -> None:
        running.set()
        may_finish.wait(10)

    app.actor(slow).send()
    worker = app.worker()
    assert running.wait(10)
    stopping = threading.Thread(target=app.stop, args=(worker,))
    stopping.start()
    eventually(lambda: beats(app)["default"]["status"] == "draining")
    app.binding._view.renew(["default"])
    assert app.binding._view._queues["default"].snapshot.candidates == ()

    may_finish.set()
    stopping.join(10)
    assert beats(app) == {}


def test_a_paused_worker_lives_as_far_as_dramatiq_can_tell(apps: Apps, valkey: redis.Redis) -> None:
    """Paused consumers send nothing; taken for dead, their messages would be given to others."""
    app = apps.redis(heartbeat_interval_ms=50)
    app.actor()
    worker = app.worker()
    worker.pause()

    def heartbeat() -> float:
        score: float = valkey.zscore("dramatiq:__heartbeats__", app.broker.broker_id)
        return score

    before = heartbeat()
    eventually(lambda: heartbeat() > before, what="the heartbeat moves")
    assert set(described(app)) == {"default"}
    worker.resume()


def test_workers_on_two_brokers_of_one_registry_are_no_candidates_for_each_other(
    apps: Apps, valkey: redis.Redis
) -> None:
    """Staging and production with one registry: the same queue names, different databases."""
    url = apps._url()
    production = apps.redis(url=url, prefix="shared")
    staging = apps.stub(url=url, prefix="shared")
    for app in (production, staging):
        app.actor(actor_name="known")
    staging.actor(actor_name="only_in_staging")
    staging.worker()
    production.worker()

    sent = production.broker.enqueue(dramatiq.Message("default", "only_in_staging", (), {}, {}))

    (entry,) = production.handshake.engine.blocked()
    assert entry.message_id == sent.message_id
    assert staging.log.entries == []


def test_a_descriptor_is_worked_out_once_per_change(apps: Apps, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ETag costs more than a beat (design §13): the ticks in between compare, and no more."""
    hashed: list[str] = []

    def counting(descriptor: Any) -> str:
        hashed.append(descriptor.instance_id)
        return descriptor_etag(descriptor)

    monkeypatch.setattr(advertiser_module, "descriptor_etag", counting)
    app = apps.stub(heartbeat_interval_ms=20)
    app.actor(actor_name="greet")
    app.worker()
    looks: list[int] = []
    look = app.binding.store.look
    monkeypatch.setattr(app.binding.store, "look", lambda *args: looks.append(1) or look(*args))
    eventually(lambda: len(looks) >= 5, what="five more ticks")
    assert len(hashed) == 1

    app.handshake.add_capability("gpu")
    assert len(hashed) == 2
