"""Apps inside the test's process."""

from __future__ import annotations

from tests.support.inprocess import apps, no_waiting_for_dramatiq, watched_stores

__all__ = ["apps", "no_waiting_for_dramatiq", "watched_stores"]
