"""Are two answers the same on the wire, and where do they first differ."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["first_difference"]


def first_difference(expected: Any, got: Any, path: str = "result") -> str | None:
    """Where `got` first departs from `expected`, in words; None where they say the same.

    Keys are unordered, lists are ordered, an absent key is not `null`, ``true`` is not ``1``, and numbers
    are equal when they are the same double.
    """
    if isinstance(expected, dict) and isinstance(got, dict):
        return _in_object(expected, got, path)
    if isinstance(expected, list) and isinstance(got, list):
        return _in_list(expected, got, path)
    if _kind(expected) is _kind(got) and expected == got:
        return None
    return f"{path}: expected {_show(expected)}, got {_show(got)}"


def _in_object(expected: dict[str, Any], got: dict[str, Any], path: str) -> str | None:
    for key, value in expected.items():
        if key not in got:
            return f"{path}.{key}: expected {_show(value)}, got nothing"
        difference = first_difference(value, got[key], f"{path}.{key}")
        if difference is not None:
            return difference
    extra = [key for key in got if key not in expected]
    return f"{path}.{extra[0]}: expected nothing, got {_show(got[extra[0]])}" if extra else None


def _in_list(expected: list[Any], got: list[Any], path: str) -> str | None:
    for position, (one, other) in enumerate(zip(expected, got, strict=False)):
        difference = first_difference(one, other, f"{path}[{position}]")
        if difference is not None:
            return difference
    if len(expected) != len(got):
        return f"{path}: expected {len(expected)} entries, got {len(got)}"
    return None


def _kind(value: Any) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
