"""Beats and withdrawals: what a worker process writes about itself.

The two tiers of the contract: heartbeats on every beat, a descriptor only where its ETag is new for the
token. What the server has of us is remembered here, and forgotten for good after any failure, so that
the worst a lost reply costs is a descriptor sent twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import redis

from dramatiq_handshake.storage.base import Advertisement, WorkerState
from dramatiq_handshake.storage.forking import renew_after_fork
from dramatiq_handshake.storage.redis_context import CHUNK, Context, new_epoch
from dramatiq_handshake.storage.scripts import CLAIM, PLACE, Argument, Batch
from dramatiq_handshake.wire.heartbeat import heartbeat_json

__all__ = ["Beats"]


@dataclass(slots=True)
class _Known:
    """What the server has of an instance, as far as we know.

    Attributes:
        etags: The ETag of the descriptor under each token; ``None`` where that must be written again.
        class_id: The class whose body was written last.
        client_id: The ``CLIENT ID`` that its record holds.
    """

    etags: dict[str, str | None] = field(default_factory=dict)
    class_id: str | None = None
    client_id: int | None = None

    def doubt(self, tokens: Iterable[str]) -> None:
        """Take nothing for written after a beat on `tokens` failed: it may have arrived all the same.

        The tokens stay known, to be withdrawn when they are no longer advertised.
        """
        self.etags = dict.fromkeys([*self.etags, *tokens])
        self.class_id = None
        self.client_id = None


class Beats:
    """Advertises and withdraws; one call at a time, so that an older state never lands after a newer.

    Args:
        context: What the parts of the store share.
        now_ms: The caller's clock, for the heartbeat and the skew.
    """

    def __init__(self, context: Context, now_ms: Callable[[], int]) -> None:
        self._context = context
        self._clock = now_ms
        self._known: dict[str, _Known] = {}
        # Reentrant: who hears of an outage's end inside a beat may well advertise at once.
        self._lock = threading.RLock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Start with a lock that nobody holds."""
        self._lock = threading.RLock()

    def advertise(self, advertisement: Advertisement) -> None:
        """See `FleetStore.advertise`."""
        with self._lock:
            known = self._known.setdefault(advertisement.instance_id, _Known())
            try:
                with self._context.link.attempt(writes=True) as client:
                    self._beat(client, advertisement, known)
            except BaseException:
                known.doubt(advertisement.tokens)
                raise

    def _beat(self, client: redis.Redis, advertisement: Advertisement, known: _Known) -> None:
        context, instance = self._context, advertisement.instance_id
        dropped = [token for token in known.etags if token not in advertisement.tokens]
        now = self._clock()
        beat = _Beat(client, context, advertisement)
        for token in advertisement.tokens:
            beat.heartbeat(token, now)
            beat.descriptor(token, fresh=known.etags.get(token) != advertisement.etag)
        beat.class_body(fresh=known.class_id != advertisement.class_id)
        for token in dropped:
            beat.remove(token)
        beat.place(dropped, now, known.client_id)
        client_id = beat.send()
        if client_id is not None and client_id != known.client_id:
            beat.command("HSET", context.keys.instance(instance), "client", client_id)
        beat.send_again()
        known.etags = dict.fromkeys(advertisement.tokens, advertisement.etag)
        known.class_id = advertisement.class_id
        known.client_id = client_id

    def withdraw(self, instance_id: str, tokens: Iterable[str]) -> None:
        """See `FleetStore.withdraw`."""
        leaving = list(dict.fromkeys(tokens))
        if not leaving:
            return
        context = self._context
        with self._lock, context.link.attempt(writes=True) as client:
            batch = Batch(client)
            for token in leaving:
                batch.command(
                    "DEL",
                    context.contract.heartbeat(token, instance_id),
                    context.contract.descriptor(token, instance_id),
                )
            batch.script(PLACE, *place_call(context, instance_id, held=(), left=leaving))
            batch.send()
            known = self._known.get(instance_id)
            if known is not None:
                known.etags = {token: tag for token, tag in known.etags.items() if token not in leaving}
                if not known.etags:
                    del self._known[instance_id]

    def announce_control_plane(
        self, instance_id: str, descriptor_json: str, *, broker_id: str | None
    ) -> None:
        """See `FleetStore.announce_control_plane`."""
        context = self._context
        with context.link.attempt(writes=True) as client:
            batch = Batch(client)
            batch.command("SET", context.contract.control_plane(instance_id), descriptor_json, *context.life)
            if broker_id:
                batch.script(
                    CLAIM, [context.keys.claims], [context.now_argument, context.memory_ms, broker_id]
                )
            batch.send()


