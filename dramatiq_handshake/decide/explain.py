"""Per candidate: would it get this, and if not, why exactly not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from dramatiq_handshake.decide.candidate import Candidate
from dramatiq_handshake.decide.need import Need
from dramatiq_handshake.decide.negotiate import range_text
from dramatiq_handshake.wire.ecmascript import sorted_unique

__all__ = ["Lack", "LackKind", "Verdict", "explain", "judge"]


class LackKind(StrEnum):
    """What may stand between a candidate and a message."""

    SDK = "sdk"
    BROKER = "broker"
    PROTOCOL = "protocol"
    ACTOR = "actor"
    VERSION = "version"
    CAPABILITY = "capability"


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that a candidate lacks.

    Attributes:
        kind: Which kind of thing.
        wanted: What is asked for: a capability, an actor, a version, a major.
        reason: Half a sentence for people, to follow the worker's name.
    """

    kind: LackKind
    wanted: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a candidate can run a message, and everything that it lacks where it can't."""

    candidate: Candidate
    lacks: tuple[Lack, ...]

    @property
    def can_run(self) -> bool:
        """Whether it lacks nothing."""
        return not self.lacks

    def lacks_only(self, *kinds: LackKind) -> bool:
        """Whether everything that it lacks is of these kinds."""
        return all(lack.kind in kinds for lack in self.lacks)

    def as_text(self) -> str:
        """The verdict as a sentence: ``worker 3f2a can run it``, or what it lacks."""
        who = f"worker {self.candidate.id}"
        return (
            f"{who} can run it"
            if self.can_run
            else f"{who} {' and '.join(lack.reason for lack in self.lacks)}"
        )


def judge(need: Need, candidate: Candidate, *, broker: str | None = None) -> Verdict:
    """Judge one candidate (design §4, rule 1).

    Args:
        need: What the message asks for. Its `protocol` is the major of the message itself.
        candidate: Someone live; whether it is `up` is the caller's to know.
        broker: The fingerprint of the broker that carries the message; `None` asks nothing.
    """
    lacks: list[Lack] = []
    if candidate.foreign:
        lacks.append(Lack(LackKind.SDK, "dramatiq-handshake", "runs another SDK"))
    if broker is not None and candidate.broker not in ("", broker):
        lacks.append(Lack(LackKind.BROKER, broker, "consumes from another broker"))
    lowest, highest = candidate.protocol
    if not lowest <= need.protocol <= highest:
        spoken = f"speaks wire protocol {range_text(candidate.protocol)}, not {need.protocol}"
        lacks.append(Lack(LackKind.PROTOCOL, str(need.protocol), spoken))
    lacks.extend(
        Lack(LackKind.CAPABILITY, name, f"lacks {name}")
        for name in sorted_unique(need.requires - candidate.capabilities)
    )
    # A worker announces only what it can run: of one that lacks the capability this follows.
    lacks.extend(_actor_lacks(need, candidate))
    return Verdict(candidate, tuple(lacks))


def _actor_lacks(need: Need, candidate: Candidate) -> Iterable[Lack]:
    if need.actor is None:
        return
    if not candidate.announces(need.actor):
        yield Lack(LackKind.ACTOR, need.actor, f"does not announce actor {need.actor!r}")
    elif not candidate.runs_version(need.actor, need.version):
        stated = ", ".join(sorted_unique(candidate.stated_versions(need.actor) or ()))
        reason = f"announces version {stated} of actor {need.actor!r}, not {need.version}"
        yield Lack(LackKind.VERSION, str(need.version), reason)


def explain(need: Need, candidates: Iterable[Candidate], *, broker: str | None = None) -> tuple[Verdict, ...]:
    """Judge every candidate, the nearest first: the fewest lacks, workers of another SDK last."""
    verdicts = (judge(need, candidate, broker=broker) for candidate in candidates)
    return tuple(sorted(verdicts, key=_distance))


def _distance(verdict: Verdict) -> tuple[bool, int, str]:
    elsewhere = any(lack.kind in (LackKind.SDK, LackKind.BROKER) for lack in verdict.lacks)
    return elsewhere, len(verdict.lacks), verdict.candidate.id
