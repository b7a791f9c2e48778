"""The parts that make one broker capability-aware, put together once."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker

from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.need import base_of, is_lane
from dramatiq_handshake.dispatch.abilities import Abilities
from dramatiq_handshake.dispatch.admission import Admission
from dramatiq_handshake.dispatch.admission_consumer import AdmissionConsumer
from dramatiq_handshake.dispatch.advertiser import Advertiser
from dramatiq_handshake.dispatch.agent import WorkerAgent
from dramatiq_handshake.dispatch.blocked import BlockedIndex
from dramatiq_handshake.dispatch.capabilities import Capabilities, derived_capabilities
from dramatiq_handshake.dispatch.carriers import (
    BrokerIdentity,
    Carrier,
    ObservedBroker,
    RedisCarrier,
    StubCarrier,
)
from dramatiq_handshake.dispatch.consumers import Consumers, Whitelist
from dramatiq_handshake.dispatch.control_plane import ControlPlane
from dramatiq_handshake.dispatch.diagnostics import Diagnostics
from dramatiq_handshake.dispatch.errors import DeclarationError
from dramatiq_handshake.dispatch.gate import Gate
from dramatiq_handshake.dispatch.joining import flushing_lanes, joining_depths, joining_lanes
from dramatiq_handshake.dispatch.lanes import LaneKeeper
from dramatiq_handshake.dispatch.options import ActorProfile
from dramatiq_handshake.dispatch.registrar import LaneRegistrar
from dramatiq_handshake.dispatch.server_identity import ServerIdentity
from dramatiq_handshake.dispatch.service import LaneService
from dramatiq_handshake.dispatch.settings import URL_VARIABLE, Mode, OnBlocked, OnRegistryError, Settings
from dramatiq_handshake.dispatch.view import FleetView
from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.storage import FleetStore, MemoryStore, RedisStore

if TYPE_CHECKING:
    from dramatiq import Broker, Worker
    from dramatiq.broker import Consumer

__all__ = ["Binding"]

DEFAULT_PREFIX = "dramatiq"

_bindings: weakref.WeakSet[Binding] = weakref.WeakSet()


class Binding:
    """One broker with the handshake.

    The broker's `enqueue` is wrapped at once, its `consume` when a worker boots; both on the instance.

    Args:
        broker: The broker.
        settings: What the middleware was asked to do; its mode is not ``off``.
        capabilities: What this process states.
        profiles: The declared actors' options, filled by the middleware.

    Raises:
        DeclarationError: The broker has no Redis of its own, and no ``url=`` names one.
    """

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        *,
        capabilities: Capabilities,
        profiles: dict[str, ActorProfile],
        logger: logging.Logger,
    ) -> None:
        self.broker = broker
        self.prefix = settings.prefix or getattr(broker, "namespace", None) or DEFAULT_PREFIX
        self.store = _store_for(broker, settings, self.prefix)
        self.diagnostics = Diagnostics(logger)
        self.agents: list[WorkerAgent] = []
        #: The base queues of this process's actors, each known before Dramatiq declares it.
        self.actor_queues: set[str] = set()
        self._settings = settings
        self._stated = capabilities
        self._profiles = profiles
        self._logger = logger
        self.identity = self._identity_of(broker)
        self._carrier = self._carrier_of(self.identity)
        self.control_plane = ControlPlane(
            self.store,
            profiles=profiles,
            protocol=settings.protocol,
            namespace=settings.namespace,
            claim=self.identity.claim,
            interval_ms=settings.heartbeat_interval_ms,
        )
        self._view = FleetView(
            self.store,
            control_plane=self.control_plane.descriptor,
            broker=self.identity.fingerprint,
            recovery_s=settings.heartbeat_interval_ms / 1000,
            before_look=self.control_plane.announce_if_due,
        )
        self._registrar = LaneRegistrar(self.store)
        self._blocked = BlockedIndex(
            self.store, self._registrar, self.diagnostics, identity=self.identity, logger=logger
        )
        self.store.on_outage(self._registry_lost)
        self.store.on_restored(self._registry_back)
        self._consume = broker.consume
        self._install_gate()
        _bindings.add(self)

    # -- the worker's life ------------------------------------------------------------------------

    def boot(self, worker: Worker) -> None:
        """Make a worker capability-aware before it consumes anything."""
        carrier = self._carrier
        abilities = Abilities(self.broker, self._profiles, protocol=self._settings.protocol)
        whitelist = self._whitelist(worker)
        if carrier is not None:
            # First of all: from here on, whatever fails, nothing is consumed without admission.
            worker.consumer_whitelist = whitelist  # type: ignore[assignment]  # Dramatiq asks truth and `in`
            worker.consumers = Consumers(self.broker)
            self.broker.consume = self._admitting_consume  # type: ignore[method-assign]  # on the instance
        abilities.capabilities = self.capabilities()
        admission = service = None
        if carrier is not None:
            admission = Admission(
                worker,
                carrier=carrier,
                abilities=abilities,
                profiles=self._profiles,
                view=self._view,
                blocked=self._blocked,
                registrar=self._registrar,
                diagnostics=self.diagnostics,
                logger=self._logger,
            )
            service = LaneService(
                LaneKeeper(worker, self.broker, whitelist, logger=self._logger),
                store=self.store,
                view=self._view,
                carrier=carrier,
                abilities=abilities,
                whitelist=whitelist,
                logger=self._logger,
            )
        advertiser = Advertiser(
            self.broker,
            worker,
            store=self.store,
            identity=self.identity,
            abilities=abilities,
            profiles=self._profiles,
            diagnostics=self.diagnostics,
            protocol=self._settings.protocol,
            namespace=self._settings.namespace,
            in_flight=worker.work_queue.qsize if admission is None else admission.deliveries.count,
            beat_interval_ms=self._settings.heartbeat_interval_ms,
        )
        agent = WorkerAgent(
            worker,
            advertiser=advertiser,
            abilities=abilities,
            capabilities=self.capabilities,
            view=self._view,
            blocked=self._blocked,
            admission=admission,
            service=service,
            logger=self._logger,
        )
        self.agents.append(agent)
        if carrier is None and self._settings.mode is Mode.ENFORCE:
            self._logger.warning(
                "No lanes are kept on a %s: this worker is advertised and what nobody can run is reported, "
                "but every message stays in its base queue.",
                type(self.broker).__name__,
            )

    def agent_of(self, worker: Worker) -> WorkerAgent | None:
        """The agent of a booted worker."""
        return next((agent for agent in self.agents if agent.worker is worker), None)

    def booted(self, worker: Worker) -> None:
        """The worker consumes: advertise it, and wait a moment for that."""
        agent = self.agent_of(worker)
        if agent is not None:
            agent.start(wait_s=2 * self._settings.registry_timeout_ms / 1000)

    def shut_down(self, worker: Worker) -> None:
        """The worker has stopped: take its advertisement down."""
        agent = self.agent_of(worker)
        if agent is not None:
            agent.stop()
            self.agents.remove(agent)
            # This process's own sends must not be planned to the worker that has just gone.
            self._view.doubt()

    def capabilities(self) -> frozenset[str]:
        """What a worker of this process advertises now.

        On a StubBroker where nobody says what the process can do, it can do what its own actors require:
        users' own tests run as they did.
        """
        unstated: frozenset[str] = frozenset()
        if isinstance(self.broker, StubBroker):
            unstated = unstated.union(*(profile.requires for profile in list(self._profiles.values())))
        return self._stated.stated(unstated) | derived_capabilities(self.broker)

    def wake(self) -> None:
        """Let every worker of this process advertise and look again now."""
        for agent in self.agents:
            agent.wake()

    def reset_after_fork(self) -> None:
        """A forked child is another control plane, and sees the fleet anew."""
        self.agents.clear()
        self._view.reset_after_fork()
        self.control_plane.reset_after_fork()

    # -- wiring -----------------------------------------------------------------------------------

    def _identity_of(self, broker: Broker) -> BrokerIdentity:
        if isinstance(broker, RedisBroker):
            return RedisCarrier(broker, server=self._server_of(broker), unclaimed=self.store.unclaimed)
        if isinstance(broker, StubBroker):
            return StubCarrier(broker)
        return ObservedBroker(broker)

    def _carrier_of(self, identity: BrokerIdentity) -> Carrier | None:
        enforces = self._settings.mode is Mode.ENFORCE
        return identity if enforces and isinstance(identity, (RedisCarrier, StubCarrier)) else None

    def _server_of(self, broker: RedisBroker) -> Callable[[], str]:
        if self._settings.url is None or not isinstance(self.store, RedisStore):
            return lambda: ""
        return ServerIdentity(broker.client, self.store.server_run_id, f"{self.prefix}-handshake-server")

    def _install_gate(self) -> None:
        broker, settings = self.broker, self._settings
        # Who only observes refuses nothing.
        enforces = settings.mode is Mode.ENFORCE
        gate = Gate(
            broker,
            broker.enqueue,
            identity=self.identity,
            carrier=self._carrier,
            view=self._view,
            blocked=self._blocked,
            registrar=self._registrar,
            profiles=self._profiles,
            protocol=settings.protocol[1],
            raise_blocked=enforces and settings.on_blocked is OnBlocked.RAISE,
            raise_unavailable=enforces and settings.on_registry_error is OnRegistryError.RAISE,
            sending=self.control_plane.touch,
            logger=self._logger,
        )
        broker.enqueue = gate.enqueue  # type: ignore[method-assign]  # on the instance, once
        if self._carrier is not None:
            flush = flushing_lanes(broker.flush, self._lanes_beside, self._blocked.forget)
            broker.flush = flush  # type: ignore[assignment, method-assign]  # on the instance, once
        if isinstance(broker, StubBroker) and isinstance(self._carrier, StubCarrier):
            broker.join = joining_lanes(  # type: ignore[method-assign]  # on the instance, once
                broker, broker.join, self._carrier, is_hopeless=self._is_hopeless, why=self._why_blocked
            )
        elif self._carrier is not None:
            join = joining_depths(broker.join, self._lanes_beside, self._carrier.depths)
            broker.join = join  # type: ignore[method-assign]  # on the instance, once

    def _admitting_consume(self, queue_name: str, prefetch: int = 1, timeout: int = 30_000) -> Consumer:
        """The broker's `consume`, with admission where a booted worker's consumer thread asks."""
        agent = next((agent for agent in list(self.agents) if agent.owns_current_thread()), None)
        if is_lane(queue_name) and self._carrier is not None:
            inner = self._carrier.consumer(queue_name, prefetch=prefetch, timeout=timeout)
        else:
            inner = self._consume(queue_name=queue_name, prefetch=prefetch, timeout=timeout)
        if agent is None or agent.admission is None:
            return inner
        consumer = AdmissionConsumer(inner, queue_name, agent.admission, timeout_ms=timeout)
        consumer.recover()
        return consumer

    def _whitelist(self, worker: Worker) -> Whitelist:
        declared = {base_of(name) for name in self.broker.get_declared_queues() if not is_lane(name)}

        def owns(base: str) -> bool:
            return base in declared or base in self.actor_queues

        return Whitelist(worker.consumer_whitelist, owns, namespace=self._settings.namespace)

    def _lanes_beside(self, base: str) -> Iterable[str]:
        if isinstance(self._carrier, StubCarrier):
            return self._carrier.lanes(base)
        if is_lane(base):
            return ()
        try:
            look = self.store.look({base: None}, None)
        except RegistryUnavailable as error:
            self._logger.warning("The lanes beside %r are not known now and left out: %s", base, error)
            return ()
        return [lane.name for lane in look.lanes or () if lane.base == base]

    def _is_hopeless(self, lane: str) -> bool:
        if not self.agents:
            return False
        try:
            self._view.renew([base_of(lane)])
        except RegistryUnavailable:
            return False
        return not any(agent.can_serve(lane) for agent in self.agents)

    def _why_blocked(self, lane: str) -> str:
        reasons = [need.reason for need in self.store.blocked_needs() if need.place == lane]
        return reasons[0] if reasons else f"blocked: no live worker serves {lane!r}"

    def _registry_lost(self, error: RegistryUnavailable) -> None:
        self.diagnostics.emit(
            Code.REGISTRY_UNAVAILABLE,
            f"{error}; messages are enqueued as plain Dramatiq would until it is back",
            about=f"{os.getpid()}:{time.monotonic()}",
        )

    def _registry_back(self) -> None:
        self._view.distrust_blocked()
        self.diagnostics.emit(
            Code.REGISTRY_RESTORED,
            "the fleet registry answers again",
            about=f"{os.getpid()}:{time.monotonic()}",
        )


def _store_for(broker: Broker, settings: Settings, prefix: str) -> FleetStore:
    options: dict[str, Any] = {"prefix": prefix, "ttl_ms": settings.heartbeat_ttl_ms}
    if settings.url is not None:
        return RedisStore(url=settings.url, registry_timeout_ms=settings.registry_timeout_ms, **options)
    if isinstance(broker, RedisBroker):
        return RedisStore(broker.client, registry_timeout_ms=settings.registry_timeout_ms, **options)
    if isinstance(broker, StubBroker):
        return MemoryStore(ttl_ms=settings.heartbeat_ttl_ms)
    raise DeclarationError(
        f"HandshakeMiddleware on a {type(broker).__name__}: expected url= (or {URL_VARIABLE}) to name the "
        "Redis or Valkey server that holds the fleet registry, got none; pass url='redis://…'"
    )


def _reset_after_fork() -> None:
    for binding in list(_bindings):
        binding.reset_after_fork()


os.register_at_fork(after_in_child=_reset_after_fork)
