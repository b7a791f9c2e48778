"""A daemon thread that does something now and then, until it is told to stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

__all__ = ["Ticker"]

logger = logging.getLogger(__name__)


class Ticker:
    """Calls `tick` every `interval_ms`, the first time after one interval.

    Args:
        name: What the thread does, for its name.
        interval_ms: The pause between two calls.
        tick: Returns whether to go on. What it raises is logged, and it is called again.
    """

    def __init__(self, name: str, interval_ms: int, tick: Callable[[], bool]) -> None:
        self._interval_s = interval_ms / 1000
        self._tick = tick
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"dramatiq-handshake {name}", daemon=True)

    def start(self) -> None:
        """Begin; once."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait until `tick` is not running any more (unless called from within it)."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            try:
                if not self._tick():
                    return
            except Exception:
                logger.exception("%s failed, it goes on", self._thread.name)
