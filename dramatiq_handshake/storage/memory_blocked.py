"""The blocked index of `MemoryStore`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dramatiq_handshake.storage.base import BlockedMessage, BlockedNeed, BlockedPage, Released
from dramatiq_handshake.storage.paging import page_size, read_cursor, write_cursor

__all__ = ["BlockedIndex"]


@dataclass(slots=True)
class _Entry:
    """A need and what is known of its messages.

    Attributes:
        need: As it was handed in last.
        first_ms: When its first message was blocked.
        since_ms: When the oldest message that is still listed was blocked.
        last: The sequence number that was given out last.
        listed: Message ids with their sequence numbers, in ascending order of these.
        beyond: How many messages are blocked beyond the cap.
        passed: How many messages have left.
    """

    need: BlockedNeed
    first_ms: int
    since_ms: int
    last: int = 0
    listed: dict[str, int] = field(default_factory=dict)
    beyond: int = 0
    passed: int = 0

    @property
    def messages(self) -> int:
        return len(self.listed) + self.beyond

    def view(self) -> BlockedNeed:
        return replace(self.need, messages=self.messages, since_ms=self.since_ms)


class BlockedIndex:
    """Needs with blocked messages; the caller holds the lock and tells the time.

    Args:
        listed_max: How many messages of a need are listed.
    """

    def __init__(self, listed_max: int) -> None:
        self._listed_max = listed_max
        self._needs: dict[str, _Entry] = {}
        self._messages: dict[str, BlockedMessage] = {}

    def block(self, need: BlockedNeed, messages: Sequence[BlockedMessage], now: int) -> None:
        """See `FleetStore.block`."""
        fresh = [message for message in messages if message.message_id not in self._messages]
        entry = self._needs.get(need.need_id)
        if entry is None:
            if not fresh:
                return
            entry = self._needs[need.need_id] = _Entry(need, first_ms=now, since_ms=now)
        entry.need = need
        for message in fresh:
            if message.message_id in self._messages:
                continue
            if len(entry.listed) >= self._listed_max:
                entry.beyond += 1
                continue
            if not entry.messages:
                entry.since_ms = now
            entry.last = max(entry.last + 1, now)
            entry.listed[message.message_id] = entry.last
            self._messages[message.message_id] = replace(message, need_id=need.need_id, since_ms=now)

    def release(self, message_ids: Mapping[str, Sequence[str]], now: int) -> tuple[Released, ...]:
        """See `FleetStore.release`."""
        released = []
        for need_id, ids in message_ids.items():
            entry = self._needs.get(need_id)
            if entry is None:
                continue
            for message_id in ids:
                self._let_go(entry, message_id)
            if entry.messages == 0:
                del self._needs[need_id]
                gone = replace(entry.need, messages=0, since_ms=entry.first_ms)
                released.append(
                    Released(gone, messages=entry.passed, blocked_ms=max(now - entry.first_ms, 0))
                )
        return tuple(released)

    def _let_go(self, entry: _Entry, message_id: str) -> None:
        if message_id in entry.listed:
            del entry.listed[message_id]
            del self._messages[message_id]
            oldest = next(iter(entry.listed), None)
            if oldest is not None:
                entry.since_ms = self._messages[oldest].since_ms
        elif entry.beyond:
            entry.beyond -= 1
        else:
            return
        entry.passed += 1

    def needs(self) -> tuple[BlockedNeed, ...]:
        """See `FleetStore.blocked_needs`."""
        views = (entry.view() for entry in self._needs.values())
        return tuple(sorted(views, key=lambda need: (need.since_ms, need.need_id)))

    def page(self, need_id: str, cursor: str | None, limit: int) -> BlockedPage:
        """See `FleetStore.blocked_messages`."""
        after, size = read_cursor(cursor), page_size(limit)
        entry = self._needs.get(need_id)
        rest = [item for item in entry.listed.items() if item[1] > after] if entry else []
        shown = rest[:size]
        return BlockedPage(
            tuple(self._messages[message_id] for message_id, _ in shown),
            write_cursor(shown[-1][1]) if len(rest) > size else None,
        )

    def message(self, message_id: str) -> BlockedMessage | None:
        """See `FleetStore.blocked_message`."""
        return self._messages.get(message_id)
