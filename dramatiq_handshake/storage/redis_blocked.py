"""The blocked index in Redis or Valkey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dramatiq_handshake.storage.base import (
    BlockedMessage,
    BlockedNeed,
    BlockedPage,
    OpenLane,
    Released,
)
from dramatiq_handshake.storage.codec import dump_message, dump_need, load_message, load_need
from dramatiq_handshake.storage.paging import page_size, read_cursor, write_cursor
from dramatiq_handshake.storage.redis_context import Context, chunks, text
from dramatiq_handshake.storage.redis_lanes import add_open_lane
from dramatiq_handshake.storage.scripts import BLOCK, RELEASE, Argument, Batch

__all__ = ["BlockedIndex"]

#: How many messages one script call lists or releases: about a millisecond of the server's time.
MESSAGES_AT_ONCE = 100


class BlockedIndex:
    """Lists blocked messages, and takes them off again.

    Args:
        context: What the parts of the store share.
        listed_max: How many messages of a need are listed.
    """

    def __init__(self, context: Context, listed_max: int) -> None:
        self._context = context
        self._listed_max = listed_max

    def _keys(self, need_id: str) -> list[str]:
        keys = self._context.keys
        return [
            keys.blocked,
            keys.blocked_messages,
            keys.blocked_need(need_id),
            keys.blocked_listed(need_id),
        ]

    def block(self, need: BlockedNeed, messages: Sequence[BlockedMessage], lane: OpenLane | None) -> None:
        """See `FleetStore.block`."""
        spec = dump_need(need)
        with self._context.link.attempt(writes=True) as client:
            batch = Batch(client)
            if lane is not None:
                add_open_lane(batch, self._context, lane)
            for some in chunks(messages, MESSAGES_AT_ONCE) if messages else [[]]:
                arguments: list[Argument] = [
                    self._context.now_argument,
                    self._listed_max,
                    need.need_id,
                    spec,
                ]
                for message in some:
                    arguments += [message.message_id, dump_message(message, need.need_id)]
                batch.script(BLOCK, self._keys(need.need_id), arguments)
            batch.send()

    def release(self, message_ids: Mapping[str, Sequence[str]]) -> tuple[Released, ...]:
        """See `FleetStore.release`."""
        with self._context.link.attempt(writes=True) as client:
            batch = Batch(client)
            for need_id, ids in message_ids.items():
                for some in chunks(ids, MESSAGES_AT_ONCE):
                    batch.script(RELEASE, self._keys(need_id), [self._context.now_argument, need_id, *some])
            replies = batch.send()
        released = []
        for reply in replies:
            if not reply:
                continue
            spec, passed, first_ms, blocked_ms = reply
            need = load_need(spec, messages=0, since_ms=first_ms)
            if need is not None:
                released.append(Released(need, messages=passed, blocked_ms=blocked_ms))
        return tuple(released)

    def needs(self) -> tuple[BlockedNeed, ...]:
        """See `FleetStore.blocked_needs`."""
        keys, needs = self._context.keys, []
        with self._context.link.attempt(writes=False) as client:
            listing = Batch(client)
            listing.command("ZRANGE", keys.blocked, 0, -1, "WITHSCORES")
            (entries,) = listing.send()
            for some in chunks(list(zip(entries[::2], entries[1::2], strict=True))):
                batch = Batch(client)
                for need_id, _ in some:
                    batch.command("HMGET", keys.blocked_need(text(need_id)), "spec", "beyond")
                    batch.command("ZCARD", keys.blocked_listed(text(need_id)))
                replies = batch.send()
                for (_, since), (spec, beyond), listed in zip(some, replies[::2], replies[1::2], strict=True):
                    messages = int(beyond or 0) + listed
                    need = load_need(spec, messages=messages, since_ms=int(float(since)))
                    if need is not None:
                        needs.append(need)
        return tuple(needs)

    def page(self, need_id: str, cursor: str | None, limit: int) -> BlockedPage:
        """See `FleetStore.blocked_messages`."""
        after, size = read_cursor(cursor), page_size(limit)
        with self._context.link.attempt(writes=False) as client:
            listing = Batch(client)
            listing.command(
                "ZRANGEBYSCORE",
                self._context.keys.blocked_listed(need_id),
                f"({after}",
                "+inf",
                "WITHSCORES",
                "LIMIT",
                0,
                size + 1,
            )
            (entries,) = listing.send()
            ids, sequences = entries[::2], entries[1::2]
            values: list[bytes | None] = []
            if ids:
                reading = Batch(client)
                reading.command("HMGET", self._context.keys.blocked_messages, *ids[:size])
                (values,) = reading.send()
        found = (
            load_message(text(message_id), value)
            for message_id, value in zip(ids[:size], values, strict=True)
        )
        more = len(ids) > size
        return BlockedPage(
            tuple(message for message in found if message is not None),
            write_cursor(int(float(sequences[size - 1]))) if more else None,
        )

    def message(self, message_id: str) -> BlockedMessage | None:
        """See `FleetStore.blocked_message`."""
        with self._context.link.attempt(writes=False) as client:
            batch = Batch(client)
            batch.command("HGET", self._context.keys.blocked_messages, message_id)
            (value,) = batch.send()
        return load_message(message_id, value)
