"""What is left in the broker's queues although the blocked index lists none of it (design §7).

A message is listed where somebody finds that nobody live can run it: a gate when it is sent, admission when
it is fetched. One that was sent while a worker lived, or seemed to, passes the first; after the last
worker has left there is no second. Its queue still tells, by its depth. Pure: whoever drives it does the
I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dramatiq_handshake.decide.candidate import Candidate
from dramatiq_handshake.decide.classes import read_class
from dramatiq_handshake.decide.directory import PlainConsumers
from dramatiq_handshake.decide.explain import judge
from dramatiq_handshake.decide.need import Need, PlaceKind
from dramatiq_handshake.engine.blocked_models import UnlistedBacklog
from dramatiq_handshake.engine.scope import Scope
from dramatiq_handshake.storage.base import BlockedNeed, Look, OpenLane
from dramatiq_handshake.wire.descriptor import PROTOCOL_VERSION

__all__ = ["Backlog", "BacklogCheck", "BrokerQueues", "unlisted_of"]


class BrokerQueues(Protocol):
    """What a backlog is seen by: the queues of this process's broker, looked at and never consumed."""

    def queues(self) -> Sequence[str]:
        """The base queues that this process knows, without delay queues; asks nobody."""
        ...

    def depths(self, queues: Sequence[str]) -> Sequence[int]:
        """How many messages each queue or lane holds, those being processed included.

        Raises:
            RegistryUnavailable: The broker does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Backlog:
    """A queue or lane that holds more than the blocked index lists for it.

    Attributes:
        base: The base queue.
        lane: The lane beside it; `None` is the base queue itself.
        messages: How many it holds that are not listed.
        listed: How many it holds that are.
    """

    base: str
    lane: OpenLane | None
    messages: int
    listed: int

    @property
    def place(self) -> str:
        """The queue that holds the messages."""
        return self.base if self.lane is None else self.lane.name


class BacklogCheck:
    """One look at the backlogs beside some base queues.

    Args:
        look: The registry's answer for these queues, with every open lane beside them.
        bases: The base queues.
        scope: Whose workers and entries are ours.
    """

    def __init__(self, look: Look, bases: Iterable[str], *, scope: Scope) -> None:
        self._look = look
        self._scope = scope
        self._lanes: dict[str, OpenLane | None] = dict.fromkeys(bases)
        beside = [lane for lane in look.lanes or () if lane.base in self._lanes]
        self._lanes |= {lane.name: lane for lane in beside}

    @property
    def places(self) -> tuple[str, ...]:
        """The queues and lanes whose depths are wanted."""
        return tuple(self._lanes)

    def backlogs(self, depths: Sequence[int], needs: Iterable[BlockedNeed]) -> tuple[Backlog, ...]:
        """What holds more than is listed.

        Args:
            depths: The depth of each of `places`.
            needs: The blocked index, read *after* the depths: a message that was sent in between is then
                listed and not counted here, never the other way round.
        """
        holds = dict(zip(self.places, depths, strict=True))
        listed = Counter[str]()
        for need in needs:
            if self._scope.on_broker(need.broker):
                listed[need.place] += need.messages
        return tuple(
            Backlog(
                base=place if lane is None else lane.base,
                lane=lane,
                messages=holds[place] - listed[place],
                listed=listed[place],
            )
            for place, lane in self._lanes.items()
            if holds[place] > listed[place]
        )

    def classes(self, backlogs: Iterable[Backlog]) -> list[str]:
        """The classes that are live on these backlogs' base queues, whose bodies are wanted."""
        bases = {backlog.base for backlog in backlogs}
        return sorted({class_id for base in bases for class_id in self._class_ids(base)})

    def untaken(self, backlogs: Iterable[Backlog], bodies: Mapping[str, str]) -> tuple[Backlog, ...]:
        """Those of the backlogs that no live worker of ours can take from.

        A base queue that none of ours served lately is plain Dramatiq's, and not ours to report (design §4).

        Args:
            backlogs: What `backlogs` gave.
            bodies: What the registry has of `classes`.
        """
        return tuple(
            backlog
            for backlog in backlogs
            if (backlog.lane is not None or self._served_lately(backlog.base))
            and not any(_takes(candidate, backlog.lane) for candidate in self._live(backlog.base, bodies))
        )

    def _live(self, base: str, bodies: Mapping[str, str]) -> list[Candidate]:
        candidates = [read_class(class_id, bodies.get(class_id)) for class_id in self._class_ids(base)]
        return [one for one in candidates if not one.foreign and self._scope.on_broker(one.broker)]

    def _class_ids(self, base: str) -> list[str]:
        token = self._look.tokens.get(base)
        return [] if token is None else [presence.class_id for presence in token.classes]

    def _served_lately(self, base: str) -> bool:
        token = self._look.tokens.get(base)
        return token is not None and token.served_lately


def unlisted_of(untaken: Iterable[Backlog], plain: Iterable[PlainConsumers]) -> tuple[UnlistedBacklog, ...]:
    """The report on what nobody takes.

    Args:
        untaken: What `BacklogCheck.untaken` gave.
        plain: The plain Dramatiq workers seen, who take from base queues and from no lane.
    """
    consumed = {one.queue for one in plain}
    return tuple(
        UnlistedBacklog(
            queue=backlog.base, place=backlog.place, messages=backlog.messages, reason=_reason(backlog)
        )
        for backlog in untaken
        if backlog.lane is not None or backlog.base not in consumed
    )


def _takes(candidate: Candidate, lane: OpenLane | None) -> bool:
    """Whether somebody live on the base queue consumes this lane, or the base itself."""
    if lane is None:
        return True
    if lane.kind == PlaceKind.NEED.value:
        need = Need(lane.base, lane.actor, lane.version, frozenset(lane.requires), lane.protocol)
        return judge(need, candidate).can_run
    return candidate.capabilities.issuperset(lane.requires)


def _reason(backlog: Backlog) -> str:
    further = " further" if backlog.listed else ""
    return f"{backlog.messages}{further} message(s) in {backlog.place!r}, {_obstacle(backlog)}"


def _obstacle(backlog: Backlog) -> str:
    lane = backlog.lane
    if lane is None:
        return "which no live worker consumes"
    nobody = f"and no live worker on queue {lane.base!r}"
    if lane.kind != PlaceKind.NEED.value:
        return f"{nobody} has {' and '.join(lane.requires)}"
    version = "" if lane.version is None else f" version {lane.version}"
    protocol = "" if lane.protocol == PROTOCOL_VERSION else f" by wire protocol {lane.protocol}"
    requires = f" (requires {', '.join(lane.requires)})" if lane.requires else ""
    return f"{nobody} can run actor {lane.actor!r}{version}{protocol}{requires}"
