"""What the peers are asked: the rows of the vector files and the checks of each golden fixture."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["DESCRIPTOR_FIELDS", "Row", "RowsInvalid", "vector_rows"]

#: The call that each vector file makes; a row of ``tokens.jsonl`` names its own in ``fn``.
_CALLS = {
    "announced.jsonl": "announced",
    "directory.jsonl": "directory",
    "hash.jsonl": "hash",
    "heartbeat.jsonl": "readHeartbeat",
    "malformed.jsonl": "survive",
    "negotiate.jsonl": "negotiate",
    "plan.jsonl": "plan",
}

#: Where a row holds descriptors; ``workers`` and ``descriptors`` are lists of them.
DESCRIPTOR_FIELDS = ("descriptor", "local", "remote", "control_plane", "workers", "descriptors")


class RowsInvalid(Exception):
    """A folder or a file of vectors is not what the documented row format says."""


@dataclass(frozen=True)
class Row:
    """One question and its right answer.

    Attributes:
        file: The file it is counted under, e.g. ``hash.jsonl``.
        line: Its line in that file, from 1.
        call: What the peer is asked to do, e.g. ``negotiate``.
        text: The row as JSON text, exactly as it stands in the file: what the peer reads.
        value: The row as Python's `json` reads it (``1.0`` a float, ``1e400`` infinite).
        expected: The right answer, its numbers read as doubles; None where the contract states none.
    """

    file: str
    line: int
    call: str
    text: str
    value: Any
    expected: Any

    @property
    def place(self) -> str:
        """Where to look it up: ``hash.jsonl:12``."""
        return f"{self.file}:{self.line}"

    def descriptors(self) -> Iterator[dict[str, Any]]:
        """Every descriptor in the question."""
        for field in DESCRIPTOR_FIELDS:
            held = self.value.get(field)
            yield from held if isinstance(held, list) else [held] * isinstance(held, dict)


def vector_rows(folder: Path) -> list[Row]:
    """Every row of every ``*.jsonl`` in a folder.

    Raises:
        RowsInvalid: There is no such file, one has a name that the row format doesn't know, or a line is
            no row.
    """
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise RowsInvalid(f"expected vector files (*.jsonl) in {folder}, found none")
    return [row for path in files for row in _rows(path)]


def _rows(path: Path) -> Iterator[Row]:
    if path.name not in _CALLS and path.name != "tokens.jsonl":
        known = ", ".join(sorted([*_CALLS, "tokens.jsonl"]))
        raise RowsInvalid(f"{path}: expected one of {known}")
    for number, line in enumerate(path.read_text("ascii").split("\n"), 1):
        if not line:
            continue
        try:
            value, doubles = json.loads(line), json.loads(line, parse_int=float)
            call = _CALLS.get(path.name) or value["fn"]
            expected = doubles["hash"] if call == "hash" else doubles.get("result")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise RowsInvalid(f"{path}:{number}: expected a row of the format, got {error!r}") from error
        yield Row(path.name, number, call, line, value, expected)
