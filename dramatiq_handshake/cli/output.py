"""Where a command's answer goes: tables for people, JSON for programs."""

from __future__ import annotations

import io
import sys

from rich.console import Console

__all__ = ["console", "print_json"]

#: How wide text is that goes to a file or a pipe, where nobody says how wide it may be.
PLAIN_WIDTH = 120


def console() -> Console:
    """A console on standard output: plain text of a fixed width where that is no terminal."""
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        # What this terminal's encoding has no character for must not end the program.
        stream.reconfigure(errors="replace")
    terminal = stream.isatty()
    return Console(
        file=stream,
        force_terminal=terminal,
        width=None if terminal else PLAIN_WIDTH,
        color_system="auto" if terminal else None,
        # Everything printed is data: no part of a name is markup, a number or an emoji code.
        markup=False,
        highlight=False,
        emoji=False,
    )


def print_json(text: str) -> None:
    """Print a JSON text as it is, on a line of its own."""
    sys.stdout.write(f"{text}\n")
