"""The signal that tells a running job to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

__all__ = ["CancelSignal"]


class CancelSignal:
    """Says once, to any number of threads and event loops, that a job is not wanted any more.

    Nothing is interrupted: a handler looks at `cancelled`, waits with `wait`, or is called back. From an
    event loop, hand ``loop.call_soon_threadsafe`` to the callback.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []
        self._reason = ""

    def __repr__(self) -> str:
        return f"<CancelSignal {f'cancelled: {self._reason!r}' if self.cancelled else 'open'}>"

    @property
    def cancelled(self) -> bool:
        """Whether somebody cancelled."""
        return self._event.is_set()

    @property
    def reason(self) -> str:
        """What the first who cancelled said; ``""`` before, or where nothing was said."""
        return self._reason

    def cancel(self, reason: str = "") -> bool:
        """Cancel. Returns whether this was the first time; only then is anybody told.

        Callbacks run in this thread, in the order in which they came. One that raises does not keep the
        others from being called; its error is raised here afterwards.
        """
        with self._lock:
            if self._event.is_set():
                return False
            self._reason = reason
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        errors: list[Exception] = []
        for callback in callbacks:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - a callback is foreign code
                errors.append(error)
        if errors:
            raise errors[0]
        return True

    def wait(self, timeout_ms: int | None = None) -> bool:
        """Wait until somebody cancels, at most `timeout_ms`. Returns whether somebody has."""
        return self._event.wait(None if timeout_ms is None else timeout_ms / 1000)

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once when somebody cancels; at once if that has happened already.

        Returns:
            A function that takes the callback off again; it may be called at any time.
        """
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return lambda: self._forget(callback)
        callback()
        return lambda: None

    def _forget(self, callback: Callable[[], object]) -> None:
        with self._lock, suppress(ValueError):
            self._callbacks.remove(callback)
