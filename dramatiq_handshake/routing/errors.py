"""What can go wrong between choosing a worker and its result.

Every error survives `pickle`, since jobs cross processes, and says what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from dramatiq_handshake.errors import HandshakeError

__all__ = [
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

#: How many workers a message names; the attributes hold all that are known.
NAMED_AT_MOST = 20


class RoutingError(HandshakeError):
    """Everything that `dramatiq_handshake.routing` raises of its own derives from this."""

    #: The attributes that are the constructor's arguments, in their order.
    _arguments: ClassVar[tuple[str, ...]] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, name) for name in self._arguments)


class NoHealthyWorker(RoutingError):
    """No worker may get the job now.

    Args:
        task_type: What the job asks for.
        reasons: Worker id → why this one does not get it, in registration order.
    """

    _arguments = ("task_type", "reasons")
    _headline = "no healthy worker for task type {task_type!r}"
    _advice = "register a worker for it, or wait for a heartbeat"

    def __init__(self, task_type: str, reasons: Mapping[str, str]) -> None:
        self.task_type = task_type
        self.reasons = dict(reasons)
        said = [f"{worker!r} {why}" for worker, why in list(self.reasons.items())[:NAMED_AT_MOST]]
        if len(self.reasons) > NAMED_AT_MOST:
            said.append(f"and {len(self.reasons) - NAMED_AT_MOST} more")
        headline = self._headline.format(task_type=task_type)
        super().__init__(f"{headline}: {'; '.join(said) or 'no worker is registered'} ({self._advice})")


class WorkersBusy(NoHealthyWorker):
    """Healthy workers could run the job, and each of them has as many as it may have at once.

    Asking again after a job has ended succeeds; nothing is wrong with the workers.
    """

    _headline = "every worker for task type {task_type!r} is busy"
    _advice = "ask again when a job has ended, or raise max_concurrency"


class UnknownWorker(RoutingError):
    """The directory has no worker of this id.

    Args:
        worker_id: The id that was given.
        known: Ids that are registered.
    """

    _arguments = ("worker_id", "known")

    def __init__(self, worker_id: str, known: Iterable[str] = ()) -> None:
        self.worker_id = worker_id
        self.known = tuple(known)
        named = ", ".join(map(repr, self.known[:NAMED_AT_MOST])) or "none"
        super().__init__(
            f"unknown worker {worker_id!r}: it was never registered or has left (registered: {named})"
        )


class DuplicateWorker(RoutingError):
    """The id belongs to a registered worker that is not stale.

    Args:
        worker_id: The id that was given.
    """

    _arguments = ("worker_id",)

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        super().__init__(
            f"worker {worker_id!r} is registered already: give each worker an id of its own, "
            "or stop the other's lease first"
        )


class DuplicateJob(RoutingError):
    """A job of this id is under way: ids are used once, a retry needs one of its own.

    Args:
        job_id: The id that was given.
        worker_id: Who has the other job; ``""`` where nobody was chosen yet.
    """

    _arguments = ("job_id", "worker_id")

    def __init__(self, job_id: str, worker_id: str = "") -> None:
        self.job_id = job_id
        self.worker_id = worker_id
        where = f" on worker {worker_id!r}" if worker_id else ""
        super().__init__(f"job {job_id!r} is under way already{where}: give each attempt a job id of its own")


class ReservationLapsed(RoutingError):
    """The job has no place on the worker any more: too much time passed since it was chosen.

    Args:
        job_id: The job.
        worker_id: The worker that had been chosen.
    """

    _arguments = ("job_id", "worker_id")

    def __init__(self, job_id: str, worker_id: str) -> None:
        self.job_id = job_id
        self.worker_id = worker_id
        super().__init__(
            f"job {job_id!r} has no place on worker {worker_id!r} (any more): select a worker again"
        )


class EndpointMissing(RoutingError):
    """The directory knows the chosen worker, the gateway has no endpoint for it.

    Args:
        worker_id: The chosen worker.
        known: The workers for which there are endpoints.
    """

    _arguments = ("worker_id", "known")

    def __init__(self, worker_id: str, known: Iterable[str] = ()) -> None:
        self.worker_id = worker_id
        self.known = tuple(known)
        named = ", ".join(map(repr, self.known[:NAMED_AT_MOST])) or "none"
        super().__init__(
            f"no endpoint for worker {worker_id!r}: give the gateway one, "
            f"or register it in another directory (endpoints: {named})"
        )


class WorkerLost(RoutingError):
    """The way to the worker broke, or its process ended, while it had the job.

    The job may have run in part or even to its end; who dispatches again decides that.

    Args:
        worker_id: The worker.
        reason: What happened to it.
    """

    _arguments = ("worker_id", "reason")

    def __init__(self, worker_id: str, reason: str) -> None:
        self.worker_id = worker_id
        self.reason = reason
        super().__init__(f"worker {worker_id!r} was lost: {reason}")


class JobFailed(RoutingError):
    """The job's handler raised.

    Args:
        job_id: The job.
        name: The class name of what was raised.
        message: Its message.
        stack: The traceback as the worker saw it; ``""`` where it sent none.
    """

    _arguments = ("job_id", "name", "message", "stack")

    def __init__(self, job_id: str, name: str, message: str, stack: str = "") -> None:
        self.job_id = job_id
        self.name = name
        self.message = message
        self.stack = stack
        super().__init__(f"job {job_id!r} failed: {name}: {message}")


class JobCancelled(RoutingError):
    """The job was cancelled: before it started, or because its handler followed the signal.

    Args:
        job_id: The job.
        reason: Why, where whoever cancelled said so.
    """

    _arguments = ("job_id", "reason")

    def __init__(self, job_id: str, reason: str = "") -> None:
        self.job_id = job_id
        self.reason = reason
        super().__init__(f"job {job_id!r} was cancelled{f': {reason}' if reason else ''}")
