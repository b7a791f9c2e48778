"""The fleet registry in Redis 6.2+ or Valkey."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import redis
from redis.connection import ConnectionPool

from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.storage import redis_lanes, redis_look
from dramatiq_handshake.storage.base import (
    BLOCKED_LISTED_MAX,
    HEARTBEAT_TTL_MS,
    Advertisement,
    BlockedMessage,
    BlockedNeed,
    BlockedPage,
    ControlPlaneRecord,
    Look,
    Mark,
    OpenLane,
    Released,
    WorkerRecord,
)
from dramatiq_handshake.storage.breaker import Breaker
from dramatiq_handshake.storage.clock import wall_clock_ms
from dramatiq_handshake.storage.connection import DEFAULT_TIMEOUT_MS, connector
from dramatiq_handshake.storage.keys import RegistryKeys
from dramatiq_handshake.storage.lanes import check_lane
from dramatiq_handshake.storage.link import RegistryLink
from dramatiq_handshake.storage.redis_beat import Beats
from dramatiq_handshake.storage.redis_blocked import BlockedIndex
from dramatiq_handshake.storage.redis_context import Context
from dramatiq_handshake.storage.redis_listing import Listings
from dramatiq_handshake.storage.scripts import Batch

__all__ = ["RedisStore"]


class RedisStore:
    """A `FleetStore` on a server that the whole fleet shares.

    It opens connections of its own: those of `source` wait, retry and decode as their owner likes.

    Args:
        source: A client of the server, or its pool, for example ``RedisBroker.client``.
        url: The server's URL, where there is no client.
        prefix: Names the deployment, and begins every key.
        ttl_ms: How long an advertisement lives without a beat; the same throughout a deployment.
        registry_timeout_ms: How long to wait for a connection and for each reply.
        listed_max: How many blocked messages of one need are listed.
        now_ms: The caller's clock (ms since the epoch): for heartbeats, and the skew to the server.
        server_now_ms: A clock in place of the server's; only tests give one.
        breaker: Paces the probes of an outage; only tests give one.

    Raises:
        ConfigurationError: The server can't be told from `source` and `url`.
    """

    def __init__(
        self,
        source: redis.Redis | ConnectionPool | None = None,
        *,
        url: str | None = None,
        prefix: str,
        ttl_ms: int = HEARTBEAT_TTL_MS,
        registry_timeout_ms: int = DEFAULT_TIMEOUT_MS,
        listed_max: int = BLOCKED_LISTED_MAX,
        now_ms: Callable[[], int] = wall_clock_ms,
        server_now_ms: Callable[[], int] | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self._link = RegistryLink(
            connector(source, url=url, timeout_ms=registry_timeout_ms),
            timeout_ms=registry_timeout_ms,
            breaker=breaker if breaker is not None else Breaker(),
            probe_key=RegistryKeys(prefix).writable,
        )
        self._context = Context(self._link, prefix, ttl_ms, server_now_ms)
        self._beats = Beats(self._context, now_ms)
        self._listings = Listings(self._context)
        self._blocked = BlockedIndex(self._context, listed_max)

    @property
    def available(self) -> bool:
        """Whether no outage is going on, as far as the last exchange told."""
        return self._link.available

    def on_outage(self, listener: Callable[[RegistryUnavailable], None]) -> None:
        """Call `listener` once when an outage begins, in the thread that noticed it."""
        self._link.on_outage(listener)

    def on_restored(self, listener: Callable[[], None]) -> None:
        """Call `listener` once when an outage has ended, in the thread whose probe was answered."""
        self._link.on_restored(listener)

    def server_run_id(self) -> str:
        """What the server calls this run of itself: equal for whoever asks the same server meanwhile.

        Raises:
            RegistryUnavailable: It does not answer.
        """
        with self._link.attempt(writes=False) as client:
            return str(client.info("server")["run_id"])

    def advertise(self, advertisement: Advertisement) -> None:
        """See `FleetStore.advertise`."""
        self._beats.advertise(advertisement)

    def withdraw(self, instance_id: str, tokens: Iterable[str]) -> None:
        """See `FleetStore.withdraw`."""
        self._beats.withdraw(instance_id, tokens)

    def announce_control_plane(
        self, instance_id: str, descriptor_json: str, *, broker_id: str | None = None
    ) -> None:
        """See `FleetStore.announce_control_plane`."""
        self._beats.announce_control_plane(instance_id, descriptor_json, broker_id=broker_id)

    def look(self, known: Mapping[str, Mark | None], lanes_epoch: str | None) -> Look:
        """See `FleetStore.look`."""
        return redis_look.look(self._context, known, lanes_epoch)

    def class_bodies(self, class_ids: Sequence[str]) -> Mapping[str, str]:
        """See `FleetStore.class_bodies`."""
        return redis_look.class_bodies(self._context, class_ids)

    def register_lane(self, lane: OpenLane) -> None:
        """See `FleetStore.register_lane`."""
        check_lane(lane)
        redis_lanes.register_lane(self._context, lane)

    def retire_lane(self, name: str, *, quiet_ms: int) -> bool:
        """See `FleetStore.retire_lane`."""
        return redis_lanes.retire_lane(self._context, name, quiet_ms)

    def block(self, need: BlockedNeed, messages: Sequence[BlockedMessage], *, lane: OpenLane | None) -> None:
        """See `FleetStore.block`."""
        if lane is not None:
            check_lane(lane)
        self._blocked.block(need, messages, lane)

    def release(self, message_ids: Mapping[str, Sequence[str]]) -> tuple[Released, ...]:
        """See `FleetStore.release`."""
        return self._blocked.release(message_ids)

    def blocked_needs(self) -> tuple[BlockedNeed, ...]:
        """See `FleetStore.blocked_needs`."""
        return self._blocked.needs()

    def blocked_messages(self, need_id: str, *, cursor: str | None = None, limit: int = 100) -> BlockedPage:
        """See `FleetStore.blocked_messages`."""
        return self._blocked.page(need_id, cursor, limit)

    def blocked_message(self, message_id: str) -> BlockedMessage | None:
        """See `FleetStore.blocked_message`."""
        return self._blocked.message(message_id)

    def workers(self) -> tuple[WorkerRecord, ...]:
        """See `FleetStore.workers`."""
        return self._listings.workers()

    def scan_advertisements(self) -> tuple[WorkerRecord, ...]:
        """See `FleetStore.scan_advertisements`."""
        return self._listings.scan_advertisements()

    def control_planes(self) -> tuple[ControlPlaneRecord, ...]:
        """See `FleetStore.control_planes`."""
        return self._listings.control_planes()

    def unclaimed(self, broker_ids: Sequence[str]) -> frozenset[str]:
        """See `FleetStore.unclaimed`."""
        return redis_look.unclaimed(self._context, broker_ids)

    def now_ms(self) -> int:
        """See `FleetStore.now_ms`."""
        with self._link.attempt(writes=False) as client:
            batch = Batch(client)
            batch.command("TIME")
            (time_reply,) = batch.send()
        return self._context.moment(time_reply)

    def close(self) -> None:
        """See `FleetStore.close`."""
        self._link.close()
