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
from dramatiq_handshake.routing.gateway import RoutingWorkerGateway
from dramatiq_handshake.routing.handlers import Handler, HandlerRegistry, JobContext, TaskTypeRefused
from dramatiq_handshake.routing.in_memory import InMemoryWorkerGateway
from dramatiq_handshake.routing.jobs import DispatchOptions, Job, JobLog, JobResult, PendingJob
from dramatiq_handshake.routing.memory import InMemoryWorkerDirectory
from dramatiq_handshake.routing.orchestrator import (
    EventKind,
    InMemoryOrchestratorStore,
    Orchestrator,
    OrchestratorStore,
    PendingRun,
    RunEvent,
    RunInterrupted,
    RunSnapshot,
    RunStatus,
    Task,
    TaskError,
    TaskSnapshot,
    TaskStatus,
    UnknownRun,
    UnknownTask,
)
from dramatiq_handshake.routing.pool import PooledWorkerGateway
from dramatiq_handshake.routing.ports import (
    ConnectionPort,
    Port,
    PortClosed,
    PortFault,
    QueuePort,
    Unsendable,
    queue_ports,
)
from dramatiq_handshake.routing.process import WorkerProcess
from dramatiq_handshake.routing.redis import RedisWorkerDirectory
from dramatiq_handshake.routing.routers import (
    LeastActiveWorkerRouter,
    RoundRobinRouter,
    StickyRouter,
    WeightedRouter,
)
from dramatiq_handshake.routing.signals import CancelSignal
from dramatiq_handshake.routing.thread_gateway import WorkerThreadGateway, WorkerWatcher
from dramatiq_handshake.routing.thread_worker import WorkerThreadWorker

__all__ = [  # noqa: RUF022 - grouped by what they are for
    # Jobs
    "CancelSignal",
    "DispatchOptions",
    "Job",
    "JobLog",
    "JobResult",
    "PendingJob",
    # What a worker runs
    "Handler",
    "HandlerRegistry",
    "JobContext",
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
    # Gateways
    "InMemoryWorkerGateway",
    "PooledWorkerGateway",
    "RoutingWorkerGateway",
    "WorkerThreadGateway",
    "WorkerWatcher",
    # Workers behind ports
    "ConnectionPort",
    "Port",
    "PortFault",
    "QueuePort",
    "WorkerProcess",
    "WorkerThreadWorker",
    "queue_ports",
    # The orchestrator
    "EventKind",
    "InMemoryOrchestratorStore",
    "Orchestrator",
    "OrchestratorStore",
    "PendingRun",
    "RunEvent",
    "RunSnapshot",
    "RunStatus",
    "Task",
    "TaskError",
    "TaskSnapshot",
    "TaskStatus",
    # Errors
    "DuplicateJob",
    "DuplicateWorker",
    "EndpointMissing",
    "JobCancelled",
    "JobFailed",
    "NoHealthyWorker",
    "PortClosed",
    "ReservationLapsed",
    "RoutingError",
    "RunInterrupted",
    "TaskTypeRefused",
    "UnknownRun",
    "UnknownTask",
    "UnknownWorker",
    "Unsendable",
    "WorkerLost",
    "WorkersBusy",
]
