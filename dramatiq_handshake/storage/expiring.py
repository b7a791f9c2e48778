"""A dictionary whose entries lapse, by a clock that the caller reads."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["ExpiringMap"]

K = TypeVar("K")
V = TypeVar("V")


class ExpiringMap(Generic[K, V]):
    """Values that are gone once their time (ms since the epoch) has come."""

    def __init__(self) -> None:
        self._entries: dict[K, tuple[V, int]] = {}

    def put(self, key: K, value: V, expires_ms: int) -> None:
        """Store a value until `expires_ms`."""
        self._entries[key] = (value, expires_ms)

    def prolong(self, key: K, now_ms: int, expires_ms: int) -> None:
        """Let a value live until `expires_ms`; does nothing where there is none."""
        value = self.get(key, now_ms)
        if value is not None:
            self._entries[key] = (value, expires_ms)

    def get(self, key: K, now_ms: int) -> V | None:
        """The value, or ``None`` where there is none or it has lapsed."""
        value, expires_ms = self._entries.get(key, (None, 0))
        return value if now_ms < expires_ms else None

    def expiry(self, key: K) -> int:
        """When the entry lapses or lapsed; 0 where there is none."""
        return self._entries[key][1] if key in self._entries else 0

    def drop(self, key: K) -> None:
        """Forget an entry, if there is one."""
        self._entries.pop(key, None)

    def items(self, now_ms: int) -> list[tuple[K, V]]:
        """Every entry that has not lapsed."""
        return [(key, value) for key, (value, expires_ms) in self._entries.items() if now_ms < expires_ms]

    def forget_lapsed(self, now_ms: int) -> None:
        """Give back the memory of what has lapsed."""
        for key in [key for key, (_, expires_ms) in self._entries.items() if now_ms >= expires_ms]:
            del self._entries[key]
