"""Four ways to choose among the workers that are capable and healthy.

A router is a policy and the directory that carries it out; it has no state of its own, so that any number
of processes may have one each. On Redis the least active worker is found without looking at the others; the
other three look at all of them, which keeps the server busy for a few milliseconds where there are 1,000.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing.arguments import checked_limit
from dramatiq_handshake.routing.base import WorkerDirectory
from dramatiq_handshake.routing.jobs import Job
from dramatiq_handshake.routing.policy import TURN, Order, Policy

__all__ = ["LeastActiveWorkerRouter", "RoundRobinRouter", "StickyRouter", "WeightedRouter"]


class LeastActiveWorkerRouter:
    """The worker with the fewest active jobs; on a tie, the one registered first. The default.

    Args:
        directory: Knows the workers.
        max_concurrency: How many jobs a worker may have at once; ``None`` is any number.

    Raises:
        ConfigurationError: The limit is not what it must be.
    """

    def __init__(self, directory: WorkerDirectory, max_concurrency: int | None = None) -> None:
        self._directory = directory
        self._policy = Policy(Order.LEAST_ACTIVE, checked_limit(max_concurrency))

    def select(self, job: Job) -> str:
        """See `WorkerRouter.select`."""
        return self._directory.reserve(job, self._policy)


class RoundRobinRouter:
    """One worker after the other, in the order of registration, whatever they have to do.

    All processes that share a directory share the turn.

    Args:
        directory: Knows the workers.
        max_concurrency: How many jobs a worker may have at once; a full one is passed over.

    Raises:
        ConfigurationError: The limit is not what it must be.
    """

    def __init__(self, directory: WorkerDirectory, max_concurrency: int | None = None) -> None:
        self._directory = directory
        self._policy = Policy(Order.IN_TURN, checked_limit(max_concurrency))

    def select(self, job: Job) -> str:
        """See `WorkerRouter.select`."""
        return self._directory.reserve(job, self._policy)


class WeightedRouter:
    """One worker after the other; a worker of weight 2 comes twice as often as one of weight 1.

    Args:
        directory: Knows the workers.
        weights: Worker id → weight; 0 gets nothing, who is not named has 1.
        max_concurrency: How many jobs a worker may have at once; a full one is passed over.

    Raises:
        ConfigurationError: The limit or a weight is not what it must be.
    """

    def __init__(
        self,
        directory: WorkerDirectory,
        weights: Mapping[str, float],
        max_concurrency: int | None = None,
    ) -> None:
        self._directory = directory
        for worker_id, weight in weights.items():
            if not (isinstance(weight, int | float) and math.isfinite(weight) and 0 <= weight <= TURN):
                raise ConfigurationError(
                    f"the weight of worker {worker_id!r}: expected a number from 0 to {TURN}, got {weight!r}"
                )
        self._policy = Policy(Order.IN_TURN, checked_limit(max_concurrency), weights=dict(weights))

    def select(self, job: Job) -> str:
        """See `WorkerRouter.select`."""
        return self._directory.reserve(job, self._policy)


class StickyRouter:
    """Jobs of equal key go to the same worker, for its caches' sake (rendezvous hashing).

    When a worker comes or goes, only the keys that it wins or had move. A key whose worker is full goes to
    its second choice, and comes back.

    Args:
        directory: Knows the workers.
        key: What of a job it sticks by.
        max_concurrency: How many jobs a worker may have at once; ``None`` is any number.

    Raises:
        ConfigurationError: The limit is not what it must be.
    """

    def __init__(
        self, directory: WorkerDirectory, key: Callable[[Job], str], max_concurrency: int | None = None
    ) -> None:
        self._directory = directory
        self._key = key
        self._max_concurrency = checked_limit(max_concurrency)

    def select(self, job: Job) -> str:
        """See `WorkerRouter.select`."""
        policy = Policy(Order.STICKY, self._max_concurrency, key=self._key(job))
        return self._directory.reserve(job, policy)
