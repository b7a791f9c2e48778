"""Planning: who can run a need, which queue carries it, and the exact delta where nobody can (design §4).

In this order, the first that holds:

1. Somebody live can run it: *routable*.
2. It is not ours to report, *legacy*: nobody live consumes the queue, nothing is required and no plugin
   worker served it lately; or it asks for nothing, no plugin worker announces its actor, and plain
   Dramatiq workers may consume the queue.
3. *Blocked*: ``protocol.incompatible`` where somebody is capable and nobody compatible, else
   ``capability.unavailable``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain
from typing import Any

from dramatiq_handshake.decide.candidate import Candidate
from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.explain import LackKind, Verdict, explain
from dramatiq_handshake.decide.need import Need, Place, need_place, requirement_place
from dramatiq_handshake.decide.negotiate import MajorRange, protocol_range_of, range_text
from dramatiq_handshake.wire.descriptor import PROTOCOL_VERSION, WorkerDescriptor
from dramatiq_handshake.wire.ecmascript import sorted_unique

#: How many classes the delta explains; a fleet of more releases than this is not read class by class.
MAX_EXPLAINED = 20

__all__ = ["Candidate", "DispatchPlan", "DispatchStatus", "FleetSnapshot", "plan_dispatch"]


class DispatchStatus(Enum):
    """How a plan ends: the word that telemetry counts dispatches by."""

    ROUTABLE = "routable"
    LEGACY = "legacy"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """One queue's fleet at a moment.

    Attributes:
        token: The queue as consumed.
        candidates: Who is live and `up` on it; one entry per class is enough, counts don't matter.
        served_lately: Whether a plugin worker served it within the last 7 days.
        plain_consumers: Whether a plain Dramatiq worker consumes it, or can't be ruled out.
        broker: The fingerprint of our broker, to leave candidates of another out; `None` where the
            caller has done so.
    """

    token: str
    candidates: tuple[Candidate, ...] = ()
    served_lately: bool = False
    plain_consumers: bool = False
    broker: str | None = None


@dataclass(frozen=True, slots=True)
class DispatchPlan:
    """Where a message goes, and why.

    Attributes:
        status: Routable, legacy (as plain Dramatiq would, not reported) or blocked.
        need: What was planned.
        token: The queue that was planned for.
        place: The queue that carries the message, blocked or not (design §6).
        workers: Those who can run it.
        control_plane: The descriptor of the process that planned.
        verdicts: Per live candidate why (not), nearest first; workers of other SDKs come last.
        code: Why it is blocked, else `None`.
        reason: That in a sentence; empty where it isn't blocked.
        missing_capabilities: Required, and advertised by none of the live workers, sorted.
        worker_ranges: The majors of those who could run it but for the protocol.
    """

    status: DispatchStatus
    need: Need
    token: str
    place: Place
    workers: tuple[Candidate, ...]
    control_plane: WorkerDescriptor
    verdicts: tuple[Verdict, ...] = ()
    code: Code | None = None
    reason: str = ""
    missing_capabilities: tuple[str, ...] = ()
    worker_ranges: tuple[MajorRange, ...] = ()

    @property
    def nearest(self) -> Verdict | None:
        """The verdict on whoever lacks least; `None` where nobody is live."""
        return self.verdicts[0] if self.verdicts else None

    def detail(self) -> dict[str, Any]:
        """The whole delta as a JSON object, for the blocked index and for events.

        It holds both sides' descriptors, and of a fleet of many classes the nearest ones' lacks.
        """
        need = self.need
        return {
            "status": self.status.value,
            "code": None if self.code is None else str(self.code),
            "reason": self.reason,
            "token": self.token,
            "place": self.place.queue,
            "actor": need.actor,
            "version": need.version,
            "requires": sorted_unique(need.requires),
            "protocol": need.protocol,
            "missingCapabilities": list(self.missing_capabilities),
            "controlPlaneRange": list(protocol_range_of(self.control_plane)),
            "workerRanges": [list(majors) for majors in self.worker_ranges],
            "controlPlane": self.control_plane.to_wire(),
            "nearest": _descriptor_of(self.nearest),
            "workersLive": len(self.verdicts),
            "workers": [
                {
                    "id": verdict.candidate.id,
                    "canRun": verdict.can_run,
                    "capabilities": sorted_unique(verdict.candidate.capabilities),
                    "range": list(verdict.candidate.protocol),
                    "legacy": verdict.candidate.legacy,
                    "lacks": [
                        {"kind": str(lack.kind), "wanted": lack.wanted, "reason": lack.reason}
                        for lack in verdict.lacks
                    ],
                }
                for verdict in self.verdicts[:MAX_EXPLAINED]
            ],
        }


def _descriptor_of(verdict: Verdict | None) -> dict[str, Any] | None:
    descriptor = None if verdict is None else verdict.candidate.descriptor
    return None if descriptor is None else descriptor.to_wire()


def plan_dispatch(need: Need, fleet: FleetSnapshot, control_plane: WorkerDescriptor) -> DispatchPlan:
    """Plan one need against a queue's fleet. Pure: the same arguments give the same plan.

    Args:
        need: What the message asks for; without an actor, the capabilities alone. Its `protocol` is the
            major of the message, one that its sender speaks.
        fleet: Who is live on the queue. Workers of another SDK or broker are explained, and otherwise
            as if they weren't there.
        control_plane: The descriptor of the process that plans, for the delta.
    """
    verdicts = explain(need, fleet.candidates, broker=fleet.broker)
    live = [
        verdict
        for verdict in verdicts
        if not any(lack.kind in (LackKind.SDK, LackKind.BROKER) for lack in verdict.lacks)
    ]
    workers = tuple(verdict.candidate for verdict in live if verdict.can_run)
    status = DispatchStatus.ROUTABLE
    if not workers:
        status = DispatchStatus.LEGACY if _is_legacy(need, fleet, live) else DispatchStatus.BLOCKED
    plan = DispatchPlan(
        status=status,
        need=need,
        token=fleet.token,
        place=_place(need, status, live),
        workers=workers,
        control_plane=control_plane,
        verdicts=verdicts,
    )
    return _blocked(plan, live) if status is DispatchStatus.BLOCKED else plan


def _is_legacy(need: Need, fleet: FleetSnapshot, live: list[Verdict]) -> bool:
    if need.requires:
        return False
    if not live and not fleet.served_lately:
        return True
    asks_nothing = need.version is None and need.protocol == PROTOCOL_VERSION
    announced = need.actor is not None and any(one.candidate.announces(need.actor) for one in live)
    return asks_nothing and not announced and fleet.plain_consumers


def _place(need: Need, status: DispatchStatus, live: list[Verdict]) -> Place:
    """The standing place, unless somebody who consumes that can't run the need (design §6)."""
    consumers = [one for one in live if need.requires <= one.candidate.capabilities]
    if status is DispatchStatus.LEGACY or all(one.can_run for one in consumers):
        return requirement_place(need)
    return need_place(need)


