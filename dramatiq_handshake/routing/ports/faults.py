"""Broken messages: told to whoever asked, and logged without flooding the log."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["FaultReporter", "PortFault"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PortFault:
    """A message that was skipped, or something that the directory refused to note of a worker.

    Attributes:
        worker_id: The worker on whose port it was.
        detail: What was expected and what came.
    """

    worker_id: str
    detail: str


class FaultReporter:
    """Tells faults of one port.

    The first is a warning in the log and later ones are for debugging: a peer that sends garbage sends a
    lot of it.

    Args:
        worker_id: The worker on whose port they are.
        listener: Called with every fault, in the thread that noticed it.
    """

    def __init__(self, worker_id: str, listener: Callable[[PortFault], None] | None) -> None:
        self._worker_id = worker_id
        self._listener = listener
        self._numbers = itertools.count()

    def report(self, detail: str) -> None:
        """Tell one fault; never raises."""
        level = logging.DEBUG if next(self._numbers) else logging.WARNING
        logger.log(level, "worker %r: %s", self._worker_id, detail)
        if self._listener is None:
            return
        try:
            self._listener(PortFault(self._worker_id, detail))
        except Exception:
            logger.exception("worker %r: the listener for faults failed", self._worker_id)
