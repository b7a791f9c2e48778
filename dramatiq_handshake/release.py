"""Which release of this library is running."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

__all__ = ["own_release"]


@cache
def own_release() -> str:
    """The installed version; ``0`` in a source tree that nobody installed."""
    try:
        return version("dramatiq-handshake")
    except PackageNotFoundError:
        return "0"
