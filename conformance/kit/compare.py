"""Are two answers the same on the wire, and where do they first differ."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["first_difference", "in_our_order"]


def first_difference(expected: Any, got: Any, path: str = "result") -> str | None:
    """Where `got` first departs from `expected`, in words; None where they say the same.

    An object's keys are unordered and a list is ordered; an absent key is not ``null``, ``true`` is not
    ``1``, and two numbers are equal when they are the same double.
    """
    if isinstance(expected, dict) and isinstance(got, dict):
        return _in_object(expected, got, path)
    if isinstance(expected, list) and isinstance(got, list):
        return _in_list(expected, got, path)
    if _kind(expected) is _kind(got) and expected == got:
        return None
    return f"{path}: expected {_shown(expected)}, got {_shown(got)}"


def _in_object(expected: dict[str, Any], got: dict[str, Any], path: str) -> str | None:
    for key in [*expected, *(key for key in got if key not in expected)]:
        if key not in got or key not in expected:
            one, other = (_shown(side[key]) if key in side else "nothing" for side in (expected, got))
            return f"{path}.{key}: expected {one}, got {other}"
        difference = first_difference(expected[key], got[key], f"{path}.{key}")
        if difference is not None:
            return difference
    return None


def _in_list(expected: list[Any], got: list[Any], path: str) -> str | None:
    for position, (one, other) in enumerate(zip(expected, got, strict=False)):
        difference = first_difference(one, other, f"{path}[{position}]")
        if difference is not None:
            return difference
    if len(expected) != len(got):
        return f"{path}: expected {len(expected)} entries, got {len(got)}"
    return None


def in_our_order(answer: Any, axes: frozenset[str]) -> Any:
    """`answer` with each list that the host's collation orders put into one fixed order.

    Args:
        answer: A directory, or the bare list of its workflows; anything else is returned as it is.
        axes: Of ``keys``, ``requires`` and ``partitions``, those that are compared as multisets.
    """
    if isinstance(answer, list):
        workflows = [_workflow_in_our_order(entry, axes) for entry in answer]
        return sorted(workflows, key=_entry_order) if "keys" in axes else workflows
    if not isinstance(answer, dict):
        return answer
    ordered = dict(answer)
    if isinstance(answer.get("workflows"), list):
        ordered["workflows"] = in_our_order(answer["workflows"], axes)
    if "partitions" in axes and isinstance(answer.get("otherPartitions"), list):
        ordered["otherPartitions"] = sorted(answer["otherPartitions"], key=_text)
    return ordered


def _workflow_in_our_order(entry: Any, axes: frozenset[str]) -> Any:
    if "requires" not in axes or not isinstance(entry, dict):
        return entry
    ordered = dict(entry)
    if isinstance(entry.get("requires"), list):
        ordered["requires"] = sorted(entry["requires"], key=_text)
    if isinstance(entry.get("disagreements"), list):
        ordered["disagreements"] = [_values_in_our_order(one) for one in entry["disagreements"]]
    return ordered


def _values_in_our_order(disagreement: Any) -> Any:
    if not isinstance(disagreement, dict) or disagreement.get("axis") != "requires":
        return disagreement
    return {**disagreement, "values": sorted(disagreement["values"], key=_text)}


def _entry_order(entry: Any) -> tuple[str, str]:
    identity = [entry.get("key"), entry.get("evidence")] if isinstance(entry, dict) else entry
    return _text(identity), _text(entry)


def _kind(value: Any) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _shown(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= 160 else f"{text[:157]}..."
