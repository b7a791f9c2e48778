"""The fleet registry inside one process: the StubBroker's, and the pure twin of `RedisStore`.

It derives what `RedisStore` keeps (the classes on a token, their longest leases) from its one table of
placements at every call. That is slow for large fleets and hard to get wrong, which is what the
contract suite compares the other store with.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.storage.base import (
    BLOCKED_LISTED_MAX,
    HEARTBEAT_TTL_MS,
    SERVED_LATELY_MS,
    Advertisement,
    BlockedMessage,
    BlockedNeed,
    BlockedPage,
    ClassPresence,
    ControlPlaneRecord,
    Look,
    Mark,
    OpenLane,
    Released,
    TokenLook,
    WorkerRecord,
    WorkerState,
)
from dramatiq_handshake.storage.clock import wall_clock_ms
from dramatiq_handshake.storage.expiring import ExpiringMap
from dramatiq_handshake.storage.forking import renew_after_fork
from dramatiq_handshake.storage.lanes import check_lane, lane_base
from dramatiq_handshake.storage.memory_blocked import BlockedIndex
from dramatiq_handshake.wire.heartbeat import heartbeat_json

__all__ = ["MemoryStore"]

Place = tuple[str, str]
"""A token and an instance."""


@dataclass(frozen=True, slots=True)
class _Placement:
    """What an instance is on a token: its class (``None`` unless it is up), its broker, its lease."""

    class_id: str | None
    broker: str
    expires_ms: int


class MemoryStore:
    """A `FleetStore` for the threads of one process.

    Args:
        now_ms: The clock, both the caller's and the server's (ms since the epoch).
        ttl_ms: How long an advertisement lives without a beat.
        listed_max: How many blocked messages of one need are listed.
    """

    def __init__(
        self,
        *,
        now_ms: Callable[[], int] = wall_clock_ms,
        ttl_ms: int = HEARTBEAT_TTL_MS,
        listed_max: int = BLOCKED_LISTED_MAX,
    ) -> None:
        self._clock = now_ms
        self._ttl_ms = ttl_ms
        self._lock = threading.RLock()
        self._placements: dict[Place, _Placement] = {}
        self._heartbeats: ExpiringMap[Place, bytes] = ExpiringMap()
        self._descriptors: ExpiringMap[Place, bytes] = ExpiringMap()
        self._control_planes: ExpiringMap[str, bytes] = ExpiringMap()
        self._bodies: ExpiringMap[str, str] = ExpiringMap()
        self._epochs: ExpiringMap[str, str] = ExpiringMap()
        self._served: ExpiringMap[str, bool] = ExpiringMap()
        self._claims: ExpiringMap[str, bool] = ExpiringMap()
        self._lanes: dict[str, dict[str, tuple[OpenLane, int]]] = {}
        self._lanes_epoch: str | None = None
        self._blocked = BlockedIndex(listed_max)
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Start with a lock that nobody holds."""
        self._lock = threading.RLock()

    def advertise(self, advertisement: Advertisement) -> None:
        """See `FleetStore.advertise`."""
        with self._lock:
            now = self._clock()
            instance = advertisement.instance_id
            former = {token for token, held_by in self._placements if held_by == instance}
            dropped = former.difference(advertisement.tokens)
            with self._noticing_classes(former.union(advertisement.tokens), now):
                for token in dropped:
                    self._remove((token, instance))
                for token in advertisement.tokens:
                    self._place((token, instance), advertisement, now)
            self._bodies.put(advertisement.class_id, advertisement.class_body, now + 2 * self._ttl_ms)
            self._claim(advertisement.broker_id, now)
            self._forget_lapsed(now)

    def _place(self, place: Place, advertisement: Advertisement, now: int) -> None:
        expires = now + self._ttl_ms
        up = advertisement.state is WorkerState.UP
        heartbeat = heartbeat_json(
            now,
            advertisement.state.value,
            advertisement.etag,
            advertisement.threads,
            advertisement.in_flight,
        )
        self._heartbeats.put(place, heartbeat.encode(), expires)
        self._descriptors.put(place, advertisement.descriptor_json.encode(), expires)
        self._placements[place] = _Placement(
            advertisement.class_id if up else None, advertisement.broker, expires
        )
        self._served.put(place[0], True, now + SERVED_LATELY_MS)
        self._epochs.prolong(place[0], now, now + SERVED_LATELY_MS)

    def _remove(self, place: Place) -> None:
        self._placements.pop(place, None)
        self._heartbeats.drop(place)
        self._descriptors.drop(place)

    @contextmanager
    def _noticing_classes(self, tokens: Iterable[str], now: int) -> Iterator[None]:
        """Give a token a new epoch where the enclosed change made a class appear or leave."""
        before = {token: self._leases(token, now).keys() for token in tokens}
        yield
        for token, classes in before.items():
            if self._leases(token, now).keys() != classes:
                self._epochs.put(token, uuid.uuid4().hex, now + SERVED_LATELY_MS)

    def _leases(self, token: str, now: int) -> dict[str, int]:
        """The classes that are live on a token, with the longest lease of their workers."""
        leases: dict[str, int] = {}
        for (placed_on, _), placement in self._placements.items():
            class_id = placement.class_id
            if placed_on == token and class_id is not None and self._is_live(placement, now):
                leases[class_id] = max(leases.get(class_id, 0), placement.expires_ms)
        return leases

    def _is_live(self, placement: _Placement, now: int) -> bool:
        return now < placement.expires_ms <= now + self._ttl_ms

    def _forget_lapsed(self, now: int) -> None:
        lapsed = [place for place, held in self._placements.items() if not self._is_live(held, now)]
        for place in lapsed:
            del self._placements[place]
        for expiring in (
            self._heartbeats,
            self._descriptors,
            self._control_planes,
            self._bodies,
            self._epochs,
            self._served,
            self._claims,
        ):
            expiring.forget_lapsed(now)

    def withdraw(self, instance_id: str, tokens: Iterable[str]) -> None:
        """See `FleetStore.withdraw`."""
        leaving = list(tokens)
        with self._lock, self._noticing_classes(leaving, self._clock()):
            for token in leaving:
                self._remove((token, instance_id))

    def announce_control_plane(
        self, instance_id: str, descriptor_json: str, *, broker_id: str | None = None
    ) -> None:
        """See `FleetStore.announce_control_plane`."""
        with self._lock:
            now = self._clock()
            self._control_planes.put(instance_id, descriptor_json.encode(), now + self._ttl_ms)
            self._claim(broker_id, now)

    def _claim(self, broker_id: str | None, now: int) -> None:
        if broker_id:
            self._claims.put(broker_id, True, now + SERVED_LATELY_MS)

    def look(self, known: Mapping[str, Mark | None], lanes_epoch: str | None) -> Look:
        """See `FleetStore.look`."""
        with self._lock:
            now = self._clock()
            tokens: dict[str, TokenLook] = {}
            for token, mark in known.items():
                seen = self._look_at(token, now)
                if seen.mark is None or seen.mark != mark:
                    tokens[token] = seen
            lanes = None
            if self._lanes_epoch is None or self._lanes_epoch != lanes_epoch:
                lanes = tuple(lane for token in known for lane, _ in self._lanes.get(token, {}).values())
            return Look(tokens, lanes, self._lanes_epoch)

    def _look_at(self, token: str, now: int) -> TokenLook:
        leases = self._leases(token, now)
        epoch = self._epochs.get(token, now)
        return TokenLook(
            Mark(epoch, len(leases)) if epoch is not None else None,
            tuple(ClassPresence(class_id, until - now) for class_id, until in leases.items()),
            self._served.get(token, now) is not None,
        )

    def class_bodies(self, class_ids: Sequence[str]) -> Mapping[str, str]:
        """See `FleetStore.class_bodies`."""
        with self._lock:
            now = self._clock()
            found = ((class_id, self._bodies.get(class_id, now)) for class_id in class_ids)
            return {class_id: body for class_id, body in found if body is not None}

    def register_lane(self, lane: OpenLane) -> None:
        """See `FleetStore.register_lane`."""
        check_lane(lane)
        with self._lock:
            self._open(lane, self._clock())

    def _open(self, lane: OpenLane, now: int) -> None:
        beside = self._lanes.setdefault(lane.base, {})
        known = beside.get(lane.name)
        if known is None or known[0] != lane:
            self._lanes_epoch = uuid.uuid4().hex
        beside[lane.name] = (lane, now)

    def retire_lane(self, name: str, *, quiet_ms: int) -> bool:
        """See `FleetStore.retire_lane`."""
        with self._lock:
            beside = self._lanes.get(lane_base(name), {})
            known = beside.get(name)
            if known is None:
                return True
            if self._clock() - known[1] < quiet_ms:
                return False
            del beside[name]
            self._lanes_epoch = uuid.uuid4().hex
            return True

    def block(self, need: BlockedNeed, messages: Sequence[BlockedMessage], *, lane: OpenLane | None) -> None:
        """See `FleetStore.block`."""
        if lane is not None:
            check_lane(lane)
        with self._lock:
            now = self._clock()
            self._blocked.block(need, messages, now)
            if lane is not None:
                self._open(lane, now)

    def release(self, message_ids: Mapping[str, Sequence[str]]) -> tuple[Released, ...]:
        """See `FleetStore.release`."""
        with self._lock:
            return self._blocked.release(message_ids, self._clock())

    def blocked_needs(self) -> tuple[BlockedNeed, ...]:
        """See `FleetStore.blocked_needs`."""
        with self._lock:
            return self._blocked.needs()

    def blocked_messages(self, need_id: str, *, cursor: str | None = None, limit: int = 100) -> BlockedPage:
        """See `FleetStore.blocked_messages`."""
        with self._lock:
            return self._blocked.page(need_id, cursor, limit)

    def blocked_message(self, message_id: str) -> BlockedMessage | None:
        """See `FleetStore.blocked_message`."""
        with self._lock:
            return self._blocked.message(message_id)

    def workers(self) -> tuple[WorkerRecord, ...]:
        """See `FleetStore.workers`."""
        with self._lock:
            now = self._clock()
            records = (self._record(place, now) for place in sorted(self._placements))
            return tuple(record for record in records if record is not None and record.indexed)

    def scan_advertisements(self) -> tuple[WorkerRecord, ...]:
        """See `FleetStore.scan_advertisements`."""
        with self._lock:
            now = self._clock()
            places = sorted(
                {place for held in (self._heartbeats, self._descriptors) for place, _ in held.items(now)}
            )
            records = (self._record(place, now) for place in places)
            return tuple(record for record in records if record is not None)

    def _record(self, place: Place, now: int) -> WorkerRecord | None:
        heartbeat = self._heartbeats.get(place, now)
        descriptor = self._descriptors.get(place, now)
        if heartbeat is None and descriptor is None:
            return None
        held = self._placements.get(place)
        indexed = held is not None and self._is_live(held, now)
        until = held.expires_ms if held is not None and indexed else None
        if until is None:
            until = max(self._heartbeats.expiry(place), self._descriptors.expiry(place))
        return WorkerRecord(
            token=place[0],
            instance_id=place[1],
            descriptor_json=descriptor,
            heartbeat=heartbeat,
            indexed=indexed,
            broker=held.broker if held is not None and indexed else "",
            remaining_ms=until - now,
        )

    def control_planes(self) -> tuple[ControlPlaneRecord, ...]:
        """See `FleetStore.control_planes`."""
        with self._lock:
            live = self._control_planes.items(self._clock())
            return tuple(ControlPlaneRecord(instance, text) for instance, text in sorted(live))

    def unclaimed(self, broker_ids: Sequence[str]) -> frozenset[str]:
        """See `FleetStore.unclaimed`."""
        with self._lock:
            now = self._clock()
            return frozenset(broker for broker in broker_ids if self._claims.get(broker, now) is None)

    def now_ms(self) -> int:
        """See `FleetStore.now_ms`."""
        return self._clock()

    @property
    def available(self) -> bool:
        """Always: nothing stands between this process and itself."""
        return True

    def on_outage(self, listener: Callable[[RegistryUnavailable], None]) -> None:
        """See `FleetStore.on_outage`; there is never an outage to tell of."""

    def on_restored(self, listener: Callable[[], None]) -> None:
        """See `FleetStore.on_restored`; there is never an outage to tell of."""

    def close(self) -> None:
        """Nothing to release: what was written stays for whoever uses the store next."""
