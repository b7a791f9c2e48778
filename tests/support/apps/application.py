"""The sample application: one set of actors, built onto any broker, for workers and producers alike.

Every actor writes to the ledger what it did. The ``old`` variant is a release that lacks `added_later`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from tests.support.apps.extras import declare_extras
from tests.support.ledger import Ledger

__all__ = ["Application", "Recorder", "build_application"]

RETRY_BACKOFF_MS = 50
GATE_POLL_S = 0.01


@dataclass
class Application:
    """A broker with the sample actors; ``application["greet"].send("Ada")``."""

    broker: dramatiq.Broker
    actors: Mapping[str, dramatiq.Actor[..., Any]]
    handshake: Any = None
    _closed: bool = field(default=False, repr=False)

    def __getitem__(self, name: str) -> dramatiq.Actor[..., Any]:
        return self.actors[name]

    def close(self) -> None:
        """Close the broker and every connection that it, its results and its registry hold."""
        if self._closed:
            return
        self._closed = True
        self.broker.close()
        for holder in (self.broker, *(getattr(one, "backend", None) for one in self.broker.middleware)):
            client = getattr(holder, "client", None)
            if client is not None:
                # Its own close() leaves a pool alone that it was given, and Dramatiq gives it one.
                client.connection_pool.disconnect()
        # An application leaves this to the end of its process; a test run outlives many of them.
        binding = getattr(self.handshake, "_binding", None)
        close = getattr(getattr(binding, "store", None), "close", None)
        if close is not None:
            close()


class Recorder:
    """Writes to the ledger in the name of the message that is running now."""

    def __init__(self, ledger: Ledger, label: str) -> None:
        self._ledger = ledger
        self._label = label

    def __call__(self, event: str, actor: str, data: Any = None) -> None:
        message = CurrentMessage.get_current_message()
        if message is None:
            self._ledger.record(event, actor, worker=self._label, data=data)
            return
        self._ledger.record(
            event,
            actor,
            message.message_id,
            worker=self._label,
            data=data,
            queue=message.queue_name,
            retries=message.options.get("retries", 0),
        )


def build_application(
    url: str,
    ledger: Ledger,
    /,
    *,
    label: str = "producer",
    variant: str = "new",
    plugin: bool = True,
    broker: dramatiq.Broker | None = None,
    extras: Iterable[str] = (),
    **handshake: Any,
) -> Application:
    """Build the application.

    Args:
        url: The server of broker and results.
        ledger: Where the actors write.
        label: This process's name in the ledger.
        variant: ``old`` or ``new``.
        plugin: ``False`` builds it without the middleware, its actors without our options.
        broker: Another broker than a `RedisBroker` on `url`.
        extras: Names of further actors (`tests.support.apps.extras`), which no other process has to know.
        **handshake: Arguments of `HandshakeMiddleware`.
    """
    broker = broker or RedisBroker(url=url)
    broker.add_middleware(CurrentMessage())
    broker.add_middleware(Results(backend=RedisBackend(url=url)))
    middleware = None
    if plugin:
        # Imported here so that the harness alone can run plain fleets.
        from dramatiq_handshake import HandshakeMiddleware

        middleware = HandshakeMiddleware(**handshake)
        broker.add_middleware(middleware)
    record = Recorder(ledger, label)
    actors = _declare(broker, record, variant=variant, plugin=plugin)
    application = Application(broker, actors, middleware)
    actors.update(declare_extras(extras, broker, middleware, record))
    return application


def _declare(
    broker: dramatiq.Broker, record: Recorder, *, variant: str, plugin: bool
) -> dict[str, dramatiq.Actor[..., Any]]:
    def ours(**options: Any) -> dict[str, Any]:
        """Our actor options, which plain Dramatiq would refuse."""
        return options if plugin else {}

    def greet(name: str) -> None:
        record("ran", "greet", name)

    def train(dataset: Any) -> None:
        record("ran", "train", dataset)

    def flaky(key: str) -> None:
        message = CurrentMessage.get_current_message()
        assert message is not None
        if not message.options.get("retries"):
            record("failed", "flaky", key)
            raise RuntimeError("fails the first time, on purpose")
        record("ran", "flaky", key)

    def double(number: int) -> int:
        record("ran", "double", number)
        return number * 2

    def embed(number: int) -> int:
        record("ran", "embed", number)
        return number + 100

    def hold(gate: str, max_s: float = 30.0) -> None:
        record("started", "hold", gate)
        deadline = time.monotonic() + max_s
        while not Path(gate).exists() and time.monotonic() < deadline:
            time.sleep(GATE_POLL_S)
        record("ran", "hold", gate)

    def added_later(value: Any) -> None:
        record("ran", "added_later", value)

    def actor(fn: Any, **options: Any) -> dramatiq.Actor[..., Any]:
        return dramatiq.actor(fn, broker=broker, **options)

    backoff = {"min_backoff": RETRY_BACKOFF_MS, "max_backoff": RETRY_BACKOFF_MS}
    declared = [
        actor(greet),
        actor(train, queue_name="ml", **ours(requires=["gpu"], version="2", origin="sample")),
        actor(flaky, max_retries=3, **backoff),
        actor(double, store_results=True),
        actor(embed, queue_name="ml", store_results=True, **ours(requires=["gpu"])),
        actor(hold),
    ]
    if variant == "new":
        declared.append(actor(added_later))
    return {each.actor_name: each for each in declared}
