"""Threads that jobs run in: as many as there are jobs at once, up to a limit."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

__all__ = ["JobThreads"]


class JobThreads:
    """Runs work in daemon threads, which wait for more when they are done.

    Not an executor of the standard library: that one waits for its threads when the interpreter ends, so
    that a single handler that never returns would keep a process alive for ever.

    Args:
        name: What the threads are called.
        limit: How many there are at most; further work waits for a free one, in its order.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False

    def submit(self, work: Callable[[], None]) -> None:
        """Have `work` done; it must not raise. After `close` nothing more is begun."""
        with self._changed:
            if self._closed:
                return
            self._waiting.append(work)
            if len(self._waiting) > self._idle and len(self._threads) < self._limit:
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._threads.add(thread)
                thread.start()
            self._changed.notify()

    def close(self, timeout_ms: int) -> None:
        """Begin nothing more, and wait for what runs, at most `timeout_ms`."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
            threads = self._threads - {threading.current_thread()}
        deadline = time.monotonic() + timeout_ms / 1000
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        while (work := self._next()) is not None:
            work()
            # What it refers to (a job's params) may be large, and the next may be long in coming.
            del work

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._closed or self._waiting)
            self._idle -= 1
            if self._waiting:
                return self._waiting.popleft()
            self._threads.discard(threading.current_thread())
            return None
