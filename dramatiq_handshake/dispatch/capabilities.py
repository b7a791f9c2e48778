"""What this process can do: from its environment, its constructor, and its broker's own middleware."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from dramatiq.middleware import (
    AgeLimit,
    AsyncIO,
    Callbacks,
    CurrentMessage,
    GroupCallbacks,
    Pipelines,
    Retries,
    ShutdownNotifications,
    TimeLimit,
)
from dramatiq.results import Results

from dramatiq_handshake.dispatch.options import capability_names
from dramatiq_handshake.storage.forking import renew_after_fork

if TYPE_CHECKING:
    from dramatiq import Broker, Middleware

__all__ = ["CAPABILITIES_VARIABLE", "Capabilities", "CapabilitySource", "derived_capabilities"]

_logger = logging.getLogger("dramatiq_handshake")

CAPABILITIES_VARIABLE = "DRAMATIQ_HANDSHAKE_CAPABILITIES"

CapabilitySource = Collection[str] | Callable[[], Collection[str]]

#: What each of Dramatiq's own middleware lets a worker do: announced because it is really there.
MIDDLEWARE_CAPABILITIES: dict[type[Middleware], str] = {
    AgeLimit: "age-limit",
    AsyncIO: "asyncio",
    Callbacks: "callbacks",
    CurrentMessage: "current-message",
    GroupCallbacks: "group-callbacks",
    Pipelines: "pipelines",
    Results: "results",
    Retries: "retries",
    ShutdownNotifications: "shutdown-notifications",
    TimeLimit: "time-limit",
}
#: Every Dramatiq worker runs its prefetched messages by the priority of their actors.
ALWAYS = frozenset({"priority"})


def derived_capabilities(broker: Broker) -> frozenset[str]:
    """The capabilities that the broker's middleware gives each of its workers."""
    return ALWAYS | {
        name
        for kind, name in MIDDLEWARE_CAPABILITIES.items()
        if any(isinstance(middleware, kind) for middleware in broker.middleware)
    }


class Capabilities:
    """The capabilities that this process states, which may change at run time.

    The environment is the first source, since the module that builds the broker is the same in web, CPU
    and GPU processes; the constructor's set or callable is used where the environment says nothing.

    Args:
        source: A collection of names, a callable that returns one (asked at each beat), or ``None``.

    Raises:
        DeclarationError: The source is no collection of non-empty texts.
    """

    def __init__(self, source: CapabilitySource | None = None) -> None:
        self._lock = threading.Lock()
        renew_after_fork(self)
        self._added: frozenset[str] = frozenset()
        self._removed: frozenset[str] = frozenset()
        self._answer: frozenset[str] | None = None
        self._failing = False
        text = os.environ.get(CAPABILITIES_VARIABLE)
        self._source: CapabilitySource | None
        if text is not None:
            self._source = frozenset(name.strip() for name in text.split(",") if name.strip())
        elif source is None or callable(source):
            self._source = source
        else:
            self._source = capability_names(source, "HandshakeMiddleware, capabilities")

    def after_fork(self) -> None:
        """Start with a free lock."""
        self._lock = threading.Lock()

    def stated(self, unstated: frozenset[str] = frozenset()) -> frozenset[str]:
        """The names that the source states now, with what was added and without what was removed.

        A callable that answered before and fails now does not take the worker out of the fleet: it goes on
        stating what it stated last.

        Args:
            unstated: What the process can do where no source says anything.

        Raises:
            DeclarationError: A callable source returned something else than capability names.
            Exception: Whatever a callable source raises at its first call.
        """
        names = unstated if self._source is None else self._ask(self._source)
        return (names | self._added) - self._removed

    def _ask(self, source: CapabilitySource) -> frozenset[str]:
        if not callable(source):
            return frozenset(source)
        try:
            self._answer = capability_names(source(), "HandshakeMiddleware, capabilities()")
            self._failing = False
        except Exception:
            if self._answer is None:
                raise
            if not self._failing:
                self._failing = True
                _logger.exception("capabilities() failed; still stated are %s.", sorted(self._answer))
        return self._answer

    def add(self, name: str) -> None:
        """State one more capability from now on."""
        (checked,) = capability_names([name], "add_capability")
        with self._lock:
            self._added |= {checked}
            self._removed -= {checked}

    def remove(self, name: str) -> None:
        """Stop stating a capability from now on, whichever source states it."""
        (checked,) = capability_names([name], "remove_capability")
        with self._lock:
            self._removed |= {checked}
            self._added -= {checked}
