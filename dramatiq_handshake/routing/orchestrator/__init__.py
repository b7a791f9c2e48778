"""A small orchestrator: tasks that depend on each other, run through a `WorkerGateway`.

For work whose loss with the process is no loss. Where a message must survive, and it nearly always must,
use Dramatiq's actors, pipelines and groups.
"""

from dramatiq_handshake.routing.orchestrator.core import Orchestrator
from dramatiq_handshake.routing.orchestrator.errors import RunInterrupted, UnknownRun, UnknownTask
from dramatiq_handshake.routing.orchestrator.models import (
    EventKind,
    RunEvent,
    RunSnapshot,
    RunStatus,
    Task,
    TaskError,
    TaskSnapshot,
    TaskStatus,
)
from dramatiq_handshake.routing.orchestrator.pending import PendingRun
from dramatiq_handshake.routing.orchestrator.store import InMemoryOrchestratorStore, OrchestratorStore

__all__ = [
    "EventKind",
    "InMemoryOrchestratorStore",
    "Orchestrator",
    "OrchestratorStore",
    "PendingRun",
    "RunEvent",
    "RunInterrupted",
    "RunSnapshot",
    "RunStatus",
    "Task",
    "TaskError",
    "TaskSnapshot",
    "TaskStatus",
    "UnknownRun",
    "UnknownTask",
]
