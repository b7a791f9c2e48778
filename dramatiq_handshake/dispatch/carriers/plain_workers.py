"""Are there workers without this plugin? Evidence from Dramatiq's own heartbeats on Redis.

Every command of any process renews the heartbeat of its broker id, so a heartbeat alone does not tell a
worker from a web process that enqueued a moment ago. But a live worker renews it every second, whatever
it does: an id that nobody claimed and whose heartbeat keeps moving may be a plain worker. Client clocks
write these times, so movement counts and the time itself only at first sight.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from dramatiq_handshake.storage.forking import renew_after_fork

__all__ = ["PlainWorkers"]

#: A worker renews its heartbeat at least every second; three leave room for a slow server.
MOVING_WINDOW_S = 3.0
SAMPLE_INTERVAL_S = 1.0


class PlainWorkers:
    """Watches broker ids for ones that behave like workers and that no plugin process has claimed.

    Args:
        sample: Reads Dramatiq's heartbeats: broker id → (time it wrote, age in ms by the server's clock).
        unclaimed: Which of these ids no plugin process has claimed.
        heartbeat_timeout_ms: From which age on Dramatiq itself takes a process for dead.
    """

    def __init__(
        self,
        sample: Callable[[], Mapping[str, tuple[float, float]]],
        unclaimed: Callable[[Sequence[str]], frozenset[str]],
        *,
        heartbeat_timeout_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sample = sample
        self._unclaimed = unclaimed
        self._timeout_ms = heartbeat_timeout_ms
        self._clock = clock
        self._lock = threading.Lock()
        self._first: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        self._moved: dict[str, float] = {}
        self._sampled_at = float("-inf")
        self._answer = True
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Start with a lock that nobody holds: another thread may have been waiting for the server."""
        self._lock = threading.Lock()

    def possible(self) -> bool:
        """Whether a plain worker is there or can't be ruled out; at most one look a second.

        Raises:
            RegistryUnavailable: The claims can't be read.
            redis.RedisError: The heartbeats can't be read.
        """
        with self._lock:
            now = self._clock()
            if now - self._sampled_at >= SAMPLE_INTERVAL_S:
                self._answer = self._look(now)
                self._sampled_at = now
            return self._answer

    def _look(self, now: float) -> bool:
        sample = self._sample()
        for broker_id, (written, _) in sample.items():
            if broker_id in self._seen and self._seen[broker_id] != written:
                self._moved[broker_id] = now
            self._first.setdefault(broker_id, now)
        for gone in self._first.keys() - sample.keys():
            del self._first[gone]
            self._moved.pop(gone, None)
        self._seen = {broker_id: written for broker_id, (written, _) in sample.items()}
        suspects = [
            broker_id for broker_id, (_, age_ms) in sample.items() if self._lives(broker_id, age_ms, now)
        ]
        return bool(suspects) and bool(self._unclaimed(suspects))

    def _lives(self, broker_id: str, age_ms: float, now: float) -> bool:
        moved = self._moved.get(broker_id)
        if moved is not None and now - moved <= MOVING_WINDOW_S:
            return True
        watched_long_enough = now - self._first[broker_id] > MOVING_WINDOW_S
        return not watched_long_enough and age_ms < self._timeout_ms
