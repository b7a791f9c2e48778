"""The directory that many processes share, in Redis 6.2+ or Valkey."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

import redis
from redis.connection import ConnectionPool

from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.routing.arguments import checked_duration, checked_id, checked_types
from dramatiq_handshake.routing.base import (
    HEARTBEAT_TIMEOUT_MS,
    RESERVATION_MS,
    WorkerLease,
    WorkerStatus,
)
from dramatiq_handshake.routing.errors import (
    DuplicateJob,
    DuplicateWorker,
    ReservationLapsed,
    UnknownWorker,
)
from dramatiq_handshake.routing.jobs import Job
from dramatiq_handshake.routing.keys import RoutingKeys
from dramatiq_handshake.routing.lease import Lease
from dramatiq_handshake.routing.policy import TURN, Policy
from dramatiq_handshake.routing.redis_calls import Calls, Row, read_rows, text, types_text
from dramatiq_handshake.routing.redis_dispatches import Dispatches
from dramatiq_handshake.routing.redis_registration import RedisRegistration
from dramatiq_handshake.routing.refusal import Promise, Promises, refuse
from dramatiq_handshake.routing.scripts import (
    FIND,
    HEARTBEAT,
    LIST,
    MARK_UNHEALTHY,
    REGISTER,
    RESERVE,
    START,
)
from dramatiq_handshake.routing.times import FORGET_AFTER_MS, Times
from dramatiq_handshake.storage.breaker import Breaker
from dramatiq_handshake.storage.connection import DEFAULT_TIMEOUT_MS, connector
from dramatiq_handshake.storage.link import RegistryLink
from dramatiq_handshake.storage.scripts import Argument

__all__ = ["RedisWorkerDirectory"]

#: A worker that comes back late from an outage is stale: probe more often than the registry does.
_LONGEST_PAUSE_MS = 2_000


class RedisWorkerDirectory:
    """Implements `WorkerDirectory` on a server; every method is one round trip, and atomic there.

    Times are the server's; no other clock matters. While jobs of this process hold slots, a thread renews
    them; it ends by itself when there are none, and with `close`. The processes that share a directory
    should be given the same durations.

    Args:
        source: A client of the server, or its pool. Its address and credentials are used, for
            connections of the directory's own.
        url: The server's URL, where there is no client.
        prefix: Names the deployment; begins every key.
        heartbeat_timeout_ms: How long a worker may be silent before it is stale.
        reservation_ms: How long a chosen worker's slot waits for the job to be started.
        job_lease_ms: How long the slots of a holder that died are still counted; by default, and better
            not less than, twice the heartbeat timeout.
        forget_after_ms: How long a silent worker stays in the list, and unused keys on the server.
        registry_timeout_ms: How long to wait for a connection and for each reply.
        now: A clock in place of the server's (ms since the epoch); only tests give one.
        breaker: Paces the probes of an outage; only tests give one.

    Raises:
        ConfigurationError: A duration is not what it must be, or the server can't be told from `source`
            and `url`.
    """

    def __init__(
        self,
        source: redis.Redis | ConnectionPool | None = None,
        *,
        url: str | None = None,
        prefix: str = "dramatiq",
        heartbeat_timeout_ms: int = HEARTBEAT_TIMEOUT_MS,
        reservation_ms: int = RESERVATION_MS,
        job_lease_ms: int | None = None,
        forget_after_ms: int = FORGET_AFTER_MS,
        registry_timeout_ms: int = DEFAULT_TIMEOUT_MS,
        now: Callable[[], int] | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self._times = Times.checked(heartbeat_timeout_ms, reservation_ms, job_lease_ms, forget_after_ms)
        keys = RoutingKeys(prefix)
        link = RegistryLink(
            connector(source, url=url, timeout_ms=registry_timeout_ms),
            timeout_ms=registry_timeout_ms,
            breaker=breaker if breaker is not None else Breaker(longest_pause_ms=_LONGEST_PAUSE_MS),
            probe_key=keys.writable,
        )
        self._calls = Calls(link, keys, self._times, now)
        self._promises = Promises()
        # Only the answer may have been lost: the same boot, registered again, is not refused as a duplicate.
        self._unanswered: dict[str, str] = {}
        self._dispatches = Dispatches(self._calls)

    def register(
        self, worker_id: str, task_types: Iterable[str], *, heartbeat_interval_ms: int | None = None
    ) -> WorkerLease:
        """See `WorkerDirectory.register`."""
        types = checked_types(task_types)
        if heartbeat_interval_ms is not None:
            checked_duration("heartbeat_interval_ms", heartbeat_interval_ms)
        boot = self._unanswered.pop(checked_id(worker_id), "") or secrets.token_hex(8)
        try:
            entered = self._calls.call(
                REGISTER,
                worker_id,
                types_text(types),
                self._times.heartbeat_timeout_ms,
                self._times.forget_after_ms,
                boot,
            )
        except RegistryUnavailable:
            self._unanswered[worker_id] = boot
            raise
        if entered is None:
            raise DuplicateWorker(worker_id)
        registration = RedisRegistration(self._calls, worker_id, types, boot)
        return Lease(worker_id, registration, heartbeat_interval_ms)

    def heartbeat(self, worker_id: str, timestamp: int | None = None) -> None:
        """See `WorkerDirectory.heartbeat`."""
        at = "" if timestamp is None else timestamp
        _unless_unknown(worker_id, self._calls.call(HEARTBEAT, worker_id, at))

    def mark_unhealthy(self, worker_id: str, reason: str) -> None:
        """See `WorkerDirectory.mark_unhealthy`."""
        _unless_unknown(worker_id, self._calls.call(MARK_UNHEALTHY, worker_id, reason))

    def list(self) -> tuple[WorkerStatus, ...]:
        """See `WorkerDirectory.list`."""
        return tuple(row.status(self._times, now) for row, now in self._rows())

    def list_capable(self, task_type: str) -> tuple[WorkerStatus, ...]:
        """See `WorkerDirectory.list_capable`."""
        return tuple(row.status(self._times, now) for row, now in self._rows() if task_type in row.task_types)

    def reserve(self, job: Job, policy: Policy) -> str:
        """See `WorkerDirectory.reserve`."""
        outcome, *rest = self._calls.call(RESERVE, job.job_id, job.task_type, *self._policy_arguments(policy))
        if outcome == b"duplicate":
            raise DuplicateJob(job.job_id, text(rest[0]))
        if outcome == b"refused":
            rows = read_rows(rest[1:])
            raise refuse(
                job.task_type,
                [row.candidate for row in rows if job.task_type in row.task_types],
                [row.candidate.worker_id for row in rows if job.task_type not in row.task_types],
                policy,
                now=int(rest[0]),
                heartbeat_timeout_ms=self._times.heartbeat_timeout_ms,
            )
        worker_id = text(rest[0])
        self._promises.keep(job.job_id, Promise(worker_id, policy.max_concurrency))
        return worker_id

    def track_job_start(self, worker_id: str, job_id: str) -> None:
        """See `WorkerDirectory.track_job_start`."""
        limit = self._promises.limit(job_id, worker_id)
        self._promises.drop(job_id)
        outcome, *rest = self._calls.call(START, worker_id, job_id, self._times.job_lease_ms, limit or 0)
        if outcome == b"unknown":
            raise UnknownWorker(worker_id, map(text, rest[0]))
        if outcome == b"duplicate":
            raise DuplicateJob(job_id, text(rest[0]))
        if outcome == b"lapsed":
            raise ReservationLapsed(job_id, worker_id)
        self._dispatches.started(job_id, worker_id, text(rest[0]))

    def track_job_end(self, job_id: str) -> None:
        """See `WorkerDirectory.track_job_end`."""
        self._promises.drop(job_id)
        self._dispatches.ended(job_id)

    def get_worker_for_job(self, job_id: str) -> str | None:
        """See `WorkerDirectory.get_worker_for_job`."""
        found = self._calls.call(FIND, job_id)
        return None if found is None else text(found)

    def close(self) -> None:
        """Stop renewing and close the connections. Leases are not stopped, slots not given back."""
        self._dispatches.close()
        self._calls.link.close()

    def _policy_arguments(self, policy: Policy) -> Iterable[Argument]:
        yield self._times.reservation_ms
        yield self._times.heartbeat_timeout_ms
        yield policy.order.value
        yield policy.max_concurrency or 0
        yield policy.key
        yield TURN
        for worker_id in policy.weights:
            yield worker_id
            yield policy.stride(worker_id) or 0

    def _rows(self) -> Iterable[tuple[Row, int]]:
        now, *reply = self._calls.call(LIST)
        return ((row, int(now)) for row in read_rows(reply))


def _unless_unknown(worker_id: str, known: Iterable[bytes] | None) -> None:
    if known is not None:
        raise UnknownWorker(worker_id, map(text, known))
