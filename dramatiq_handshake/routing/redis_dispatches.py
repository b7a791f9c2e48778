"""The slots that this process holds on Redis for jobs that it dispatched, and the thread that renews them."""

from __future__ import annotations

import logging
import threading

from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.routing.redis_calls import Calls, text
from dramatiq_handshake.routing.scripts import END, RENEW
from dramatiq_handshake.routing.ticker import Ticker
from dramatiq_handshake.storage.forking import renew_after_fork
from dramatiq_handshake.storage.redis_context import chunks

__all__ = ["Dispatches"]

logger = logging.getLogger(__name__)

#: Two renewals may fail before a slot lapses.
RENEWALS_PER_LEASE = 3


class Dispatches:
    """Jobs under way from this process, by id.

    Args:
        calls: The way to the scripts.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._held: dict[str, tuple[str, str]] = {}
        self._ended: set[str] = set()
        self._ticker: Ticker | None = None
        self._lock = threading.Lock()
        # Held while slots are renewed, so that no renewal arrives after the end of its job.
        self._renewing = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """What is under way is the parent's, and so is its thread."""
        self._lock, self._renewing = threading.Lock(), threading.Lock()
        self._held, self._ended, self._ticker = {}, set(), None

    def started(self, job_id: str, worker_id: str, boot: str) -> None:
        """A job has a slot of ours, on this registration of the worker: keep it."""
        with self._lock:
            self._held[job_id] = (worker_id, boot)
            if self._ticker is None:
                interval_ms = max(1, self._calls.times.job_lease_ms // RENEWALS_PER_LEASE)
                self._ticker = Ticker("renewal of jobs under way", interval_ms, self._tick)
                self._ticker.start()

    def ended(self, job_id: str) -> None:
        """Give the slot back, later where the server can't be reached now."""
        with self._renewing, self._lock:
            ours = self._held.pop(job_id, None) is not None
        try:
            self._calls.call(END, job_id)
        except RegistryUnavailable:
            if ours:
                with self._lock:
                    self._ended.add(job_id)

    def renew(self) -> None:
        """Renew what we hold.

        Raises:
            RegistryUnavailable: The server can't be reached.
        """
        with self._renewing:
            with self._lock:
                held, ended = list(self._held.items()), list(self._ended)
            for some in chunks(held) if held else [[]]:
                jobs = [part for job_id, where in some for part in (job_id, *where)]
                others = self._calls.call(RENEW, self._calls.times.job_lease_ms, len(some), *jobs, *ended)
                with self._lock:
                    self._ended.difference_update(ended)
                    for job_id in others:
                        self._held.pop(text(job_id), None)
                ended = []

    def close(self) -> None:
        """Stop renewing."""
        with self._lock:
            ticker, self._ticker = self._ticker, None
        if ticker is not None:
            ticker.stop()

    def _tick(self) -> bool:
        try:
            self.renew()
        except RegistryUnavailable as error:
            logger.debug("Jobs under way could not be renewed: %s", error)
        with self._lock:
            if self._held or self._ended:
                return True
            self._ticker = None
            return False
