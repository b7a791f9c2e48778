"""What every answer of the engine is: a frozen, typed value with a stable JSON text.

The fields of the JSON are named as the attributes. These names are public: a release may add one, and
never renames one or gives it another meaning. Durations are milliseconds, and moments milliseconds since
the epoch, by the registry server's clock where nothing else is said.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

__all__ = ["Report", "duration_text"]

_MS_PER_UNIT = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


class Report(BaseModel):
    """A frozen answer of the engine."""

    # Built at first use: an application that never asks the engine doesn't pay for its models.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def to_json(self, *, indent: int | None = None) -> str:
        """The report as 7-bit JSON text, whatever names a worker advertised.

        `model_dump_json` can't write a lone surrogate, which a foreign worker's name may hold; and a
        number that JSON has no word for becomes ``null``.
        """
        return json.dumps(_finite(self.model_dump(mode="json")), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


def duration_text(ms: int) -> str:
    """A duration for people, in its two largest units: ``3 min 5 s``, ``2 d 4 h``, ``640 ms``."""
    if ms < 1_000:
        return f"{max(ms, 0)} ms"
    parts = []
    for unit, size in _MS_PER_UNIT:
        count, ms = divmod(ms, size)
        parts.append(f"{count} {unit}" if count else "")
    first = next(index for index, part in enumerate(parts) if part)
    return " ".join(filter(None, parts[first : first + 2]))
