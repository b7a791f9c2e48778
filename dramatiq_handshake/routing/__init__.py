"""Routing work to a chosen worker (design §10): by capability, load and health.

Nothing here needs Dramatiq. Where Dramatiq's queues serve, and they nearly always do, prefer them: a
message in a queue survives the process that sent it, a job here does not.
"""

from dramatiq_handshake.routing.base import (
    Health,
    WorkerDirectory,
    WorkerGateway,
    WorkerLease,
    WorkerRouter,
    WorkerStatus,
)
from dramatiq_handshake.routing.errors import (
    DuplicateJob,
    DuplicateWorker,
    EndpointMissing,
    JobCancelled,
    JobFailed,
    NoHealthyWorker,
    ReservationLapsed,
    RoutingError,
    UnknownWorker,
    WorkerLost,
    WorkersBusy,
)
from dramatiq_handshake.routing.jobs import DispatchOptions, Job, JobLog, JobResult, PendingJob
from dramatiq_handshake.routing.memory import InMemoryWorkerDirectory
from dramatiq_handshake.routing.redis import RedisWorkerDirectory
from dramatiq_handshake.routing.routers import (
    LeastActiveWorkerRouter,
    RoundRobinRouter,
    StickyRouter,
    WeightedRouter,
)
from dramatiq_handshake.routing.signals import CancelSignal

__all__ = [  # noqa: RUF022 - grouped by what they are for
    # Jobs
    "CancelSignal",
    "DispatchOptions",
    "Job",
    "JobLog",
    "JobResult",
    "PendingJob",
    # Directory, router, gateway
    "Health",
    "WorkerDirectory",
    "WorkerGateway",
    "WorkerLease",
    "WorkerRouter",
    "WorkerStatus",
    "InMemoryWorkerDirectory",
    "LeastActiveWorkerRouter",
    "RedisWorkerDirectory",
    "RoundRobinRouter",
    "StickyRouter",
    "WeightedRouter",
    # Errors
    "DuplicateJob",
    "DuplicateWorker",
    "EndpointMissing",
    "JobCancelled",
    "JobFailed",
    "NoHealthyWorker",
    "ReservationLapsed",
    "RoutingError",
    "UnknownWorker",
    "WorkerLost",
    "WorkersBusy",
]
