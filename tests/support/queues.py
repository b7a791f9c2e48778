"""What a `RedisBroker`'s server holds, read from Dramatiq's own keys and never through the library."""

from __future__ import annotations

import redis

from tests.support.poll import eventually

__all__ = ["Queues"]


class Queues:
    """The queues, lanes and dead letters on one server.

    Args:
        client: A client of the broker's server.
        namespace: The broker's.
    """

    def __init__(self, client: redis.Redis, namespace: str = "dramatiq") -> None:
        self._client = client
        self._namespace = namespace

    def depth(self, queue: str) -> int:
        """How many messages wait in a queue or lane, not counting what a worker has fetched."""
        return int(self._client.llen(f"{self._namespace}:{queue}"))

    def waiting(self) -> dict[str, int]:
        """Every queue or lane that messages wait in, and how many; delay queues are queues too."""
        found = {queue: self.depth(queue) for queue in self._queues(".msgs") if not queue.endswith(".XQ")}
        return {queue: depth for queue, depth in found.items() if depth}

    def unfinished(self) -> dict[str, int]:
        """Every queue or lane that holds messages, and how many: waiting or fetched."""
        return {
            queue: int(self._client.hlen(f"{self._namespace}:{queue}.msgs"))
            for queue in self._queues(".msgs")
            if not queue.endswith(".XQ")
        }

    def unacknowledged(self) -> int:
        """How many messages workers have fetched and not acknowledged."""
        pattern = f"{self._namespace}:__acks__.*"
        return sum(int(self._client.scard(key)) for key in self._client.scan_iter(pattern, count=1000))

    def dead_letters(self) -> dict[str, int]:
        """Every base queue that has dead letters, and how many."""
        return {
            queue: int(self._client.zcard(f"{self._namespace}:{queue}.XQ")) for queue in self._queues(".XQ")
        }

    def wait_empty(self, timeout_s: float = 15.0) -> None:
        """Wait until nothing is queued, delayed, or in a worker's hands."""
        eventually(
            lambda: not self.unfinished() and not self.unacknowledged(),
            timeout_s,
            what="all queues are empty",
            state=lambda: (self.unfinished(), self.unacknowledged()),
        )

    def _queues(self, suffix: str) -> list[str]:
        start, end = len(self._namespace) + 1, -len(suffix)
        names = self._client.scan_iter(f"{self._namespace}:*{suffix}", count=1000)
        return sorted(name.decode()[start:end] for name in names)
