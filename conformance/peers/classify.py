"""One row and a peer's answer to it become a verdict. Pure: no process, no file."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from conformance.kit.compare import first_difference
from conformance.peers.known import Absence, Defect, Knowledge
from conformance.peers.process import Answer, Request
from conformance.peers.rows import Row
from dramatiq_handshake.wire.ecmascript import stringify

__all__ = ["Kind", "Verdict", "classify", "requests_for", "stale_absences", "unseen_defects"]

#: Prose in an answer, by call: the words are each SDK's own, so no vector states them.
_PROSE = {"negotiate": ("reason", "message"), "plan": ("reason",)}


class Kind(enum.Enum):
    """What became of a row."""

    COMPARED = "compared"
    KNOWN_DEFECT = "known defect"
    NOT_IN_VERSION = "not in that version"
    FAILED = "failed"


@dataclass(frozen=True)
class Verdict:
    """What became of one row with one peer.

    Attributes:
        row: The row.
        kind: Its class; each row has exactly one.
        entry: The name of the table's entry behind it; None where it was compared or failed.
        problem: Why it failed, in words; empty otherwise.
    """

    row: Row
    kind: Kind
    entry: str | None = None
    problem: str = ""


def requests_for(row: Row, knowledge: Knowledge) -> list[Request]:
    """What to ask a peer about this row.

    Nothing where its version has no such call. Twice where the row holds a field that its version passes
    over: with the field and without, which must make no difference to it.
    """
    absence = _absence(row, knowledge)
    if absence is None:
        return [Request(row)]
    return [] if absence.field is None else [Request(row), Request(row, without=absence.field)]


def classify(
    row: Row, knowledge: Knowledge, answer: Answer | None = None, without_field: Answer | None = None
) -> Verdict:
    """Judge what a peer answered to `requests_for` the row.

    Args:
        row: The question.
        knowledge: The entries for this peer.
        answer: What it answered; None where it could not be asked.
        without_field: What it answered without the field that its version passes over; None where the row
            holds no such field.
    """
    absence = _absence(row, knowledge)
    if answer is None:
        if absence is None:
            return Verdict(row, Kind.FAILED, problem="was not asked, and no entry says why")
        return Verdict(row, Kind.NOT_IN_VERSION, absence.name)
    difference = _difference(row, answer)
    defects = [defect for defect in knowledge.defects if defect.covers(row)]
    if difference is None:
        return _agreement(row, defects)
    if absence is not None:
        if answer == without_field:
            return Verdict(row, Kind.NOT_IN_VERSION, absence.name)
        problem = f"passing over {absence.field!r} does not account for {difference}"
        return Verdict(row, Kind.FAILED, problem=problem)
    return _disagreement(row, defects, answer, difference)


def _absence(row: Row, knowledge: Knowledge) -> Absence | None:
    return next((absence for absence in knowledge.absences if absence.covers(row)), None)


def _agreement(row: Row, defects: list[Defect]) -> Verdict:
    if not defects:
        return Verdict(row, Kind.COMPARED)
    names = ", ".join(repr(defect.name) for defect in defects)
    problem = f"is answered rightly, but known defect {names} says it is not: the entry is stale or too wide"
    return Verdict(row, Kind.FAILED, problem=problem)


def _disagreement(row: Row, defects: list[Defect], answer: Answer, difference: str) -> Verdict:
    raising = [defect for defect in defects if defect.raises is not None]
    explained = raising or defects
    if raising:
        holds = answer.raised in {defect.raises for defect in raising}
    else:
        expected = _blurred(row.expected, defects)
        holds = answer.raised is None and expected == _blurred(_stated(row.call, answer.value), defects)
    if explained and holds:
        return Verdict(row, Kind.KNOWN_DEFECT, explained[0].name)
    beyond = f" (known defect {explained[0].name!r} does not account for it)" if explained else ""
    return Verdict(row, Kind.FAILED, problem=difference + beyond)


def _blurred(answer: Any, defects: Iterable[Defect]) -> Any:
    for defect in defects:
        answer = defect.blur(answer)
    return answer


def _difference(row: Row, answer: Answer) -> str | None:
    if answer.raised is not None:
        return f"expected an answer, got {answer.raised}: {answer.message}"
    stated = _stated(row.call, answer.value)
    difference = first_difference(row.expected, stated)
    if difference is None and row.byte_identical:
        return _key_order(stringify(row.expected), stringify(stated))
    return difference


def _stated(call: str, answer: Any) -> Any:
    """The answer without its prose."""
    return _without(answer, _PROSE[call]) if call in _PROSE else answer


def _without(answer: Any, path: tuple[str, ...]) -> Any:
    if not isinstance(answer, dict):
        return answer
    head, *rest = path
    return {
        key: _without(value, tuple(rest)) if key == head else value
        for key, value in answer.items()
        if rest or key != head
    }


def _key_order(expected: str, got: str) -> str | None:
    """Where two texts part that hold the same values: their keys are in another order."""
    if expected == got:
        return None
    start = next(at for at, (one, other) in enumerate(zip(expected, got, strict=True)) if one != other)
    return f"key order at {start}: expected {expected[start:][:40]!a}, got {got[start:][:40]!a}"


def stale_absences(knowledge: Knowledge, names: Iterable[str]) -> list[str]:
    """What is wrong with the entries about calls that the peer is said not to have, given its names."""
    defined = sorted(names)
    return [
        f"{absence.name!r} is said to be absent, but the peer defines {name}: compare its rows instead"
        for absence in knowledge.absences
        if absence.appears_as is not None
        for name in filter(absence.appears_as.search, defined)
    ]


def unseen_defects(knowledge: Knowledge, verdicts: Iterable[Verdict]) -> list[str]:
    """What is wrong with the entries that no row bears out, although rows of their calls were asked."""
    judged = list(verdicts)
    asked = {verdict.row.call for verdict in judged}
    seen = {verdict.entry for verdict in judged}
    return [
        f"known defect {defect.name!r} shows on no row: the entry is stale, or the vectors no longer reach it"
        for defect in knowledge.defects
        if defect.calls & asked and defect.name not in seen
    ]
