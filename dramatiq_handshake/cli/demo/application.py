"""The demo's application: an ordinary Dramatiq one, whose actors write to the ledger that they ran.

Producer and workers build the same broker. What differs between releases is what differs in life: yesterday's
lacks an actor, and its `greet` came from another package.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage, Middleware

from dramatiq_handshake import HandshakeMiddleware
from dramatiq_handshake.cli.demo.ledger import Ledger
from dramatiq_handshake.dispatch.capabilities import CAPABILITIES_VARIABLE

__all__ = ["Application", "Release", "worker_environment"]

_URL, _LEDGER, _PROCESS, _RELEASE = "DEMO_URL", "DEMO_LEDGER", "DEMO_PROCESS", "DEMO_RELEASE"


class Release(StrEnum):
    """Which code a process runs."""

    YESTERDAY = "yesterday"
    TODAY = "today"


class _BootRecorder(Middleware):
    """Writes to the ledger that a worker consumes.

    Added after the handshake's middleware, and Dramatiq calls the last one first: so the line is written just
    *before* the worker advertises, and what is measured from it includes the advertising.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def after_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        """Write the line."""
        admitted = worker.consumer_whitelist
        queues = {actor.queue_name for actor in broker.actors.values()}
        if admitted:
            queues = {queue for queue in queues if queue in admitted}
        capabilities = set(filter(None, os.environ.get(CAPABILITIES_VARIABLE, "").split(",")))
        self._ledger.booted(
            queues=sorted(queues),
            capabilities=sorted(capabilities),
            actors=sorted(
                name
                for name, actor in broker.actors.items()
                if actor.queue_name in queues and capabilities.issuperset(actor.options.get("requires", ()))
            ),
        )


@dataclass(frozen=True)
class Application:
    """A broker with the demo's actors.

    Attributes:
        broker: The broker, with the handshake.
        handshake: Its middleware.
        actors: By name.
    """

    broker: dramatiq.Broker
    handshake: HandshakeMiddleware
    actors: Mapping[str, dramatiq.Actor[[str], None]]

    @classmethod
    def build(cls, url: str, ledger: Ledger, release: Release) -> Self:
        """Build the broker and declare the actors of a release on it."""
        broker = RedisBroker(url=url)  # type: ignore[no-untyped-call]  # Dramatiq leaves it so
        broker.add_middleware(CurrentMessage())
        handshake = HandshakeMiddleware()
        broker.add_middleware(handshake)
        broker.add_middleware(_BootRecorder(ledger))
        return cls(broker, handshake, _declare(broker, ledger, release))

    @classmethod
    def from_environment(cls) -> Self:
        """Build it as `worker_environment` says."""
        ledger = Ledger(os.environ[_LEDGER], os.environ[_PROCESS])
        return cls.build(os.environ[_URL], ledger, Release(os.environ[_RELEASE]))

    def close(self) -> None:
        """Release the connections."""
        self.broker.close()


def worker_environment(url: str, ledger: Path, process: str, release: Release) -> dict[str, str]:
    """What `Application.from_environment` reads in a worker process."""
    return {_URL: url, _LEDGER: str(ledger), _PROCESS: process, _RELEASE: release.value}


def _declare(
    broker: dramatiq.Broker, ledger: Ledger, release: Release
) -> dict[str, dramatiq.Actor[[str], None]]:
    def ran(actor: str, argument: str) -> None:
        message = CurrentMessage.get_current_message()
        assert message is not None
        ledger.ran(actor, message.message_id, argument)

    def greet(name: str) -> None:
        ran("greet", name)

    def train(dataset: str) -> None:
        ran("train", dataset)

    def added_later(order: str) -> None:
        ran("added_later", order)

    def actor(fn: Callable[[str], None], **options: Any) -> dramatiq.Actor[[str], None]:
        return dramatiq.actor(broker=broker, **options)(fn)

    # Somebody moved it to another package and forgot to raise the version: the directory notices.
    package = "shop" if release is Release.YESTERDAY else "shop-core"
    declared = [
        actor(greet, version="1", origin=package),
        actor(train, queue_name="ml", requires=["gpu"], version="2", origin="vision"),
    ]
    if release is Release.TODAY:
        declared.append(actor(added_later, version="1", origin="shop-core"))
    return {one.actor_name: one for one in declared}
