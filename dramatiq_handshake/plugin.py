"""`HandshakeMiddleware`: the one line that turns the handshake on, and where its parts meet."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dramatiq
from dramatiq.middleware import Middleware, MiddlewareError

from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.need import check_queue_name
from dramatiq_handshake.dispatch.binding import Binding
from dramatiq_handshake.dispatch.capabilities import Capabilities, CapabilitySource
from dramatiq_handshake.dispatch.diagnostics import Subscriber
from dramatiq_handshake.dispatch.errors import DeclarationError, WorkerBootError
from dramatiq_handshake.dispatch.options import ACTOR_OPTIONS, ActorProfile, profile_of
from dramatiq_handshake.dispatch.settings import (
    DEFAULT_REGISTRY_TIMEOUT_MS,
    MODE_VARIABLE,
    Mode,
    OnBlocked,
    OnRegistryError,
    Settings,
)
from dramatiq_handshake.engine import HandshakeEngine
from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.storage.base import HEARTBEAT_INTERVAL_MS, HEARTBEAT_TTL_MS
from dramatiq_handshake.wire.tokens import tenant_group

if TYPE_CHECKING:
    from dramatiq import Actor, Broker, Worker

__all__ = ["HandshakeMiddleware", "attach", "get_engine"]

_logger = logging.getLogger("dramatiq_handshake")


class HandshakeMiddleware(Middleware):
    """Workers advertise what they can do, and work goes only to those who can run it.

    >>> broker = RedisBroker(url="redis://127.0.0.1:6379/0")
    >>> broker.add_middleware(HandshakeMiddleware())

    What *this* process can do comes from ``DRAMATIQ_HANDSHAKE_CAPABILITIES=gpu,saga`` in its environment.
    Actors take the options ``requires=[…]``, ``version=``, ``accepts=[…]``, ``origin=`` and ``step=``.

    Args:
        capabilities: What this process can do, where the environment does not say it: a set of names, or a
            callable that returns one and is asked every second.
        url: The Redis or Valkey server of the fleet registry. A `RedisBroker`'s own by default; for any
            other broker it must be given, or ``DRAMATIQ_HANDSHAKE_URL`` set.
        prefix: Begins every key and separates deployments; the `RedisBroker`'s namespace by default.
        namespace: The tenant. It renames the actors' queues (``ml`` becomes ``ml@acme``), so all producers
            and workers of a tenant state it.
        mode: ``"enforce"``, ``"observe"`` (advertise, plan and report; nothing is carried) or ``"off"``;
            ``DRAMATIQ_HANDSHAKE_MODE`` wins over it.
        protocol: The lowest and highest wire-protocol major that this process speaks.
        on_blocked: ``"keep"`` a message that nobody live can run, or ``"raise"`` in a producer's own send.
        on_registry_error: ``"enqueue"`` as plain Dramatiq would, or ``"raise"`` in a producer's own send.
        registry_timeout_ms: How long a call to the registry may take.
        heartbeat_interval_ms: How often a worker beats.
        heartbeat_ttl_ms: How long an advertisement outlives its last beat; at least three intervals.

    Raises:
        DeclarationError: An argument is not what it must be.
    """

    def __init__(
        self,
        capabilities: CapabilitySource | None = None,
        *,
        url: str | None = None,
        prefix: str | None = None,
        namespace: str | None = None,
        mode: str | None = None,
        protocol: tuple[int, int] = (1, 1),
        on_blocked: str = OnBlocked.KEEP,
        on_registry_error: str = OnRegistryError.ENQUEUE,
        registry_timeout_ms: int = DEFAULT_REGISTRY_TIMEOUT_MS,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        heartbeat_ttl_ms: int = HEARTBEAT_TTL_MS,
    ) -> None:
        self._capabilities = Capabilities(capabilities)
        self._settings = Settings.read(
            url=url,
            prefix=prefix,
            namespace=namespace,
            mode=mode,
            protocol=protocol,
            on_blocked=on_blocked,
            on_registry_error=on_registry_error,
            registry_timeout_ms=registry_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            heartbeat_ttl_ms=heartbeat_ttl_ms,
        )
        self._profiles: dict[str, ActorProfile] = {}
        self._binding: Binding | None = None
        self._binding_lock = threading.Lock()
        self._engine: HandshakeEngine | None = None

    @property
    def actor_options(self) -> set[str]:
        """What an actor may declare: ``requires``, ``version``, ``accepts``, ``origin``, ``step``."""
        return set(ACTOR_OPTIONS)

    # -- for the application ----------------------------------------------------------------------

    @property
    def engine(self) -> HandshakeEngine:
        """What this deployment can run, who lives, what is blocked.

        Raises:
            ConfigurationError: The middleware has not met its broker yet, or its mode is ``off``.
        """
        if self._engine is None:
            binding = self._bound()
            control_plane = binding.control_plane
            self._engine = HandshakeEngine(
                store=binding.store,
                prefix=binding.prefix,
                namespace=self._settings.namespace,
                control_plane=control_plane.descriptor,
                demands=control_plane.demands,
                broker=binding.identity.fingerprint,
                evidence=binding.identity.consumers,
                broker_queues=binding.identity,
                heartbeat_ttl_ms=self._settings.heartbeat_ttl_ms,
                on_diagnostic=binding.diagnostics.publish,
            )
        return self._engine

    def on(self, code: Code | str, callback: Subscriber) -> Callable[[], None]:
        """Call `callback` with every `Diagnostic` of this code that this process emits.

        Returns:
            A function that takes the subscription back.

        Raises:
            ValueError: There is no such code.
            ConfigurationError: The middleware has not met its broker yet, or its mode is ``off``.
        """
        return self._bound().diagnostics.on(code, callback)

    def add_capability(self, name: str) -> None:
        """State one more capability of this process; its workers advertise it at once."""
        self._capabilities.add(name)
        self._wake()

    def remove_capability(self, name: str) -> None:
        """Stop stating a capability: its workers advertise so, then close the lanes that asked for it."""
        self._capabilities.remove(name)
        self._wake()

    def close(self) -> None:
        """Release the registry's connections, as `Broker.close` does the broker's; both may be used again."""
        if self._binding is not None:
            self._binding.store.close()

    def bind(self, broker: Broker) -> None:
        """Meet the broker, once; Dramatiq's first hook does it by itself.

        Raises:
            DeclarationError: It is another broker's already, the broker has another one, or the fleet
                registry's server is not known.
        """
        if self._binding is None and self._settings.mode is not Mode.OFF:
            # Two threads may make the first contact at the same time.
            with self._binding_lock:
                if self._binding is None:
                    self._binding = self._bind(broker)
        if self._binding is not None and self._binding.broker is not broker:
            raise DeclarationError(
                "HandshakeMiddleware: expected one broker, got a second; create one for each broker"
            )

    def _bind(self, broker: Broker) -> Binding:
        others = [m for m in broker.middleware if isinstance(m, HandshakeMiddleware) and m is not self]
        if others:
            raise DeclarationError(
                "HandshakeMiddleware: expected one on a broker, got two; remove the second add_middleware"
            )
        try:
            return Binding(
                broker,
                self._settings,
                capabilities=self._capabilities,
                profiles=self._profiles,
                logger=_logger,
            )
        except MiddlewareError:
            raise
        except ConfigurationError as error:
            raise DeclarationError(f"HandshakeMiddleware: {error}") from None
        except Exception as error:
            # Dramatiq would swallow it, and the process would go on unguarded.
            raise DeclarationError(
                f"HandshakeMiddleware can't be bound to this {type(broker).__name__} "
                f"({type(error).__name__}: {error}); fix it, or set {MODE_VARIABLE}=off"
            ) from error

    def _bound(self) -> Binding:
        if self._binding is not None:
            return self._binding
        if self._settings.mode is Mode.OFF:
            raise ConfigurationError(
                'the handshake is off (mode="off" or DRAMATIQ_HANDSHAKE_MODE=off), so nothing is known here; '
                "turn it on, or use HandshakeEngine(url=…) to look from outside"
            )
        raise ConfigurationError(
            "HandshakeMiddleware has not met its broker yet: declare an actor first, or call "
            "dramatiq_handshake.attach(broker)"
        )

    def _wake(self) -> None:
        if self._binding is not None:
            self._binding.wake()

    # -- Dramatiq's hooks -------------------------------------------------------------------------

    def before_declare_actor(self, broker: Broker, actor: Actor[Any, Any]) -> None:
        """Check the declaration, and give the queue the tenant's name, whatever the mode.

        Raises:
            DeclarationError: A name or an option is not what it must be.
        """
        self._profiles[actor.actor_name] = profile_of(actor)
        tenant_suffix = tenant_group("", self._settings.namespace)
        if not actor.queue_name.endswith(tenant_suffix):  # it does where the actor is declared again
            actor.queue_name += tenant_suffix
        self._meet(broker, actor)

    def after_declare_actor(self, broker: Broker, actor: Actor[Any, Any]) -> None:
        """Take in an actor that was declared before the middleware was added.

        Raises:
            DeclarationError: A name or an option is not what it must be, or its queue can't be renamed now.
        """
        if actor.actor_name not in self._profiles:
            if self._settings.namespace is not None:
                raise DeclarationError(
                    f"actor {actor.actor_name!r}: with namespace={self._settings.namespace!r} expected the "
                    "middleware to be added before any actor is declared, because it names their queues; "
                    "add it right after the broker is created"
                )
            self._profiles[actor.actor_name] = profile_of(actor)
        self._meet(broker, actor)
        # A worker that is there already can run it from now on, and says so.
        self._wake()

    def _meet(self, broker: Broker, actor: Actor[Any, Any]) -> None:
        self.bind(broker)
        if self._binding is not None:
            self._binding.actor_queues.add(actor.queue_name)

    def before_declare_queue(self, broker: Broker, queue_name: str) -> None:
        """Check the name of a queue that is declared without an actor as well, whatever the mode.

        Raises:
            DeclarationError: It would be read as something else.
        """
        try:
            check_queue_name(queue_name)
        except ConfigurationError as error:
            raise DeclarationError(str(error)) from None

    def after_declare_queue(self, broker: Broker, queue_name: str) -> None:
        """First contact in a process that declares queues only."""
        self.bind(broker)

    def before_enqueue(self, broker: Broker, message: dramatiq.Message[Any], delay: int | None) -> None:
        """First contact in a process that declares nothing: this message goes to its base queue."""
        self.bind(broker)

    def before_worker_boot(self, broker: Broker, worker: Worker) -> None:
        """Make the worker capability-aware before it consumes.

        Raises:
            WorkerBootError: It can't be, so the worker must not start.
        """
        self.bind(broker)
        if self._binding is None:
            return
        try:
            self._binding.boot(worker)
        except MiddlewareError:
            raise
        except Exception as error:
            raise WorkerBootError(
                f"the worker can't be made capability-aware ({type(error).__name__}: {error}), "
                "and without that it would take work it can't run; fix it, or set DRAMATIQ_HANDSHAKE_MODE=off"
            ) from error

    def after_worker_boot(self, broker: Broker, worker: Worker) -> None:
        """Advertise the worker."""
        if self._binding is not None:
            self._binding.booted(worker)

    def before_worker_shutdown(self, broker: Broker, worker: Worker) -> None:
        """Drain: say so, and take nothing more."""
        agent = None if self._binding is None else self._binding.agent_of(worker)
        if agent is not None:
            agent.drain()

    def after_worker_shutdown(self, broker: Broker, worker: Worker) -> None:
        """Take the advertisement down at once."""
        if self._binding is not None:
            self._binding.shut_down(worker)


def attach(broker: Broker) -> HandshakeMiddleware:
    """Bind a broker's `HandshakeMiddleware` now, in a process that declares no actor before it sends.

    Returns:
        The middleware.

    Raises:
        ConfigurationError: The broker has none.
    """
    middleware = _middleware_of(broker)
    middleware.bind(broker)
    return middleware


def get_engine(broker: Broker | None = None) -> HandshakeEngine:
    """The engine of a broker, Dramatiq's global one by default.

    Raises:
        ConfigurationError: The broker has no `HandshakeMiddleware`, or its mode is ``off``.
    """
    return attach(broker if broker is not None else dramatiq.get_broker()).engine


def _middleware_of(broker: Broker) -> HandshakeMiddleware:
    for middleware in broker.middleware:
        if isinstance(middleware, HandshakeMiddleware):
            return middleware
    raise ConfigurationError(
        f"this {type(broker).__name__} has no HandshakeMiddleware; "
        "add it with broker.add_middleware(HandshakeMiddleware())"
    )
