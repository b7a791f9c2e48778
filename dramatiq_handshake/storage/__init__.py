"""The fleet registry (design §5): what is live, what lanes are open, what is blocked."""

from __future__ import annotations

from dramatiq_handshake.storage.base import FleetStore
from dramatiq_handshake.storage.memory import MemoryStore
from dramatiq_handshake.storage.redis import RedisStore

__all__ = ["FleetStore", "MemoryStore", "RedisStore"]
