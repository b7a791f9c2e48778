"""Worker directories of every kind, by the real clock; and what every test here closes at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest
import redis

from dramatiq_handshake.routing import (
    InMemoryWorkerDirectory,
    Port,
    PortFault,
    RedisWorkerDirectory,
    WorkerDirectory,
    queue_ports,
)
from dramatiq_handshake.storage.breaker import Breaker
from tests.support.routing import Gate, connection_ports

PREFIX = "integration"


class OpenDirectory(Protocol):
    """Opens a directory (options of both kinds); on Redis each call is another process, so to speak."""

    def __call__(self, **options: Any) -> WorkerDirectory: ...


class OpenImpatient(Protocol):
    """Opens a directory on the server that a client knows."""

    def __call__(self, source: redis.Redis, **options: Any) -> RedisWorkerDirectory: ...


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    """Ends what a test started, last first."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def gate(closing: ExitStack) -> Gate:
    """A door that opens at the latest when the test ends."""
    door = Gate()
    closing.callback(door.opened.set)
    return door


@pytest.fixture(params=["memory", "redis"])
def open_directory(request: pytest.FixtureRequest, closing: ExitStack) -> OpenDirectory:
    kept: list[WorkerDirectory] = []

    def in_memory(**options: Any) -> WorkerDirectory:
        if not kept:
            kept.append(InMemoryWorkerDirectory(**options))
        return kept[0]

    def on_redis(**options: Any) -> WorkerDirectory:
        directory = RedisWorkerDirectory(request.getfixturevalue("valkey"), prefix=PREFIX, **options)
        closing.callback(directory.close)
        return directory

    if request.param == "memory":
        return in_memory
    request.getfixturevalue("valkey")
    return on_redis


@pytest.fixture
def directory(open_directory: OpenDirectory) -> WorkerDirectory:
    return open_directory()


@pytest.fixture
def open_impatient(closing: ExitStack) -> OpenImpatient:
    """Opens directories on a server, under one prefix, that ask again at once after an outage."""

    def opener(source: redis.Redis, **options: Any) -> RedisWorkerDirectory:
        breaker = Breaker(first_pause_ms=1, longest_pause_ms=1)
        directory = RedisWorkerDirectory(source, **({"prefix": "test", "breaker": breaker} | options))
        closing.callback(directory.close)
        return directory

    return opener


KINDS: dict[str, Callable[[], tuple[Port, Port]]] = {"queues": queue_ports, "connection": connection_ports}


@pytest.fixture(params=KINDS)
def ports(request: pytest.FixtureRequest, closing: ExitStack) -> tuple[Port, Port]:
    """The gateway's end and the worker's."""
    pair = KINDS[request.param]()
    for port in pair:
        closing.callback(port.close)
    return pair


@pytest.fixture
def faults() -> list[PortFault]:
    return []
