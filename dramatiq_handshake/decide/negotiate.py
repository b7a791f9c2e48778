"""Negotiation: the highest common protocol major, the capability intersection, and one of three outcomes.

====================================================  ============  ===========================
the two sides                                         outcome       code
====================================================  ============  ===========================
their ranges of majors do not overlap                 incompatible  ``protocol.incompatible``
a required capability is missing on the remote        degraded      ``capability.unavailable``
their capabilities differ in any way                  degraded      ``capability.unavailable``
none of these                                         compatible    none
====================================================  ============  ===========================

The first row that holds is the answer (design §3).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.wire.descriptor import LEGACY_PROTOCOL, V1_BASELINE, WorkerDescriptor
from dramatiq_handshake.wire.ecmascript import number_text, sorted_unique

__all__ = [
    "MajorRange",
    "Negotiation",
    "Outcome",
    "capabilities_of",
    "negotiate",
    "negotiate_in_fleet",
    "protocol_range_of",
    "range_text",
    "ranges_overlap",
]

#: The lowest and the highest wire-protocol major, both included. An inverted range overlaps none.
MajorRange = tuple[float, float]


class Outcome(Enum):
    """How two sides get along (design §3)."""

    COMPATIBLE = "compatible"
    DEGRADED = "degraded"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True)
class Negotiation:
    """What two sides have agreed on, and everything that separates them.

    Attributes:
        outcome: Which of the three.
        session_protocol: The major that the session speaks, ``min(max, max)``; `None` without overlap.
        local: Our side, defaults filled in.
        remote: The other side, defaults filled in.
        shared: The capabilities of both, sorted.
        missing_on_remote: Ours that the other side lacks, sorted.
        missing_on_local: Theirs that we lack, sorted.
        missing_required: The required capabilities that the other side lacks, sorted.
        code: The diagnostic code, or `None` where compatible.
        reason: A sentence for people; empty where compatible.
    """

    outcome: Outcome
    session_protocol: float | None
    local: WorkerDescriptor
    remote: WorkerDescriptor
    shared: tuple[str, ...]
    missing_on_remote: tuple[str, ...]
    missing_on_local: tuple[str, ...]
    missing_required: tuple[str, ...]
    code: Code | None
    reason: str

    @property
    def local_range(self) -> MajorRange:
        """The majors that our side speaks."""
        return protocol_range_of(self.local)

    @property
    def remote_range(self) -> MajorRange:
        """The majors that the other side speaks."""
        return protocol_range_of(self.remote)

    def to_wire(self) -> dict[str, Any]:
        """The result as the contract writes it, without the prose."""
        ranges = {"localRange": list(self.local_range), "remoteRange": list(self.remote_range)}
        differences = {
            "missingOnRemote": list(self.missing_on_remote),
            "missingOnLocal": list(self.missing_on_local),
        }
        wire: dict[str, Any] = {
            "outcome": self.outcome.value,
            "negotiatedProtocol": self.session_protocol,
            "protocol": ranges,
            "capabilities": {"shared": list(self.shared), **differences},
        }
        if self.code is not None:
            detail: dict[str, Any] = dict(ranges if self.outcome is Outcome.INCOMPATIBLE else differences)
            if self.missing_required and self.outcome is not Outcome.INCOMPATIBLE:
                detail = {"missingRequired": list(self.missing_required), **differences}
            wire["reason"] = {"code": str(self.code), "detail": detail}
        wire["local"] = self.local.to_wire(stated_nulls=True)
        wire["remote"] = self.remote.to_wire(stated_nulls=True)
        return wire


def protocol_range_of(descriptor: WorkerDescriptor) -> MajorRange:
    """The majors that a side speaks; ``(1, 1)`` where it states none."""
    return (descriptor.protocol or LEGACY_PROTOCOL).range


def capabilities_of(descriptor: WorkerDescriptor) -> frozenset[str]:
    """What a side advertises; the v1 baseline where it states nothing."""
    return frozenset(V1_BASELINE if descriptor.capabilities is None else descriptor.capabilities)


def ranges_overlap(one: MajorRange, other: MajorRange) -> bool:
    """Whether both sides speak a common major; an inverted range overlaps none, not even itself."""
    return max(one[0], other[0]) <= min(one[1], other[1])


def range_text(majors: MajorRange) -> str:
    """A range of majors for people: ``1``, or ``1 to 3``."""
    lowest, highest = map(number_text, majors)
    return lowest if lowest == highest else f"{lowest} to {highest}"


def negotiate(
    local: WorkerDescriptor, remote: WorkerDescriptor, required: Iterable[str] | None = None
) -> Negotiation:
    """Compare two sides.

    Args:
        local: Our side, mostly the control plane.
        remote: The other side, mostly a worker.
        required: The capabilities that the remote must have, even where the local lacks them too.
    """
    ours, theirs = capabilities_of(local), capabilities_of(remote)
    missing_on_remote = tuple(sorted_unique(ours - theirs))
    missing_on_local = tuple(sorted_unique(theirs - ours))
    missing_required = tuple(sorted_unique(frozenset(required or ()) - theirs))
    local_range, remote_range = protocol_range_of(local), protocol_range_of(remote)
    session_protocol: float | None = min(local_range[1], remote_range[1])
    outcome, code = Outcome.COMPATIBLE, None
    reason = ""
    if not ranges_overlap(local_range, remote_range):
        outcome, code, session_protocol = Outcome.INCOMPATIBLE, Code.PROTOCOL_INCOMPATIBLE, None
        reason = (
            f"no common wire protocol: the local side speaks {range_text(local_range)}, "
            f"the remote side {range_text(remote_range)}"
        )
    elif missing_required or missing_on_remote or missing_on_local:
        outcome, code = Outcome.DEGRADED, Code.CAPABILITY_UNAVAILABLE
        reason = _difference(missing_required, missing_on_remote, missing_on_local)
    return Negotiation(
        outcome=outcome,
        session_protocol=session_protocol,
        local=local.normalised(),
        remote=remote.normalised(),
        shared=tuple(sorted_unique(ours & theirs)),
        missing_on_remote=missing_on_remote,
        missing_on_local=missing_on_local,
        missing_required=missing_required,
        code=code,
        reason=reason,
    )


def _difference(required: tuple[str, ...], on_remote: tuple[str, ...], on_local: tuple[str, ...]) -> str:
    if required:
        return f"the remote side lacks what is required: {', '.join(required)}"
    lacks = {"the remote side lacks": on_remote, "the local side lacks": on_local}
    return "; ".join(f"{who} {', '.join(names)}" for who, names in lacks.items() if names)


def negotiate_in_fleet(
    control_plane: WorkerDescriptor, worker: WorkerDescriptor, demands: Iterable[str]
) -> Negotiation:
    """Negotiate a worker as the fleet view shows it (design §3).

    The control plane's side holds the demands of its own actors plus whatever the worker offers: a
    worker that can do more than is asked of it is not thereby degraded.

    Args:
        control_plane: The descriptor of the process that looks.
        worker: The worker's.
        demands: What the control plane's actors require, of any one worker.
    """
    offered = capabilities_of(worker) | frozenset(demands)
    return negotiate(control_plane.model_copy(update={"capabilities": tuple(sorted_unique(offered))}), worker)
