"""The one kind of error that Dramatiq lets out of a middleware hook."""

from __future__ import annotations

from dramatiq.middleware import MiddlewareError

from dramatiq_handshake.errors import ConfigurationError

__all__ = ["DeclarationError", "WorkerBootError"]


class DeclarationError(ConfigurationError, MiddlewareError):
    """An actor, queue or middleware is declared in a way that can't work.

    Dramatiq logs and swallows every exception of a hook that is no `MiddlewareError`; a wrong declaration
    must stop the import instead.
    """


class WorkerBootError(ConfigurationError, MiddlewareError):
    """The worker can't be made capability-aware, so it must not take messages at all.

    Swallowed, this would leave a worker that consumes every queue, whatever ``-Q`` said, and
    dead-letters what it does not know.
    """
