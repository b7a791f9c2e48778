"""The fleet: who is live, and how each got along with this control plane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from dramatiq_handshake.cli.tables.style import DIM, new_table, outcome_text
from dramatiq_handshake.cli.text import listed, visible
from dramatiq_handshake.engine.fleet_models import FleetReport, WorkerReport
from dramatiq_handshake.engine.report import duration_text

__all__ = ["common_capabilities", "fleet_notes", "fleet_table", "own_capabilities"]


def fleet_table(fleet: FleetReport) -> Table:
    """One row a worker."""
    table = new_table("worker", "negotiated", "queues", "capabilities", "actors", "busy", "last beat")
    common = common_capabilities(fleet.workers)
    for worker in fleet.workers:
        table.add_row(
            _who(worker),
            _negotiated(worker),
            listed(worker.tokens),
            listed(own_capabilities(worker, common)),
            listed(actor.key for actor in worker.actors),
            _busy(worker),
            "unknown" if worker.last_beat_age_ms is None else f"{duration_text(worker.last_beat_age_ms)} ago",
        )
    return table


def fleet_notes(fleet: FleetReport) -> Iterator[str]:
    """What the table doesn't tell: one line each."""
    if not fleet.supported:
        return
    common = common_capabilities(fleet.workers)
    if common:
        yield f"Every worker also has: {listed(common, ', ', most=20)}."
    for plane in fleet.control_planes:
        demands = f", whose actors require {listed(plane.capabilities, ', ')}" if plane.capabilities else ""
        trouble = f" ({visible(plane.reason)})" if plane.reason else ""
        yield f"Control plane {visible(plane.instance_id)}: {plane.outcome.value}{trouble}{demands}."
    for finding in fleet.invalid:
        yield f"{finding.code}: {visible(finding.reason, 300)}"


def common_capabilities(workers: Sequence[WorkerReport]) -> tuple[str, ...]:
    """What every worker has, which need not be told row by row; a single worker's are its own."""
    if len(workers) < 2:
        return ()
    return tuple(sorted(frozenset.intersection(*(frozenset(worker.capabilities) for worker in workers))))


def own_capabilities(worker: WorkerReport, common: Sequence[str]) -> list[str]:
    """What tells a worker apart from the others."""
    return [name for name in worker.capabilities if name not in common]


def _who(worker: WorkerReport) -> Text:
    facts = [f"{worker.sdk} {worker.sdk_version}"] if worker.sdk != "unknown" else []
    facts += ["legacy"] if worker.legacy else []
    facts += ["another SDK"] if worker.foreign else []
    facts += [] if worker.state in (None, "up") else [str(worker.state)]
    facts += [] if worker.uptime_ms is None else [f"up {duration_text(worker.uptime_ms)}"]
    return Text.assemble(visible(worker.instance_id), "\n", (listed(facts, ", "), DIM))


def _negotiated(worker: WorkerReport) -> Text:
    protocol = "" if worker.protocol is None else f", protocol {worker.protocol}"
    text = Text.assemble(outcome_text(worker.outcome), protocol)
    if worker.missing:
        text.append(f"\nlacks {listed(worker.missing, ', ')}")
    elif worker.reason:
        text.append(f"\n{visible(worker.reason, 300)}")
    return text


def _busy(worker: WorkerReport) -> str:
    if worker.threads is None:
        return "-"
    return f"{worker.in_flight if worker.in_flight is not None else '?'} of {worker.threads}"
