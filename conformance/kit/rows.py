"""Reading a folder of vector files, in the format of ``vectors/README.md``.

A row is handed over as Python's `json` reads it: ``1.0`` a float, ``1e400`` infinite, an integer
unbounded. Only the right answer is read as the reference holds it, with every number a double.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["FIELDS", "Row", "RowError", "read_file", "vector_files"]

#: Per file, the fields that every row must have.
FIELDS = {
    "announced.jsonl": ("descriptors", "result", "localeSensitive", "localeAxes"),
    "directory.jsonl": (
        "descriptors",
        "heartbeats",
        "namespace",
        "supported",
        "result",
        "localeSensitive",
        "localeAxes",
    ),
    "hash.jsonl": ("descriptor", "hash"),
    "heartbeat.jsonl": ("raw", "result"),
    "malformed.jsonl": ("what",),
    "negotiate.jsonl": ("local", "remote", "required", "result"),
    "plan.jsonl": ("requires", "workers", "control_plane", "token", "result"),
    "tokens.jsonl": ("fn", "args", "result"),
}


class RowError(Exception):
    """A line, a file or a folder is not what the documented format says."""


@dataclass(frozen=True)
class Row:
    """One question and its right answer.

    Attributes:
        line: Its line in the file, from 1.
        value: The row as Python reads it.
        expected: The right answer, its numbers read as doubles; None where the row states none.
    """

    line: int
    value: dict[str, Any]
    expected: Any


def vector_files(folder: Path) -> list[Path]:
    """The vector files of a folder, sorted by name.

    Raises:
        RowError: The folder is none, or holds no vector file.
    """
    if not folder.is_dir():
        raise RowError(f"expected a folder of vector files, got {folder}")
    files = sorted(path for path in folder.iterdir() if path.suffix == ".jsonl")
    if not files:
        raise RowError(f"expected at least one vector file (*.jsonl) in {folder}, found none")
    return files


def read_file(path: Path) -> Iterator[Row | tuple[int, RowError]]:
    """Every row of a file, or its line and what is wrong with it.

    Raises:
        RowError: The name is none of `FIELDS`, the file can't be read, or it holds no row.
    """
    if path.name not in FIELDS:
        raise RowError(f"expected one of {', '.join(FIELDS)}, got a file of another name")
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RowError(f"expected a readable file: {error}") from error
    if lines[-1] == b"":
        lines.pop()
    if not lines:
        raise RowError("expected at least one row, got an empty file")
    for number, line in enumerate(lines, 1):
        try:
            yield _row(path.name, number, line)
        except RowError as error:
            yield number, error


def _row(name: str, number: int, line: bytes) -> Row:
    try:
        text = line.decode("ascii")
        value, doubles = json.loads(text), json.loads(text, parse_int=float)
    except (ValueError, RecursionError) as error:
        raise RowError(f"expected one JSON object in 7-bit ASCII: {error}") from error
    if not isinstance(value, dict):
        raise RowError(f"expected one JSON object, got {text[:40]}")
    missing = [field for field in FIELDS[name] if field not in value]
    if missing:
        raise RowError(f"expected the fields {', '.join(FIELDS[name])}; missing: {', '.join(missing)}")
    if name == "malformed.jsonl" and ("descriptor" in value) == ("heartbeat" in value):
        raise RowError("expected either a descriptor or a heartbeat")
    return Row(number, value, doubles["hash"] if name == "hash.jsonl" else doubles.get("result"))
