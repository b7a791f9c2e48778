"""JSON text as ECMAScript writes it: what three other SDKs hash, sort and compare.

Python's own `json` differs in four places, each of which would give another ETag for the same
descriptor: the text of numbers (``1.0`` is ``1``, ``1e21`` is ``1e+21``, an integer beyond 2^53 is
a double), lone surrogates (escaped), text that Python holds as two surrogates (one character), and
order (by UTF-16 code unit, where an emoji sorts *before* U+E000).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["code_units", "js_number", "loads", "number_text", "sorted_unique", "stringify"]

_surrogate = re.compile("[\ud800-\udfff]")
_surrogate_pair = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_quote = json.JSONEncoder(ensure_ascii=False).encode

#: `Number::toString` writes plain digits below this exponent and above -7; scientific text elsewhere.
_PLAIN_DIGITS = 21
_PLAIN_ZEROS = -6


def js_number(value: float) -> int | float:
    """`value` as the double that ECMAScript reads; integral ones are held as `int`, ``-0`` as ``0``.

    An integer too large for a double is an infinity, as ``JSON.parse`` makes of ``1e400``.
    """
    try:
        double = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return int(double) if double.is_integer() else double


def _number(text: str) -> int | float:
    return js_number(float(text))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=_no_constant)


def loads(text: str) -> Any:
    """Read JSON as ``JSON.parse`` does: numbers are doubles, ``NaN`` and a byte order mark are errors.

    Raises:
        ValueError: The text is not JSON.
        RecursionError: It is nested deeper than the interpreter can follow.
    """
    return _decoder.decode(text)


def number_text(value: float) -> str:
    """`value` as ``JSON.stringify`` writes it; what is not finite becomes ``null``."""
    double = js_number(value)
    if isinstance(double, float) and not math.isfinite(double):
        return "null"
    sign = "-" if double < 0 else ""
    # Python's repr holds the shortest digits that read back to the same double, as ECMAScript asks.
    mantissa, _, exponent = repr(float(abs(double))).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction.rstrip("0")
    point = len(whole) + int(exponent or 0)
    digits = whole + fraction
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    digits = stripped.rstrip("0")
    if not digits:
        return "0"
    return sign + _place_point(digits, point)


def _place_point(digits: str, point: int) -> str:
    """Write ``0.<digits> * 10**point`` in the layout of ECMAScript's ``Number::toString``."""
    if len(digits) <= point <= _PLAIN_DIGITS:
        return digits + "0" * (point - len(digits))
    if 0 < point <= _PLAIN_DIGITS:
        return f"{digits[:point]}.{digits[point:]}"
    if _PLAIN_ZEROS < point <= 0:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def _join_pair(match: re.Match[str]) -> str:
    return match.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _quoted(text: str) -> str:
    quoted = _quote(text)
    if _surrogate.search(quoted):
        quoted = _surrogate_pair.sub(_join_pair, quoted)
        quoted = _surrogate.sub(lambda lone: f"\\u{ord(lone.group()):04x}", quoted)
    return quoted


def stringify(value: Any) -> str:
    """``JSON.stringify(value)``: no spaces, keys in their own order.

    Args:
        value: Nested mappings, lists and tuples of texts, numbers, booleans and ``None``.

    Raises:
        TypeError: The value holds something that JSON has no word for.
    """
    if isinstance(value, str):
        return _quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_quoted(key)}:{stringify(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(stringify, value)) + "]"
    raise TypeError(f"expected a JSON value, got {type(value).__name__}")


def code_units(text: str) -> bytes:
    """The sort key of ECMAScript's default order: UTF-16 code units, big-endian."""
    return text.encode("utf-16-be", "surrogatepass")


def sorted_unique(texts: Iterable[str]) -> list[str]:
    """The texts without duplicates, by UTF-16 code unit."""
    unique = set(texts)
    if all(map(str.isascii, unique)):
        return sorted(unique)
    return sorted(unique, key=code_units)
