"""The demo's own tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from dramatiq_handshake.cli.demo.cast import Role
from dramatiq_handshake.cli.demo.ledger import Entry
from dramatiq_handshake.cli.tables.blocked import actor_key
from dramatiq_handshake.cli.tables.fleet import common_capabilities, own_capabilities
from dramatiq_handshake.cli.tables.style import new_table, outcome_text
from dramatiq_handshake.cli.text import SHOWN_SENTENCE, listed, visible
from dramatiq_handshake.engine import BlockedNeedReport, WorkerReport
from dramatiq_handshake.engine.report import duration_text

__all__ = ["blocked_card", "books", "fleet_table", "timeline"]


def fleet_table(live: Mapping[str, WorkerReport], roles: Sequence[Role]) -> Table:
    """Who is live, under the names of the story."""
    table = new_table("worker", "consumes", "can do", "announces", "negotiated")
    common = common_capabilities(list(live.values()))
    for role in roles:
        who = Text(role.name, style="bold")
        worker = live.get(role.name)
        if worker is None:
            table.add_row(who, "-", "-", "-", Text("not live", style="red"))
            continue
        negotiated = outcome_text(worker.outcome)
        if worker.missing:
            negotiated.append(f": lacks {listed(worker.missing, ', ')}")
        table.add_row(
            who,
            listed(worker.tokens),
            listed(own_capabilities(worker, common)),
            listed(actor.key for actor in worker.actors),
            negotiated,
        )
    return table


def blocked_card(need: BlockedNeedReport, consumers: Sequence[str]) -> Table:
    """One blocked message: why, and the exact delta.

    Args:
        need: What it asks for.
        consumers: Who is live on its queue.
    """
    card = Table.grid(padding=(0, 2))
    card.add_column(style="dim", no_wrap=True)
    card.add_column(overflow="fold")
    asks = f"{actor_key(need)} on queue {visible(need.queue)}"
    if need.requires:
        asks += f", with {listed(need.requires, ', ')}"
    card.add_row("asks for", asks)
    card.add_row("code", Text(visible(need.code), style="yellow"))
    card.add_row("reason", visible(need.reason, SHOWN_SENTENCE))
    if need.missing:
        card.add_row("missing", f"{listed(need.missing, ', ')}: nobody live on {visible(need.queue)} has it")
    if need.nearest is not None:
        lacks = " and ".join(visible(lack.reason, SHOWN_SENTENCE) for lack in need.nearest.lacks)
        card.add_row("nearest", f"{listed(consumers, ', ')} {lacks}")
    card.add_row("since", f"{duration_text(need.age_ms)} ago")
    card.add_row("kept in", f"{visible(need.place)}, a queue that only those who can run it consume")
    return card


def timeline(booted: Entry, runs: Sequence[tuple[Entry, Entry]]) -> Table:
    """What followed a worker's appearance.

    Args:
        booted: When it appeared.
        runs: Per message when it was sent, and when it ran.
    """
    table = new_table("after", "what the ledger says", "it had waited")
    table.columns[0].justify = "right"
    table.add_row("0.0 ms", f"{booted.process} consumes, and is about to advertise", "")
    for sent, ran in sorted(runs, key=lambda run: run[1].at_ns):
        table.add_row(
            f"{ran.ms_after(booted):.1f} ms",
            f"{ran.process} ran {ran.actor}",
            duration_text(round(ran.ms_after(sent))),
        )
    return table


def books(sent: Sequence[Entry], ran: Sequence[Entry]) -> Table:
    """Every message that was sent, and what became of it."""
    table = new_table("message", "actor", "times run", "by", "after")
    for message in sent:
        runs = [entry for entry in ran if entry.message_id == message.message_id]
        table.add_row(
            message.message_id[:8],
            message.actor,
            str(len(runs)),
            listed((run.process for run in runs), ", "),
            listed((duration_text(round(run.ms_after(message))) for run in runs), ", "),
        )
    return table
