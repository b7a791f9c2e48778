"""The one way to the server: a budget, a breaker, and errors that people can read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import redis

from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.storage.breaker import Admission, Breaker
from dramatiq_handshake.storage.connection import describe
from dramatiq_handshake.storage.faults import FAILURES, explain, refuses_writes
from dramatiq_handshake.storage.forking import renew_after_fork

__all__ = ["RegistryLink"]

logger = logging.getLogger(__name__)

#: For how long the key stays that shows whether the server takes writes again.
PROBE_TTL_MS = 1_000


class RegistryLink:
    """Gives out clients while the registry is available, and notices when it is not.

    A server that refuses writes (a replica after a failover, out of memory) still answers reads. A
    fleet that can't renew its leases can't be judged by reading them, so an outage that began with a
    refused write ends only when a write goes through.

    Args:
        connect: Makes a client with a pool of our own (`connection.connector`).
        timeout_ms: The budget of an exchange, for messages.
        breaker: Paces the probes of an outage.
        probe_key: What a probe writes where it must see a write go through.
    """

    def __init__(
        self, connect: Callable[[], redis.Redis], *, timeout_ms: int, breaker: Breaker, probe_key: str
    ) -> None:
        self._connect = connect
        self._timeout_ms = timeout_ms
        self._breaker = breaker
        self._probe_key = probe_key
        self._client: redis.Redis | None = None
        self._lock = threading.Lock()
        self._writes_refused = False
        self._last_fault = ""
        self._outage_listeners: list[Callable[[RegistryUnavailable], None]] = []
        self._restored_listeners: list[Callable[[], None]] = []
        self.where = describe(connect())
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Leave the parent's sockets and locks alone."""
        self._lock = threading.Lock()
        self._client = None
        self._breaker.after_fork()

    @property
    def available(self) -> bool:
        """Whether no outage is going on."""
        return self._breaker.available

    def on_outage(self, listener: Callable[[RegistryUnavailable], None]) -> None:
        """Call `listener` once when an outage begins, in the thread that noticed it."""
        self._outage_listeners.append(listener)

    def on_restored(self, listener: Callable[[], None]) -> None:
        """Call `listener` once when an outage has ended, in the thread whose probe was answered."""
        self._restored_listeners.append(listener)

    @contextmanager
    def attempt(self, *, writes: bool) -> Iterator[redis.Redis]:
        """A client for one operation, which may be several exchanges.

        Args:
            writes: Whether the operation's success shows that the server takes writes.

        Raises:
            RegistryUnavailable: The server failed, or an outage is going on and nothing was asked.
        """
        admission = self._breaker.admit()
        if admission is Admission.REFUSED:
            raise RegistryUnavailable(f"{self._last_fault} (it is asked again in a moment)")
        try:
            client = self._own_client()
            if admission is Admission.PROBE and self._writes_refused and not writes:
                client.set(self._probe_key, "1", px=PROBE_TTL_MS)
            yield client
        except FAILURES as error:
            raise self._failed(admission, error) from error
        except BaseException:
            self._breaker.abandoned(admission)
            raise
        else:
            self._succeeded(admission)

    def close(self) -> None:
        """Close the connections; the next attempt opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.connection_pool.disconnect()

    def _own_client(self) -> redis.Redis:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _failed(self, admission: Admission, error: BaseException) -> RegistryUnavailable:
        if admission is Admission.PROBE or self._breaker.available:
            self._writes_refused = refuses_writes(error)
            self._last_fault = (
                f"the fleet registry at {self.where} {explain(error, timeout_ms=self._timeout_ms)}"
            )
        unavailable = RegistryUnavailable(self._last_fault)
        if self._breaker.failed(admission):
            for listener in self._outage_listeners:
                _tell(listener, unavailable)
        return unavailable

    def _succeeded(self, admission: Admission) -> None:
        if self._breaker.succeeded(admission):
            self._writes_refused = False
            for listener in self._restored_listeners:
                _tell(listener)


def _tell(listener: Callable[..., None], *about: RegistryUnavailable) -> None:
    """A listener's own mistake must not turn an answer into a failure."""
    try:
        listener(*about)
    except Exception:
        logger.exception("A listener for outages of the fleet registry failed: %r", listener)
