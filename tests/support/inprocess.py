"""Brokers and workers inside the test's own process, as fixtures; everything is stopped with the test."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import dramatiq
import dramatiq.worker
import pytest
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Middleware

from dramatiq_handshake import HandshakeMiddleware
from dramatiq_handshake.dispatch import binding as binding_module
from dramatiq_handshake.dispatch.binding import Binding
from tests.support.dispatching import WatchedStore
from tests.support.poll import eventually

__all__ = ["App", "Apps", "Log", "apps", "no_waiting_for_dramatiq", "watched_stores"]

#: Dramatiq's pauses after an error, 3 s and 5 s, tell a test nothing.
DRAMATIQ_PAUSE_S = 0.05
STOP_TIMEOUT_MS = 10_000


class Log:
    """What ran, in its order; actors call it."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self._changed = threading.Condition()

    def __call__(self, entry: Any) -> None:
        with self._changed:
            self.entries.append(entry)
            self._changed.notify_all()

    def count(self) -> Counter[Any]:
        return Counter(self.entries)

    def wait_for(self, number: int, timeout_s: float = 15) -> list[Any]:
        """Wait until at least so many entries are there."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.entries) >= number, timeout_s), (
                f"{len(self.entries)} of {number} entries after {timeout_s} s: {self.entries[-20:]}"
            )
            return list(self.entries)


class App:
    """One broker with the middleware, and its workers: what would be one process."""

    def __init__(self, broker: Any, handshake: HandshakeMiddleware | None) -> None:
        self.broker = broker
        self.handshake = handshake
        self.log = Log()
        self.workers: list[dramatiq.Worker] = []

    @property
    def binding(self) -> Binding:
        assert self.handshake is not None
        return self.handshake._bound()

    def actor(self, function: Callable[..., Any] | None = None, **options: Any) -> dramatiq.Actor[..., Any]:
        """Declare an actor; without a function, one that writes its argument to the log."""
        name = options.pop("actor_name", None) or getattr(function, "__name__", "record")
        return dramatiq.actor(function or self._record, broker=self.broker, actor_name=name, **options)

    def _record(self, entry: Any = None) -> None:
        self.log(entry)

    def worker(
        self, *, threads: int = 2, timeout_ms: int = 20, queues: set[str] | None = None
    ) -> dramatiq.Worker:
        """Start a worker, stopped with the test at the latest."""
        worker = dramatiq.Worker(
            self.broker, worker_threads=threads, worker_timeout=timeout_ms, queues=queues
        )
        worker.start()
        self.workers.append(worker)
        return worker

    def stop(self, worker: dramatiq.Worker) -> None:
        """Stop a worker now."""
        self.workers.remove(worker)
        worker.stop(timeout=STOP_TIMEOUT_MS)

    def lanes(self, worker: dramatiq.Worker) -> set[str]:
        """The lanes that a worker has a consumer for."""
        return {name for name in list(worker.consumers) if ".need." in name or ".requires." in name}

    def wait_for_lanes(self, worker: dramatiq.Worker, *names: str) -> None:
        """Wait until the worker serves exactly these lanes."""
        eventually(
            lambda: self.lanes(worker) == set(names),
            what=f"the worker serves {sorted(names)}",
            state=lambda: self.lanes(worker),
        )

    def close(self) -> None:
        """Stop the workers and close the connections."""
        while self.workers:
            self.stop(self.workers[0])
        self.broker.close()
        if isinstance(self.broker, RedisBroker):
            self.broker.client.connection_pool.disconnect()
        if self.handshake is not None and self.handshake._binding is not None:
            self.handshake.close()


class Apps:
    """Makes apps; several on one server are as many processes."""

    def __init__(self, url: Callable[[], str]) -> None:
        self._url = url
        self._made: list[App] = []

    def stub(self, *middleware: Middleware, plugin: bool = True, **handshake: Any) -> App:
        """An app on a StubBroker of its own."""
        broker = StubBroker()
        broker.emit_after("process_boot")
        return self._app(broker, middleware, plugin, handshake)

    def redis(
        self,
        *middleware: Middleware,
        url: str | None = None,
        plugin: bool = True,
        broker_options: dict[str, Any] | None = None,
        **handshake: Any,
    ) -> App:
        """An app on a RedisBroker; on the session's server unless told otherwise."""
        broker = RedisBroker(url=url or self._url(), **(broker_options or {}))
        return self._app(broker, middleware, plugin, handshake)

    def _app(
        self, broker: Any, middleware: tuple[Middleware, ...], plugin: bool, handshake: dict[str, Any]
    ) -> App:
        for one in middleware:
            broker.add_middleware(one)
        ours = HandshakeMiddleware(**handshake) if plugin else None
        if ours is not None:
            broker.add_middleware(ours)
        app = App(broker, ours)
        self._made.append(app)
        return app

    def close(self) -> None:
        for app in self._made:
            app.close()


@pytest.fixture
def apps(request: pytest.FixtureRequest) -> Iterator[Apps]:
    """Makes apps; the session's server is started and emptied only for a test that uses it."""

    def url() -> str:
        client: redis.Redis = request.getfixturevalue("valkey")
        assert client.ping()
        answer: str = request.getfixturevalue("valkey_url")
        return answer

    made = Apps(url)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_waiting_for_dramatiq(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten Dramatiq's pauses after an error."""
    monkeypatch.setattr(dramatiq.worker, "CONSUMER_RESTART_DELAY_SECS", DRAMATIQ_PAUSE_S)
    monkeypatch.setattr(dramatiq.worker, "POST_PROCESS_MESSAGE_RETRY_DELAY_SECS", DRAMATIQ_PAUSE_S)
    logging.getLogger("dramatiq").setLevel(logging.WARNING)


@pytest.fixture
def watched_stores(monkeypatch: pytest.MonkeyPatch) -> list[WatchedStore]:
    """Wrap the store of every app from here on; the list holds them in the order in which apps bind."""
    stores: list[WatchedStore] = []
    make = binding_module._store_for

    def watched(*args: Any, **kwargs: Any) -> WatchedStore:
        stores.append(WatchedStore(make(*args, **kwargs)))
        return stores[-1]

    monkeypatch.setattr(binding_module, "_store_for", watched)
    return stores
