"""Workers as the registry sees them: ours, another SDK's, a legacy one; and a clock for their leases."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import redis

from dramatiq_handshake.storage import FleetStore, MemoryStore
from dramatiq_handshake.storage.base import (
    HEARTBEAT_TTL_MS,
    Advertisement,
    ControlPlaneRecord,
    WorkerRecord,
    WorkerState,
)
from dramatiq_handshake.wire.descriptor import (
    SDK_NAME,
    ProtocolSupport,
    Sdk,
    WorkerDescriptor,
    WorkflowRegistration,
)
from dramatiq_handshake.wire.etag import descriptor_etag
from dramatiq_handshake.wire.keys import ContractKeys

__all__ = ["Clock", "ForeignSdk", "RecordStore", "advertise", "announced", "our_descriptor"]


class Clock:
    """A clock that stands still until it is told (ms since the epoch)."""

    def __init__(self, now_ms: int = 1_767_225_600_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, ms: int) -> None:
        self.now_ms += ms


def announced(name: str, version: str | None = None, group: str = "ml", **more: Any) -> WorkflowRegistration:
    """What one of our workers announces for an actor."""
    return WorkflowRegistration(name=name, version=version, group=group, **more)


def our_descriptor(
    instance: str = "py-1",
    *actors: WorkflowRegistration,
    capabilities: Sequence[str] = (),
    steps: Sequence[str] = (),
    protocol: tuple[int, int] = (1, 1),
    namespace: str | None = None,
    started_at: int = 1_767_225_000_000,
) -> WorkerDescriptor:
    """The descriptor of a worker that runs this library."""
    return WorkerDescriptor(
        instance_id=instance,
        runtime="python",
        sdk=Sdk(name=SDK_NAME, version="0.1.0"),
        protocol=ProtocolSupport(version=protocol[1], range=protocol),
        capabilities=tuple(capabilities),
        workflows=tuple(sorted({actor.name for actor in actors})),
        steps=tuple(steps),
        registrations=actors,
        partition=namespace,
        namespace=namespace,
        started_at=started_at,
    )


def advertise(
    store: FleetStore,
    descriptor: WorkerDescriptor | str,
    *tokens: str,
    instance: str = "",
    broker: str = "broker-1",
    state: WorkerState = WorkerState.UP,
    threads: int = 8,
    in_flight: int = 0,
) -> None:
    """One beat of a worker of ours; a text in place of the descriptor is published as it stands."""
    if isinstance(descriptor, str):
        text, etag = descriptor, f"etag-of-{len(descriptor)}"
    else:
        text, etag = descriptor.to_json(), descriptor_etag(descriptor)
        instance = instance or descriptor.instance_id
    store.advertise(
        Advertisement(
            instance_id=instance,
            tokens=tokens or ("ml",),
            descriptor_json=text,
            etag=etag,
            class_id=f"class-{etag}",
            class_body="{}",
            state=state,
            broker=broker,
            threads=threads,
            in_flight=in_flight,
        )
    )


class RecordStore(MemoryStore):
    """A registry that holds exactly the given records: what no beat of ours would write."""

    def __init__(
        self, *records: WorkerRecord, planes: Iterable[ControlPlaneRecord] = (), clock: Clock | None = None
    ) -> None:
        super().__init__(now_ms=clock or Clock())
        self.records = records
        self.planes = tuple(planes)

    def scan_advertisements(self) -> tuple[WorkerRecord, ...]:
        return self.records

    def workers(self) -> tuple[WorkerRecord, ...]:
        return tuple(record for record in self.records if record.indexed)

    def control_planes(self) -> tuple[ControlPlaneRecord, ...]:
        return self.planes


class ForeignSdk:
    """Another SDK, which knows the contract's keys and nothing of our index.

    Args:
        client: A client of the server.
        prefix: The deployment.
    """

    def __init__(self, client: redis.Redis, prefix: str = "dramatiq") -> None:
        self._client = client
        self._keys = ContractKeys(prefix)

    def beat(self, token: str, instance: str, value: str | bytes | None = None) -> None:
        """Write a heartbeat; a bare number, as the oldest SDKs do, where no value is given."""
        beat = "1767225600000" if value is None else value
        self._client.set(self._keys.heartbeat(token, instance), beat, px=HEARTBEAT_TTL_MS)

    def describe(self, token: str, instance: str, descriptor: dict[str, Any] | str | bytes) -> None:
        """Write a descriptor."""
        text = json.dumps(descriptor) if isinstance(descriptor, dict) else descriptor
        self._client.set(self._keys.descriptor(token, instance), text, px=HEARTBEAT_TTL_MS)

    def advertise(self, token: str, instance: str, **fields: Any) -> None:
        """Beat and describe, as a NestJS worker would."""
        descriptor = {
            "instanceId": instance,
            "runtime": "node",
            "sdk": {"name": "@dudousxd/nestjs-durable-core", "version": "0.62.0"},
            "protocol": {"version": 1, "range": [1, 1]},
            "capabilities": ["saga"],
            "workflows": [],
            "steps": [],
            "startedAt": 1_767_225_000_000,
        }
        self.beat(token, instance, json.dumps({"ts": 1_767_225_600_000, "status": "up"}))
        self.describe(token, instance, descriptor | fields)
