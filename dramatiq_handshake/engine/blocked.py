"""Assembling the blocked report, page by page. Pure: whoever drives it does the I/O.

`BlockedWalk` says which page of the registry's index it wants next and is given it, until it has enough.
So a synchronous and an asynchronous caller share all of it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dramatiq_handshake.engine.blocked_models import (
    BlockedMessageReport,
    BlockedNeedReport,
    BlockedReport,
    LackReport,
    NearestWorker,
    UnlistedBacklog,
)
from dramatiq_handshake.engine.scope import Scope
from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.storage.base import BlockedNeed, BlockedPage

__all__ = ["DEFAULT_LIMIT", "MAX_LIMIT", "BlockedFilter", "BlockedWalk", "PageRequest"]

#: How many messages a report lists where the caller says nothing, and at most.
DEFAULT_LIMIT = 1_000
MAX_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class BlockedFilter:
    """Which needs a report is about; `None` is any.

    Attributes:
        queue: The base queue.
        actor: The actor's name.
        need_id: The need.
    """

    queue: str | None = None
    actor: str | None = None
    need_id: str | None = None

    def admits(self, need: BlockedNeed) -> bool:
        """Whether a need is what was asked for."""
        return all(
            wanted is None or wanted == found
            for wanted, found in (
                (self.queue, need.queue),
                (self.actor, need.actor),
                (self.need_id, need.need_id),
            )
        )

    def admits_queue(self, queue: str) -> bool:
        """Whether all that is in a base queue and its lanes is what was asked for, whatever its needs."""
        return self.actor is None and self.need_id is None and self.queue in (None, queue)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The arguments of the next `FleetStore.blocked_messages`."""

    need_id: str
    cursor: str | None
    limit: int


