"""Which base queue a lane is filed under.

Open lanes are kept per base, so that a look costs what its own queues have open. Retiring a lane knows
only the lane's name; that is why the base must be what the name says.
"""

from __future__ import annotations

from dramatiq_handshake.decide.need import base_of
from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.storage.base import OpenLane

__all__ = ["check_lane", "lane_base"]


def lane_base(name: str) -> str:
    """The base queue under which the lane of this name is filed."""
    return base_of(name)


def check_lane(lane: OpenLane) -> None:
    """Refuse a lane that could be registered but never found or retired again.

    Raises:
        ConfigurationError: The lane's base is not the one that its name says.
    """
    expected = lane_base(lane.name)
    if lane.base != expected:
        raise ConfigurationError(
            f"lane {lane.name!r}: expected the base queue {expected!r}, which its name says, "
            f"got {lane.base!r}; derive the name with decide.need"
        )
