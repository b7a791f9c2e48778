"""The engine without its I/O: what a synchronous and an asynchronous shell share.

A shell reads the registry and hands over what it read; everything that is decided about it is here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache

from dramatiq_handshake.decide.directory import (
    LiveToken,
    PlainConsumers,
    WorkflowDirectory,
    build_directory,
)
from dramatiq_handshake.decide.events import Diagnostic
from dramatiq_handshake.engine.advertisements import AdvertisementReader
from dramatiq_handshake.engine.backlog import BacklogCheck
from dramatiq_handshake.engine.blocked import BlockedFilter, BlockedWalk
from dramatiq_handshake.engine.fleet import assemble_fleet, other_brokers_text
from dramatiq_handshake.engine.fleet_models import FleetReport
from dramatiq_handshake.engine.notices import Notices
from dramatiq_handshake.engine.scope import Scope
from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.release import own_release
from dramatiq_handshake.storage.base import (
    HEARTBEAT_TTL_MS,
    BlockedNeed,
    ControlPlaneRecord,
    Look,
    WorkerRecord,
)
from dramatiq_handshake.wire.descriptor import (
    PROTOCOL_VERSION,
    SDK_NAME,
    ProtocolSupport,
    Sdk,
    WorkerDescriptor,
)

__all__ = ["EngineCore", "observer_descriptor"]

_logger = logging.getLogger("dramatiq_handshake.engine")


@cache
def observer_descriptor() -> WorkerDescriptor:
    """Who looks from a process that enqueues nothing: it demands nothing, and is never advertised."""
    return WorkerDescriptor(
        instance_id="observer",
        runtime="python",
        sdk=Sdk(name=SDK_NAME, version=own_release()),
        protocol=ProtocolSupport(version=PROTOCOL_VERSION, range=(PROTOCOL_VERSION, PROTOCOL_VERSION)),
        capabilities=(),
        workflows=(),
        steps=(),
    )


class EngineCore:
    """Turns what the registry holds into answers.

    Args:
        namespace: The tenant; `None` is an operator.
        broker: The fingerprint of the broker whose workers are ours, or a callable that tells it as soon
            as it is known; ``""`` is every broker's.
        control_plane: Who looks; an observer by default.
        demands: The capabilities that the looking process's own actors require.
        heartbeat_ttl_ms: How long an advertisement of this deployment lives without a beat.
        on_diagnostic: Is called with what a look finds for the first time; logs by default. What it
            raises is logged and goes no further.

    Raises:
        ConfigurationError: An argument is not what it must be.
    """

    def __init__(
        self,
        *,
        namespace: str | None = None,
        broker: str | Callable[[], str] = "",
        control_plane: Callable[[], WorkerDescriptor] | None = None,
        demands: Callable[[], Iterable[str]] | None = None,
        heartbeat_ttl_ms: int = HEARTBEAT_TTL_MS,
        on_diagnostic: Callable[[Diagnostic], None] | None = None,
    ) -> None:
        if namespace is not None and (not isinstance(namespace, str) or ":" in namespace):
            raise ConfigurationError(
                f"HandshakeEngine, namespace: expected a tenant's name without ':', got {namespace!r}; "
                "leave it out to see every tenant"
            )
        if type(heartbeat_ttl_ms) is not int or heartbeat_ttl_ms <= 0:
            raise ConfigurationError(
                "HandshakeEngine, heartbeat_ttl_ms: expected a positive number of milliseconds, "
                f"got {heartbeat_ttl_ms!r}"
            )
        self._namespace = namespace
        self._broker = broker
        self._control_plane = control_plane or observer_descriptor
        self._demands = demands or tuple
        self._ttl_ms = heartbeat_ttl_ms
        self._on_diagnostic = on_diagnostic or _log
        self._reader = AdvertisementReader()
        self._notices = Notices()

    def directory(
        self, records: Iterable[WorkerRecord], plain: Iterable[PlainConsumers] = ()
    ) -> WorkflowDirectory:
        """The directory of what these records announce.

        Args:
            records: What the registry holds, of every tenant and broker.
            plain: The plain Dramatiq workers seen, per queue.
        """
        scope = self._scope()
        ours, elsewhere = scope.split(records)
        advertised = self._reader.read(ours)
        self._tell(advertised.fresh)
        # A worker advertises one descriptor on all of its tokens, and is one announcer.
        descriptors = {
            (worker.record.instance_id, id(worker.descriptor)): worker.descriptor
            for worker in advertised.workers
            if worker.descriptor is not None
        }
        directory = build_directory(
            [*descriptors.values(), *advertised.invalid_within(scope)],
            [LiveToken(one.token, one.instance_id) for one in ours if one.heartbeat is not None],
            namespace=scope.namespace,
            plain=plain,
        )
        if not elsewhere:
            return directory
        return directory.model_copy(update={"detail": f"{directory.detail} {other_brokers_text(elsewhere)}"})

    def fleet(
        self,
        records: Iterable[WorkerRecord],
        control_planes: Sequence[ControlPlaneRecord],
        *,
        now_ms: int,
    ) -> FleetReport:
        """The fleet view of these records.

        Args:
            records: What the registry holds, of every tenant and broker.
            control_planes: The control planes it holds.
            now_ms: The server's time.
        """
        scope = self._scope()
        ours, elsewhere = scope.split(records)
        advertised = self._reader.read(ours, control_planes)
        control_plane = self._control_plane()
        fleet = assemble_fleet(
            advertised,
            scope=scope,
            control_plane=control_plane,
            demands=frozenset(self._demands()),
            now_ms=now_ms,
            ttl_ms=self._ttl_ms,
            other_brokers=elsewhere,
        )
        self._tell(advertised.fresh)
        self._tell(self._notices.of(fleet, advertised, control_plane))
        return fleet

    def walk(
        self, needs: Iterable[BlockedNeed], only: BlockedFilter, *, limit: int, cursor: str | None
    ) -> BlockedWalk:
        """Begin a blocked report; see `BlockedWalk`.

        Raises:
            ConfigurationError: The limit or the cursor is not what it must be.
        """
        return BlockedWalk(needs, scope=self._scope(), only=only, limit=limit, cursor=cursor)

    def bases(self, queues: Iterable[str], only: BlockedFilter) -> list[str]:
        """Those of the base queues whose backlogs a blocked report is about, sorted."""
        scope = self._scope()
        return sorted(queue for queue in queues if scope.sees_queue(queue) and only.admits_queue(queue))

    def backlog(self, look: Look, bases: Iterable[str]) -> BacklogCheck:
        """Begin to look for backlogs; see `BacklogCheck`."""
        return BacklogCheck(look, bases, scope=self._scope())

    def _scope(self) -> Scope:
        return Scope(self._namespace, self._broker() if callable(self._broker) else self._broker)

    @staticmethod
    def plain(seen: Sequence[PlainConsumers], unclaimed: Collection[str]) -> list[PlainConsumers]:
        """Those among the seen consumers that are plain Dramatiq workers.

        Args:
            seen: Per queue the broker ids, or a mere count where the broker keeps none.
            unclaimed: Those of the ids that no plugin process has claimed.
        """
        plain = []
        for one in seen:
            ids = tuple(broker_id for broker_id in one.instances if broker_id in unclaimed)
            if ids:
                plain.append(PlainConsumers(one.queue, ids, len(ids)))
            elif not one.instances and one.consumers > 0:
                plain.append(one)
        return plain

    def _tell(self, diagnostics: Iterable[Diagnostic]) -> None:
        for diagnostic in diagnostics:
            try:
                self._on_diagnostic(diagnostic)
            except Exception:
                # The subscriber is the application's code: it must not cost the answer.
                _logger.exception("A subscriber to %s failed.", diagnostic.code)


def _log(diagnostic: Diagnostic) -> None:
    _logger.warning("%s: %s", diagnostic.code, diagnostic.reason)
