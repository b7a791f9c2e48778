"""``malformed.jsonl``: one bad advertisement never costs the others their entry.

Each row goes into every position of a list of good advertisements. Every good entry must come out as
without it; and where the row breaks the contract, exactly one ``descriptor.invalid`` names the field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from conformance.kit.shape import fault_of_descriptor, fault_of_heartbeat
from dramatiq_handshake.decide.directory import WorkflowDirectory, build_directory

__all__ = ["check_malformed"]

_index = re.compile(r"\[[0-9]+\]")

GOOD_DESCRIPTORS: Sequence[dict[str, Any]] = (
    {
        "instanceId": "good-1",
        "runtime": "python",
        "sdk": {"name": "dramatiq-handshake", "version": "0.1.0"},
        "protocol": {"version": 1, "range": [1, 1]},
        "capabilities": ["good-capability"],
        "workflows": ["good-train"],
        "steps": ["good-step"],
        "registrations": [
            {"name": "good-train", "version": "2", "group": "good-queue", "requires": ["good-capability"]}
        ],
        "startedAt": 1752710400000,
    },
    {"instanceId": "good-2", "runtime": "node", "workflows": ["good-bare", "good-train"]},
    {
        "instanceId": "good-3",
        "runtime": "python",
        "protocol": {"version": 1, "range": [1, 1]},
        "registrations": [{"name": "good-train", "version": "2", "group": "good-other", "origin": "good"}],
    },
)
GOOD_HEARTBEATS: Sequence[dict[str, Any]] = (
    {"group": "good-silent", "instanceId": "good-4"},
    {"group": "good-bare", "instanceId": "good-2"},
    {"group": "good-silent@good-tenant", "instanceId": "good-5"},
)
#: An operator, who sees every tenant, and one of them.
NAMESPACES = (None, "default")


def check_malformed(row: dict[str, Any]) -> str | None:
    """What is wrong with the directories built with this row in each position; None is nothing."""
    is_descriptor = "descriptor" in row
    bad = row["descriptor"] if is_descriptor else row["heartbeat"]
    fault = fault_of_descriptor(bad) if is_descriptor else fault_of_heartbeat(bad)
    for namespace in NAMESPACES:
        good = build_directory(GOOD_DESCRIPTORS, GOOD_HEARTBEATS, namespace=namespace)
        positions = _in_each_position(GOOD_DESCRIPTORS if is_descriptor else GOOD_HEARTBEATS, bad)
        for position, with_row in enumerate(positions):
            descriptors = with_row if is_descriptor else GOOD_DESCRIPTORS
            heartbeats = GOOD_HEARTBEATS if is_descriptor else with_row
            got = build_directory(descriptors, heartbeats, namespace=namespace)
            difference = _harm(good, got, fault) or _misreport(got, fault)
            if difference is not None:
                return f"namespace {namespace!r}, position {position}: {difference}"
    return None


def _in_each_position(good: Sequence[Any], bad: Any) -> Iterator[list[Any]]:
    for position in range(len(good) + 1):
        yield [*good[:position], bad, *good[position:]]


def _harm(good: WorkflowDirectory, got: WorkflowDirectory, fault: str | None) -> str | None:
    entries = {(entry.key, entry.evidence): entry for entry in got.workflows}
    for entry in good.workflows:
        if entries.get((entry.key, entry.evidence)) != entry:
            return f"the good entry {entry.key!r} came out changed"
    if fault is not None and (got.workflows, got.other_partitions) != (good.workflows, good.other_partitions):
        return "what could not be read left something behind in the directory"
    return None


def _misreport(got: WorkflowDirectory, fault: str | None) -> str | None:
    reports = [(str(one.code), _index.sub("[]", one.field)) for one in got.invalid]
    if fault is None:
        return f"expected no report of a legal row, got {reports}" if reports else None
    if len(reports) != 1 or reports[0][0] != "descriptor.invalid":
        return f"expected exactly one descriptor.invalid, got {reports}"
    named = reports[0][1]
    if named != fault and not (fault and named.startswith(fault)):
        return f"expected descriptor.invalid to name {fault or 'the whole value'!r}, got {named!r}"
    return None
