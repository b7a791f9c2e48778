"""The directory of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from dramatiq_handshake.routing.arguments import checked_duration, checked_id, checked_types
from dramatiq_handshake.routing.base import (
    HEARTBEAT_TIMEOUT_MS,
    RESERVATION_MS,
    WorkerLease,
    WorkerStatus,
)
from dramatiq_handshake.routing.errors import DuplicateJob, DuplicateWorker, ReservationLapsed
from dramatiq_handshake.routing.jobs import Job
from dramatiq_handshake.routing.lease import Lease
from dramatiq_handshake.routing.policy import Policy
from dramatiq_handshake.routing.refusal import Promise, Promises
from dramatiq_handshake.routing.roster import Entry, Holder, Roster
from dramatiq_handshake.routing.times import FORGET_AFTER_MS, Times
from dramatiq_handshake.storage.clock import wall_clock_ms
from dramatiq_handshake.storage.forking import renew_after_fork

__all__ = ["InMemoryWorkerDirectory"]


class _Guarded:
    """A roster behind a lock; whoever enters finds nothing lapsed in it."""

    def __init__(self, roster: Roster, now: Callable[[], int]) -> None:
        self._roster = roster
        self._now = now
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Start with a free lock. What the child does from here on, the parent does not see."""
        self._lock = threading.Lock()

    @contextmanager
    def opened(self) -> Iterator[tuple[Roster, int]]:
        """The roster, and what time it is."""
        with self._lock:
            now = self._now()
            self._roster.lapse(now)
            yield self._roster, now


class InMemoryWorkerDirectory:
    """Implements `WorkerDirectory` for the threads of one process.

    Args:
        now: The clock (ms since the epoch).
        heartbeat_timeout_ms: How long a worker may be silent before it is stale.
        reservation_ms: How long a chosen worker's slot waits for the job to be started.
        job_lease_ms: How long the slots of a worker that stopped beating are still counted; by default,
            and better not less than, twice the heartbeat timeout.
        forget_after_ms: How long a silent worker stays in the list.

    Raises:
        ConfigurationError: A duration is not what it must be.
    """

    def __init__(
        self,
        *,
        now: Callable[[], int] = wall_clock_ms,
        heartbeat_timeout_ms: int = HEARTBEAT_TIMEOUT_MS,
        reservation_ms: int = RESERVATION_MS,
        job_lease_ms: int | None = None,
        forget_after_ms: int = FORGET_AFTER_MS,
    ) -> None:
        self._times = Times.checked(heartbeat_timeout_ms, reservation_ms, job_lease_ms, forget_after_ms)
        self._guarded = _Guarded(Roster(self._times), now)
        self._promises = Promises()

    def register(
        self, worker_id: str, task_types: Iterable[str], *, heartbeat_interval_ms: int | None = None
    ) -> WorkerLease:
        """See `WorkerDirectory.register`."""
        checked_id(worker_id)
        types = checked_types(task_types)
        if heartbeat_interval_ms is not None:
            checked_duration("heartbeat_interval_ms", heartbeat_interval_ms)
        with self._guarded.opened() as (roster, now):
            known = roster.workers.get(worker_id)
            if known is not None:
                if not self._times.silent(known.last_heartbeat_at, now):
                    raise DuplicateWorker(worker_id)
                roster.remove(known)
            roster.forget_silent(now)
            entry = roster.add(worker_id, types, now)
        return Lease(worker_id, _Registration(self._guarded, entry), heartbeat_interval_ms)

    def heartbeat(self, worker_id: str, timestamp: int | None = None) -> None:
        """See `WorkerDirectory.heartbeat`."""
        with self._guarded.opened() as (roster, now):
            roster.beat(roster.known(worker_id), now, timestamp)

    def mark_unhealthy(self, worker_id: str, reason: str) -> None:
        """See `WorkerDirectory.mark_unhealthy`."""
        with self._guarded.opened() as (roster, _):
            roster.known(worker_id).unhealthy_reason = reason

    def list(self) -> tuple[WorkerStatus, ...]:
        """See `WorkerDirectory.list`."""
        with self._guarded.opened() as (roster, now):
            return tuple(self._status(entry, now) for entry in roster.workers.values())

    def list_capable(self, task_type: str) -> tuple[WorkerStatus, ...]:
        """See `WorkerDirectory.list_capable`."""
        with self._guarded.opened() as (roster, now):
            return tuple(self._status(entry, now) for entry in roster.capable(task_type))

    def reserve(self, job: Job, policy: Policy) -> str:
        """See `WorkerDirectory.reserve`."""
        with self._guarded.opened() as (roster, now):
            chosen = roster.reserve(job, policy, now)
            self._promises.keep(job.job_id, Promise(chosen, policy.max_concurrency))
            return chosen

    def track_job_start(self, worker_id: str, job_id: str) -> None:
        """See `WorkerDirectory.track_job_start`."""
        with self._guarded.opened() as (roster, now):
            entry = roster.known(worker_id)
            slot = roster.slots.get(job_id)
            if slot is not None and slot.holder is not Holder.RESERVED:
                raise DuplicateJob(job_id, slot.entry.worker_id)
            limit = self._promises.limit(job_id, worker_id)
            self._promises.drop(job_id)
            if slot is not None and slot.entry is entry:
                limit = slot.limit
            elif limit is not None and entry.active_jobs >= limit:
                raise ReservationLapsed(job_id, worker_id)
            roster.give(job_id, entry, Holder.DISPATCHER, limit, now)

    def track_job_end(self, job_id: str) -> None:
        """See `WorkerDirectory.track_job_end`."""
        with self._guarded.opened() as (roster, _):
            self._promises.drop(job_id)
            slot = roster.slots.get(job_id)
            if slot is not None and slot.holder is not Holder.WORKER:
                roster.take_back(job_id)

    def get_worker_for_job(self, job_id: str) -> str | None:
        """See `WorkerDirectory.get_worker_for_job`."""
        with self._guarded.opened() as (roster, _):
            slot = roster.slots.get(job_id)
            return slot.entry.worker_id if slot is not None else None

    def _status(self, entry: Entry, now: int) -> WorkerStatus:
        return WorkerStatus(
            worker_id=entry.worker_id,
            task_types=entry.task_types,
            active_jobs=entry.active_jobs,
            registered_at=entry.registered_at,
            last_heartbeat_at=entry.last_heartbeat_at,
            health=self._times.health(entry.unhealthy_reason, entry.last_heartbeat_at, now),
            unhealthy_reason=entry.unhealthy_reason,
        )


