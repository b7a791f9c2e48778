"""Cursors and sizes of pages of blocked messages, which both stores share."""

from __future__ import annotations

from dramatiq_handshake.errors import ConfigurationError

__all__ = ["PAGE_MAX", "page_size", "read_cursor", "write_cursor"]

#: What one page holds at most, so that no page keeps the server busy for more than a few ms.
PAGE_MAX = 1_000


def page_size(limit: int) -> int:
    """The size of the page that is given for `limit`: between 1 and `PAGE_MAX`."""
    return max(1, min(limit, PAGE_MAX))


def write_cursor(sequence: int) -> str:
    """The cursor of the page that begins after the message with this sequence number."""
    return str(sequence)


def read_cursor(cursor: str | None) -> int:
    """The sequence number after which a page begins; 0 is the start.

    Raises:
        ConfigurationError: The text is no cursor that a page gave.
    """
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 16):
        raise ConfigurationError(
            f"cursor {cursor[:40]!r}: expected the next_cursor of an earlier page; "
            "leave it out to start again"
        )
    return int(cursor)
