"""What one worker publishes of itself, and when.

Two tiers keep it cheap: a beat every ten seconds, and the whole descriptor only when it changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dramatiq_handshake.decide.classes import class_of
from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.need import is_lane
from dramatiq_handshake.dispatch.admission_consumer import AdmissionConsumer
from dramatiq_handshake.dispatch.consumers import Consumers
from dramatiq_handshake.dispatch.describe import new_instance_id, worker_descriptor
from dramatiq_handshake.storage.base import Advertisement, WorkerState
from dramatiq_handshake.wire.etag import descriptor_etag

if TYPE_CHECKING:
    from dramatiq import Broker, Worker

    from dramatiq_handshake.dispatch.abilities import Abilities
    from dramatiq_handshake.dispatch.carriers.base import BrokerIdentity
    from dramatiq_handshake.dispatch.diagnostics import Diagnostics
    from dramatiq_handshake.dispatch.options import ActorProfile
    from dramatiq_handshake.storage.base import FleetStore
    from dramatiq_handshake.wire.descriptor import WorkerDescriptor

__all__ = ["Advertiser"]

#: A main consumer that has not come round for this long, or three of its timeouts, stands still.
STALLED_AFTER_S = 15.0


@dataclass(frozen=True, slots=True)
class _Written:
    """A descriptor as it is published: worked out once per change, since an ETag costs more than a beat."""

    descriptor: WorkerDescriptor
    broker: str
    descriptor_json: str
    etag: str
    class_id: str
    class_body: str

    @classmethod
    def of(cls, descriptor: WorkerDescriptor, broker: str) -> _Written:
        class_id, class_body = class_of(descriptor, broker)
        return cls(
            descriptor, broker, descriptor.to_json(), descriptor_etag(descriptor), class_id, class_body
        )


class Advertiser:
    """Publishes one worker.

    Args:
        in_flight: How many messages the worker holds.
        beat_interval_ms: How often it beats.
    """

    def __init__(
        self,
        broker: Broker,
        worker: Worker,
        *,
        store: FleetStore,
        identity: BrokerIdentity,
        abilities: Abilities,
        profiles: Mapping[str, ActorProfile],
        diagnostics: Diagnostics,
        protocol: tuple[int, int],
        namespace: str | None,
        in_flight: Callable[[], int],
        beat_interval_ms: int,
    ) -> None:
        self.instance_id = new_instance_id()
        #: How often it beats.
        self.interval_s = beat_interval_ms / 1000
        #: Set when the worker leaves: it is advertised as draining from then on.
        self.draining = threading.Event()
        self._broker = broker
        self._worker = worker
        self._store = store
        self._identity = identity
        self._abilities = abilities
        self._profiles = profiles
        self._diagnostics = diagnostics
        self._protocol = protocol
        self._namespace = namespace
        self._in_flight = in_flight
        self._started_at = int(time.time() * 1000)
        self._written: _Written | None = None
        self._advertised: Advertisement | None = None
        self._beat_at = float("-inf")
        self._stalled: frozenset[str] = frozenset()
        self._withdrawn = False
        self._lock = threading.Lock()

    def bases(self) -> frozenset[str]:
        """The base queues that the worker consumes."""
        return frozenset(
            name for name in list(self._worker.consumers) if not name.endswith(".DQ") and not is_lane(name)
        )

    def beat_if_due(self) -> None:
        """Publish when something changed, or when the last beat is an interval old.

        Raises:
            RegistryUnavailable: The registry does not answer.
        """
        with self._lock:
            if self._withdrawn:
                return
            advertisement, previous = self._advertisement(), self._advertised
            unchanged = previous is not None and (
                (advertisement.etag, advertisement.tokens, advertisement.state)
                == (previous.etag, previous.tokens, previous.state)
            )
            if unchanged and time.monotonic() - self._beat_at < self.interval_s:
                return
            self._store.advertise(advertisement)
            self._advertised = advertisement
            self._beat_at = time.monotonic()
        if self._is_silent_to_broker():
            self._identity.renew_heartbeat()

    def withdraw(self) -> None:
        """Take the advertisement down, for good.

        Raises:
            RegistryUnavailable: The registry does not answer; the advertisement lapses by itself.
        """
        with self._lock:
            self._withdrawn = True
            advertised = self._advertised.tokens if self._advertised is not None else ()
            self._store.withdraw(self.instance_id, self.bases() | frozenset(advertised))

    def _advertisement(self) -> Advertisement:
        tokens = self._progressing()
        descriptor = worker_descriptor(
            self._broker,
            instance_id=self.instance_id,
            profiles=self._profiles,
            capabilities=self._abilities.capabilities,
            queues=tokens.__contains__,
            protocol=self._protocol,
            namespace=self._namespace,
            started_at=self._started_at,
        )
        broker = self._identity.fingerprint()
        written = self._written
        if written is None or (written.descriptor, written.broker) != (descriptor, broker):
            written = self._written = _Written.of(descriptor, broker)
        return Advertisement(
            instance_id=self.instance_id,
            tokens=tuple(sorted(tokens)),
            descriptor_json=written.descriptor_json,
            etag=written.etag,
            class_id=written.class_id,
            class_body=written.class_body,
            state=WorkerState.DRAINING if self.draining.is_set() else WorkerState.UP,
            broker=broker,
            broker_id=self._identity.claim(),
            threads=self._worker.worker_threads,
            in_flight=self._in_flight(),
        )

    def _progressing(self) -> frozenset[str]:
        """The bases whose consumers come round; a consumer that stands still serves nobody."""
        bases = self.bases()
        if self._is_paused():
            return bases
        now = time.monotonic()
        limit_s = max(3 * self._worker.worker_timeout / 1000, STALLED_AFTER_S)
        stalled = set()
        for base in bases:
            consumer = self._consumer(base)
            if consumer is not None and now - consumer.came_round_at > limit_s:
                stalled.add(base)
        for base in stalled - self._stalled:
            self._diagnostics.emit(
                Code.WORKER_STALLED,
                f"the consumer of {base!r} has not come round for {limit_s:.0f} s; this worker takes the "
                "queue off its advertisement until it does",
                about=base,
                token=base,
            )
        self._stalled = frozenset(stalled)
        return bases - stalled

    def _consumer(self, queue: str) -> AdmissionConsumer | None:
        consumers = self._worker.consumers
        thread = consumers.thread(queue) if isinstance(consumers, Consumers) else None
        consumer = None if thread is None else thread.consumer
        return consumer if isinstance(consumer, AdmissionConsumer) else None

    def _is_paused(self) -> bool:
        return any(thread.paused for thread in self._worker.workers)

    def _is_silent_to_broker(self) -> bool:
        """Whether the worker's consumers may be sending the broker nothing, so that it looks dead."""
        full = self._in_flight() >= self._worker.queue_prefetch
        return full or self.draining.is_set() or self._is_paused()
