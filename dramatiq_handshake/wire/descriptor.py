"""Reading a descriptor of any SDK: total, whatever came.

One error leaves this module, `DescriptorInvalid`, naming the field, what the contract wants there
and what came, so that a reader can skip one bad advertisement, say why, and keep the others. The
models themselves are in `wire.models` and exported here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from dramatiq_handshake.errors import DescriptorInvalid
from dramatiq_handshake.wire.ecmascript import loads, number_text
from dramatiq_handshake.wire.models import (
    LEGACY_PROTOCOL,
    PROTOCOL_VERSION,
    SDK_NAME,
    UNKNOWN_SDK,
    V1_BASELINE,
    ProtocolSupport,
    Sdk,
    WireModel,
    WorkerDescriptor,
    WorkflowRegistration,
)

__all__ = [
    "LEGACY_PROTOCOL",
    "MAX_DEPTH",
    "MAX_DESCRIPTOR_BYTES",
    "PROTOCOL_VERSION",
    "SDK_NAME",
    "UNKNOWN_SDK",
    "V1_BASELINE",
    "ProtocolSupport",
    "Sdk",
    "WorkerDescriptor",
    "WorkflowRegistration",
    "describe",
    "parse_descriptor",
]

#: A descriptor of 20 actors has 2.7 KB; one of 1 MiB would announce some 8,000: a mistake or an attack.
MAX_DESCRIPTOR_BYTES: Final = 1024 * 1024
#: How deep a field that we don't know may nest, so that writing it again can't exhaust the stack.
MAX_DEPTH: Final = 32
#: How many characters of a bad text an error shows.
_SHOWN = 40

_EXPECTED: Final[Mapping[str, str]] = {
    "invalid_key": "field names that are text",
    "literal_error": "'node' or 'python'",
    "missing": "a value",
    "model_attributes_type": "an object",
    "model_type": "an object",
    "number_type": "a number",
    "string_type": "a text",
    "string_unicode": "valid Unicode in a field's name",
    "too_long": "exactly two numbers",
    "tuple_type": "a list",
}


def describe(value: object) -> str:
    """`value` in a few words for an error, however large or deep it is."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        shown = ascii(value[:_SHOWN])
        return f"the text {shown}" if len(value) <= _SHOWN else f"a text of {len(value)} characters, {shown}…"
    if isinstance(value, int | float):
        return f"the number {number_text(value)}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, Mapping):
        return f"an object of {len(value)}"
    return f"a Python {type(value).__name__}"


def parse_descriptor(raw: object) -> WorkerDescriptor:
    """Read a descriptor: JSON text as `str` or `bytes`, or an object that JSON text gave.

    Args:
        raw: What an advertisement holds. Fields that we don't know are kept; a ``null`` for an
            optional field is an absent one.

    Raises:
        DescriptorInvalid: It is larger than `MAX_DESCRIPTOR_BYTES`, no JSON object, or not in the
            contract's shape (design §3). Nothing else is ever raised.
    """
    value = _load(raw) if isinstance(raw, str | bytes | bytearray | memoryview) else raw
    if not isinstance(value, Mapping):
        raise DescriptorInvalid("", "an object", describe(value))
    try:
        descriptor = WorkerDescriptor.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        raise _invalid(error) from None
    _check_unknown_fields(descriptor)
    return descriptor


def _load(raw: str | bytes | bytearray | memoryview) -> Any:
    # A text is at least as many bytes as characters, so this refuses early, and never too much.
    if len(raw) > MAX_DESCRIPTOR_BYTES:
        raise DescriptorInvalid("", f"at most {MAX_DESCRIPTOR_BYTES} bytes", f"{len(raw)}")
    try:
        return loads(raw if isinstance(raw, str) else bytes(raw).decode())
    except UnicodeDecodeError as error:
        raise DescriptorInvalid("", "UTF-8", f"a byte that is none at {error.start}") from None
    except RecursionError:
        raise DescriptorInvalid("", "JSON of a sensible depth", "JSON nested too deep to read") from None
    except ValueError as error:
        raise DescriptorInvalid("", "JSON", f"text that is none ({error})") from None


def _invalid(error: ValidationError) -> DescriptorInvalid:
    """The first of pydantic's complaints, as ours."""
    first = error.errors(include_url=False, include_context=False)[0]
    field = ""
    for part in first["loc"]:
        if isinstance(part, int):
            field += f"[{part}]"
        else:
            field += f".{_shown_name(part)}" if field else _shown_name(part)
    kind = first["type"]
    expected = _EXPECTED.get(kind, first["msg"])
    got = "nothing" if kind == "missing" else describe(first["input"])
    if field.startswith("protocol.range"):
        expected = "[lowest, highest], two numbers"
    return DescriptorInvalid(field, expected, got)


def _shown_name(name: str) -> str:
    """A field's name as an error may show it: a hostile one can be endless, or break the terminal."""
    return name if len(name) <= _SHOWN and name.isascii() and name.isprintable() else ascii(name[:_SHOWN])


def _check_unknown_fields(descriptor: WorkerDescriptor) -> None:
    parts: list[tuple[str, WireModel | None]] = [
        ("", descriptor),
        ("sdk.", descriptor.sdk),
        ("protocol.", descriptor.protocol),
    ]
    parts += [(f"registrations[{n}].", item) for n, item in enumerate(descriptor.registrations or ())]
    for path, part in parts:
        if part is not None and part.model_extra:
            for name, value in part.model_extra.items():
                _check_unknown(path + _shown_name(name), value)


def _check_unknown(field: str, value: object) -> None:
    """Refuse what could not be written back: too deep, or no JSON value."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise DescriptorInvalid(field, f"at most {MAX_DEPTH} levels", "an unknown field nested deeper")
        deeper: list[object] = []
        for item in level:
            if isinstance(item, Mapping):
                if not all(isinstance(key, str) for key in item):
                    raise DescriptorInvalid(field, "field names that are text", describe(item))
                deeper.extend(item.values())
            elif isinstance(item, list | tuple):
                deeper.extend(item)
            elif not _is_scalar(item):
                raise DescriptorInvalid(field, "a JSON value", describe(item))
        level = deeper


def _is_scalar(value: object) -> bool:
    if isinstance(value, float):
        return not math.isnan(value)
    return value is None or isinstance(value, str | int)
