"""What a fleet registry must do, and the values it speaks in.

Two stores implement `FleetStore`: `RedisStore` (Redis 6.2+ and Valkey) and `MemoryStore` (the
StubBroker's, inside one process). One contract suite runs over both, driven by one fake clock.

Three things here make a steady dispatch free. Workers with equal routing content are one *class*, so
that a fleet of any size is a handful of classes per token. A class lives as long as its longest-lived
worker, by the *server's* clock. And each token has an *epoch*, an opaque value that is new whenever a
class appears on the token or is withdrawn from it; a class that merely lapses writes nothing, so a
reader compares the number of live classes as well: epoch and count unchanged mean the same classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from dramatiq_handshake.errors import RegistryUnavailable

__all__ = [
    "BLOCKED_LISTED_MAX",
    "HEARTBEAT_INTERVAL_MS",
    "HEARTBEAT_TTL_MS",
    "LANES",
    "SERVED_LATELY_MS",
    "Advertisement",
    "BlockedMessage",
    "BlockedNeed",
    "BlockedPage",
    "ClassPresence",
    "ControlPlaneRecord",
    "FleetStore",
    "Look",
    "Mark",
    "OpenLane",
    "Released",
    "TokenLook",
    "WorkerRecord",
    "WorkerState",
]

#: The contract's own figures (wire contract, design §3): a beat about every 10 s, gone after 35 s.
HEARTBEAT_INTERVAL_MS = 10_000
HEARTBEAT_TTL_MS = 35_000
#: How long a token is remembered as served by a plugin worker (design §4).
SERVED_LATELY_MS = 7 * 24 * 3600 * 1000
#: How many blocked messages of one need are listed; those beyond are only counted (design §7).
BLOCKED_LISTED_MAX = 10_000
#: The name under which the set of open lanes has its own epoch; no token can hold a ``:``.
LANES = ":lanes"


class WorkerState(Enum):
    """The status word of a heartbeat (design §3)."""

    UP = "up"
    DRAINING = "draining"
    QUIESCING = "quiescing"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Advertisement:
    """What one worker process publishes on a beat.

    Attributes:
        instance_id: Unique per boot.
        tokens: The base queues that it consumes and progresses on.
        descriptor_json: The descriptor as it stands on the wire.
        etag: Its ETag: the descriptor is written only when this is new for a token.
        class_id: Names the routing-relevant content; equal content, equal id.
        class_body: That content as JSON text, read back through `FleetStore.class_bodies`.
        state: Only ``UP`` counts for dispatch; any other state takes the instance out of its class.
        broker: The fingerprint of the broker it consumes from.
        broker_id: The Dramatiq RedisBroker's id, claimed so that it is not taken for a plain worker.
        threads: How many worker threads it has (the heartbeat's ``load``).
        in_flight: How many messages it holds (the heartbeat's ``load``).
    """

    instance_id: str
    tokens: tuple[str, ...]
    descriptor_json: str
    etag: str
    class_id: str
    class_body: str
    state: WorkerState = WorkerState.UP
    broker: str = ""
    broker_id: str | None = None
    threads: int = 0
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """What a reader remembers of a token: it changed unless both are equal again."""

    epoch: str
    classes: int


@dataclass(frozen=True, slots=True)
class ClassPresence:
    """A class that is live on a token, and for how long from the moment of the look (ms)."""

    class_id: str
    remaining_ms: int


@dataclass(frozen=True, slots=True)
class TokenLook:
    """A token's live classes, and whether a plugin worker served it within the last 7 days.

    ``mark`` is ``None`` where the token has no epoch: unknown, so never equal to anything.
    """

    mark: Mark | None
    classes: tuple[ClassPresence, ...]
    served_lately: bool


@dataclass(frozen=True, slots=True)
class OpenLane:
    """A lane that holds, or may soon hold, messages.

    Attributes:
        name: The lane's queue name.
        base: The base queue beside which it stands.
        kind: ``requirement`` or ``need`` (`decide.need.PlaceKind` values).
        requires: Sorted capabilities of the need.
        actor, version, protocol: The rest of the need; ``actor`` is ``None`` for a requirement lane.
    """

    name: str
    base: str
    kind: str
    requires: tuple[str, ...] = ()
    actor: str | None = None
    version: str | None = None
    protocol: int = 1


@dataclass(frozen=True, slots=True)
class Look:
    """The answer of one `FleetStore.look`.

    Attributes:
        tokens: Only the tokens that changed since the marks that were handed in.
        lanes: The open lanes beside the asked tokens' bases, or ``None`` where their epoch is the known
            one. The epoch is that of all lanes: who asks about more tokens than before hands in ``None``.
        lanes_epoch: The epoch of the set of open lanes; ``None`` is unknown.
    """

    tokens: Mapping[str, TokenLook]
    lanes: tuple[OpenLane, ...] | None
    lanes_epoch: str | None


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """One live ``(token, instance)`` as the registry holds it, unparsed.

    Attributes:
        descriptor_json: ``None`` where the key is gone (a legacy worker that only beats, or evicted).
        heartbeat: The raw heartbeat value; ``None`` where the key is gone.
        indexed: Written by this library's index; ``False`` for what only a scan found (another SDK).
        broker: The fingerprint it registered with; ``""`` where unknown.
        remaining_ms: For how long the advertisement still lives by the server's clock, so that the age
            of the last beat owes nothing to a host's clock; ``None`` where unknown.
        descriptor_kind: The server's type (``list``, ``hash``, …) of what stands under the descriptor's
            key where that is no text; ``""`` as a rule.
    """

    token: str
    instance_id: str
    descriptor_json: bytes | None
    heartbeat: bytes | None
    indexed: bool
    broker: str = ""
    remaining_ms: int | None = None
    descriptor_kind: str = ""


@dataclass(frozen=True, slots=True)
class ControlPlaneRecord:
    """A live control plane's advertisement, unparsed."""

    instance_id: str
    descriptor_json: bytes


@dataclass(frozen=True, slots=True)
class BlockedNeed:
    """A need with at least one blocked message: what is the same for all of them.

    Attributes:
        need_id: `decide.need.Need.id`.
        queue, actor, version, requires, protocol: The need.
        place: The queue that keeps the messages.
        code: The diagnostic code.
        reason: The human sentence.
        detail: JSON text: the exact delta, the control plane's and the nearest worker's descriptors.
        broker: The fingerprint of the broker that keeps them.
        messages: How many are blocked, those beyond the cap of listed ones included.
        since_ms: When the oldest was blocked (server time, ms since the epoch).
    """

    need_id: str
    queue: str
    actor: str | None
    version: str | None
    requires: tuple[str, ...]
    protocol: int
    place: str
    code: str
    reason: str
    detail: str = "{}"
    broker: str = ""
    messages: int = 0
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class BlockedMessage:
    """One listed blocked message.

    Attributes:
        broker_ref: The name under which the broker keeps it (Redis: ``redis_message_id``), or ``""``.
        since_ms: When it was blocked (server time); the store fills it in.
        traceparent: The trace context of the send, or ``""``.
    """

    message_id: str
    need_id: str
    broker_ref: str = ""
    since_ms: int = 0
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class BlockedPage:
    """A page of blocked messages, oldest first; ``next_cursor`` is ``None`` at the end."""

    messages: tuple[BlockedMessage, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Released:
    """A need whose last blocked message has just left: how many passed, since when (ms)."""

    need: BlockedNeed
    messages: int
    blocked_ms: int = field(default=0)


class FleetStore(Protocol):
    """The fleet registry. Every method may raise `RegistryUnavailable`, and nothing else.

    Except for a caller's own mistake: a lane whose name belongs to another base, or a made-up cursor,
    is a `ConfigurationError`.

    All methods are safe to call from several threads. Times are the server's.
    """

    def advertise(self, advertisement: Advertisement) -> None:
        """Beat: one pipelined round trip; the descriptor is written only where its ETag is new.

        Where a descriptor's key has vanished (EXPIRE answers 0), it is written again, at the cost of a
        second round trip. Tokens that the instance advertised before and no longer does are withdrawn.
        """
        ...

    def withdraw(self, instance_id: str, tokens: Iterable[str]) -> None:
        """Take an instance off these tokens: its keys and index entries go, epochs change."""
        ...

    def announce_control_plane(
        self, instance_id: str, descriptor_json: str, *, broker_id: str | None = None
    ) -> None:
        """Renew a control plane's key (EX 35), and claim its broker id for 7 days."""
        ...

    def look(self, known: Mapping[str, Mark | None], lanes_epoch: str | None) -> Look:
        """Read what changed on these tokens: one round trip, whatever the size of the fleet."""
        ...

    def class_bodies(self, class_ids: Sequence[str]) -> Mapping[str, str]:
        """The bodies of classes; one whose body is gone is missing from the answer."""
        ...

    def register_lane(self, lane: OpenLane) -> None:
        """Put a lane among the open ones (or renew it). Call it *before* publishing to the lane."""
        ...

    def retire_lane(self, name: str, *, quiet_ms: int) -> bool:
        """Take a lane off the open ones unless it was registered within the last ``quiet_ms``.

        Returns: Whether the lane is no longer among the open ones.
        """
        ...

    def block(self, need: BlockedNeed, messages: Sequence[BlockedMessage], *, lane: OpenLane | None) -> None:
        """List messages as blocked, and register their lane, in one round trip.

        The need's reason, code and detail are replaced by the newer ones; ``messages`` and
        ``since_ms`` of the need are the store's to keep. A message id that is already listed stays
        as it was. Beyond the cap (10,000 a need) messages are counted, not listed.
        """
        ...

    def release(self, message_ids: Mapping[str, Sequence[str]]) -> tuple[Released, ...]:
        """Take messages (need id → message ids) off the blocked index.

        Unknown ids are counted against what the need holds beyond the cap.
        Returns: The needs whose last blocked message left with this call.
        """
        ...

    def blocked_needs(self) -> tuple[BlockedNeed, ...]:
        """Every need with blocked messages, the longest blocked first."""
        ...

    def blocked_messages(self, need_id: str, *, cursor: str | None = None, limit: int = 100) -> BlockedPage:
        """A page of a need's listed messages, oldest first."""
        ...

    def blocked_message(self, message_id: str) -> BlockedMessage | None:
        """One listed message, or ``None``."""
        ...

    def workers(self) -> tuple[WorkerRecord, ...]:
        """Every live indexed worker, all tokens; costs O(live workers), no scan.

        An index entry whose heartbeat *and* descriptor keys are gone is never returned.
        """
        ...

    def scan_advertisements(self) -> tuple[WorkerRecord, ...]:
        """Every live advertisement under the prefix, found by SCAN: also those of other SDKs."""
        ...

    def control_planes(self) -> tuple[ControlPlaneRecord, ...]:
        """Every live control plane's advertisement (by SCAN)."""
        ...

    def unclaimed(self, broker_ids: Sequence[str]) -> frozenset[str]:
        """Which of these Dramatiq broker ids no plugin process has claimed within 7 days."""
        ...

    def now_ms(self) -> int:
        """The server's time, ms since the epoch: ages are told by it, never by a host's clock."""
        ...

    @property
    def available(self) -> bool:
        """Whether no outage is going on, as far as the last exchange told; costs nothing."""
        ...

    def on_outage(self, listener: Callable[[RegistryUnavailable], None]) -> None:
        """Call `listener` once when an outage begins, in the thread that noticed it."""
        ...

    def on_restored(self, listener: Callable[[], None]) -> None:
        """Call `listener` once when an outage has ended, in the thread whose probe was answered."""
        ...

    def close(self) -> None:
        """Release the connections. The store may be used again afterwards."""
        ...
