"""Where an orchestrator keeps what became of its runs."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing.orchestrator.models import RunEvent, RunSnapshot

__all__ = ["MAX_EVENTS", "MAX_RUNS", "InMemoryOrchestratorStore", "OrchestratorStore"]

logger = logging.getLogger(__name__)

#: How many runs that are over are kept.
MAX_RUNS = 1_000
#: How many events of each run are kept.
MAX_EVENTS = 1_000


class OrchestratorStore(Protocol):
    """Keeps the newest snapshot of each run, and its events. Called from several threads."""

    def save(self, run: RunSnapshot, events: Sequence[RunEvent]) -> None:
        """Replace the run's snapshot, and add what happened since the last.

        Whatever it raises interrupts the run.
        """
        ...

    def get(self, run_id: str) -> RunSnapshot | None:
        """The newest snapshot, or ``None``."""
        ...

    def unfinished(self) -> tuple[RunSnapshot, ...]:
        """The runs that are not over, in the order in which they were started."""
        ...

    def events(self, run_id: str) -> tuple[RunEvent, ...]:
        """What happened to a run, oldest first."""
        ...


class InMemoryOrchestratorStore:
    """Implements `OrchestratorStore` in this process, within bounds.

    Args:
        max_runs: How many runs that are over are kept; the one that ended first is dropped first. A run
            that is not over is never dropped.
        max_events: How many events of each run are kept; the oldest are dropped first.
        on_event: Called with every event, in their order, in the orchestrator's thread: it must not wait
            for a run there. The place to keep snapshots and events elsewhere.

    Raises:
        ConfigurationError: A bound is not a positive whole number.
    """

    def __init__(
        self,
        *,
        max_runs: int = MAX_RUNS,
        max_events: int = MAX_EVENTS,
        on_event: Callable[[RunEvent], None] | None = None,
    ) -> None:
        for name, value in (("max_runs", max_runs), ("max_events", max_events)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"{name}: expected a whole number, at least 1, got {value!r}")
        self._max_runs = max_runs
        self._max_events = max_events
        self._on_event = on_event
        self._lock = threading.Lock()
        self._runs: dict[str, RunSnapshot] = {}
        self._events: dict[str, deque[RunEvent]] = {}
        self._over: dict[str, None] = {}

    def save(self, run: RunSnapshot, events: Sequence[RunEvent]) -> None:
        """See `OrchestratorStore.save`."""
        with self._lock:
            self._runs[run.run_id] = run
            self._events.setdefault(run.run_id, deque(maxlen=self._max_events)).extend(events)
            if run.over:
                self._over[run.run_id] = None
            while len(self._over) > self._max_runs:
                oldest = next(iter(self._over))
                del self._over[oldest], self._runs[oldest], self._events[oldest]
        for event in events:
            self._tell(event)

    def get(self, run_id: str) -> RunSnapshot | None:
        """See `OrchestratorStore.get`."""
        with self._lock:
            return self._runs.get(run_id)

    def unfinished(self) -> tuple[RunSnapshot, ...]:
        """See `OrchestratorStore.unfinished`."""
        with self._lock:
            return tuple(run for run in self._runs.values() if not run.over)

    def events(self, run_id: str) -> tuple[RunEvent, ...]:
        """See `OrchestratorStore.events`."""
        with self._lock:
            return tuple(self._events.get(run_id, ()))

    def _tell(self, event: RunEvent) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception:
            logger.exception("run %r: the listener failed at %s", event.run_id, event.kind)
