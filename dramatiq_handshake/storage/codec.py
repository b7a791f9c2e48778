"""The registry's own values as JSON text.

Only our releases write these, but an older or newer one may: unknown fields are passed over, and a value
that can't be read is left out rather than raised, so that one entry never costs the others.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any, TypeVar

from dramatiq_handshake.storage.base import BlockedMessage, BlockedNeed, OpenLane

__all__ = [
    "dump_lane",
    "dump_message",
    "dump_need",
    "load_lane",
    "load_message",
    "load_need",
]

T = TypeVar("T", OpenLane, BlockedNeed, BlockedMessage)

#: What a blocked need's spec leaves out: the store keeps these itself.
_COUNTED = ("messages", "since_ms")


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def dump_lane(lane: OpenLane) -> str:
    """An open lane as text; equal lanes give equal text."""
    return _dump(asdict(lane))


def dump_need(need: BlockedNeed) -> str:
    """A blocked need as text, without what the store counts."""
    return _dump({name: value for name, value in asdict(need).items() if name not in _COUNTED})


def dump_message(message: BlockedMessage, need_id: str) -> str:
    """A blocked message of this need as text; its time is kept beside it."""
    return _dump({"need_id": need_id, "broker_ref": message.broker_ref, "traceparent": message.traceparent})


def load_lane(value: bytes) -> OpenLane | None:
    """A lane as its JSON after the time of registration tells it, or ``None`` where that can't be read."""
    return _load(OpenLane, value.partition(b"\n")[2])


def load_need(spec: bytes | None, *, messages: int, since_ms: int) -> BlockedNeed | None:
    """A need from its spec and counts, or ``None`` where that can't be read."""
    return _load(BlockedNeed, spec or b"", messages=messages, since_ms=since_ms)


def load_message(message_id: str, value: bytes | None) -> BlockedMessage | None:
    """A message as its JSON after the time of blocking tells it, or ``None`` where that can't be read."""
    since, _, text = (value or b"").partition(b"\n")
    if not since.isdigit():
        return None
    return _load(BlockedMessage, text, message_id=message_id, since_ms=int(since))


def _load(kind: type[T], text: bytes, **kept: Any) -> T | None:
    known = {field.name for field in fields(kind)}
    try:
        read = json.loads(text)
        values = {name: value for name, value in read.items() if name in known} | kept
        if "requires" in values:
            values["requires"] = tuple(values["requires"])
        return kind(**values)
    except (ValueError, TypeError, AttributeError):
        return None
