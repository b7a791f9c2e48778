"""One conversation with a peer: every request in, every answer out, JSON lines both ways.

A request is ``{"id", "call", "row"}``, where ``row`` is spliced in as the text of the vector file, so that
``1.0``, ``1e400`` and a lone surrogate reach the peer as they are. With ``"without": field`` the adapter
first drops that field wherever it occurs. The adapter says ``{"version", "names"}`` first (the names that
this version of the peer defines), then per request ``{"id", "answer"}`` or ``{"id", "raised", "message"}``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conformance.peers.rows import Row

__all__ = ["AdapterFailed", "Answer", "Conversation", "Request", "converse"]

#: Seconds for a whole conversation; 2,700 rows take about one.
_PATIENCE_S = 120


class AdapterFailed(Exception):
    """A peer's process ended, hung or talked nonsense: what it did, and its last words."""


@dataclass(frozen=True)
class Request:
    """One row to ask about; `without` names a field that the adapter drops first."""

    row: Row
    without: str | None = None

    def line(self, number: int) -> str:
        """The request as the adapter reads it."""
        without = "" if self.without is None else f',"without":{json.dumps(self.without)}'
        return f'{{"id":{number},"call":{json.dumps(self.row.call)}{without},"row":{self.row.text}}}\n'


@dataclass(frozen=True)
class Answer:
    """What the peer answered, or the exception it raised instead (its type's name and its message)."""

    value: Any = None
    raised: str | None = None
    message: str = ""


@dataclass(frozen=True)
class Conversation:
    """What the peer is (its version and the names it defines), and one answer per request, in order."""

    version: str
    names: tuple[str, ...]
    answers: tuple[Answer, ...]


def converse(command: Sequence[str], requests: Sequence[Request]) -> Conversation:
    """Start the adapter, ask everything, and wait for it to end.

    Raises:
        AdapterFailed: It could not be started, exited with an error, took longer than two minutes, or left
            a request without an answer.
    """
    text = "".join(request.line(number) for number, request in enumerate(requests))
    try:
        process = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise AdapterFailed(f"{command[0]}: no end after {_PATIENCE_S} s") from None
    except OSError as error:
        raise AdapterFailed(f"{command[0]}: {error}") from error
    if process.returncode:
        last_words = process.stderr.decode("utf-8", "replace").strip()[-2000:]
        raise AdapterFailed(f"{' '.join(command)}: exit code {process.returncode}\n{last_words}")
    return _read(process.stdout, len(requests))


def _read(output: bytes, expected: int) -> Conversation:
    try:
        # Numbers as the double that every JSON reader but Python's makes of them. Node leaves text beyond
        # ASCII as UTF-8, and may leave U+2028 bare: so bytes are split, at LF alone.
        hello, *said = [json.loads(line, parse_int=float) for line in output.split(b"\n") if line]
        answers = {
            int(message["id"]): Answer(
                message.get("answer"), message.get("raised"), message.get("message", "")
            )
            for message in said
        }
        return Conversation(
            hello["version"], tuple(hello["names"]), tuple(answers[number] for number in range(expected))
        )
    except (ValueError, KeyError, TypeError) as error:
        raise AdapterFailed(f"expected a greeting and {expected} answers, then {error!r}") from error
