"""Makes lanes known to the fleet before anything is published to them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from dramatiq_handshake.decide.need import Need, Place, PlaceKind
from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.storage.base import OpenLane

if TYPE_CHECKING:
    from dramatiq_handshake.storage.base import FleetStore

__all__ = ["LANE_QUIET_MS", "LaneRegistrar", "open_lane"]

#: A process trusts its own registration of a lane for this long, then renews it.
TRUSTED_FOR_S = 5.0
#: A lane is retired only when nobody has registered it for this long: well beyond what a process trusts,
#: so that no message is on its way to a lane that has just gone.
LANE_QUIET_MS = 30_000
MAX_TRUSTED = 10_000


def open_lane(need: Need, place: Place) -> OpenLane:
    """The registry's entry for the lane that carries a need."""
    whole = place.kind is PlaceKind.NEED
    return OpenLane(
        name=place.queue,
        base=need.queue,
        kind=place.kind.value,
        requires=tuple(sorted(need.requires)),
        actor=need.actor if whole else None,
        version=need.version if whole else None,
        protocol=need.protocol if whole else 1,
    )


class LaneRegistrar:
    """Registers lanes, each at most once in a few seconds."""

    def __init__(self, store: FleetStore, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._registered_at: dict[str, float] = {}

    def ensure(self, lane: OpenLane) -> None:
        """Make the lane known. With the registry away it goes unregistered: never raises.

        A need lane's name derives from its need, so those who could serve it find it by its depth.
        """
        if self._clock() - self._registered_at.get(lane.name, float("-inf")) < TRUSTED_FOR_S:
            return
        try:
            self._store.register_lane(lane)
        except RegistryUnavailable:
            return
        self.note(lane)

    def note(self, lane: OpenLane) -> None:
        """Remember that the lane has just been registered."""
        if len(self._registered_at) >= MAX_TRUSTED:
            self._registered_at.clear()
        self._registered_at[lane.name] = self._clock()
