"""A worker that can't be made capability-aware does not start: it would take and dead-letter anything."""

from __future__ import annotations

from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Middleware

from dramatiq_handshake import DeclarationError, HandshakeMiddleware, WorkerBootError
from dramatiq_handshake.dispatch import binding as binding_module
from dramatiq_handshake.dispatch.binding import Binding
from tests.support.inprocess import App, Apps
from tests.support.poll import eventually

JOIN_MS = 10_000

PARTS = [
    "Abilities",
    "Consumers",
    "Whitelist",
    "Admission",
    "LaneKeeper",
    "LaneService",
    "Advertiser",
    "WorkerAgent",
    "derived_capabilities",
]


def fault(*_: Any, **__: Any) -> Any:
    raise RuntimeError("our own mistake")


def assert_nothing_starts(app: App, error: type[Exception], *words: str) -> None:
    """Starting a worker raises, and nobody consumes anything afterwards."""
    app.broker.actors["record"].send("taken")
    worker = dramatiq.Worker(app.broker, worker_timeout=20, worker_threads=1)

    with pytest.raises(error) as refused:
        worker.start()

    for word in words:
        assert word in str(refused.value)
    assert not worker.consumers
    assert not worker.workers
    assert app.log.entries == []


@pytest.mark.parametrize("part", PARTS)
def test_a_fault_in_any_part_of_booting_stops_the_worker(
    apps: Apps, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = apps.stub()
    app.actor()
    monkeypatch.setattr(binding_module, part, fault)

    assert_nothing_starts(
        app,
        WorkerBootError,
        "RuntimeError: our own mistake",
        "capability-aware",
        "DRAMATIQ_HANDSHAKE_MODE=off",
    )

    monkeypatch.undo()
    app.worker()
    app.broker.join("default", timeout=JOIN_MS)
    assert app.log.entries == ["taken"], "and once it is mended, the next worker starts"


def test_a_fault_in_booting_stops_the_worker_on_a_server_too(
    apps: Apps, queues: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = apps.redis()
    app.actor()
    monkeypatch.setattr(binding_module, "Admission", fault)

    assert_nothing_starts(app, WorkerBootError)

    assert queues.unfinished() == {"default": 1}
    assert queues.unacknowledged() == 0


def test_a_fault_before_the_parts_are_there_is_not_swallowed_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dramatiq logs whatever a hook raises that is no MiddlewareError, and boots the worker."""
    broker = StubBroker()
    broker.add_middleware(HandshakeMiddleware())
    monkeypatch.setattr(binding_module, "FleetView", fault)
    with pytest.raises(DeclarationError, match="our own mistake"):
        dramatiq.actor(print, broker=broker)

    broker.declare_queue("default")
    worker = dramatiq.Worker(broker)
    with pytest.raises(DeclarationError, match="our own mistake"):
        worker.start()
    assert not worker.consumers


def test_a_source_of_capabilities_that_fails_at_boot_stops_the_worker(apps: Apps) -> None:
    app = apps.stub(capabilities=fault)
    app.actor()
    assert_nothing_starts(app, WorkerBootError, "our own mistake")


def test_a_source_of_wrong_capabilities_stops_the_worker(apps: Apps) -> None:
    app = apps.stub(capabilities=lambda: "gpu")
    app.actor()
    assert_nothing_starts(app, DeclarationError, "capabilities()", "'gpu'", "list")


def test_what_fails_after_admission_is_installed_leaves_it_installed(
    apps: Apps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should anybody start the worker's threads all the same, it takes nothing that it has not judged."""
    app = apps.stub()
    app.actor()
    monkeypatch.setattr(binding_module, "Advertiser", fault)
    worker = dramatiq.Worker(app.broker, queues=set())
    with pytest.raises(WorkerBootError):
        worker.start()

    assert worker.consumer_whitelist, "an empty set would mean every queue"
    assert "default" in worker.consumer_whitelist
    assert "default.requires.gpu" not in worker.consumer_whitelist
    assert "elsewhere" not in worker.consumer_whitelist


def test_a_hook_of_somebody_else_that_fails_at_boot_does_as_in_stock(apps: Apps) -> None:
    class Fails(Middleware):
        def before_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
            raise RuntimeError("their mistake")

    app = apps.stub(Fails())
    app.actor().send("ran")
    app.worker()
    app.broker.join("default", timeout=JOIN_MS)
    assert app.log.entries == ["ran"]


def test_a_worker_boots_without_its_registry_and_is_advertised_when_it_is_back(
    apps: Apps, watched_stores: list[Any]
) -> None:
    app = apps.stub(heartbeat_interval_ms=100, heartbeat_ttl_ms=1000)
    record = app.actor()
    (store,) = watched_stores
    store.away = True
    app.worker()
    record.send("ran without it")
    app.broker.join("default", timeout=JOIN_MS)
    assert app.log.entries == ["ran without it"]

    store.away = False
    eventually(store.workers, what="the worker is advertised")


@pytest.mark.parametrize("mode", ["enforce", "observe", "off"])
def test_a_worker_stops_and_leaves_nothing_behind(apps: Apps, mode: str) -> None:
    app = apps.stub(mode=mode)
    record = app.actor()
    worker = app.worker()
    if mode != "off":
        assert len(app.binding.store.workers()) == 1
    record.send("ran")
    app.broker.join("default", timeout=JOIN_MS)
    app.stop(worker)

    assert not any(thread.is_alive() for thread in [*worker.workers, *dict.values(worker.consumers)])
    if mode != "off":
        assert app.binding.store.workers() == ()
        assert app.binding.agents == []


def test_a_worker_of_a_broker_that_no_lanes_are_kept_on_says_so(
    valkey_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An unknown class of broker is observed only."""

    class SomeBroker(dramatiq.Broker):
        def declare_queue(self, queue_name: str) -> None:
            self.queues[queue_name] = None

        def enqueue(self, message: Any, *, delay: int | None = None) -> Any:
            return message

    broker = SomeBroker()
    middleware = HandshakeMiddleware(url=valkey_url, capabilities=())
    broker.add_middleware(middleware)
    actor = dramatiq.actor(print, broker=broker, requires=["gpu"])
    worker = dramatiq.Worker(broker)
    binding: Binding = middleware._bound()
    binding.boot(worker)

    assert "No lanes are kept on a SomeBroker" in caplog.text
    assert isinstance(actor.send(), dramatiq.Message)
    assert worker.consumer_whitelist is None
    binding.store.close()
