"""Workers that are only advertised: a live fleet, as its registry shows it, without the processes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from dramatiq_handshake.decide.classes import class_of
from dramatiq_handshake.storage import RedisStore
from dramatiq_handshake.storage.base import Advertisement
from dramatiq_handshake.wire.descriptor import ProtocolSupport, Sdk, WorkerDescriptor, WorkflowRegistration
from dramatiq_handshake.wire.etag import descriptor_etag

__all__ = ["SimulatedFleet", "advertisement_of"]

#: Leases last 35 s; a fleet that beats no later than this after its last beat never lapses during a block.
BEAT_EVERY_S = 8.0
#: What a worker with Dramatiq's default middleware derives from it, and one that a person named.
CAPABILITIES = ("age-limit", "callbacks", "cpu", "pipelines", "retries", "time-limit")
STARTED_AT_MS = 1_700_000_000_000


def advertisement_of(
    instance_id: str,
    actors: Mapping[str, Sequence[str]],
    *,
    capabilities: Sequence[str] = CAPABILITIES,
    build: str | None = None,
) -> Advertisement:
    """What a worker that consumes some queues and knows some actors publishes on a beat.

    Args:
        actors: The names of the actors of each queue.
        capabilities: What it can do.
        build: The version that it states for its actors; workers of another build are another class.
    """
    names = sorted(name for queue in actors.values() for name in queue)
    descriptor = WorkerDescriptor(
        instance_id=instance_id,
        runtime="python",
        sdk=Sdk(name="dramatiq-handshake", version="0"),
        protocol=ProtocolSupport(version=1, range=(1, 1)),
        capabilities=tuple(sorted(capabilities)),
        workflows=tuple(names),
        steps=(),
        registrations=tuple(
            WorkflowRegistration(name=name, version=build, group=queue)
            for queue, of_queue in sorted(actors.items())
            for name in sorted(of_queue)
        ),
        started_at=STARTED_AT_MS,
    )
    class_id, class_body = class_of(descriptor, "")
    return Advertisement(
        instance_id=instance_id,
        tokens=tuple(sorted(actors)),
        descriptor_json=descriptor.to_json(),
        etag=descriptor_etag(descriptor),
        class_id=class_id,
        class_body=class_body,
        threads=8,
    )


class SimulatedFleet:
    """A fleet that stays alive as long as somebody calls `beat_if_due` between measurements.

    Args:
        url: The registry's server.
        prefix: The deployment.
        advertisements: Its workers.
    """

    def __init__(self, url: str, prefix: str, advertisements: Sequence[Advertisement]) -> None:
        self._store = RedisStore(url=url, prefix=prefix)
        self._advertisements = advertisements
        self._beat_at = float("-inf")

    def beat_if_due(self) -> None:
        """Renew every worker's lease where that is due."""
        if time.monotonic() - self._beat_at < BEAT_EVERY_S:
            return
        for advertisement in self._advertisements:
            self._store.advertise(advertisement)
        self._beat_at = time.monotonic()

    def close(self) -> None:
        """Withdraw every worker, and release the connections."""
        for advertisement in self._advertisements:
            self._store.withdraw(advertisement.instance_id, advertisement.tokens)
        self._store.close()
