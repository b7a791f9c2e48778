"""The heartbeat: the cheap tier of an advertisement, and a reader that nothing can break.

The key's existence is what says that a worker lives, so a value that can't be read is a live worker
with an unknown beat time, never an error.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from dramatiq_handshake.wire.ecmascript import js_number, loads, stringify

__all__ = ["MAX_HEARTBEAT_BYTES", "Heartbeat", "heartbeat_json", "read_heartbeat"]

#: A heartbeat is about 120 bytes; what is larger than this is not read at all.
MAX_HEARTBEAT_BYTES = 64 * 1024

#: Beats below this are seconds, the others milliseconds (it is 2001 in ms, and the year 33658 in s).
_SECONDS_BELOW = 1e12

#: What ECMAScript's `String.prototype.trim` strips: not U+0085, U+200B or U+001C, but U+FEFF.
_JS_SPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_decimal = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_radix = re.compile(r"0(?:[xX]([0-9a-fA-F]+)|[oO]([0-7]+)|[bB]([01]+))")
_BASES = (16, 8, 2)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a heartbeat's value says.

    Attributes:
        last_beat_at: When the worker beat last, by its own clock (ms since the epoch); 0 is unknown.
        status: The reference's `status`: kept only where it is an object or an array.
        state: The status word, e.g. ``up`` or ``draining``; ``None`` where it isn't stated.
        descriptor_hash: The ETag of the descriptor as advertised; ``None`` where it isn't stated.
        threads: How many worker threads the process has; ``None`` where it isn't stated.
        in_flight: How many messages it holds; ``None`` where it isn't stated.
    """

    last_beat_at: int | float = 0
    status: Any = None
    state: str | None = None
    descriptor_hash: str | None = None
    threads: int | None = None
    in_flight: int | None = None


_UNREADABLE = Heartbeat()


def heartbeat_json(ts_ms: int, state: str, descriptor_hash: str, threads: int, in_flight: int) -> str:
    """The value that we write; `load` is ours, other SDKs ignore it."""
    return stringify(
        {
            "ts": ts_ms,
            "status": state,
            "descriptorHash": descriptor_hash,
            "load": {"threads": threads, "inFlight": in_flight},
        }
    )


def read_heartbeat(raw: str | bytes | None) -> Heartbeat:
    """Read a heartbeat of any SDK and age: an object, a bare number, or anything else.

    Never raises: what can't be read is a beat at an unknown time (``last_beat_at`` 0).
    """
    text = _text(raw)
    if text is None:
        return _UNREADABLE
    bare = text.strip(_JS_SPACE)
    number = _js_number_of(bare)
    if number is not None:
        return Heartbeat(last_beat_at=_milliseconds(number))
    try:
        value = loads(bare)
    except (ValueError, RecursionError):
        return _UNREADABLE
    return _from_object(value) if isinstance(value, dict) else _UNREADABLE


def _text(raw: str | bytes | None) -> str | None:
    if raw is None or len(raw) > MAX_HEARTBEAT_BYTES:
        return None
    if isinstance(raw, str):
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _from_object(value: dict[str, Any]) -> Heartbeat:
    ts, status, digest, load = (value.get(key) for key in ("ts", "status", "descriptorHash", "load"))
    if not isinstance(load, dict):
        load = {}
    return Heartbeat(
        last_beat_at=_milliseconds(ts),
        status=status if isinstance(status, dict | list) else None,
        state=status if isinstance(status, str) else None,
        descriptor_hash=digest if isinstance(digest, str) else None,
        threads=_count(load.get("threads")),
        in_flight=_count(load.get("inFlight")),
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _js_number_of(text: str) -> float | None:
    """`text` as ECMAScript's ``Number(text)`` reads it, or ``None`` where that is ``NaN``."""
    if _decimal.fullmatch(text):
        return float(text)
    match = _radix.fullmatch(text)
    if match is None or match.lastindex is None:
        return None
    return js_number(int(match[match.lastindex], _BASES[match.lastindex - 1]))


def _milliseconds(beat: Any) -> int | float:
    if isinstance(beat, bool) or not isinstance(beat, int | float) or not math.isfinite(beat):
        return 0
    return js_number(float(beat) * 1000 if beat < _SECONDS_BELOW else beat)