def _blocked(plan: DispatchPlan, live: list[Verdict]) -> DispatchPlan:
    advertised = frozenset[str]().union(*(one.candidate.capabilities for one in live))
    ranges = tuple(one.candidate.protocol for one in live if one.lacks_only(LackKind.PROTOCOL))
    return replace(
        plan,
        code=Code.PROTOCOL_INCOMPATIBLE if ranges else Code.CAPABILITY_UNAVAILABLE,
        reason=f"blocked: {_obstacle(plan.need, plan.token, live)}{_requires(plan.need)}",
        missing_capabilities=() if ranges else tuple(sorted_unique(plan.need.requires - advertised)),
        worker_ranges=ranges,
    )


def _requires(need: Need) -> str:
    return f" (requires {', '.join(sorted_unique(need.requires))})" if need.requires else ""


def _obstacle(need: Need, token: str, live: list[Verdict]) -> str:
    """What stands in the way: the last hurdle that nobody clears, of those in this order."""
    equipped = [one for one in live if need.requires <= one.candidate.capabilities]
    if not equipped:
        # The contract's own copy, once `_requires` has been appended.
        return "no compatible worker" if need.requires else f"no live worker consumes queue {token!r}"
    with_actor = [one for one in equipped if one.lacks_only(LackKind.PROTOCOL, LackKind.VERSION)]
    if not with_actor:
        return f"no live worker on queue {token!r} announces actor {need.actor!r}"
    right_version = [one for one in with_actor if one.lacks_only(LackKind.PROTOCOL)]
    if not right_version:
        versions = (one.candidate.stated_versions(need.actor or "") or () for one in with_actor)
        stated = sorted_unique(chain.from_iterable(versions))
        return (
            f"no live worker on queue {token!r} announces version {need.version} of actor {need.actor!r} "
            f"(announced: {', '.join(stated)})"
        )
    spoken = sorted_unique(range_text(one.candidate.protocol) for one in right_version)
    return (
        f"no live worker on queue {token!r} that could run it speaks wire protocol {need.protocol} "
        f"(spoken: {', '.join(spoken)})"
    )
