"""A worker's registration on Redis."""

from __future__ import annotations

from collections.abc import Collection

from dramatiq_handshake.routing.errors import DuplicateWorker, ReservationLapsed
from dramatiq_handshake.routing.redis_calls import Calls, types_text
from dramatiq_handshake.routing.scripts import BEAT, BEGIN, FINISH, LEAVE

__all__ = ["RedisRegistration"]


class RedisRegistration:
    """Implements `lease.Registration`.

    Args:
        calls: The way to the scripts.
        worker_id: Whose.
        task_types: What it runs, for the case that the server has lost it.
        boot: What tells this registration from others of the same id.
    """

    def __init__(self, calls: Calls, worker_id: str, task_types: frozenset[str], boot: str) -> None:
        self._calls = calls
        self._worker_id = worker_id
        self._types = types_text(task_types)
        self._boot = boot

    def beat(self, timestamp: int | None, running: Collection[str], ended: Collection[str]) -> None:
        """See `lease.Registration.beat`."""
        kept = self._calls.call(
            BEAT,
            self._worker_id,
            self._boot,
            self._types,
            "" if timestamp is None else timestamp,
            self._calls.times.job_lease_ms,
            len(running),
            *running,
            *ended,
        )
        if kept is None:
            raise DuplicateWorker(self._worker_id)

    def begin(self, job_id: str, running: Collection[str], ended: Collection[str]) -> None:
        """See `lease.Registration.begin`."""
        outcome = self._calls.call(
            BEGIN,
            self._worker_id,
            self._boot,
            job_id,
            self._calls.times.job_lease_ms,
            len(running),
            *running,
            *ended,
        )
        if outcome == b"taken":
            raise DuplicateWorker(self._worker_id)
        if outcome == b"lapsed":
            raise ReservationLapsed(job_id, self._worker_id)

    def finish(self, job_id: str) -> None:
        """See `lease.Registration.finish`."""
        self._calls.call(FINISH, self._worker_id, self._boot, job_id, self._calls.times.job_lease_ms)

    def leave(self) -> None:
        """See `lease.Registration.leave`."""
        self._calls.call(LEAVE, self._worker_id, self._boot)
