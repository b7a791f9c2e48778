"""``dramatiq-handshake fleet``: who is live, and negotiated how."""

from __future__ import annotations

from dramatiq_handshake.cli.options import DEFAULT_PREFIX, Json, Namespace, Prefix, Url, open_engine
from dramatiq_handshake.cli.output import console, print_json
from dramatiq_handshake.cli.tables import fleet_notes, fleet_table
from dramatiq_handshake.cli.text import visible

__all__ = ["fleet"]


def fleet(
    *, url: Url = None, prefix: Prefix = DEFAULT_PREFIX, namespace: Namespace = None, json: Json = False
) -> None:
    """Who is live, and how each one negotiated.

    Per worker also: its queues, capabilities, actors, how busy it is, when it last beat.
    """
    with open_engine(url, prefix, namespace) as engine:
        report = engine.fleet()
    if json:
        print_json(report.to_json(indent=2))
        return
    out = console()
    if report.workers:
        out.print(fleet_table(report))
    for note in fleet_notes(report):
        out.print(note)
    out.print(visible(report.detail, 1_000))
