"""How a router chooses: data, and the pure decision that a directory in memory makes of it.

A directory carries the policy out in one atomic step; on Redis that is a script (``lua/reserve_v1.lua``)
which a property test holds equal to this module.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import TypeVar

__all__ = ["Candidate", "Order", "Policy", "Turns", "choose", "fit", "only_fit", "why_not"]

#: A turn of a worker with weight 1. Weights divide it, so it leaves room for fine ones; 10^9 jobs stay
#: below 2^53, where Lua's numbers stop counting.
TURN = 1_000_000


class Order(Enum):
    """Which of the fit workers comes first; on a tie, the one registered first."""

    LEAST_ACTIVE = "least-active"
    """The one with the fewest active jobs."""
    IN_TURN = "in-turn"
    """The one whose turn it is; a worker of weight 2 has twice as many turns as one of weight 1."""
    STICKY = "sticky"
    """The one whose hash with the key is the highest (rendezvous hashing)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a router asks a directory to choose by.

    Attributes:
        order: Who comes first.
        max_concurrency: How many jobs a worker may have at once; ``None`` is any number.
        key: What jobs stick to a worker by (`Order.STICKY`).
        weights: Worker id → weight (`Order.IN_TURN`); 0 gets nothing, who is not named has 1.
    """

    order: Order = Order.LEAST_ACTIVE
    max_concurrency: int | None = None
    key: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)

    def stride(self, worker_id: str) -> int | None:
        """How far a turn takes the worker; ``None`` where it has no turns."""
        weight = self.weights.get(worker_id, 1)
        return max(1, round(TURN / weight)) if weight else None


@dataclass(slots=True)
class Candidate:
    """A worker that runs the task type, as a decision sees it."""

    worker_id: str
    active_jobs: int
    last_heartbeat_at: int
    unhealthy_reason: str | None = None


_Candidate = TypeVar("_Candidate", bound=Candidate)


class Turns:
    """Whose turn it is. Each turn takes a worker ahead by its stride; the one that is least ahead is next.

    A worker that was not fit for a while does not catch up on what it missed: it goes on from where the
    others are.
    """

    def __init__(self) -> None:
        self._reached: dict[str, int] = {}
        self._now = 0

    def of(self, worker_id: str) -> int:
        """How far the worker is."""
        return max(self._reached.get(worker_id, 0), self._now)

    def take(self, worker_id: str, stride: int) -> None:
        """The worker has its turn."""
        self._now = self.of(worker_id)
        self._reached[worker_id] = self._now + stride

    def forget(self, worker_id: str) -> None:
        """The worker has left."""
        self._reached.pop(worker_id, None)


def only_fit(
    candidates: Iterable[_Candidate], policy: Policy, now: int, heartbeat_timeout_ms: int
) -> list[_Candidate]:
    """Those that may get a job now, in their order."""
    oldest = now - heartbeat_timeout_ms
    limit = math.inf if policy.max_concurrency is None else policy.max_concurrency
    # One expression, since it runs for every worker at every choice.
    found = [
        each
        for each in candidates
        if each.active_jobs < limit and each.last_heartbeat_at >= oldest and each.unhealthy_reason is None
    ]
    if not policy.weights:
        return found
    return [each for each in found if policy.weights.get(each.worker_id, 1) != 0]


def fit(candidate: Candidate, policy: Policy, now: int, heartbeat_timeout_ms: int) -> bool:
    """Whether the worker may get a job now."""
    return bool(only_fit((candidate,), policy, now, heartbeat_timeout_ms))


def why_not(candidate: Candidate, policy: Policy, now: int, heartbeat_timeout_ms: int) -> str:
    """Why a worker that runs the task type is not `fit`, as the rest of a sentence about it."""
    silent_ms = now - candidate.last_heartbeat_at
    if candidate.unhealthy_reason is not None:
        return f"is unhealthy: {candidate.unhealthy_reason or 'no reason was given'}"
    if silent_ms > heartbeat_timeout_ms:
        return f"is stale: its last heartbeat was {silent_ms} ms ago, more than {heartbeat_timeout_ms} ms"
    if policy.weights.get(candidate.worker_id, 1) == 0:
        return "has the weight 0"
    return f"is busy: it has {candidate.active_jobs} of at most {policy.max_concurrency} jobs"


def choose(candidates: Iterable[Candidate], policy: Policy, turns: Turns) -> str | None:
    """The first of the fit workers.

    Args:
        candidates: Those that are fit, in the order of registration.
        policy: Who comes first.
        turns: Whose turn it is; the chosen one's is taken.
    """
    if policy.order is Order.LEAST_ACTIVE:
        return _first(candidates, attrgetter("active_jobs"))
    if policy.order is Order.STICKY:
        # The highest digest is the lowest of the negated.
        return _first(candidates, lambda candidate: -_affinity(policy.key, candidate.worker_id))
    chosen = _first(candidates, lambda candidate: turns.of(candidate.worker_id))
    stride = policy.stride(chosen) if chosen is not None else None
    if chosen is not None and stride is not None:
        turns.take(chosen, stride)
    return chosen


def _first(candidates: Iterable[Candidate], rank: Callable[[Candidate], int]) -> str | None:
    first = min(candidates, key=rank, default=None)
    return first.worker_id if first is not None else None


def _affinity(key: str, worker_id: str) -> int:
    text = f"{key}\0{worker_id}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha1(text, usedforsecurity=False).digest())
