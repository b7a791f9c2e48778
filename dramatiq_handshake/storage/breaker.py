"""The circuit breaker: when the registry fails, ask again only now and then, one caller at a time.

Without it, every enqueue of an outage would wait for its own timeout. Pure but for its lock: time is the
clock that it is given.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import Enum

__all__ = ["FIRST_PAUSE_MS", "LONGEST_PAUSE_MS", "Admission", "Breaker"]

#: The pause after the first failure, doubled by each failed probe (design §5).
FIRST_PAUSE_MS = 1_000
#: Where the doubling ends.
LONGEST_PAUSE_MS = 30_000


class Admission(Enum):
    """What a caller may do."""

    FREE = "free"
    """The registry is available: go ahead."""
    PROBE = "probe"
    """It has failed before: this caller alone finds out whether it is back."""
    REFUSED = "refused"
    """It has failed before, and it is not yet time for, or somebody else is, the probe."""


def _monotonic_ms() -> float:
    return time.monotonic() * 1000


class Breaker:
    """Counts outages and paces the probes that end them.

    Every admitted caller reports back exactly once: `succeeded`, `failed` or `abandoned`.

    Args:
        now_ms: A clock that never goes back (ms).
        first_pause_ms: For how long nothing is asked after the first failure.
        longest_pause_ms: The longest pause between two probes.
    """

    def __init__(
        self,
        *,
        now_ms: Callable[[], float] = _monotonic_ms,
        first_pause_ms: int = FIRST_PAUSE_MS,
        longest_pause_ms: int = LONGEST_PAUSE_MS,
    ) -> None:
        self._clock = now_ms
        self._first_pause_ms = first_pause_ms
        self._longest_pause_ms = longest_pause_ms
        self._pause_ms = first_pause_ms
        self._open = False
        self._probing = False
        self._next_probe_ms = 0.0
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """Start with a free lock and without the parent's probe, whose thread does not exist here."""
        self._lock = threading.Lock()
        self._probing = False

    @property
    def available(self) -> bool:
        """Whether no outage is going on."""
        return not self._open

    def admit(self) -> Admission:
        """Ask to talk to the registry."""
        with self._lock:
            if not self._open:
                return Admission.FREE
            if self._probing or self._clock() < self._next_probe_ms:
                return Admission.REFUSED
            self._probing = True
            return Admission.PROBE

    def succeeded(self, admission: Admission) -> bool:
        """Report an answer. Returns whether it ended an outage.

        Only a probe ends one: an answer to what was asked before the outage proves nothing about now.
        """
        with self._lock:
            if admission is not Admission.PROBE:
                return False
            self._open = self._probing = False
            self._pause_ms = self._first_pause_ms
            return True

    def failed(self, admission: Admission) -> bool:
        """Report a failure. Returns whether it began an outage."""
        with self._lock:
            if admission is Admission.PROBE:
                self._probing = False
                self._pause_ms = min(self._pause_ms * 2, self._longest_pause_ms)
            elif self._open:
                return False
            began = not self._open
            self._open = True
            self._next_probe_ms = self._clock() + self._pause_ms
            return began

    def abandoned(self, admission: Admission) -> None:
        """Report that nothing was learnt: the next caller may probe."""
        with self._lock:
            if admission is Admission.PROBE:
                self._probing = False
