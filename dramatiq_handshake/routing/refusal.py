"""Why nobody gets a job, and what a directory remembers of slots that it gave."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from dramatiq_handshake.routing.errors import NoHealthyWorker, WorkersBusy
from dramatiq_handshake.routing.policy import Candidate, Policy, fit, why_not
from dramatiq_handshake.storage.forking import renew_after_fork

__all__ = ["Promise", "Promises", "refuse"]


def refuse(
    task_type: str,
    capable: Iterable[Candidate],
    others: Iterable[str],
    policy: Policy,
    *,
    now: int,
    heartbeat_timeout_ms: int,
) -> NoHealthyWorker:
    """The error that tells why nobody is fit.

    Args:
        task_type: What was asked for.
        capable: The workers that run it; none of them is fit.
        others: Ids of workers that do not run it.
        policy: What was chosen by.
        now: When that was (ms).
        heartbeat_timeout_ms: When a worker is stale.
    """
    workers = list(capable)
    reasons = {each.worker_id: why_not(each, policy, now, heartbeat_timeout_ms) for each in workers}
    reasons |= dict.fromkeys(others, "does not run it")
    unlimited = replace(policy, max_concurrency=None)
    busy = any(fit(each, unlimited, now, heartbeat_timeout_ms) for each in workers)
    return (WorkersBusy if busy else NoHealthyWorker)(task_type, reasons)


class Promise(NamedTuple):
    """A slot that a directory object reserved for somebody in its process."""

    worker_id: str
    limit: int | None


class Promises:
    """Remembers what was reserved until it is started or given back.

    A dispatcher that was suspended for long comes back with a worker whose slot has lapsed; that one must
    not slip in beyond the limit as if it had never reserved anything. What is never started is forgotten,
    the oldest first.
    """

    _AT_MOST = 10_000

    def __init__(self) -> None:
        self._kept: dict[str, Promise] = {}
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """What was promised in the parent is the parent's."""
        self._lock = threading.Lock()
        self._kept = {}

    def keep(self, job_id: str, promise: Promise) -> None:
        """Remember."""
        with self._lock:
            self._kept.pop(job_id, None)
            if len(self._kept) >= self._AT_MOST:
                del self._kept[next(iter(self._kept))]
            self._kept[job_id] = promise

    def limit(self, job_id: str, worker_id: str) -> int | None:
        """The limit that the job was promised a slot within; ``None`` without limit or promise."""
        promise = self._kept.get(job_id)
        return promise.limit if promise is not None and promise.worker_id == worker_id else None

    def drop(self, job_id: str) -> None:
        """Forget."""
        with self._lock:
            self._kept.pop(job_id, None)
