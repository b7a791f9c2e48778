"""Which lanes one worker serves at this moment, from what the registry and the broker say."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from dramatiq_handshake.decide.need import Need, PlaceKind, need_place, requirement_lane
from dramatiq_handshake.dispatch.registrar import LANE_QUIET_MS, open_lane

if TYPE_CHECKING:
    from dramatiq_handshake.dispatch.abilities import Abilities
    from dramatiq_handshake.dispatch.carriers.base import Carrier
    from dramatiq_handshake.dispatch.consumers import Whitelist
    from dramatiq_handshake.dispatch.lanes import LaneKeeper
    from dramatiq_handshake.dispatch.view import FleetView
    from dramatiq_handshake.storage.base import FleetStore, OpenLane

__all__ = ["LaneService"]

#: How often a worker looks into its own need lanes, in case the registry was away when one was filled.
DEPTH_LOOK_S = 120.0


class LaneService:
    """Decides for one worker which lanes to open, keep and give up.

    Args:
        keeper: Opens and closes them.
        abilities: What the worker can run.
        whitelist: Which base queues it may consume.
    """

    def __init__(
        self,
        keeper: LaneKeeper,
        *,
        store: FleetStore,
        view: FleetView,
        carrier: Carrier,
        abilities: Abilities,
        whitelist: Whitelist,
        logger: logging.Logger,
    ) -> None:
        self._keeper = keeper
        self._store = store
        self._view = view
        self._carrier = carrier
        self._abilities = abilities
        self._whitelist = whitelist
        self._logger = logger
        self._depths_at = float("-inf")

    def stop(self) -> None:
        """Open nothing from now on."""
        self._keeper.stop()

    def can_serve(self, lane: str) -> bool:
        """Whether this worker serves a lane, or will once it has looked."""
        known = any(entry.name == lane and self._serves(entry) for entry in self._view.lanes)
        return known or lane in self._own_requirement_lanes()

    def sync(self, bases: Collection[str]) -> None:
        """Open what this worker can serve beside these bases, and wind down what it can't; asks nobody."""
        known = {lane.name for lane in self._view.lanes if lane.base in bases and self._serves(lane)}
        self._keeper.sync(self._own_requirement_lanes() | known)

    def retire_idle(self) -> None:
        """Take need lanes that have long been empty out of the registry; the next look closes them.

        Raises:
            RegistryUnavailable: A lane can't be retired just now.
        """
        listed = {lane.name for lane in self._view.lanes} - self._own_requirement_lanes()
        idle = [name for name in self._keeper.idle(for_s=LANE_QUIET_MS / 1000) if name in listed]
        for name, depth in zip(idle, self._carrier.depths(idle), strict=True):
            if depth == 0:
                self._store.retire_lane(name, quiet_ms=LANE_QUIET_MS)

    def look_into_own_lanes(self) -> bool:
        """Register those of the own need lanes that hold messages and that the registry does not know.

        Returns:
            Whether there were any.

        Raises:
            RegistryUnavailable: A found lane can't be registered just now.
        """
        now = time.monotonic()
        if now - self._depths_at < DEPTH_LOOK_S:
            return False
        known = {lane.name for lane in self._view.lanes}
        places = {need_place(need).queue: need for need in self._abilities.needs()}
        unknown = [name for name in places if name not in known]
        found = {
            name: depth for name, depth in zip(unknown, self._carrier.depths(unknown), strict=True) if depth
        }
        for name, depth in found.items():
            self._logger.info("Found %d messages in lane %r, which nobody had registered.", depth, name)
            self._store.register_lane(open_lane(places[name], need_place(places[name])))
        self._depths_at = now
        return bool(found)

    def _own_requirement_lanes(self) -> set[str]:
        """The requirement lanes of this worker's own actors: served always, whether used or not."""
        return {
            requirement_lane(need.queue, need.requires)
            for need in self._abilities.needs()
            if need.requires and self._whitelist.admits(need.queue)
        }

    def _serves(self, lane: OpenLane) -> bool:
        if not self._whitelist.admits(lane.base):
            return False
        if lane.kind == PlaceKind.NEED.value:
            need = Need(lane.base, lane.actor, lane.version, frozenset(lane.requires), lane.protocol)
            return self._abilities.runs(need)
        return self._abilities.has(lane.requires)
