"""What the peers are asked: every row of the vector files, and what each golden fixture claims."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.kit import rows as vectors
from conformance.kit.rows import RowError
from dramatiq_handshake.wire.ecmascript import stringify

__all__ = ["Row", "fixture_rows", "vector_rows"]

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
_DESCRIPTOR_FIELDS = ("descriptor", "local", "remote", "control_plane", "workers", "descriptors")


@dataclass(frozen=True)
class Row:
    """One question and its right answer.

    Attributes:
        file: The file it is counted under, e.g. ``hash.jsonl``.
        line: Its line in that file, from 1; of a fixture, the number of the check.
        call: What the peer is asked to do, e.g. ``negotiate``.
        text: The question as JSON text, exactly as it stands in the file: what the peer reads.
        value: The question as Python's `json` reads it (``1.0`` a float, ``1e400`` infinite).
        expected: The right answer, its numbers read as doubles; None where the contract states none.
        byte_identical: The answer's keys must be in the contract's order too.
    """

    file: str
    line: int
    call: str
    text: str
    value: Any
    expected: Any
    byte_identical: bool = False

    @property
    def place(self) -> str:
        """Where to look it up: ``hash.jsonl:12 (hash)``."""
        return f"{self.file}:{self.line} ({self.call})"

    def descriptors(self) -> Iterator[dict[str, Any]]:
        """Every descriptor in the question."""
        for field in _DESCRIPTOR_FIELDS:
            held = self.value.get(field)
            yield from held if isinstance(held, list) else [held] * isinstance(held, dict)


def vector_rows(folder: Path) -> list[Row]:
    """Every row of every vector file of a folder.

    Raises:
        RowError: The folder, a file or a line is not what the row format says.
    """
    return [row for path in vectors.vector_files(folder) for row in _rows_of_file(path)]


def _rows_of_file(path: Path) -> Iterator[Row]:
    lines = path.read_bytes().split(b"\n")
    for read in vectors.read_file(path):
        if isinstance(read, tuple):
            line, error = read
            raise RowError(f"{path}:{line}: {error}")
        call = _CALLS.get(path.name) or str(read.value["fn"])
        text = lines[read.line - 1].decode("ascii")
        yield Row(path.name, read.line, call, text, read.value, read.expected)


def fixture_rows(folder: Path) -> list[Row]:
    """Every claim of the golden fixtures that ``manifest.json`` lists.

    A descriptor has its ETag, and comes back from a peer as it went in, byte for byte; a heartbeat is what
    a peer writes about the same descriptor, up to our own `load`; a negotiation is a row of its own.

    Raises:
        RowError: The manifest or a fixture can't be read, or is not in the text that ``JSON.stringify``
            writes.
    """
    listed = _json(_read(folder, "manifest.json"))["fixtures"]
    texts = {entry["file"]: _read(folder, entry["file"]) for entry in listed}
    described = {entry["etag"]: texts[entry["file"]] for entry in listed if entry["kind"] == "descriptor"}
    rows = []
    for entry in listed:
        text, claims = texts[entry["file"]], _CLAIMS[entry["kind"]]
        if stringify(_json(text)) != text:
            raise RowError(
                f"{entry['file']}: expected the text that JSON.stringify writes, nothing around it"
            )
        for number, (call, question, expected) in enumerate(claims(text, entry, described), 1):
            file = f"fixtures/{entry['file']}"
            rows.append(
                Row(file, number, call, question, json.loads(question), expected, byte_identical=True)
            )
    return rows


_Claim = tuple[str, str, Any]


def _descriptor(text: str, entry: dict[str, Any], _: dict[str, str]) -> Iterator[_Claim]:
    question = f'{{"descriptor":{text}}}'
    yield "hash", question, entry["etag"]
    yield "roundTrip", question, _json(text)


def _heartbeat(text: str, entry: dict[str, Any], described: dict[str, str]) -> Iterator[_Claim]:
    beat = _json(text)
    state = f'"ts":{stringify(beat["ts"])},"status":{stringify(beat["status"])}'
    question = f'{{"descriptor":{described[entry["etag"]]},{state}}}'
    yield "beat", question, {name: value for name, value in beat.items() if name != "load"}
    yield "readHeartbeat", f'{{"raw":{stringify(text)}}}', None


def _negotiation(text: str, _entry: dict[str, Any], _: dict[str, str]) -> Iterator[_Claim]:
    yield "negotiate", text, _json(text)["result"]


_CLAIMS = {"descriptor": _descriptor, "heartbeat": _heartbeat, "negotiation": _negotiation}


def _read(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise RowError(f"expected a fixture {name} in {folder}: {error}") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_int=float)
    except ValueError as error:
        raise RowError(f"expected JSON, got {text[:40]!r}: {error}") from error
