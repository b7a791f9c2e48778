"""The workers and slots of a directory in memory: its state, without a lock and without a clock."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from dramatiq_handshake.routing.errors import DuplicateJob, UnknownWorker
from dramatiq_handshake.routing.jobs import Job
from dramatiq_handshake.routing.policy import Candidate, Policy, Turns, choose, fit, only_fit
from dramatiq_handshake.routing.refusal import refuse
from dramatiq_handshake.routing.times import Times

__all__ = ["Entry", "Holder", "Roster", "Slot"]


class Holder(Enum):
    """Who has a slot; see the table in `routing.base`."""

    RESERVED = "reserved"
    DISPATCHER = "dispatcher"
    WORKER = "worker"


@dataclass(slots=True, eq=False)
class Entry(Candidate):
    """A registered worker."""

    task_types: frozenset[str] = frozenset()
    registered_at: int = 0


@dataclass(frozen=True, slots=True)
class Slot:
    """A job's place on a worker.

    Attributes:
        entry: The worker.
        holder: Who has it.
        limit: The limit that it was reserved within.
        until: When it lapses (ms); ``None`` for never.
    """

    entry: Entry
    holder: Holder
    limit: int | None
    until: int | None


class Roster:
    """Workers in the order of registration, and slots.

    Args:
        times: The durations of the directory.
    """

    def __init__(self, times: Times) -> None:
        self._times = times
        self.workers: dict[str, Entry] = {}
        self._capable: dict[str, dict[str, Entry]] = {}
        self.slots: dict[str, Slot] = {}
        self._ends: list[tuple[int, str]] = []
        self._turns = Turns()

    def add(self, worker_id: str, task_types: frozenset[str], now: int) -> Entry:
        """Register a worker as the last."""
        entry = Entry(worker_id, 0, now, task_types=task_types, registered_at=now)
        self._enter(entry)
        return entry

    def enter_again(self, entry: Entry, now: int) -> None:
        """Register a worker that was forgotten, as the last."""
        entry.active_jobs = 0
        entry.registered_at = now
        self._enter(entry)

    def _enter(self, entry: Entry) -> None:
        self.workers[entry.worker_id] = entry
        for task_type in entry.task_types:
            self._capable.setdefault(task_type, {})[entry.worker_id] = entry

    def remove(self, entry: Entry) -> None:
        """Take a worker off; its slots go with it."""
        del self.workers[entry.worker_id]
        for task_type in entry.task_types:
            del self._capable[task_type][entry.worker_id]
            if not self._capable[task_type]:
                del self._capable[task_type]
        self.slots = {job: slot for job, slot in self.slots.items() if slot.entry is not entry}
        self._turns.forget(entry.worker_id)

    def forget_silent(self, now: int) -> None:
        """Take off who has been silent for too long."""
        for entry in list(self.workers.values()):
            if now - entry.last_heartbeat_at > self._times.forget_after_ms:
                self.remove(entry)

    def known(self, worker_id: str) -> Entry:
        """The worker of this id.

        Raises:
            UnknownWorker: There is none.
        """
        entry = self.workers.get(worker_id)
        if entry is None:
            raise UnknownWorker(worker_id, self.workers)
        return entry

    def capable(self, task_type: str) -> Iterable[Entry]:
        """The workers that run the task type."""
        return self._capable.get(task_type, {}).values()

    def beat(self, entry: Entry, now: int, timestamp: int | None) -> None:
        """Note a heartbeat."""
        at = now if timestamp is None else min(timestamp, now)
        entry.last_heartbeat_at = max(entry.last_heartbeat_at, at)
        entry.unhealthy_reason = None

    def reserve(self, job: Job, policy: Policy, now: int) -> str:
        """Choose a worker and give the job a slot; see `WorkerDirectory.reserve`."""
        timeout_ms = self._times.heartbeat_timeout_ms
        chosen = self._reserved_before(job, policy, now)
        if chosen is None:
            candidates = only_fit(self.capable(job.task_type), policy, now, timeout_ms)
            chosen = choose(candidates, policy, self._turns)
        if chosen is None:
            capable = self._capable.get(job.task_type, {})
            others = [each for each in self.workers if each not in capable]
            raise refuse(
                job.task_type, capable.values(), others, policy, now=now, heartbeat_timeout_ms=timeout_ms
            )
        self.give(job.job_id, self.workers[chosen], Holder.RESERVED, policy.max_concurrency, now)
        return chosen

    def _reserved_before(self, job: Job, policy: Policy, now: int) -> str | None:
        """The worker that the job may stay with. What it had reserved is taken back in any case."""
        slot = self.slots.get(job.job_id)
        if slot is None:
            return None
        if slot.holder is not Holder.RESERVED:
            raise DuplicateJob(job.job_id, slot.entry.worker_id)
        self.take_back(job.job_id)
        entry = slot.entry
        stays = job.task_type in entry.task_types and fit(
            entry, policy, now, self._times.heartbeat_timeout_ms
        )
        return entry.worker_id if stays else None

    def give(self, job_id: str, entry: Entry, holder: Holder, limit: int | None, now: int) -> None:
        """Give the job a slot, in place of the one that it may have."""
        if job_id in self.slots:
            self.take_back(job_id)
        until = self._until(holder, now)
        if until is not None:
            heapq.heappush(self._ends, (until, job_id))
        self.slots[job_id] = Slot(entry, holder, limit, until)
        entry.active_jobs += 1

    def _until(self, holder: Holder, now: int) -> int | None:
        if holder is Holder.RESERVED:
            return now + self._times.reservation_ms
        if holder is Holder.WORKER:
            return now + self._times.job_lease_ms
        # Who dispatches in this process can't die and leave the directory behind.
        return None

    def take_back(self, job_id: str) -> None:
        """The job has a slot no more."""
        self.slots.pop(job_id).entry.active_jobs -= 1

    def lapse(self, now: int) -> None:
        """Take back what has lapsed."""
        while self._ends and self._ends[0][0] <= now:
            until, job_id = heapq.heappop(self._ends)
            slot = self.slots.get(job_id)
            if slot is not None and slot.until == until:
                self.take_back(job_id)
