"""Listings: every live worker and control plane, by the index or by scanning the keyspace."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import redis

from dramatiq_handshake.storage.base import ControlPlaneRecord, WorkerRecord
from dramatiq_handshake.storage.redis_context import CHUNK, Context, chunks, text
from dramatiq_handshake.storage.scripts import INDEX, Batch

__all__ = ["Listings"]

#: How many keys one SCAN step looks at: the server is held for 1 to 2 ms.
SCAN_COUNT = 10_000
#: What ``TYPE`` answers for a key that has gone, or came just now.
_NO_ODDITY = frozenset({"none", "string"})


class Place(NamedTuple):
    """Where an instance consumes."""

    token: str
    instance: str


@dataclass(frozen=True, slots=True)
class _Lease:
    """What the index says of a place."""

    broker: str
    remaining_ms: int


class Listings:
    """Reads lists of advertisements; writes nothing.

    Args:
        context: What the parts of the store share.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def workers(self) -> tuple[WorkerRecord, ...]:
        """See `FleetStore.workers`."""
        with self._context.link.attempt(writes=False) as client:
            return self._records(client, self._index(client), others=())

    def scan_advertisements(self) -> tuple[WorkerRecord, ...]:
        """See `FleetStore.scan_advertisements`."""
        contract = self._context.contract
        with self._context.link.attempt(writes=False) as client:
            places = set()
            for key in self._scan(client, self._context.keys.advertisements_pattern):
                found = contract.parse_heartbeat(key) or contract.parse_descriptor(key)
                if found is not None:
                    places.add(Place(*found))
            index = self._index(client)
            return self._records(
                client,
                {place: lease for place, lease in index.items() if place in places},
                others=places.difference(index),
            )

    def control_planes(self) -> tuple[ControlPlaneRecord, ...]:
        """See `FleetStore.control_planes`."""
        contract = self._context.contract
        with self._context.link.attempt(writes=False) as client:
            keys = self._scan(client, contract.control_planes_pattern)
            instances = sorted({name for key in keys if (name := contract.parse_control_plane(key))})
            values = self._values(client, [contract.control_plane(instance) for instance in instances])
        return tuple(
            ControlPlaneRecord(instance, value)
            for instance, value in zip(instances, values, strict=True)
            if value is not None
        )

    def _index(self, client: redis.Redis) -> dict[Place, _Lease]:
        context = self._context
        batch = Batch(client)
        keys = [context.keys.live, context.keys.placed]
        batch.script(INDEX, keys, [context.now_argument, context.ttl_ms, CHUNK])
        (reply,) = batch.send()
        index = {}
        for member, remaining_ms, placed in json.loads(text(reply)):
            token, _, instance = member.partition(":")
            index[Place(token, instance)] = _Lease(placed.partition("\n")[2], remaining_ms)
        return index

    def _records(
        self, client: redis.Redis, index: dict[Place, _Lease], *, others: Iterable[Place]
    ) -> tuple[WorkerRecord, ...]:
        contract = self._context.contract
        foreign = sorted(others)
        remaining = self._remaining(client, foreign)
        places = sorted([*index, *foreign])
        keys = [contract.heartbeat(*place) for place in places]
        keys += [contract.descriptor(*place) for place in places]
        values = self._values(client, keys)
        odd = self._kinds(client, [key for key, value in zip(keys, values, strict=True) if value is None])
        records = []
        for number, place in enumerate(places):
            heartbeat, descriptor = values[number], values[number + len(places)]
            if heartbeat is None and keys[number] in odd:
                # The key's existence is the beat, whatever stands there.
                heartbeat = b""
            descriptor_kind = odd.get(keys[number + len(places)], "")
            if heartbeat is None and descriptor is None and not descriptor_kind:
                continue
            lease = index.get(place)
            records.append(
                WorkerRecord(
                    token=place.token,
                    instance_id=place.instance,
                    descriptor_json=descriptor,
                    heartbeat=heartbeat,
                    indexed=lease is not None,
                    broker=lease.broker if lease is not None else "",
                    remaining_ms=lease.remaining_ms if lease is not None else remaining.get(place),
                    descriptor_kind=descriptor_kind,
                )
            )
        return tuple(records)

    def _kinds(self, client: redis.Redis, keys: Sequence[str]) -> dict[str, str]:
        """The types of the values that are there and no text; MGET can't tell those from missing ones."""
        kinds = {}
        for some in chunks(keys):
            batch = Batch(client)
            for key in some:
                batch.command("TYPE", key)
            replies = (text(reply) for reply in batch.send())
            kinds.update(
                {key: kind for key, kind in zip(some, replies, strict=True) if kind not in _NO_ODDITY}
            )
        return kinds

    def _remaining(self, client: redis.Redis, places: Sequence[Place]) -> dict[Place, int]:
        """For how long the keys of unindexed places still live; places without an expiry are left out."""
        contract, remaining = self._context.contract, {}
        for some in chunks(places):
            batch = Batch(client)
            for place in some:
                batch.command("PTTL", contract.heartbeat(*place))
                batch.command("PTTL", contract.descriptor(*place))
            lives = batch.send()
            for place, heartbeat_ms, descriptor_ms in zip(some, lives[::2], lives[1::2], strict=True):
                longest = max(heartbeat_ms, descriptor_ms)
                if longest >= 0:
                    remaining[place] = longest
        return remaining

    def _values(self, client: redis.Redis, keys: Sequence[str]) -> list[bytes | None]:
        batch = Batch(client)
        for some in chunks(keys):
            batch.command("MGET", *some)
        return [value for reply in batch.send() for value in reply]

    def _scan(self, client: redis.Redis, pattern: str) -> Iterable[bytes]:
        return client.scan_iter(match=pattern, count=SCAN_COUNT)
