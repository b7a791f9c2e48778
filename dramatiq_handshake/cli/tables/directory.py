"""The directory: which workflows exist here, by whose word."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.table import Table
from rich.text import Text

from dramatiq_handshake.cli.tables.style import new_table
from dramatiq_handshake.cli.text import SHOWN_SENTENCE, listed, visible
from dramatiq_handshake.decide.directory_models import Evidence, WorkflowDirectory, WorkflowEntry

__all__ = ["directory_notes", "directory_table"]

#: How many workers of one entry are named.
SHOWN_WORKERS = 3


def directory_table(directory: WorkflowDirectory, *, name: Callable[[str], str] = visible) -> Table:
    """One row a workflow.

    Args:
        directory: What is shown.
        name: What a worker is called, by its instance id.
    """
    table = new_table("workflow", "evidence", "queue", "requires", "origin", "workers")
    for entry in directory.workflows:
        table.add_row(
            visible(entry.key),
            _evidence(entry),
            listed(entry.groups),
            listed(listed(demands, "+", none="nothing") for demands in entry.requires),
            listed(entry.origins),
            listed((name(instance) for instance in entry.instances), most=SHOWN_WORKERS),
        )
    return table


def directory_notes(directory: WorkflowDirectory, *, name: Callable[[str], str] = visible) -> Iterator[str]:
    """What the table doesn't tell: one line each."""
    for entry in directory.workflows:
        for one in entry.disagreements:
            yield (
                f"Disagreement on {visible(entry.key)}: its workers state more than one {one.axis.value} "
                f"({listed(one.values, ' / ')})."
            )
    for other in directory.other_partitions:
        who = listed((name(instance) for instance in other.instances), ", ")
        yield f"Another partition, {visible(other.partition)!r}: {who} on {listed(other.groups, ', ')}."
    for finding in directory.invalid:
        yield f"{finding.code}: {visible(finding.reason, SHOWN_SENTENCE)}"


def _evidence(entry: WorkflowEntry) -> Text:
    if entry.evidence is Evidence.DECLARED:
        return Text(entry.evidence.value, style="green")
    return Text(f"{entry.evidence.value} queue", style="yellow")
