"""Open lanes in Redis or Valkey."""

from __future__ import annotations

from dramatiq_handshake.storage.base import OpenLane
from dramatiq_handshake.storage.codec import dump_lane
from dramatiq_handshake.storage.lanes import lane_base
from dramatiq_handshake.storage.redis_context import Context, new_epoch
from dramatiq_handshake.storage.scripts import OPEN_LANE, RETIRE_LANE, Batch

__all__ = ["add_open_lane", "register_lane", "retire_lane"]


def add_open_lane(batch: Batch, context: Context, lane: OpenLane) -> None:
    """Add to a batch what puts a lane among the open ones."""
    keys = [context.keys.lanes(lane_base(lane.name)), context.keys.lanes_epoch]
    batch.script(OPEN_LANE, keys, [context.now_argument, lane.name, dump_lane(lane), new_epoch()])


def register_lane(context: Context, lane: OpenLane) -> None:
    """See `FleetStore.register_lane`."""
    with context.link.attempt(writes=True) as client:
        batch = Batch(client)
        add_open_lane(batch, context, lane)
        batch.send()


def retire_lane(context: Context, name: str, quiet_ms: int) -> bool:
    """See `FleetStore.retire_lane`."""
    keys = [context.keys.lanes(lane_base(name)), context.keys.lanes_epoch]
    with context.link.attempt(writes=True) as client:
        batch = Batch(client)
        batch.script(RETIRE_LANE, keys, [context.now_argument, name, quiet_ms, new_epoch()])
        (retired,) = batch.send()
    return bool(retired)
