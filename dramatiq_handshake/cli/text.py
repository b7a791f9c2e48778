"""Names that anybody may have advertised, made harmless for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["SHOWN_SENTENCE", "listed", "visible"]

#: How many characters of one name, and of one sentence, are shown; the JSON has all of them.
SHOWN_NAME = 60
SHOWN_SENTENCE = 300
SHOWN_ITEMS = 8


def visible(text: object, limit: int = SHOWN_NAME) -> str:
    """One line of printable text, cut to `limit` characters.

    Control characters, escape sequences, direction marks and lone surrogates are written as escapes, so
    that a hostile name can neither move the cursor nor end its line.
    """
    raw = str(text)
    # Cut first: a name may be megabytes long.
    shown = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in raw[:limit]
    )
    return shown if len(raw) <= limit and len(shown) <= limit else f"{shown[: limit - 1]}…"


def listed(
    names: Iterable[object], separator: str = "\n", *, most: int = SHOWN_ITEMS, none: str = "-"
) -> str:
    """Names one after the other, made `visible`, the surplus counted.

    Args:
        names: What is listed, in this order.
        separator: What stands between two of them.
        most: How many are shown at most.
        none: What stands for an empty list.
    """
    every = [visible(name) for name in names]
    shown = every if len(every) <= most else [*every[:most], f"and {len(every) - most} more"]
    return separator.join(shown) or none
