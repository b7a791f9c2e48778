"""`HandshakeEngine`: the registry's answers for an application, a console or a probe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Self

from dramatiq_handshake.decide.directory import (
    PlainConsumers,
    WorkflowDirectory,
    WorkflowEntry,
    build_directory,
)
from dramatiq_handshake.decide.events import Diagnostic
from dramatiq_handshake.engine.backlog import BacklogCheck, BrokerQueues, unlisted_of
from dramatiq_handshake.engine.blocked import DEFAULT_LIMIT, BlockedFilter
from dramatiq_handshake.engine.blocked_models import BlockedReport, UnlistedBacklog
from dramatiq_handshake.engine.core import EngineCore
from dramatiq_handshake.engine.fleet_models import FleetReport
from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.storage.base import HEARTBEAT_TTL_MS, BlockedNeed, FleetStore
from dramatiq_handshake.storage.redis import RedisStore
from dramatiq_handshake.wire.descriptor import WorkerDescriptor

__all__ = ["HandshakeEngine"]

#: How long an engine's own connections wait: asking is no hot path, and a scan's step takes its time.
DEFAULT_TIMEOUT_MS = 5_000


class HandshakeEngine:
    """What this deployment can run, who is live, and what is blocked.

    It only reads: it announces nothing, and a process that merely asks is seen by nobody. Safe to use
    from several threads.

    Example::

        with HandshakeEngine("redis://localhost:6379/0", prefix="shop") as engine:
            for worker in engine.fleet():
                print(worker.instance_id, worker.outcome.value, worker.tokens)

    Args:
        url: The Redis or Valkey that the fleet shares, for a process without a broker. Without it and
            without `store` there is no registry to ask, and every answer says ``supported=False``.
        prefix: Names the deployment (design §2): the RedisBroker's ``namespace``, ``dramatiq`` by
            default.
        namespace: The tenant whose workers, directory and messages are shown; `None` shows everything.
        store: A registry that is already there, instead of `url`; it stays open when the engine closes.
        control_plane: The descriptor that workers are negotiated against; by default protocol 1.
        demands: The capabilities that this process's own actors require.
        broker: The fingerprint of this process's broker: its answers never cross to another one that
            shares the registry and the prefix. Or a callable that tells it. ``""`` shows all.
        evidence: The plain Dramatiq workers that the broker shows, per queue. It may raise
            `RegistryUnavailable`.
        broker_queues: The queues of this process's broker, by whose depths `blocked` sees what is left in
            them unlisted.
        heartbeat_ttl_ms: How long an advertisement of this deployment lives without a beat.
        registry_timeout_ms: How long to wait for a connection and for each reply, with `url`.
        on_diagnostic: Is called with what an answer found for the first time (``descriptor.invalid``,
            ``protocol.incompatible``); by default it is logged as a warning.

    Raises:
        ConfigurationError: An argument is not what it must be.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        prefix: str = "dramatiq",
        namespace: str | None = None,
        store: FleetStore | None = None,
        control_plane: Callable[[], WorkerDescriptor] | None = None,
        demands: Callable[[], Iterable[str]] | None = None,
        broker: str | Callable[[], str] = "",
        evidence: Callable[[], Iterable[PlainConsumers]] | None = None,
        broker_queues: BrokerQueues | None = None,
        heartbeat_ttl_ms: int = HEARTBEAT_TTL_MS,
        registry_timeout_ms: int = DEFAULT_TIMEOUT_MS,
        on_diagnostic: Callable[[Diagnostic], None] | None = None,
    ) -> None:
        if url is not None and store is not None:
            raise ConfigurationError("HandshakeEngine: expected a URL or a store, got both; leave one out")
        if not isinstance(prefix, str) or not prefix:
            raise ConfigurationError(
                f"HandshakeEngine, prefix: expected a non-empty text, got {prefix!r}; "
                "it is the RedisBroker's namespace, 'dramatiq' by default"
            )
        self._core = EngineCore(
            namespace=namespace,
            broker=broker,
            control_plane=control_plane,
            demands=demands,
            heartbeat_ttl_ms=heartbeat_ttl_ms,
            on_diagnostic=on_diagnostic,
        )
        self._own = (
            None
            if url is None
            else RedisStore(
                url=url, prefix=prefix, ttl_ms=heartbeat_ttl_ms, registry_timeout_ms=registry_timeout_ms
            )
        )
        self._store: FleetStore | None = store if store is not None else self._own
        self._evidence = evidence
        self._broker_queues = broker_queues

    def workflow_directory(self, *, scan: bool = True) -> WorkflowDirectory:
        """What exists in this deployment, and why the list is empty if it is (design §8).

        Args:
            scan: Whether to look for workers of other SDKs too, which costs one scan of the
                advertisement keyspace. Otherwise only the index is read.

        Raises:
            RegistryUnavailable: The registry does not answer. It never means "empty".
        """
        store = self._store
        if store is None:
            return build_directory((), supported=False)
        records = store.scan_advertisements() if scan else store.workers()
        return self._core.directory(records, self._plain_consumers(store))

    def announced_workflows(self) -> tuple[WorkflowEntry, ...]:
        """The workflows of `workflow_directory`, for a caller who needs no reason for an empty list.

        Raises:
            RegistryUnavailable: The registry does not answer.
        """
        return self.workflow_directory().workflows

    def fleet(self, *, scan: bool = True) -> FleetReport:
        """Every live worker, negotiated against this control plane; iterating gives the workers.

        Args:
            scan: Whether to look for workers of other SDKs and for control planes too, which costs two
                scans of the keyspace. Otherwise only the index is read.

        Raises:
            RegistryUnavailable: The registry does not answer.
        """
        store = self._store
        if store is None:
            return FleetReport(supported=False, detail=build_directory((), supported=False).detail)
        records = store.scan_advertisements() if scan else store.workers()
        planes = store.control_planes() if scan else ()
        return self._core.fleet(records, planes, now_ms=store.now_ms())

    def blocked(
        self,
        *,
        queue: str | None = None,
        actor: str | None = None,
        need_id: str | None = None,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> BlockedReport:
        """What is blocked, since when and the exact delta; iterating gives the messages.

        With a broker at hand it also looks at the depths of the queues that this process knows, at the cost
        of one look and one round trip to the broker, and tells what is left in them `unlisted`.

        Args:
            queue: Only messages of this base queue.
            actor: Only messages of this actor.
            need_id: Only messages of this need.
            limit: How many messages to list, at most 10,000; needs and counts are always complete. 0
                lists none.
            cursor: The `next_cursor` of an earlier report, for the messages that follow.

        Raises:
            RegistryUnavailable: The registry or the broker does not answer.
            ConfigurationError: The limit or the cursor is not what it must be.
        """
        only = BlockedFilter(queue=queue, actor=actor, need_id=need_id)
        store = self._store
        if store is None:
            return BlockedReport(supported=False, limit=limit)
        depths = self._depths(store, only)
        needs = store.blocked_needs()
        walk = self._core.walk(needs, only, limit=limit, cursor=cursor)
        while (wanted := walk.next_page()) is not None:
            walk.take(store.blocked_messages(wanted.need_id, cursor=wanted.cursor, limit=wanted.limit))
        unlisted = () if depths is None else self._unlisted(store, *depths, needs)
        return walk.report(store.now_ms(), unlisted)

    def _depths(self, store: FleetStore, only: BlockedFilter) -> tuple[BacklogCheck, Sequence[int]] | None:
        queues = self._broker_queues
        bases = [] if queues is None else self._core.bases(queues.queues(), only)
        if queues is None or not bases:
            return None
        check = self._core.backlog(store.look(dict.fromkeys(bases), None), bases)
        return check, queues.depths(check.places)

    def _unlisted(
        self, store: FleetStore, check: BacklogCheck, depths: Sequence[int], needs: Iterable[BlockedNeed]
    ) -> tuple[UnlistedBacklog, ...]:
        # Each question is asked only where the one before it leaves something to ask about.
        backlogs = check.backlogs(depths, needs)
        classes = check.classes(backlogs)
        untaken = check.untaken(backlogs, store.class_bodies(classes) if classes else {})
        in_a_base = any(backlog.lane is None for backlog in untaken)
        return unlisted_of(untaken, self._plain_consumers(store) if in_a_base else ())

    def _plain_consumers(self, store: FleetStore) -> list[PlainConsumers]:
        seen = [] if self._evidence is None else list(self._evidence())
        ids = sorted({broker_id for one in seen for broker_id in one.instances})
        return self._core.plain(seen, store.unclaimed(ids) if ids else frozenset())

    def close(self) -> None:
        """Release the engine's own connections; a store that was handed in stays open."""
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
