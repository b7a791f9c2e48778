"""What directories, routers and gateways promise each other (spec "Route Tasks Across Workers").

A *directory* knows workers: what they run, how they are, how many jobs each has. A *router* chooses one
for a job. A *gateway* brings the job there. All three are synchronous and thread-safe; what takes long,
the job itself, is a `PendingJob`.

**Choosing counts.** `WorkerRouter.select` gives the job a *slot* on the worker in the same atomic step in
which it chooses, so that two dispatchers never take the last place at once. A slot is a lease:

| holder of the slot | since | ends by | lapses |
| --- | --- | --- | --- |
| nobody yet: a reservation | `select` | `track_job_end` | after ``reservation_ms`` |
| who dispatched | `WorkerDirectory.track_job_start` | `track_job_end` | soon after that process died |
| the worker | `WorkerLease.begin` | `WorkerLease.finish` | soon after the worker's beats ended |

So a dispatcher that dies between choosing and sending gives the slot back, and a worker that takes its
jobs with `WorkerLease.begin` never runs more of them than the router meant it to, whoever dies.

Times are integers in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Protocol, Self

from dramatiq_handshake.routing.jobs import DispatchOptions, Job, PendingJob
from dramatiq_handshake.routing.policy import Policy

__all__ = [
    "HEARTBEAT_TIMEOUT_MS",
    "RESERVATION_MS",
    "Health",
    "WorkerDirectory",
    "WorkerGateway",
    "WorkerLease",
    "WorkerRouter",
    "WorkerStatus",
]

#: How long a worker may be silent before it is stale (the spec's default).
HEARTBEAT_TIMEOUT_MS = 30_000
#: How long a slot is kept for a job that was given a worker and has not been started.
RESERVATION_MS = 10_000


class Health(Enum):
    """How a worker is."""

    HEALTHY = "healthy"
    """It may get jobs."""
    UNHEALTHY = "unhealthy"
    """Somebody marked it so, and it has not beaten since."""
    STALE = "stale"
    """Its last heartbeat is older than the timeout."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What a directory knows of a worker.

    Attributes:
        worker_id: Its id.
        task_types: What it runs.
        active_jobs: How many slots its jobs hold, reservations included.
        registered_at: When it was registered (ms).
        last_heartbeat_at: When it beat last (ms); registering counts.
        health: How it is now.
        unhealthy_reason: What `WorkerDirectory.mark_unhealthy` was told, while that holds.
    """

    worker_id: str
    task_types: frozenset[str]
    active_jobs: int
    registered_at: int
    last_heartbeat_at: int
    health: Health
    unhealthy_reason: str | None = None


class WorkerLease(Protocol):
    """A worker's registration, in the hands of whoever registered it; a context manager that stops it."""

    @property
    def worker_id(self) -> str:
        """Whose registration it is."""
        ...

    def heartbeat(self, timestamp: int | None = None) -> None:
        """Beat for the worker, and renew the slots of what it runs (`begin`).

        Raises:
            DuplicateWorker: It was silent for so long that another registration took over its id.
            UnknownWorker: The lease was stopped.
            RegistryUnavailable: The directory can't be reached.
        """
        ...

    def begin(self, job_id: str) -> None:
        """Take over a job's slot: from now on it lives and ends with this worker.

        Call it in the worker, when the job has arrived and before its handler runs.

        Raises:
            ReservationLapsed: The job has no slot here, or none that the limit which its router was
                given leaves. It must not run; select again.
            DuplicateJob: It has begun already.
            DuplicateWorker, UnknownWorker, RegistryUnavailable: As for `heartbeat`; it must not run.
        """
        ...

    def finish(self, job_id: str) -> None:
        """Give the slot back. Never raises for an unreachable directory: the next beat says it again."""
        ...

    def running(self, job_id: str) -> AbstractContextManager[None]:
        """`begin` now and `finish` at the end of the block."""
        ...

    def stop(self) -> None:
        """Take the worker off the directory; a second time does nothing. Its slots are gone with it."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class WorkerDirectory(Protocol):
    """Tracks workers: ids, task types, health, heartbeats, active jobs.

    Where a method may raise `RegistryUnavailable`, a directory in memory never does.
    """

    def register(
        self, worker_id: str, task_types: Iterable[str], *, heartbeat_interval_ms: int | None = None
    ) -> WorkerLease:
        """Add a healthy worker at the end of the order.

        A stale registration of the same id is replaced: its process has crashed.

        Args:
            worker_id: Its id: any text that is not empty.
            task_types: What it runs.
            heartbeat_interval_ms: Have the lease beat by itself, in a thread that ends with
                `WorkerLease.stop`. ``None``: somebody else calls `heartbeat`.

        Raises:
            DuplicateWorker: The id is taken.
            ConfigurationError: An argument is not what it must be.
            RegistryUnavailable: The directory can't be reached.
        """
        ...

    def heartbeat(self, worker_id: str, timestamp: int | None = None) -> None:
        """Note a sign of life: the worker is healthy, and why it was not is forgotten.

        Args:
            worker_id: Whose.
            timestamp: When it was (ms, by the directory's clock); now by default. One that is older than
                the last, or lies ahead of the directory's clock, moves nothing back or ahead.

        Raises:
            UnknownWorker: Nobody of that id is registered.
            RegistryUnavailable: The directory can't be reached.
        """
        ...

    def mark_unhealthy(self, worker_id: str, reason: str) -> None:
        """Keep jobs from a worker until its next heartbeat.

        Raises:
            UnknownWorker: Nobody of that id is registered.
            RegistryUnavailable: The directory can't be reached.
        """
        ...

    def list(self) -> tuple[WorkerStatus, ...]:
        """Every registered worker, in the order of registration.

        Raises:
            RegistryUnavailable: The directory can't be reached.
        """
        ...

    def list_capable(self, task_type: str) -> tuple[WorkerStatus, ...]:
        """Those that run `task_type`, in the order of registration, whatever their health.

        Raises:
            RegistryUnavailable: The directory can't be reached.
        """
        ...

    def reserve(self, job: Job, policy: Policy) -> str:
        """Choose a worker and give the job a slot there, in one atomic step. What routers call.

        Asked again for a job that is only reserved, it keeps the slot if that worker is still fit.

        Returns:
            The id of the worker.

        Raises:
            NoHealthyWorker: Nobody is fit; `WorkersBusy` where somebody is, and full.
            DuplicateJob: The job has been started.
            RegistryUnavailable: The directory can't be reached.
        """
        ...

    def track_job_start(self, worker_id: str, job_id: str) -> None:
        """Note that a job is about to be sent to a worker; a reservation becomes the dispatcher's slot.

        A job without reservation (a router of one's own) is given a slot, whatever the load.

        Raises:
            UnknownWorker: Nobody of that id is registered.
            DuplicateJob: The job has been started.
            ReservationLapsed: This directory reserved a slot, it has lapsed, and the worker is full by
                now. Select again.
            RegistryUnavailable: The directory can't be reached.
        """
        ...

    def track_job_end(self, job_id: str) -> None:
        """Give the job's slot back; unknown jobs are no error.

        A slot that the worker holds (`WorkerLease.begin`) is the worker's to give back, and stays. Never
        raises for an unreachable directory: the slot lapses, or is given back later.
        """
        ...

    def get_worker_for_job(self, job_id: str) -> str | None:
        """The worker where the job has a slot.

        Raises:
            RegistryUnavailable: The directory can't be reached.
        """
        ...


class WorkerRouter(Protocol):
    """Chooses a capable, healthy worker for a job."""

    def select(self, job: Job) -> str:
        """Choose, and count the job there (see the module).

        Returns:
            The id of the worker.

        Raises:
            NoHealthyWorker: Nobody is fit, and why, per worker; `WorkersBusy` where somebody is, and full.
            DuplicateJob: The job has been started.
            RegistryUnavailable: The directory can't be reached.
        """
        ...


class WorkerGateway(Protocol):
    """Brings jobs to where they run. Whatever fits this protocol can be an endpoint of another."""

    def dispatch(self, job: Job, options: DispatchOptions | None = None) -> PendingJob:
        """Start a job; whatever goes wrong comes out of the `PendingJob`, nothing is raised here.

        Args:
            job: What to run.
            options: Its cancel signal and who listens to its log.
        """
        ...

    def request_cancel(self, job_id: str) -> None:
        """Ask a job to stop; does nothing for a job that is unknown, has ended, or was asked before."""
        ...
