"""Which values the contract allows, said once more without the library: the judge of ``malformed.jsonl``.

Those rows state no answer, and some of them are legal: a generator that tries ``[]`` or a text in every
field also hits fields where that is right. So the kit decides by CONTRACT.md, sections 1 and 2, which
rows have a fault and in which field, and holds the library to it. Written apart from the models on
purpose: a mistake has to be made twice to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["fault_of_descriptor", "fault_of_heartbeat"]

_Check = Callable[[Any, str], Iterator[str]]


def _text(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield path


def _number(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield path


def _runtime(value: Any, path: str) -> Iterator[str]:
    if value not in ("node", "python"):
        yield path


def _range(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, list) or len(value) != 2:
        yield path
    else:
        yield from (fault for end in value for fault in _number(end, path))


def _list_of(check: _Check) -> _Check:
    def faults(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield path
        else:
            for item in value:
                yield from check(item, f"{path}[]")

    return faults


def _object_of(required: dict[str, _Check], optional: dict[str, _Check]) -> _Check:
    def faults(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield path
            return
        stem = f"{path}." if path else ""
        for name, check in required.items():
            if name in value:
                yield from check(value[name], stem + name)
            else:
                yield stem + name
        for name, check in optional.items():
            if value.get(name) is not None:  # null is read as absent
                yield from check(value[name], stem + name)

    return faults


_names = _list_of(_text)
_descriptor = _object_of(
    {"instanceId": _text, "runtime": _runtime},
    {
        "sdk": _object_of({"name": _text, "version": _text}, {}),
        "protocol": _object_of({"version": _number, "range": _range}, {}),
        "capabilities": _names,
        "workflows": _names,
        "steps": _names,
        "registrations": _list_of(
            _object_of(
                {"name": _text},
                {"version": _text, "group": _text, "requires": _names, "origin": _text},
            )
        ),
        "partition": _text,
        "namespace": _text,
        "startedAt": _number,
    },
)
_heartbeat = _object_of({"group": _text, "instanceId": _text}, {})


def fault_of_descriptor(value: Any) -> str | None:
    """The first field of a descriptor that breaks the contract; ``""`` is the whole, None is no fault."""
    return next(_descriptor(value, ""), None)


def fault_of_heartbeat(value: Any) -> str | None:
    """The first field of a heartbeat entry that breaks the contract, or None."""
    return next(_heartbeat(value, ""), None)
