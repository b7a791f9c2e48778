"""Which Redis server a broker is on, told apart from others that share a registry."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import redis

from dramatiq_handshake.errors import RegistryUnavailable

__all__ = ["ServerIdentity"]

#: The name is looked at again this often: a server that was restarted empty has lost it.
RENEW_S = 60.0


class ServerIdentity:
    """Names the broker's server by an id that it keeps, and by ``""`` where it is the registry's own.

    Staging and production may share one registry while each has a broker of its own; a message of one is
    never planned to a worker of the other.

    Args:
        broker: The broker's client.
        registry: Answers the run id of the registry's server, or raises `RegistryUnavailable`: an enqueue
            may wait for it, so it is asked by the registry's own budget.
        key: Where the broker's server keeps its id.
    """

    def __init__(
        self,
        broker: redis.Redis,
        registry: Callable[[], str],
        key: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker = broker
        self._registry = registry
        self._key = key
        self._clock = clock
        self._name: str | None = None
        self._looked_at = float("-inf")

    def __call__(self) -> str:
        """The server's name.

        Raises:
            RegistryUnavailable: It was never learned, and one of the servers does not answer.
        """
        now = self._clock()
        if self._name is None or now - self._looked_at >= RENEW_S:
            try:
                self._name = self._look()
            except RegistryUnavailable:
                if self._name is None:
                    raise
            except redis.RedisError as error:
                if self._name is None:
                    raise RegistryUnavailable(
                        f"the broker's Redis server can't be told from others: {type(error).__name__}; "
                        "it must answer once"
                    ) from error
            self._looked_at = now
        return self._name

    def _look(self) -> str:
        if self._registry() == str(self._broker.info("server")["run_id"]):
            return ""
        # Whoever comes first after a loss restores the name that it knows.
        self._broker.set(self._key, self._name or secrets.token_hex(8), nx=True)
        kept = self._broker.get(self._key)
        return kept.decode() if isinstance(kept, bytes) else str(kept)
