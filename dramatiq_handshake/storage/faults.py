"""What a failure of the server means, in words for people.

A sentence is chosen by the kind of the error; the text of the error is never repeated, since it may hold
what the server was told, credentials included.
"""

from __future__ import annotations

from redis import exceptions as errors

__all__ = ["FAILURES", "explain", "refuses_writes"]

#: What may come out of a call through redis-py. ``ChildDeadlockedError`` is no ``RedisError``, and
#: ``TimeoutError`` is no ``ConnectionError``.
FAILURES = (errors.RedisError, errors.ChildDeadlockedError, OSError)

_READ_ONLY = "takes no writes: it is a replica; point the registry at the primary"
_FULL = "is out of memory (maxmemory reached): raise maxmemory, or give the registry a server of its own"
_DENIED = "denies a command or key to its user: grant what docs/keys.md lists"

#: The first that fits counts, so what is more specific comes first.
_BY_KIND: tuple[tuple[type[BaseException], str], ...] = (
    (errors.TimeoutError, "did not answer within {timeout_ms} ms"),
    (errors.AuthenticationError, "refused the credentials: check user name and password"),
    (errors.AuthenticationWrongNumberOfArgsError, "refused the credentials: check user name and password"),
    (errors.AuthorizationError, _DENIED),
    (errors.BusyLoadingError, "is still loading its data set"),
    (errors.MaxConnectionsError, "can't be asked: all connections of the registry's pool are in use"),
    (errors.ReadOnlyError, _READ_ONLY),
    (errors.OutOfMemoryError, _FULL),
    (errors.NoPermissionError, _DENIED),
    (errors.MasterDownError, "is a replica that has lost its primary"),
    (errors.MovedError, "is a node of a cluster: name a single server, or a proxy in front of the cluster"),
    (errors.ConnectionError, "can't be reached, or closed the connection"),
    (errors.ChildDeadlockedError, "can't be asked: this process was forked at an unlucky moment"),
    (OSError, "can't be reached"),
)

#: Redis before 7.0 wraps what a command in a script answered into its own text, and some refusals never
#: had a class of their own.
_BY_WORD: tuple[tuple[str, str], ...] = (
    ("READONLY", _READ_ONLY),
    ("OOM", _FULL),
    ("NOREPLICAS", "takes no writes: too few replicas are in sync (min-replicas-to-write)"),
    ("MISCONF", "takes no writes: it can't save its data set to disk"),
    ("NOPERM", _DENIED),
    ("NOAUTH", "asks for credentials and got none"),
    ("LOADING", "is still loading its data set"),
    ("BUSY", "is busy running somebody's script"),
    (
        "WRONGTYPE",
        "holds another kind of value under one of the registry's keys: another program writes there",
    ),
    ("unknown command", "does not know a command: the registry needs Redis 6.2 or newer, or Valkey"),
)

_WRITE_REFUSALS = ("READONLY", "OOM", "NOREPLICAS", "MISCONF", "NOPERM")


def explain(error: BaseException, *, timeout_ms: int) -> str:
    """The rest of the sentence "the fleet registry at … <this>"."""
    for kind, sentence in _BY_KIND:
        if isinstance(error, kind):
            return sentence.format(timeout_ms=timeout_ms)
    said = str(error)
    for word, sentence in _BY_WORD:
        if word in said:
            return sentence
    return f"answered an error ({type(error).__name__})"


def refuses_writes(error: BaseException) -> bool:
    """Whether the server answers but takes no writes, so that a mere read would succeed."""
    if isinstance(error, errors.ReadOnlyError | errors.OutOfMemoryError | errors.NoPermissionError):
        return True
    said = str(error) if isinstance(error, errors.ResponseError) else ""
    return any(word in said for word in _WRITE_REFUSALS)
