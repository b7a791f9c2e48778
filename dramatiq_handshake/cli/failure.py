"""An error in one line: what happened, and what to do."""

from __future__ import annotations

from dramatiq_handshake.cli.text import visible
from dramatiq_handshake.dispatch.settings import URL_VARIABLE
from dramatiq_handshake.errors import HandshakeError, RegistryUnavailable

__all__ = ["PROGRAM", "UNUSABLE", "describe"]

PROGRAM = "dramatiq-handshake"
#: The exit code of a command that could not do what it was asked to.
UNUSABLE = 2
#: An error may quote names of any length; the line still fits a screen.
SHOWN_ERROR = 1_000


def describe(error: Exception) -> str:
    """The line to print."""
    return f"{PROGRAM}: {visible(_what(error), SHOWN_ERROR)}"


def _what(error: Exception) -> str:
    if isinstance(error, RegistryUnavailable):
        return f"{error}; is the server up, and is --url (or {URL_VARIABLE}) the right one?"
    if isinstance(error, HandshakeError):
        return str(error)
    usage = getattr(error, "format_message", None)
    if callable(usage):
        # What typer raises; its class is click's or typer's own, depending on the release.
        return f"{str(usage()).rstrip('.')} (try '{PROGRAM} --help')"
    return (
        f"{type(error).__name__}: {error}; this is a mistake in {PROGRAM}, "
        "which --debug shows in full for a report"
    )