class _Beat:
    """The batch of one beat, and the few writes that its replies may ask for."""

    def __init__(self, client: redis.Redis, context: Context, advertisement: Advertisement) -> None:
        self._client = client
        self._context = context
        self._ad = advertisement
        self._batch = Batch(client)
        self._repairs: dict[int, tuple[Argument, ...]] = {}
        self._again: list[tuple[Argument, ...]] = []

    def heartbeat(self, token: str, now_ms: int) -> None:
        ad = self._ad
        value = heartbeat_json(now_ms, ad.state.value, ad.etag, ad.threads, ad.in_flight)
        key = self._context.contract.heartbeat(token, ad.instance_id)
        self._batch.command("SET", key, value, *self._context.life)

    def descriptor(self, token: str, *, fresh: bool) -> None:
        key = self._context.contract.descriptor(token, self._ad.instance_id)
        write = ("SET", key, self._ad.descriptor_json, *self._context.life)
        self._write_or_renew(write, ("PEXPIRE", key, self._context.ttl_ms), fresh=fresh)

    def class_body(self, *, fresh: bool) -> None:
        # Twice the lease: who saw the class in its last moment may still read what it is.
        key, life_ms = self._context.keys.class_body(self._ad.class_id), 2 * self._context.ttl_ms
        write = ("SET", key, self._ad.class_body, "PX", life_ms)
        self._write_or_renew(write, ("PEXPIRE", key, life_ms), fresh=fresh)

    def _write_or_renew(
        self, write: tuple[Argument, ...], renew: tuple[Argument, ...], *, fresh: bool
    ) -> None:
        position = self._batch.command(*(write if fresh else renew))
        if not fresh:
            self._repairs[position] = write

    def remove(self, token: str) -> None:
        contract, instance = self._context.contract, self._ad.instance_id
        self._batch.command("DEL", contract.heartbeat(token, instance), contract.descriptor(token, instance))

    def place(self, dropped: Sequence[str], now_ms: int, client_id: int | None) -> None:
        """The index goes last: who finds us there finds our keys as well."""
        ad = self._ad
        keys, arguments = place_call(
            self._context,
            ad.instance_id,
            held=ad.tokens,
            left=dropped,
            ad=ad,
            now_ms=now_ms,
            client_id=client_id,
        )
        self._batch.script(PLACE, keys, arguments)

    def command(self, *parts: Argument) -> None:
        """Add a write to what is sent again."""
        self._again.append(parts)

    def send(self) -> int | None:
        """Send the beat. Returns the connection's id, or ``None`` where the server won't tell."""
        asked = self._batch.command("CLIENT", "ID")
        # A restricted user may not be allowed CLIENT: then the record simply names no connection.
        replies = self._batch.send(tolerate=(asked,))
        self._again = [write for position, write in self._repairs.items() if not replies[position]]
        client_id = replies[asked]
        return client_id if isinstance(client_id, int) else None

    def send_again(self) -> None:
        """Write what had vanished or changed; nothing in steady state."""
        batch = Batch(self._client)
        for write in self._again:
            batch.command(*write)
        batch.send()


def place_call(
    context: Context,
    instance_id: str,
    *,
    held: Sequence[str],
    left: Sequence[str],
    ad: Advertisement | None = None,
    now_ms: int | None = None,
    client_id: int | None = None,
) -> tuple[list[str], list[Argument]]:
    """Keys and arguments of ``place_v1.lua``; without an advertisement, tokens are only left."""
    keys = context.keys
    tokens = [*held, *left]
    key_list = [keys.live, keys.placed, keys.claims, keys.instance(instance_id)]
    for token in tokens:
        key_list += [keys.epoch(token), keys.classes(token), keys.members(token), keys.served(token)]
    up = ad is not None and ad.state is WorkerState.UP
    arguments: list[Argument] = [
        context.now_argument,
        context.ttl_ms,
        context.memory_ms,
        CHUNK,
        instance_id,
        ad.class_id if ad is not None and up else "",
        ad.broker if ad is not None else "",
        (ad.broker_id if ad is not None else None) or "",
        "" if now_ms is None else now_ms,
        "" if client_id is None else client_id,
        new_epoch(),
        len(held),
        *tokens,
    ]
    return key_list, arguments
