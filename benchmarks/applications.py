"""Two applications that differ in one line: bare Dramatiq, and Dramatiq with the handshake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker

from dramatiq_handshake import HandshakeMiddleware

__all__ = ["QUEUE", "Application", "redis_application", "stub_application"]

QUEUE = "work"


@dataclass(frozen=True, slots=True)
class Application:
    """A broker with Dramatiq's default middleware and one actor, ``work(number)``.

    Attributes:
        broker: The broker.
        work: The actor.
        middleware: Ours; ``None`` in the bare application.
    """

    broker: dramatiq.Broker
    work: Any
    middleware: HandshakeMiddleware | None

    @property
    def namespace(self) -> str:
        """What the RedisBroker's keys, and with the handshake the registry's too, begin with."""
        return str(self.broker.namespace)  # type: ignore[attr-defined]  # a RedisBroker's

    def close(self) -> None:
        """Release the connections of the broker and of its registry, which live as long as a process."""
        client = getattr(self.broker, "client", None)
        if client is not None:
            # The broker made its client around a pool, which closing the client leaves open.
            client.connection_pool.disconnect()
        store = getattr(getattr(self.middleware, "_binding", None), "store", None)
        if store is not None:
            store.close()


def redis_application(
    url: str,
    namespace: str,
    *,
    handshake: HandshakeMiddleware | None = None,
    run: Callable[[int], None] | None = None,
    requires: Sequence[str] = (),
) -> Application:
    """An application on a RedisBroker.

    Args:
        namespace: Keeps its keys apart from the other application's on the same server.
        handshake: The middleware, or ``None`` for bare Dramatiq.
        run: What the actor does; nothing by default.
        requires: What the actor requires; only with the handshake.
    """
    # Dramatiq's maintenance is due by chance, once in a thousand commands. It would cost whoever is hit.
    broker = RedisBroker(  # type: ignore[no-untyped-call]  # Dramatiq's
        url=url, namespace=namespace, maintenance_chance=0
    )
    return _application(broker, handshake, run, requires)


def stub_application(*, handshake: HandshakeMiddleware | None = None) -> Application:
    """An application on a StubBroker, where nothing but Python's own work is left of a send."""
    return _application(StubBroker(), handshake, None, ())


def _application(
    broker: dramatiq.Broker,
    handshake: HandshakeMiddleware | None,
    run: Callable[[int], None] | None,
    requires: Sequence[str],
) -> Application:
    if handshake is not None:
        broker.add_middleware(handshake)

    def work(number: int) -> None:
        if run is not None:
            run(number)

    options: dict[str, Any] = {"requires": list(requires)} if requires else {}
    actor = dramatiq.actor(broker=broker, queue_name=QUEUE, **options)(work)
    return Application(broker, actor, handshake)
