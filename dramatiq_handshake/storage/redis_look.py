"""The look: what changed on some tokens, in one round trip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dramatiq_handshake.storage.base import ClassPresence, Look, Mark, TokenLook
from dramatiq_handshake.storage.codec import load_lane
from dramatiq_handshake.storage.redis_context import Context, chunks, text
from dramatiq_handshake.storage.scripts import LOOK, UNCLAIMED, Argument, Batch

__all__ = ["class_bodies", "look", "unclaimed"]


def look(context: Context, known: Mapping[str, Mark | None], lanes_epoch: str | None) -> Look:
    """See `FleetStore.look`."""
    keys = [context.keys.lanes_epoch]
    arguments: list[Argument] = [context.now_argument, context.ttl_ms, lanes_epoch or ""]
    for token, mark in known.items():
        keys += [
            context.keys.epoch(token),
            context.keys.classes(token),
            context.keys.served(token),
            context.keys.lanes(token),
        ]
        arguments += [mark.epoch, mark.classes] if mark is not None else ["", 0]
    with context.link.attempt(writes=False) as client:
        batch = Batch(client)
        batch.script(LOOK, keys, arguments)
        ((epoch, lanes, changed),) = batch.send()
    tokens = list(known)
    read = [load_lane(lane) for lane in lanes] if lanes is not None else None
    return Look(
        tokens={tokens[position - 1]: _token_look(rest) for position, *rest in changed},
        lanes=tuple(lane for lane in read if lane is not None) if read is not None else None,
        lanes_epoch=text(epoch) or None,
    )


def _token_look(reply: Sequence[Any]) -> TokenLook:
    epoch, served, *leases = reply
    classes = tuple(
        ClassPresence(text(class_id), remaining_ms)
        for class_id, remaining_ms in zip(leases[::2], leases[1::2], strict=True)
    )
    mark = Mark(text(epoch), len(classes)) if epoch else None
    return TokenLook(mark, classes, bool(served))


def class_bodies(context: Context, class_ids: Sequence[str]) -> Mapping[str, str]:
    """See `FleetStore.class_bodies`."""
    with context.link.attempt(writes=False) as client:
        batch = Batch(client)
        for some in chunks(class_ids):
            batch.command("MGET", *(context.keys.class_body(class_id) for class_id in some))
        bodies = [body for reply in batch.send() for body in reply]
    found = zip(class_ids, bodies, strict=True)
    return {class_id: text(body) for class_id, body in found if body is not None}


def unclaimed(context: Context, broker_ids: Sequence[str]) -> frozenset[str]:
    """See `FleetStore.unclaimed`."""
    with context.link.attempt(writes=False) as client:
        batch = Batch(client)
        for some in chunks(broker_ids):
            batch.script(UNCLAIMED, [context.keys.claims], [context.now_argument, *some])
        replies = batch.send()
    return frozenset(text(broker_id) for reply in replies for broker_id in reply)
