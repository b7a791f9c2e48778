"""What gateways have in common: how a dispatch that goes nowhere ends, and how a line of log arrives."""

from __future__ import annotations

import logging
from concurrent.futures import Future

from dramatiq_handshake.routing.jobs import DispatchOptions, JobLog, JobResult, PendingJob

__all__ = ["deliver_log", "rejected"]

logger = logging.getLogger(__name__)


def rejected(job_id: str, error: BaseException) -> PendingJob:
    """A dispatch that has failed already."""
    future: Future[JobResult] = Future()
    pending = PendingJob(job_id, future)
    future.set_exception(error)
    return pending


def deliver_log(options: DispatchOptions, line: JobLog) -> None:
    """Hand a line to who dispatched the job; a listener that fails does not fail the job."""
    if options.on_log is None:
        return
    try:
        options.on_log(line)
    except Exception:
        logger.exception("job %r: the listener for its log failed", line.job_id)
