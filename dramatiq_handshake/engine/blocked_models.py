"""What `HandshakeEngine.blocked` answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dramatiq_handshake.engine.report import Report, duration_text

__all__ = [
    "BlockedMessageReport",
    "BlockedNeedReport",
    "BlockedReport",
    "LackReport",
    "NearestWorker",
    "UnlistedBacklog",
]


class LackReport(Report):
    """One thing that stands between a worker and a message.

    Attributes:
        kind: ``capability``, ``actor``, ``version``, ``protocol``, ``broker`` or ``sdk``.
        wanted: What is asked for.
        reason: Half a sentence, to follow the worker's name.
    """

    kind: str
    wanted: str
    reason: str


class NearestWorker(Report):
    """The live worker, or class of equal workers, that lacked least when the message was blocked.

    Attributes:
        worker: Its class or instance id.
        lacks: Everything that it lacks.
    """

    worker: str
    lacks: tuple[LackReport, ...] = ()

    def __str__(self) -> str:
        return f"worker {self.worker} {' and '.join(lack.reason for lack in self.lacks)}"


class _Blocked(Report):
    """What messages with the same need have in common.

    Attributes:
        need_id: Names the need; equal in every process.
        queue: The base queue, the messages' own ``queue_name``.
        actor: The actor; `None` where the capabilities alone were asked for.
        version: The version asked for; `None` matches any.
        requires: The capabilities asked for, sorted.
        code: The diagnostic code, e.g. ``capability.unavailable``.
        reason: That in a sentence.
        missing: The required capabilities that *no* live worker advertises, sorted.
        nearest: Who came nearest, and what it lacks; `None` where nobody was live.
        place: The queue that keeps the messages: the base, or the lane beside it.
        since_ms: Since when it (of a need, the oldest message that is listed) is blocked.
        age_ms: For how long.
    """

    need_id: str
    queue: str
    actor: str | None = None
    version: str | None = None
    requires: tuple[str, ...] = ()
    code: str
    reason: str
    missing: tuple[str, ...] = ()
    nearest: NearestWorker | None = None
    place: str
    since_ms: int
    age_ms: int


class BlockedMessageReport(_Blocked):
    """One blocked message, with what its need says (see `BlockedNeedReport`).

    Attributes:
        message_id: Dramatiq's id of the message.
        traceparent: The W3C trace context of the send; ``""`` where there was none.
    """

    message_id: str
    traceparent: str = ""


class BlockedNeedReport(_Blocked):
    """All blocked messages of one need.

    Attributes:
        messages: How many are blocked, those included that are counted and not listed.
        protocol: The wire-protocol major of the messages.
        broker: The fingerprint of the broker that keeps them; ``""`` where unknown.
        detail: The whole delta at the latest blocking, as it was recorded: both descriptors, and every
            live worker with what it lacks.
    """

    messages: int
    protocol: int = 1
    broker: str = ""
    detail: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies the default


class UnlistedBacklog(Report):
    """Messages that nobody found to be blocked, left in a queue that no live worker takes from.

    They were sent while a worker lived, or seemed to, and wait for the next one like any other. Which
    needs they have is not known: nobody reads a message for a report.

    Attributes:
        queue: The base queue.
        place: The queue that keeps them: the base, or the lane beside it.
        messages: How many, those included that a dead worker had fetched or a draining one still finishes.
        reason: That in a sentence.
    """

    queue: str
    place: str
    messages: int
    reason: str


class BlockedReport(Report):
    """What is blocked, since when and why; iterating gives the listed messages.

    Attributes:
        supported: Whether there is a registry to ask; `False` means that, and only that.
        needs: Every need with blocked messages, the longest blocked first.
        messages: At most ``limit`` messages: need by need in that order, oldest first.
        total: How many messages are blocked for these needs, listed or not; without `unlisted`.
        limit: The limit that was asked for.
        next_cursor: Give it to the next call for the messages that follow; `None` at the end. A message
            that is taken meanwhile is not listed; one that stays blocked is listed at least once.
        unlisted: What else is left in queues and lanes that no live worker takes from. Only an engine with
            a broker sees it, and only a report that is not narrowed to an actor or a need has it.
    """

    supported: bool = True
    needs: tuple[BlockedNeedReport, ...] = ()
    messages: tuple[BlockedMessageReport, ...] = ()
    total: int = 0
    limit: int = 0
    next_cursor: str | None = None
    unlisted: tuple[UnlistedBacklog, ...] = ()

    def __iter__(self) -> Iterator[BlockedMessageReport]:  # type: ignore[override] # a report of messages
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __bool__(self) -> bool:
        # Without this, a report without messages would be false because of its length.
        return True

    @property
    def summary(self) -> str:
        """The report in a few lines for people."""
        if not self.supported:
            return "There is no fleet registry to ask."
        lines = []
        if self.needs:
            oldest = max(need.age_ms for need in self.needs)
            lines.append(
                f"{self.total} message(s) blocked for {len(self.needs)} need(s), "
                f"the oldest for {duration_text(oldest)}:"
            )
            lines.extend(f"  {_need_text(need)}" for need in self.needs)
        if self.unlisted:
            lines.append("Unlisted, and kept for the next worker that can take them:")
            lines.extend(f"  {backlog.reason}" for backlog in self.unlisted)
        return "\n".join(lines) or "Nothing is blocked."

    def __str__(self) -> str:
        return self.summary


def _need_text(need: BlockedNeedReport) -> str:
    wanted = need.actor if need.actor is not None else "any actor"
    version = "" if need.version is None else f" version {need.version}"
    nearest = "no worker was live" if need.nearest is None else f"nearest: {need.nearest}"
    return (
        f"{need.messages} for {wanted}{version} on {need.queue}, kept in {need.place} "
        f"for {duration_text(need.age_ms)}: {need.reason}; {nearest}"
    )
