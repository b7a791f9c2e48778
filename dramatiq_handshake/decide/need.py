"""What a message needs of the worker that runs it, and the queue that carries it.

The names of lanes are functions of the need alone: two processes that never spoke derive the same
lane, so nothing hangs on one write to the registry. They are part of what two releases share; a
change of the derivation strands messages.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from enum import Enum

from dramatiq_handshake.errors import ConfigurationError

__all__ = [
    "Need",
    "Place",
    "PlaceKind",
    "base_of",
    "check_queue_name",
    "is_lane",
    "need_lane",
    "need_place",
    "requirement_lane",
    "requirement_place",
]

REQUIRES_MARK = ".requires."
NEED_MARK = ".need."
#: Dramatiq's own suffixes: the delay queue and the dead letters.
DELAY_SUFFIX = ".DQ"
DEAD_LETTER_SUFFIX = ".XQ"
#: RabbitMQ allows 255 bytes for a queue's name; half leaves room for a namespace and suffixes.
MAX_LANE_NAME = 120

_plain_name = re.compile(r"[a-z0-9-]+")


@dataclass(frozen=True, slots=True)
class Need:
    """What a message asks of a worker.

    Attributes:
        queue: The base queue, the message's own ``queue_name``.
        actor: The actor's name; ``None`` asks for the capabilities alone.
        version: The version asked for; ``None`` matches any.
        requires: The capabilities that the worker must advertise.
        protocol: The sender's wire-protocol major.
        step: Whether the actor is a step, which is announced by name only.
    """

    queue: str
    actor: str | None = None
    version: str | None = None
    requires: frozenset[str] = frozenset()
    protocol: int = 1
    step: bool = field(default=False, compare=False)

    @property
    def id(self) -> str:
        """A name for this need that every process derives alike: 16 hex digits."""
        text = json.dumps(
            [self.queue, self.actor, self.version, sorted(self.requires), self.protocol],
            separators=(",", ":"),
        )
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class PlaceKind(Enum):
    """Which queue carries a message (design §6)."""

    BASE = "base"
    REQUIREMENT = "requirement"
    NEED = "need"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message is carried: `queue` is the base or a lane beside it."""

    kind: PlaceKind
    queue: str


def requirement_lane(base: str, requires: frozenset[str]) -> str:
    """The lane of every message on `base` whose actor requires exactly these capabilities."""
    names = sorted(requires)
    readable = f"{base}{REQUIRES_MARK}{'.'.join(names)}"
    if len(readable) <= MAX_LANE_NAME and all(_plain_name.fullmatch(name) for name in names):
        return readable
    text = json.dumps(names, separators=(",", ":"))
    return f"{base}{REQUIRES_MARK}_{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def need_lane(need: Need) -> str:
    """The lane of a need that somebody who consumes the base or requirement lane can't run."""
    return f"{need.queue}{NEED_MARK}{need.id}"


def requirement_place(need: Need) -> Place:
    """The need's standing place: its requirement lane, or the base where it requires nothing."""
    if need.requires:
        return Place(PlaceKind.REQUIREMENT, requirement_lane(need.queue, need.requires))
    return Place(PlaceKind.BASE, need.queue)


def need_place(need: Need) -> Place:
    """The need's own lane, consumed only by workers that can run exactly this."""
    return Place(PlaceKind.NEED, need_lane(need))


def is_lane(queue: str) -> bool:
    """Whether `queue` is one of our lanes."""
    return REQUIRES_MARK in queue or NEED_MARK in queue


def base_of(queue: str) -> str:
    """The base queue that a lane stands beside; a base or delay queue answers for its base."""
    for mark in (REQUIRES_MARK, NEED_MARK):
        head, found, _ = queue.partition(mark)
        if found:
            return head
    return queue.removesuffix(DELAY_SUFFIX)


def check_queue_name(queue: str) -> None:
    """Refuse a base queue whose name would be read as something else.

    Raises:
        ConfigurationError: The name holds ``:`` (the separator of registry keys), one of our lane
            marks, or ends like Dramatiq's delay and dead-letter queues.
    """
    hazards = {
        ":": "':' separates the parts of a registry key",
        REQUIRES_MARK: f"{REQUIRES_MARK!r} marks a requirement lane",
        NEED_MARK: f"{NEED_MARK!r} marks a need lane",
    }
    for mark, why in hazards.items():
        if mark in queue:
            raise ConfigurationError(
                f"queue {queue!r}: expected a name without {mark!r}, because {why}; rename the queue"
            )
    for suffix in (DELAY_SUFFIX, DEAD_LETTER_SUFFIX):
        if queue.endswith(suffix):
            raise ConfigurationError(
                f"queue {queue!r}: expected a name that does not end in {suffix!r}, "
                "which Dramatiq gives to its own queues; rename the queue"
            )
