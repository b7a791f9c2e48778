"""The fleet: who is live, and how each got along with this control plane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from dramatiq_handshake.cli.tables.style import DIM, new_table, outcome_text
from dramatiq_handshake.cli.text import SHOWN_SENTENCE, listed, visible
from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.negotiate import Outcome
from dramatiq_handshake.engine.fleet_models import FleetReport, WorkerReport
from dramatiq_handshake.engine.report import duration_text

__all__ = ["common_capabilities", "fleet_notes", "fleet_table", "own_capabilities"]


def fleet_table(fleet: FleetReport) -> Table:
    """One row a worker."""
    table = new_table("worker", "negotiated", "queues", "actors", "capabilities")
    table.columns[1].min_width = len(Outcome.INCOMPATIBLE.value)
    common = common_capabilities(fleet.workers)
    for worker in fleet.workers:
        table.add_row(
            _who(worker),
            _negotiated(worker),
            listed(worker.tokens),
            listed(actor.key for actor in worker.actors),
            "v1 baseline" if worker.legacy else listed(own_capabilities(worker, common)),
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
        yield f"{finding.code}: {visible(finding.reason, SHOWN_SENTENCE)}"


def common_capabilities(workers: Sequence[WorkerReport]) -> tuple[str, ...]:
    """What every worker has, which need not be told row by row; a single worker's are its own."""
    if len(workers) < 2:
        return ()
    return tuple(sorted(frozenset.intersection(*(frozenset(worker.capabilities) for worker in workers))))


def own_capabilities(worker: WorkerReport, common: Sequence[str]) -> list[str]:
    """What tells a worker apart from the others."""
    return [name for name in worker.capabilities if name not in common]


def _who(worker: WorkerReport) -> Text:
    facts = [worker.state] if worker.state not in (None, "up") else []
    if worker.threads is not None and worker.in_flight is not None:
        facts.append(f"{worker.in_flight} in flight, {worker.threads} threads")
    if worker.uptime_ms is not None:
        facts.append(f"up {duration_text(worker.uptime_ms)}")
    if worker.last_beat_age_ms is not None:
        facts.append(f"beat {duration_text(worker.last_beat_age_ms)} ago")
    if worker.foreign:
        known = worker.sdk != "unknown"
        facts.append(f"SDK {worker.sdk} {worker.sdk_version}" if known else "unknown SDK")
    return Text.assemble(visible(worker.instance_id), "\n", (listed(facts, ", ", none=""), DIM))


def _negotiated(worker: WorkerReport) -> Text:
    text = outcome_text(worker.outcome)
    if worker.missing:
        text.append(f"\nlacks {listed(worker.missing, ', ')}")
    elif worker.code is Code.DESCRIPTOR_INVALID:
        text.append(f"\n{worker.code}")  # the notes tell it in full
    elif worker.reason:
        text.append(f"\n{visible(worker.reason, SHOWN_SENTENCE)}")
    return text
