"""Properties of a row that decide whether a known defect of a peer must show on it.

Each is exact: where it holds, the defect shows; where it doesn't, that defect can't. `classify` holds both
to it, so a predicate that is too wide or too narrow fails the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dramatiq_handshake.wire.ecmascript import number_text, sorted_unique, stringify

if TYPE_CHECKING:
    from conformance.peers.rows import Row

__all__ = [
    "INNER_FIELDS",
    "drops_in_a_round_trip",
    "hashes_a_lone_surrogate",
    "hashes_a_number_python_spells_otherwise",
    "orders_differ_in_hash",
    "orders_differ_in_negotiation",
]

_SDK = frozenset({"name", "version"})
_PROTOCOL = frozenset({"version", "range"})
_REGISTRATION = ("name", "version", "group", "requires", "origin")
#: The fields that the contract names inside a part of a descriptor.
INNER_FIELDS = _SDK | _PROTOCOL | frozenset(_REGISTRATION)


def hashes_a_lone_surrogate(row: Row) -> bool:
    """Half a UTF-16 pair stands alone in a text that enters the ETag."""
    return any(_is_lone(text) for d in row.descriptors() for text in _texts(_hashed(d)))


def hashes_a_number_python_spells_otherwise(row: Row) -> bool:
    """A number of the ETag is written differently by Python's `json` and by ``JSON.stringify``."""
    return any(json.dumps(number) != number_text(number) for d in row.descriptors() for number in _numbers(d))


def orders_differ_in_hash(row: Row) -> bool:
    """A set of the ETag sorts differently by code point than by UTF-16 code unit."""
    return any(sorted(texts) != texts for d in row.descriptors() for texts in _sorted_sets(d))


def orders_differ_in_negotiation(row: Row) -> bool:
    """A set of the result sorts differently by code point than by UTF-16 code unit."""
    detail = row.expected.get("reason", {}).get("detail", {})
    sets = [*row.expected["capabilities"].values(), *detail.values()]
    return any(_all_texts(texts) and sorted(texts) != texts for texts in sets)


def drops_in_a_round_trip(row: Row) -> bool:
    """A side says `null`, or a part of it holds a field that the contract doesn't name."""
    return any(_says_null_or_unknown(d) for d in row.descriptors())


def _says_null_or_unknown(d: dict[str, Any]) -> bool:
    registrations = d.get("registrations") or []
    return (
        any(d.get(field, "") is None for field in ("partition", "namespace", "registrations"))
        or not set(d.get("sdk") or ()) <= _SDK
        or not set(d.get("protocol") or ()) <= _PROTOCOL
        or any(not set(r) <= {*_REGISTRATION, "onError"} or None in r.values() for r in registrations)
    )


def _hashed(d: dict[str, Any]) -> dict[str, Any]:
    """The parts of a descriptor that enter its ETag, as it states them."""
    top = ("instanceId", "runtime", "capabilities", "workflows", "steps", "partition", "namespace")
    sdk, registrations = d.get("sdk") or {}, d.get("registrations") or []
    return {
        **{field: d.get(field) for field in top},
        "sdk": [sdk.get("name"), sdk.get("version")],
        "registrations": [{field: r.get(field) for field in _REGISTRATION} for r in registrations],
    }


def _sorted_sets(d: dict[str, Any]) -> Iterator[list[str]]:
    """Every list that is sorted for the ETag, as the contract sorts it."""
    hashed = _hashed(d)
    for field in ("capabilities", "workflows", "steps"):
        yield sorted_unique(hashed[field] or ())
    for registration in hashed["registrations"]:
        if registration["requires"] is not None:
            registration["requires"] = sorted_unique(registration["requires"])
            yield registration["requires"]
    yield sorted_unique(map(stringify, hashed["registrations"]))


def _numbers(d: dict[str, Any]) -> list[float]:
    protocol = d.get("protocol") or {"version": 1, "range": [1, 1]}
    return [protocol["version"], *protocol["range"], d.get("startedAt") or 0]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _is_lone(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _all_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)
