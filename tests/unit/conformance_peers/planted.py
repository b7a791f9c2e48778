"""Rows and a peer that behave as a test plants them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.peers.install import Peer
from conformance.peers.process import Answer
from conformance.peers.rows import Row, vector_rows

PARROT = Path(__file__).with_name("parrot.py")


def parrot_command(**greeting: Any) -> list[str]:
    return [sys.executable, "-I", "-S", str(PARROT), json.dumps({"version": "1.0", "names": []} | greeting)]


def parrot(**greeting: Any) -> Peer:
    """A peer named ``parrot``, which answers rightly unless a row or its greeting says otherwise."""
    return Peer("parrot", "1.0", "nowhere", lambda cache: parrot_command(**greeting))


def row(call: str = "hash", expected: Any = "0" * 16, *, line: int = 1, **fields: Any) -> Row:
    """One row of `call`, as though it stood in that call's file."""
    file = "tokens.jsonl" if call.endswith("Token") or call == "tenantGroup" else f"{call}.jsonl"
    value = fields | ({"hash": expected} if call == "hash" else {"result": expected})
    text = json.dumps(value)
    return Row(file, line, call, text, value, json.loads(json.dumps(expected), parse_int=float))


def says(value: Any) -> Answer:
    return Answer(value)


def raises(name: str) -> Answer:
    return Answer(raised=name, message="as planted")


def write_vectors(folder: Path, **files: Sequence[dict[str, Any]]) -> Path:
    """A folder of vector files: ``hash=[{...}]`` becomes ``hash.jsonl``."""
    folder.mkdir(exist_ok=True)
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "ascii")
    return folder


def rows_in(folder: Path, **files: Sequence[dict[str, Any]]) -> list[Row]:
    return vector_rows(write_vectors(folder, **files))
