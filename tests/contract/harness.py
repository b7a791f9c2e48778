"""What the contract suite needs of a kind of store besides `FleetStore` itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import redis

from dramatiq_handshake.storage import FleetStore, MemoryStore, RedisStore
from dramatiq_handshake.wire.keys import ContractKeys

__all__ = ["PREFIX", "TTL_MS", "Deployment", "FakeClock", "MemoryDeployment", "RedisDeployment"]

PREFIX = "contract"
TTL_MS = 35_000
#: 2026-01-01, so that times have as many digits as they have in production.
START_MS = 1_767_225_600_000


class FakeClock:
    """One clock for the stores and whatever else must age with them."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self._ages: list[Callable[[int], None]] = []

    def __call__(self) -> int:
        return self.now_ms

    def also_ages(self, age: Callable[[int], None]) -> None:
        """Call `age` with every advance (ms)."""
        self._ages.append(age)

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self.now_ms += ms
        for age in self._ages:
            age(ms)

    def set_back(self, ms: int) -> None:
        """Correct the clock backwards: nothing lives shorter for it."""
        self.now_ms -= ms


class Deployment(Protocol):
    """A registry, the stores that share it, and a back door to the contract's keys."""

    def open(self, **options: Any) -> FleetStore:
        """A store of another process, so to speak."""
        ...

    def publish(
        self, token: str, instance: str, *, heartbeat: str | None = None, descriptor: str | None = None
    ) -> None:
        """Write what another SDK would write: no index."""
        ...

    def lose(self, token: str, instance: str, *, heartbeat: bool = False, descriptor: bool = False) -> None:
        """Delete a contract key behind the store's back, as an eviction does."""
        ...


class MemoryDeployment:
    """The one store of this process."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._store: MemoryStore | None = None

    def open(self, **options: Any) -> FleetStore:
        if self._store is None:
            self._store = MemoryStore(now_ms=self._clock, ttl_ms=TTL_MS, **options)
        return self._store

    def publish(
        self, token: str, instance: str, *, heartbeat: str | None = None, descriptor: str | None = None
    ) -> None:
        assert self._store is not None
        for value, kept in ((heartbeat, self._store._heartbeats), (descriptor, self._store._descriptors)):
            if value is not None:
                kept.put((token, instance), value.encode(), self._clock() + TTL_MS)

    def lose(self, token: str, instance: str, *, heartbeat: bool = False, descriptor: bool = False) -> None:
        assert self._store is not None
        for lost, kept in ((heartbeat, self._store._heartbeats), (descriptor, self._store._descriptors)):
            if lost:
                kept.drop((token, instance))


class RedisDeployment:
    """Stores on one server, under one prefix; the keys' real expiries follow the fake clock."""

    def __init__(self, clock: FakeClock, client: redis.Redis, **options: Any) -> None:
        self._clock = clock
        self._client = client
        self._options = options
        self._contract = ContractKeys(PREFIX)
        self._opened: list[RedisStore] = []
        clock.also_ages(self._age_keys)

    def open(self, **options: Any) -> FleetStore:
        store = RedisStore(
            self._client,
            prefix=PREFIX,
            ttl_ms=TTL_MS,
            now_ms=self._clock,
            server_now_ms=self._clock,
            **(self._options | options),
        )
        self._opened.append(store)
        return store

    def close(self) -> None:
        """Close every store."""
        for store in self._opened:
            store.close()

    def publish(
        self, token: str, instance: str, *, heartbeat: str | None = None, descriptor: str | None = None
    ) -> None:
        for value, key in (
            (heartbeat, self._contract.heartbeat(token, instance)),
            (descriptor, self._contract.descriptor(token, instance)),
        ):
            if value is not None:
                self._client.set(key, value, px=TTL_MS)

    def lose(self, token: str, instance: str, *, heartbeat: bool = False, descriptor: bool = False) -> None:
        for lost, key in (
            (heartbeat, self._contract.heartbeat(token, instance)),
            (descriptor, self._contract.descriptor(token, instance)),
        ):
            if lost:
                self._client.delete(key)

    def _age_keys(self, ms: int) -> None:
        for key in self._client.scan_iter(count=1000):
            life = self._client.pttl(key)
            if life > ms:
                self._client.pexpire(key, life - ms)
            elif life > 0:
                self._client.delete(key)
