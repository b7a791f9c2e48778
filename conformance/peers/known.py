"""The table of what is known about each peer: the defects it has, and what its version can't answer yet.

An entry is a claim, and every run holds it to the claim: a defect must show on each row it concerns, in the
way it says and nowhere else in the answer; an absence must still be absent. An entry that no longer holds
is stale and fails the run, so this table can't outlive the release it describes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.peers import traits

if TYPE_CHECKING:
    from conformance.peers.rows import Row

__all__ = ["KNOWN", "NOTHING", "Absence", "Defect", "Knowledge"]

PYTHON = "durable-worker"
NODE = "@dudousxd/nestjs-durable-core"


@dataclass(frozen=True)
class Defect:
    """A peer answers rows of this kind wrongly, and we know why.

    Attributes:
        name: What the report calls it.
        why: One line: what the peer does, and what the contract asks.
        calls: The calls it shows in.
        concerns: Exactly the rows (of these calls) it shows on.
        raises: The name of the exception that it ends in; None where the answer is merely wrong.
        blur: Takes out of an answer what the defect accounts for. Two answers that differ by this defect
            alone are equal once both are blurred; what still differs is a failure.
    """

    name: str
    why: str
    calls: frozenset[str]
    concerns: Callable[[Row], bool]
    raises: str | None = None
    blur: Callable[[Any], Any] = lambda answer: answer

    def covers(self, row: Row) -> bool:
        """Whether the peer must get this row wrong."""
        return row.call in self.calls and self.concerns(row)


@dataclass(frozen=True)
class Absence:
    """This version of a peer has no answer for rows of this kind, because it lacks a part of the contract.

    Attributes:
        name: What the report calls it.
        why: One line: what is not there.
        calls: The calls it affects.
        field: The descriptor field that the peer passes over. Rows without it are compared as usual; a row
            that holds it is answered as though it did not, and that is checked. None: it has no such call.
        appears_as: How the names look that the peer would define if it had the call; one such name makes
            the entry stale.
    """

    name: str
    why: str
    calls: frozenset[str]
    field: str | None = None
    appears_as: re.Pattern[str] | None = None

    def covers(self, row: Row) -> bool:
        """Whether this row needs what is absent."""
        if row.call not in self.calls:
            return False
        return self.field is None or any(self.field in descriptor for descriptor in row.descriptors())


@dataclass(frozen=True)
class Knowledge:
    """All entries for one peer."""

    defects: tuple[Defect, ...] = ()
    absences: tuple[Absence, ...] = ()


#: What is known of a peer that nobody looked into: any difference is a failure.
NOTHING = Knowledge()


def _any_etag(answer: Any) -> Any:
    """A hash says nothing of its parts: one wrong byte and all of it differs."""
    return isinstance(answer, str) and re.fullmatch("[0-9a-f]{16}", answer) is not None


def _any_order(answer: Any) -> Any:
    """Every list of texts in code point order."""
    if isinstance(answer, dict):
        return {key: _any_order(value) for key, value in answer.items()}
    if isinstance(answer, list):
        texts = all(isinstance(value, str) for value in answer)
        return sorted(answer) if texts else [_any_order(value) for value in answer]
    return answer


def _without_what_is_dropped(answer: Any) -> Any:
    """Both sides of a negotiation without nulls, their parts without fields the contract doesn't name."""
    return {
        key: {part: _pruned(held) for part, held in value.items() if held is not None}
        if key in {"local", "remote"}
        else value
        for key, value in answer.items()
    }


def _pruned(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: value for key, value in part.items() if key in traits.INNER_FIELDS and value is not None}
    return [_pruned(value) for value in part] if isinstance(part, list) else part


def _no_call(name: str, why: str, call: str, appears_as: str) -> Absence:
    return Absence(name, why, frozenset({call}), appears_as=re.compile(appears_as, re.IGNORECASE))


# The newest reference has these; neither registry offers a release with them.
_NEWER_CALLS = (
    _no_call(
        "partitionOfToken",
        "can suffix a token with its partition, but has no function that reads one back",
        "partitionOfToken",
        "partition_?of",
    ),
    _no_call("announced workflows", "folds no announcements into a directory", "announced", "announced"),
    _no_call("workflow directory", "answers no question about what exists", "directory", "directory"),
    _no_call(
        "heartbeat reader",
        "writes heartbeats; the package that reads them back is another",
        "readHeartbeat",
        "(read|parse)_?heartbeat|last_?beat",
    ),
    _no_call(
        "tolerant directory",
        "has no directory whose good entries a malformed neighbour could spoil",
        "survive",
        "directory",
    ),
)

KNOWN: dict[str, Knowledge] = {
    PYTHON: Knowledge(
        defects=(
            Defect(
                "lone surrogates",
                "encodes the hashed text strictly and so can't hash half a UTF-16 pair, which the contract"
                " hashes as its six-character JSON escape",
                frozenset({"hash"}),
                traits.hashes_a_lone_surrogate,
                raises="UnicodeEncodeError",
            ),
            Defect(
                "number text",
                "hashes numbers as Python spells them (1.0, 1e-07, unbounded integers), where the contract"
                " wants the double in ECMAScript's spelling (1, 1e-7)",
                frozenset({"hash"}),
                traits.hashes_a_number_python_spells_otherwise,
                blur=_any_etag,
            ),
            Defect(
                "code point order in ETags",
                "sorts the sets of a descriptor by code point, where the contract sorts by UTF-16 code unit",
                frozenset({"hash"}),
                traits.orders_differ_in_hash,
                blur=_any_etag,
            ),
            Defect(
                "code point order in sessions",
                "sorts the sets of a negotiation by code point, where the contract sorts by UTF-16 code unit",
                frozenset({"negotiate"}),
                traits.orders_differ_in_negotiation,
                blur=_any_order,
            ),
            Defect(
                "lossy round trip",
                "drops explicit nulls and a newer SDK's fields when it writes a descriptor that it has read",
                frozenset({"negotiate"}),
                traits.drops_in_a_round_trip,
                blur=_without_what_is_dropped,
            ),
        ),
        absences=(
            *_NEWER_CALLS,
            _no_call(
                "dispatch plan",
                "matches capabilities alone, knows no control plane and explains no block",
                "plan",
                "plan_?dispatch",
            ),
        ),
    ),
    NODE: Knowledge(
        absences=(
            *_NEWER_CALLS,
            Absence(
                "registrations",
                "predates the field, and neither hashes nor keeps what a worker announces in it",
                frozenset({"hash", "negotiate", "plan", "roundTrip", "beat"}),
                field="registrations",
            ),
        ),
    ),
}
