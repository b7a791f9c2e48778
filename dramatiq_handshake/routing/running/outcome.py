"""How a handler ended: values, and the one place that tells them apart."""

from __future__ import annotations

import asyncio
import traceback
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from dramatiq_handshake.routing.errors import JobCancelled, JobFailed, WorkerLost
from dramatiq_handshake.routing.handlers import TaskTypeRefused
from dramatiq_handshake.routing.jobs import JobResult
from dramatiq_handshake.routing.signals import CancelSignal

__all__ = ["Cancelled", "Failed", "Lost", "Outcome", "Refused", "Succeeded", "complete", "outcome_of"]


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned."""

    output: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised; `error` is what it raised, where that is at hand."""

    name: str
    message: str
    stack: str = ""
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no handler for the job's type; `types` are those that have one."""

    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The job never began, or its handler followed the signal."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker was closed, and the handler goes on all the same."""

    reason: str


Outcome = Succeeded | Failed | Refused | Cancelled | Lost


def outcome_of(error: BaseException, signal: CancelSignal) -> Outcome:
    """What it means that a handler raised `error`.

    A handler that was asked to stop and says so was cancelled. One that returns in spite of it
    succeeded, and one that breaks on its way out failed: neither is hidden by the request.
    """
    if signal.cancelled and isinstance(error, JobCancelled | asyncio.CancelledError):
        return Cancelled(signal.reason)
    return Failed(type(error).__name__, _text(error), _stack(error), error)


def complete(
    future: Future[JobResult], outcome: Outcome, *, job_id: str, task_type: str, worker_id: str
) -> None:
    """Complete what a dispatcher waits on; one that has an answer already keeps it."""
    if future.done():
        return
    match outcome:
        case Succeeded(output):
            future.set_result(JobResult(job_id, output, worker_id))
        case Failed(name, message, stack, error):
            failed = JobFailed(job_id, name, message, stack)
            failed.__cause__ = error
            future.set_exception(failed)
        case Refused(types):
            future.set_exception(TaskTypeRefused(worker_id, task_type, types))
        case Cancelled(reason):
            future.set_exception(JobCancelled(job_id, reason))
        case Lost(reason):
            future.set_exception(WorkerLost(worker_id, reason))


def _text(error: BaseException) -> str:
    """The error's own message: `str` of a foreign object may raise, and must not lose the job."""
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - foreign code
        return f"(its message can't be read: {type(broken).__name__})"


def _stack(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception as broken:  # noqa: BLE001 - it reads attributes of a foreign object
        return f"(its traceback can't be read: {type(broken).__name__})"
