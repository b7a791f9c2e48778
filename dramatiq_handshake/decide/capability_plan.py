"""The contract's own plan: capabilities and protocol alone, over workers of any SDK.

Dispatching here asks more (`decide.plan`); this is what every SDK answers alike, row by row of
``plan.jsonl``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.negotiate import (
    MajorRange,
    capabilities_of,
    protocol_range_of,
    ranges_overlap,
)
from dramatiq_handshake.wire.descriptor import WorkerDescriptor

__all__ = ["CapabilityPlan", "plan_capabilities"]


@dataclass(frozen=True, slots=True)
class CapabilityPlan:
    """Who can take work that requires these capabilities, or why nobody can.

    Attributes:
        token: The routing token that was planned for.
        requires: What is required, without duplicates, in the order in which it was first named.
        control_plane: The planner's descriptor, as stated.
        live: Every live worker, defaults filled in.
        workers: Those who are capable and speak a common major.
        code: Why it is blocked; `None` where it is routable.
        reason: That in a sentence; empty where it is routable.
        missing_capabilities: Required, and advertised by nobody; in the order of `requires`.
        worker_ranges: The majors of the capable workers, where none is compatible.
    """

    token: str
    requires: tuple[str, ...]
    control_plane: WorkerDescriptor
    live: tuple[WorkerDescriptor, ...]
    workers: tuple[WorkerDescriptor, ...]
    code: Code | None = None
    reason: str = ""
    missing_capabilities: tuple[str, ...] = ()
    worker_ranges: tuple[MajorRange, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """The plan as the contract writes it, without the prose."""
        if self.code is None:
            return {"status": "routable", "workers": _wire(self.workers)}
        diagnostics: dict[str, Any] = {
            "code": str(self.code),
            "token": self.token,
            "requires": list(self.requires),
            "liveWorkers": len(self.live),
        }
        if self.code is Code.PROTOCOL_INCOMPATIBLE:
            diagnostics["controlPlaneRange"] = list(protocol_range_of(self.control_plane))
            diagnostics["workerRanges"] = [list(majors) for majors in self.worker_ranges]
        else:
            diagnostics["missingCapabilities"] = list(self.missing_capabilities)
        diagnostics["controlPlane"] = self.control_plane.to_wire(stated_nulls=True)
        diagnostics["workers"] = _wire(self.live)
        return {
            "status": "blocked",
            "code": str(self.code),
            "requires": list(self.requires),
            "diagnostics": diagnostics,
        }


def plan_capabilities(
    requires: Iterable[str],
    workers: Sequence[WorkerDescriptor],
    control_plane: WorkerDescriptor,
    token: str,
) -> CapabilityPlan:
    """Plan as the contract does (design §3 and §4).

    Somebody capable but nobody compatible is ``protocol.incompatible``; nobody capable is
    ``capability.unavailable``, whatever they speak.
    """
    required = tuple(dict.fromkeys(requires))
    capable = [worker for worker in workers if capabilities_of(worker).issuperset(required)]
    planner = protocol_range_of(control_plane)
    compatible = [worker for worker in capable if ranges_overlap(planner, protocol_range_of(worker))]
    plan = CapabilityPlan(
        token=token,
        requires=required,
        control_plane=control_plane,
        live=tuple(worker.normalised() for worker in workers),
        workers=tuple(worker.normalised() for worker in compatible),
    )
    if compatible:
        return plan
    suffix = f" (requires {', '.join(required)})" if required else ""
    if capable:
        return replace(
            plan,
            code=Code.PROTOCOL_INCOMPATIBLE,
            reason=f"blocked: no protocol-compatible worker{suffix}",
            worker_ranges=tuple(protocol_range_of(worker) for worker in capable),
        )
    advertised = frozenset[str]().union(*map(capabilities_of, workers))
    return replace(
        plan,
        code=Code.CAPABILITY_UNAVAILABLE,
        reason=f"blocked: no compatible worker{suffix}",
        missing_capabilities=tuple(name for name in required if name not in advertised),
    )


def _wire(workers: Iterable[WorkerDescriptor]) -> list[dict[str, Any]]:
    return [worker.to_wire(stated_nulls=True) for worker in workers]
