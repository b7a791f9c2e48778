"""The engine's answers as tables for people; the commands and the demo share them."""

from __future__ import annotations

from dramatiq_handshake.cli.tables.blocked import blocked_notes, blocked_table
from dramatiq_handshake.cli.tables.directory import directory_notes, directory_table
from dramatiq_handshake.cli.tables.fleet import fleet_notes, fleet_table

__all__ = [
    "blocked_notes",
    "blocked_table",
    "directory_notes",
    "directory_table",
    "fleet_notes",
    "fleet_table",
]
