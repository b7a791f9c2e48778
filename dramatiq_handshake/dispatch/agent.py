"""One booted worker's life with the handshake: advertise, look, serve lanes, leave.

A single daemon thread ticks every second. The order within a tick is what keeps a blocked message safe:
a worker first advertises and then looks at the open lanes, while a sender first registers the lane and
then publishes; so one of the two always sees the other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from dramatiq_handshake.errors import RegistryUnavailable

if TYPE_CHECKING:
    from dramatiq import Worker

    from dramatiq_handshake.dispatch.abilities import Abilities
    from dramatiq_handshake.dispatch.admission import Admission
    from dramatiq_handshake.dispatch.advertiser import Advertiser
    from dramatiq_handshake.dispatch.blocked import BlockedIndex
    from dramatiq_handshake.dispatch.service import LaneService
    from dramatiq_handshake.dispatch.view import FleetView

__all__ = ["WorkerAgent"]

#: How often a worker ticks, unless it beats more often.
TICK_S = 1.0
#: For how long the messages that a worker takes are gathered before the registry is told.
GATHER_S = 0.05
#: How long a leaving worker waits for its agent's tick in hand, which waits at most for the registry.
STOP_WAIT_S = 5.0


class WorkerAgent:
    """Makes one Dramatiq worker capability-aware.

    Args:
        worker: The worker.
        advertiser: Publishes it.
        abilities: What it can run; refreshed at each tick.
        capabilities: Where that comes from.
        view: This process's view of the fleet, which the agent keeps fresh.
        blocked: The blocked index, to be told of what was taken.
        admission: Judges the worker's messages; ``None`` in observe mode.
        service: Serves its lanes; ``None`` in observe mode.
    """

    def __init__(
        self,
        worker: Worker,
        *,
        advertiser: Advertiser,
        abilities: Abilities,
        capabilities: Callable[[], frozenset[str]],
        view: FleetView,
        blocked: BlockedIndex,
        admission: Admission | None,
        service: LaneService | None,
        logger: logging.Logger,
    ) -> None:
        self.worker = worker
        self.admission = admission
        self._advertiser = advertiser
        self._abilities = abilities
        self._capabilities = capabilities
        self._view = view
        self._blocked = blocked
        self._service = service
        self._logger = logger
        self._tick_s = min(TICK_S, advertiser.interval_s)
        self._wake = threading.Event()
        self._due = threading.Event()
        if admission is not None:
            admission.on_taken = self._wake.set
        self._leaving = threading.Event()
        self._ticked = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dramatiq-handshake", daemon=True)

    @property
    def instance_id(self) -> str:
        """Names this boot of this worker."""
        return self._advertiser.instance_id

    def start(self, *, wait_s: float) -> None:
        """Begin to tick; wait this long for the first one, so that a booted worker is a visible one."""
        self._thread.start()
        self._ticked.wait(wait_s)

    def drain(self) -> None:
        """The worker leaves: take nothing more, and say so before anybody plans to it."""
        if self.admission is not None:
            self.admission.draining.set()
        if self._service is not None:
            self._service.stop()
        self._advertiser.draining.set()
        self._beat()

    def stop(self) -> None:
        """The worker has left: stop the thread, and take its advertisement down at once."""
        self._leaving.set()
        self._due.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=STOP_WAIT_S)
        try:
            self._blocked.flush()
            self._advertiser.withdraw()
        except RegistryUnavailable as error:
            self._logger.debug("This worker's advertisement lapses by itself: %s", error)

    def wake(self) -> None:
        """What this process can do has changed: judge, advertise and plan by it from now on.

        In the caller's thread, because what it enqueues next must not be planned to a worker that was.
        """
        self._refresh_abilities()
        if self._ticked.is_set():
            self._beat()
        self._view.doubt()
        self._due.set()
        self._wake.set()

    def can_serve(self, lane: str) -> bool:
        """Whether this worker serves a lane, or will at its next tick."""
        return self._service is not None and self._service.can_serve(lane)

    def owns_current_thread(self) -> bool:
        """Whether the caller is one of this worker's consumer threads."""
        current = threading.current_thread()
        return any(thread is current for thread in self.worker.consumers.values())

    def _run(self) -> None:
        while not self._leaving.is_set():
            self._due.clear()
            self._guarded(self._tick)
            self._ticked.set()
            self._rest()

    def _rest(self) -> None:
        """Wait until the next tick is due; meanwhile what was taken soon ceases to be listed as blocked."""
        until = time.monotonic() + self._tick_s
        while (left := until - time.monotonic()) > 0 and not (self._due.is_set() or self._leaving.is_set()):
            if self._wake.wait(left):
                # What is taken at about the same time is told in one call.
                self._due.wait(min(left, GATHER_S))
                self._wake.clear()
                self._guarded(self._blocked.flush)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except RegistryUnavailable as error:
            # The store reports outages, each once; the lanes stay as they are.
            self._logger.debug("Without the registry: %s", error)
        except Exception:
            self._logger.exception("A step of the handshake failed; the worker goes on.")

    def _beat(self) -> None:
        try:
            self._advertiser.beat_if_due()
        except RegistryUnavailable as error:
            self._logger.debug("The registry can't be told what has changed here: %s", error)

    def _refresh_abilities(self) -> None:
        names = self._capabilities()
        if names != self._abilities.capabilities:
            self._abilities.capabilities = names

    def _tick(self) -> None:
        self._refresh_abilities()
        bases = self._advertiser.bases()
        try:
            self._advertiser.beat_if_due()
            self._view.renew(bases)
            if self._service is not None and self._service.look_into_own_lanes():
                self._view.renew(bases)
        finally:
            # Without the registry as well: what its own actors require has a lane that needs no listing.
            if self._service is not None:
                self._service.sync(bases)
        if self._service is not None:
            self._service.retire_idle()
        self._blocked.flush()
