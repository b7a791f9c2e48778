"""The registry's own connections.

The broker's client waits as long as its owner saw fit, retries, and may speak another protocol or decode
replies; an enqueue must not. So we take from it where the server is and how to prove who we are, and
decide the rest ourselves. Works with redis-py 5 to 8.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool, UnixDomainSocketConnection
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from dramatiq_handshake.errors import ConfigurationError

__all__ = ["DEFAULT_TIMEOUT_MS", "connector", "describe"]

#: How long one exchange with the registry may take (design §5).
DEFAULT_TIMEOUT_MS = 500

#: What decides how replies are read, how long is waited and what is tried again: ours to choose. The
#: internals that redis-py keeps among a pool's arguments go with them, since they point at that pool.
_NOT_INHERITED = frozenset(
    {
        "cache",
        "cache_config",
        "command_packer",
        "connection_pool",
        "decode_responses",
        "encoding",
        "encoding_errors",
        "event_dispatcher",
        "health_check_interval",
        "himport_registry",
        "legacy_responses",
        "parser_class",
        "protocol",
        "retry",
        "retry_on_error",
        "retry_on_timeout",
        "socket_connect_timeout",
        "socket_timeout",
    }
)
_NOT_INHERITED_FAMILIES = ("maint", "orig_", "oss_cluster")


def connector(
    source: redis.Redis | ConnectionPool | None = None,
    *,
    url: str | None = None,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> Callable[[], redis.Redis]:
    """A function that makes clients with a pool of the registry's own.

    Args:
        source: A client, or its pool, that knows the server: TCP, TLS, Unix socket or Sentinel.
        url: The server's URL, where there is no such client.
        timeout_ms: How long to wait for a connection and for each reply.

    Raises:
        ConfigurationError: Neither or both were given, the URL can't be read, or the client is of a
            kind that has no single server (a cluster's) or can't be used from threads (asyncio's).
    """
    if (source is None) == (url is None):
        raise ConfigurationError(
            "the registry: expected either a redis.Redis client or a URL, not both or none"
        )
    pool = _pool_from_url(url) if url is not None else getattr(source, "connection_pool", source)
    if not isinstance(pool, ConnectionPool):
        raise ConfigurationError(
            f"the registry: expected a redis.Redis client of one server, got {type(source).__qualname__}; "
            "give the URL of a single server, or of a proxy in front of the cluster"
        )
    return lambda: redis.Redis(connection_pool=_own_pool(pool, timeout_ms))


def _pool_from_url(url: str) -> ConnectionPool:
    try:
        return ConnectionPool.from_url(url)
    except (ValueError, TypeError, AttributeError):
        # The parser's own message may repeat a part of the URL, and with it a password.
        raise ConfigurationError(
            "the registry's URL can't be read: expected redis://, rediss:// or unix://, as in "
            "redis://:password@host:6379/0 (percent-encode special characters in the password)"
        ) from None


def _own_pool(pool: ConnectionPool, timeout_ms: int) -> ConnectionPool:
    inherited = {
        name: value
        for name, value in pool.connection_kwargs.items()
        if name not in _NOT_INHERITED and not name.startswith(_NOT_INHERITED_FAMILIES)
    }
    options = inherited | _own_options(pool.connection_class, timeout_ms / 1000)
    if isinstance(pool, SentinelConnectionPool):
        return SentinelConnectionPool(  # type: ignore[no-untyped-call]  # redis-py leaves it so
            pool.service_name,
            _own_sentinel(pool.sentinel_manager, timeout_ms),
            connection_class=pool.connection_class,
            is_master=True,
            **options,
        )
    return ConnectionPool(connection_class=pool.connection_class, **options)


def _own_options(connection_class: type[Any], timeout_s: float) -> dict[str, Any]:
    options: dict[str, Any] = {
        "socket_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        # RESP2 gives every redis-py the same replies and keeps server pushes out of the connection.
        "protocol": 2,
        "decode_responses": False,
        # A host name with undecodable bytes ends up in an instance id; it must not fail a beat.
        "encoding_errors": "surrogatepass",
    }
    if _takes_connect_timeout(connection_class):
        options["socket_connect_timeout"] = timeout_s
    return options


def _takes_connect_timeout(connection_class: type[Any]) -> bool:
    """Whether the class knows ``socket_connect_timeout``: redis-py 5's Unix socket does not."""
    if not issubclass(connection_class, UnixDomainSocketConnection):
        return True
    constructors = (vars(base)["__init__"] for base in connection_class.__mro__ if "__init__" in vars(base))
    return any("socket_connect_timeout" in inspect.signature(init).parameters for init in constructors)


def _own_sentinel(manager: Any, timeout_ms: int) -> Any:
    """The same sentinels, asked through pools of our own: discovery must not take longer than a beat."""
    own = copy.copy(manager)
    own.sentinels = [
        redis.Redis(connection_pool=_own_pool(sentinel.connection_pool, timeout_ms))
        for sentinel in manager.sentinels
    ]
    return own


def describe(client: redis.Redis) -> str:
    """Where the server is, for messages: never with a user name or password."""
    pool = client.connection_pool
    if isinstance(pool, SentinelConnectionPool):
        return f"the primary of {pool.service_name!r}"
    known = pool.connection_kwargs
    place = known.get("path") or f"{known.get('host', 'localhost')}:{known.get('port', 6379)}"
    return f"{place}/{known.get('db') or 0}"