@dataclass(frozen=True, slots=True)
class _Position:
    """Where a walk stands: in a need, or after it where there is no inner cursor.

    The needs that follow are those blocked since later. A need whose oldest messages leave moves
    towards the end: it may be walked again, and is never skipped.
    """

    since_ms: int
    need_id: str
    inner: str | None

    def to_text(self) -> str:
        text = json.dumps([self.since_ms, self.need_id, self.inner], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def from_text(cls, text: str) -> _Position:
        """Read a cursor.

        Raises:
            ConfigurationError: It is not one of ours.
        """
        try:
            padded = text + "=" * (-len(text) % 4)
            since_ms, need_id, inner = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        except (AttributeError, TypeError, ValueError, binascii.Error, RecursionError):
            raise _no_cursor(text) from None
        if type(since_ms) is not int or not isinstance(need_id, str) or not isinstance(inner, str | None):
            raise _no_cursor(text)
        return cls(since_ms, need_id, inner)


def _no_cursor(text: object) -> ConfigurationError:
    return ConfigurationError(
        f"blocked(), cursor: expected the next_cursor of an earlier report, got {str(text)[:40]!r}; "
        "leave it out to begin at the oldest"
    )


class BlockedWalk:
    """One report in the making.

    Args:
        needs: What the registry holds, of every tenant and broker.
        scope: What may be seen of it.
        only: Which of these are asked for.
        limit: How many messages to list, 0 to `MAX_LIMIT`.
        cursor: Where an earlier report ended.

    Raises:
        ConfigurationError: The limit or the cursor is not what it must be.
    """

    def __init__(
        self,
        needs: Iterable[BlockedNeed],
        *,
        scope: Scope,
        only: BlockedFilter,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> None:
        if type(limit) is not int or not 0 <= limit <= MAX_LIMIT:
            raise ConfigurationError(
                f"blocked(), limit: expected a number from 0 to {MAX_LIMIT}, got {limit!r}; "
                "use next_cursor for the messages that follow"
            )
        self._limit = limit
        self._needs = sorted(
            (
                need
                for need in needs
                if only.admits(need) and scope.sees_queue(need.queue) and scope.on_broker(need.broker)
            ),
            key=_order,
        )
        self._found: list[tuple[BlockedNeed, BlockedPage]] = []
        self._listed = 0
        self._done: _Position | None = None
        self._open = self._positions(None if cursor is None else _Position.from_text(cursor))

    def _positions(self, start: _Position | None) -> list[tuple[BlockedNeed, _Position]]:
        """What is left to walk, the next at the end of the list."""
        ahead = []
        for need in self._needs:
            position = _Position(need.since_ms, need.need_id, None)
            if start is None or (
                need.need_id != start.need_id and _order(need) > (start.since_ms, start.need_id)
            ):
                ahead.append((need, position))
        if start is not None and start.inner is not None:
            begun = [(need, start) for need in self._needs if need.need_id == start.need_id]
            ahead = begun + ahead
        return ahead[::-1]

    def next_page(self) -> PageRequest | None:
        """The page that is wanted next; `None` where the report is complete."""
        if not self._open or self._listed >= self._limit:
            return None
        need, position = self._open[-1]
        return PageRequest(need.need_id, position.inner, self._limit - self._listed)

    def take(self, page: BlockedPage) -> None:
        """Take the page that `next_page` asked for."""
        need, position = self._open.pop()
        self._found.append((need, page))
        self._listed += len(page.messages)
        # The position keeps the moment at which its need was come by: a later one would skip others.
        if page.next_cursor is None:
            self._done = replace(position, inner=None)
        else:
            self._open.append((need, replace(position, inner=page.next_cursor)))

    def report(self, now_ms: int, unlisted: tuple[UnlistedBacklog, ...] = ()) -> BlockedReport:
        """The report on what was taken.

        Args:
            now_ms: The server's time.
            unlisted: What the broker keeps beside it.
        """
        needs = {need.need_id: _need_report(need, now_ms) for need in self._needs}
        return BlockedReport(
            needs=tuple(needs.values()),
            messages=tuple(
                _message_report(
                    needs[need.need_id], message.message_id, message.traceparent, message.since_ms, now_ms
                )
                for need, page in self._found
                for message in page.messages
            ),
            total=sum(need.messages for need in self._needs),
            limit=self._limit,
            next_cursor=self._next_cursor(),
            unlisted=unlisted,
        )

    def _next_cursor(self) -> str | None:
        if not self._open:
            return None
        _, position = self._open[-1]
        if position.inner is None:
            position = self._done or _Position(position.since_ms - 1, "", None)
        return position.to_text()


def _order(need: BlockedNeed) -> tuple[int, str]:
    return need.since_ms, need.need_id


def _need_report(need: BlockedNeed, now_ms: int) -> BlockedNeedReport:
    detail = _object(need.detail)
    return BlockedNeedReport(
        need_id=need.need_id,
        queue=need.queue,
        actor=need.actor,
        version=need.version,
        requires=need.requires,
        code=need.code,
        reason=need.reason,
        missing=tuple(name for name in _list(detail.get("missingCapabilities")) if isinstance(name, str)),
        nearest=_nearest(detail),
        place=need.place,
        since_ms=need.since_ms,
        age_ms=max(0, now_ms - need.since_ms),
        messages=need.messages,
        protocol=need.protocol,
        broker=need.broker,
        detail=detail,
    )


def _message_report(
    need: BlockedNeedReport, message_id: str, traceparent: str, since_ms: int, now_ms: int
) -> BlockedMessageReport:
    # Built from checked values: ten thousand of them must not be checked again one by one.
    return BlockedMessageReport.model_construct(
        message_id=message_id,
        need_id=need.need_id,
        queue=need.queue,
        actor=need.actor,
        version=need.version,
        requires=need.requires,
        code=need.code,
        reason=need.reason,
        missing=need.missing,
        nearest=need.nearest,
        place=need.place,
        since_ms=since_ms,
        age_ms=max(0, now_ms - since_ms),
        traceparent=traceparent,
    )


def _nearest(detail: Mapping[str, Any]) -> NearestWorker | None:
    """The first of the recorded workers, who are sorted by what they lack; a newer release may differ."""
    workers = _list(detail.get("workers"))
    first = workers[0] if workers else None
    if not isinstance(first, dict) or not isinstance(first.get("id"), str):
        return None
    return NearestWorker(
        worker=first["id"],
        lacks=tuple(
            LackReport(kind=lack["kind"], wanted=lack["wanted"], reason=lack["reason"])
            for lack in _list(first.get("lacks"))
            if isinstance(lack, dict)
            and all(isinstance(lack.get(name), str) for name in ("kind", "wanted", "reason"))
        ),
    )


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
