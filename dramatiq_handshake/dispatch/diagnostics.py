"""Where diagnostics are emitted and heard: subscribers, the log line, and protection against floods."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable

from dramatiq_handshake.decide.events import Code, Diagnostic
from dramatiq_handshake.storage.forking import renew_after_fork

__all__ = ["Diagnostics", "Subscriber"]

Subscriber = Callable[[Diagnostic], None]

#: A flood is one incident: each kind of thing is described in full once in this many seconds.
DESCRIBE_INTERVAL_S = 60.0
#: How many kinds of things are remembered as described; beyond it the memory starts anew.
MAX_DESCRIBED = 1_000

_INFO = frozenset({Code.CAPABILITY_RESTORED, Code.MESSAGE_CARRIED, Code.REGISTRY_RESTORED})


class Diagnostics:
    """Emits diagnostics to a logger and to whoever subscribed. Never raises.

    Every occurrence is counted in `counts` and reaches the subscribers; the log hears of the same kind of
    thing once a minute.
    """

    def __init__(self, logger: logging.Logger, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[Code] = Counter()
        self._logger = logger
        self._clock = clock
        self._lock = threading.Lock()
        self._described: dict[tuple[Code, str], float] = {}
        self._subscribers: defaultdict[Code, list[Subscriber]] = defaultdict(list)
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Start with a lock that nobody holds: an enqueue of the child may have to report something."""
        self._lock = threading.Lock()

    def on(self, code: Code | str, callback: Subscriber) -> Callable[[], None]:
        """Call `callback` with every diagnostic of this code.

        Returns:
            A function that takes the subscription back.

        Raises:
            ValueError: There is no such code.
        """
        subscribers = self._subscribers[Code(code)]
        subscribers.append(callback)

        def unsubscribe() -> None:
            if callback in subscribers:
                subscribers.remove(callback)

        return unsubscribe

    def emit(self, code: Code, reason: str, *, about: str = "", **attributes: object) -> None:
        """Report one occurrence.

        Args:
            code: Which kind of thing.
            reason: The sentence for people.
            about: What the once-a-minute rule applies to, e.g. a need's id.
            **attributes: The diagnostic's attributes.
        """
        self.publish(Diagnostic(code, reason, attributes), about=about)

    def publish(self, diagnostic: Diagnostic, *, about: str = "") -> None:
        """Report an occurrence that somebody else has put into words; see `emit`."""
        code = diagnostic.code
        with self._lock:
            self.counts[code] += 1
            now, key = self._clock(), (code, about)
            describe = now - self._described.get(key, -DESCRIBE_INTERVAL_S) >= DESCRIBE_INTERVAL_S
            if describe:
                if len(self._described) >= MAX_DESCRIBED:
                    self._described.clear()
                self._described[key] = now
        if describe:
            level = logging.INFO if code in _INFO else logging.WARNING
            self._logger.log(level, "%s: %s", code.value, diagnostic.reason)
        for subscriber in tuple(self._subscribers[code]) if code in self._subscribers else ():
            try:
                subscriber(diagnostic)
            except Exception:
                # A subscriber is the application's code: it must not cost the message.
                self._logger.exception("A subscriber to %s failed.", code.value)