class _Registration:
    """Implements `lease.Registration`."""

    def __init__(self, guarded: _Guarded, entry: Entry) -> None:
        self._guarded = guarded
        self._entry = entry

    def beat(self, timestamp: int | None, running: Collection[str], ended: Collection[str]) -> None:  # noqa: ARG002 - nothing ends unheard of in memory
        with self._guarded.opened() as (roster, now):
            if not self._registered(roster):
                roster.enter_again(self._entry, now)
            roster.beat(self._entry, now, timestamp)
            self._state(roster, running, now)

    def begin(self, job_id: str, running: Collection[str], ended: Collection[str]) -> None:  # noqa: ARG002 - nothing ends unheard of in memory
        entry = self._entry
        with self._guarded.opened() as (roster, now):
            if not self._registered(roster):
                raise ReservationLapsed(job_id, entry.worker_id)
            self._state(roster, running, now)
            slot = roster.slots.get(job_id)
            if slot is None or slot.entry is not entry:
                raise ReservationLapsed(job_id, entry.worker_id)
            if slot.limit is not None and entry.active_jobs > slot.limit:
                roster.take_back(job_id)
                raise ReservationLapsed(job_id, entry.worker_id)
            roster.give(job_id, entry, Holder.WORKER, slot.limit, now)

    def finish(self, job_id: str) -> None:
        with self._guarded.opened() as (roster, _):
            slot = roster.slots.get(job_id)
            if slot is not None and slot.entry is self._entry:
                roster.take_back(job_id)

    def leave(self) -> None:
        with self._guarded.opened() as (roster, _):
            if roster.workers.get(self._entry.worker_id) is self._entry:
                roster.remove(self._entry)

    def _registered(self, roster: Roster) -> bool:
        """Whether this registration is still there; one that was forgotten for its silence is not."""
        entry = roster.workers.get(self._entry.worker_id)
        if entry is not None and entry is not self._entry:
            raise DuplicateWorker(self._entry.worker_id)
        return entry is not None

    def _state(self, roster: Roster, running: Collection[str], now: int) -> None:
        """Renew the slots of what runs, or give them again."""
        for job_id in running:
            roster.give(job_id, self._entry, Holder.WORKER, None, now)
