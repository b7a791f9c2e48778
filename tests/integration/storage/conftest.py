"""Stores on real servers, by the servers' own clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
import redis

from dramatiq_handshake.storage import RedisStore
from dramatiq_handshake.storage.breaker import Breaker
from tests.contract.leaks import leaks

PREFIX = "integration"


class StoreFactory(Protocol):
    """Opens a store (`RedisStore`'s arguments); it is closed with the test."""

    def __call__(self, source: redis.Redis | None = None, **options: Any) -> RedisStore: ...


class ManualClock:
    """A monotonic clock for a breaker."""

    def __init__(self) -> None:
        self.ms = 0.0

    def __call__(self) -> float:
        return self.ms


@pytest.fixture
def open_store() -> Iterator[StoreFactory]:
    opened: list[RedisStore] = []

    def open_one(source: redis.Redis | None = None, **options: Any) -> RedisStore:
        store = RedisStore(source, **({"prefix": PREFIX} | options))
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: StoreFactory, valkey: redis.Redis) -> Iterator[RedisStore]:
    """A store on the session's server; fails a test that leaves a key which `docs/keys.md` forbids."""
    yield open_store(valkey)
    assert leaks(valkey, PREFIX) == []


@pytest.fixture
def breaker_clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def patient_breaker(breaker_clock: ManualClock) -> Callable[[], Breaker]:
    """Breakers whose pauses pass when the test says so."""
    return lambda: Breaker(now_ms=breaker_clock)
