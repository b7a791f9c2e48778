"""``dramatiq-handshake blocked``: what is blocked, since when, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from dramatiq_handshake.cli.options import DEFAULT_PREFIX, Json, Namespace, Prefix, Url, open_engine
from dramatiq_handshake.cli.output import console, print_json
from dramatiq_handshake.cli.tables import blocked_notes, blocked_table

__all__ = ["blocked"]


def blocked(
    *,
    url: Url = None,
    prefix: Prefix = DEFAULT_PREFIX,
    namespace: Namespace = None,
    queue: Annotated[
        str | None, typer.Option("--queue", show_default=False, help="Only of this base queue.")
    ] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", show_default=False, help="Only of this actor.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", help="How many messages --json lists, oldest first.")
    ] = 100,
    json: Json = False,
) -> None:
    """What is blocked, since when, and why.

    Blocked messages are kept, and the first worker that can run them takes them. Per need: what the
    nearest worker lacks, and which queue keeps the messages.
    """
    with open_engine(url, prefix, namespace) as engine:
        report = engine.blocked(queue=queue, actor=actor, limit=limit if json else 0)
    if json:
        print_json(report.to_json(indent=2))
        return
    out = console()
    if report.needs:
        out.print(blocked_table(report))
    for note in blocked_notes(report):
        out.print(note)
