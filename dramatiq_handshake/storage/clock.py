"""The wall clock of this process, in the registry's unit."""

from __future__ import annotations

import time

__all__ = ["wall_clock_ms"]


def wall_clock_ms() -> int:
    """Now, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
