"""How all of our tables look."""

from __future__ import annotations

from rich import box
from rich.style import Style
from rich.table import Table
from rich.text import Text

from dramatiq_handshake.decide.negotiate import Outcome

__all__ = ["DIM", "new_table", "outcome_text"]

DIM = Style(dim=True)
#: A word is never told by its colour alone.
_OUTCOME_COLOURS = {Outcome.COMPATIBLE: "green", Outcome.DEGRADED: "yellow", Outcome.INCOMPATIBLE: "bold red"}


def new_table(*columns: str) -> Table:
    """An empty table; what does not fit a column is folded, never cut off."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def outcome_text(outcome: Outcome) -> Text:
    """A negotiation's outcome in its colour."""
    return Text(outcome.value, style=_OUTCOME_COLOURS[outcome])
