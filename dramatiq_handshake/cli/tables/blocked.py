"""What is blocked: one row for all messages with the same need."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from dramatiq_handshake.cli.tables.style import DIM, new_table
from dramatiq_handshake.cli.text import SHOWN_SENTENCE, visible
from dramatiq_handshake.engine.blocked_models import BlockedNeedReport, BlockedReport
from dramatiq_handshake.engine.report import duration_text

__all__ = ["actor_key", "blocked_notes", "blocked_table"]


def blocked_table(report: BlockedReport) -> Table:
    """The needs, the longest blocked first."""
    table = new_table("blocked", "messages", "for", "why, and where they are kept")
    table.columns[0].max_width = 26
    table.columns[1].justify = "right"
    for need in report.needs:
        table.add_row(
            Text.assemble(actor_key(need), "\n", (f"on queue {visible(need.queue)}", DIM)),
            str(need.messages),
            duration_text(need.age_ms),
            _why(need),
        )
    return table


def blocked_notes(report: BlockedReport) -> Iterator[str]:
    """What is blocked in a few lines, and what else no live worker takes."""
    if report.needs:
        oldest = max(need.age_ms for need in report.needs)
        yield (
            f"{report.total} message(s) blocked for {len(report.needs)} need(s), "
            f"the oldest for {duration_text(oldest)}. All are kept; the first worker that can takes them."
        )
    for backlog in report.unlisted:
        yield f"Unlisted: {visible(backlog.reason, SHOWN_SENTENCE)}."
    if not report.needs and not report.unlisted:
        yield "Nothing is blocked."


def actor_key(need: BlockedNeedReport) -> str:
    """What was called: ``name@version``, or what is known of it."""
    if need.actor is None:
        return "any actor"
    return visible(need.actor if need.version is None else f"{need.actor}@{need.version}")


def _why(need: BlockedNeedReport) -> Text:
    if need.nearest is None:
        nearest = "no worker was live on this queue"
    else:
        lacks = " and ".join(visible(lack.reason, SHOWN_SENTENCE) for lack in need.nearest.lacks)
        nearest = f"the nearest worker {lacks}"
    return Text.assemble(
        (visible(need.code), "yellow"),
        f"\n{visible(need.reason, SHOWN_SENTENCE)}\n{nearest}\n",
        (f"kept in {visible(need.place)}, need {visible(need.need_id)}", DIM),
    )
