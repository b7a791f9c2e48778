"""Listing blocked messages, and clearing the entries of those that were taken at last."""

from __future__ import annotations

import json
import logging
import threading
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.need import PlaceKind
from dramatiq_handshake.dispatch.registrar import LaneRegistrar, open_lane
from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.storage.base import BlockedMessage, BlockedNeed

if TYPE_CHECKING:
    from dramatiq import Message, MessageProxy

    from dramatiq_handshake.decide.need import Need
    from dramatiq_handshake.decide.plan import DispatchPlan
    from dramatiq_handshake.dispatch.carriers.base import BrokerIdentity
    from dramatiq_handshake.dispatch.diagnostics import Diagnostics
    from dramatiq_handshake.storage.base import FleetStore

__all__ = ["BlockedIndex"]

#: How many cleared entries go to the registry in one call.
RELEASE_BATCH = 500
_traceparent = TraceContextTextMapPropagator()


class BlockedIndex:
    """This process's writes to the registry's blocked index. Never raises."""

    def __init__(
        self,
        store: FleetStore,
        registrar: LaneRegistrar,
        diagnostics: Diagnostics,
        *,
        identity: BrokerIdentity,
        logger: logging.Logger,
    ) -> None:
        self._store = store
        self._registrar = registrar
        self._diagnostics = diagnostics
        self._identity = identity
        self._logger = logger
        self._taken: deque[tuple[str, str]] = deque()
        self._flushing = threading.Lock()

    def report(self, need: Need, plan: DispatchPlan) -> None:
        """Say that a message is blocked: in full once a minute, counted each time."""
        assert plan.code is not None
        nearest = plan.nearest
        self._diagnostics.emit(
            Code(plan.code),
            plan.reason,
            about=need.id,
            token=need.queue,
            actor=need.actor,
            version=need.version,
            requires=sorted(need.requires),
            missing=list(plan.missing_capabilities),
            place=plan.place.queue,
            nearest=None if nearest is None else nearest.as_text(),
        )

    def add(
        self,
        need: Need,
        plan: DispatchPlan,
        message: Message[Any] | MessageProxy,
        *,
        reference: str,
    ) -> bool:
        """List a message as blocked, and its lane as open, before it is published.

        Returns:
            Whether it is listed; with the registry away it is kept all the same, unseen.
        """
        lane = None if plan.place.kind is PlaceKind.BASE else open_lane(need, plan.place)
        try:
            record, entry = self._entry(need, plan, message, reference)
            self._store.block(record, [entry], lane=lane)
        except RegistryUnavailable:
            return False
        except Exception:
            # A fault of ours must not cost the message.
            self._logger.exception("Listing %s as blocked failed; it is kept all the same, unseen.", message)
            return False
        if lane is not None:
            self._registrar.note(lane)
        return True

    def retract(self, need: Need, message: Message[Any] | MessageProxy) -> None:
        """Take a listed message off again: it could not be published."""
        try:
            self._store.release({need.id: [message.message_id]})
        except RegistryUnavailable as error:
            self._logger.debug("The entry of a message that was not enqueued stays: %s", error)

    def _entry(
        self, need: Need, plan: DispatchPlan, message: Message[Any] | MessageProxy, reference: str
    ) -> tuple[BlockedNeed, BlockedMessage]:
        assert plan.code is not None
        carrier: dict[str, str] = {}
        if trace.get_current_span().get_span_context().is_valid:
            _traceparent.inject(carrier)
        entry = BlockedMessage(
            message_id=message.message_id,
            need_id=need.id,
            broker_ref=reference,
            traceparent=carrier.get("traceparent", ""),
        )
        record = BlockedNeed(
            need_id=need.id,
            queue=need.queue,
            actor=need.actor,
            version=need.version,
            requires=tuple(sorted(need.requires)),
            protocol=need.protocol,
            place=plan.place.queue,
            code=str(plan.code),
            reason=plan.reason,
            detail=json.dumps(plan.detail()),
            broker=self._identity.fingerprint(),
        )
        return record, entry

    def taken(self, need_id: str, message: Message[Any] | MessageProxy) -> None:
        """Note that a worker took a message that is listed under a need; `flush` tells the registry."""
        self._taken.append((need_id, message.message_id))

    def forget(self, queue: str) -> None:
        """Clear the entries of all messages of a base queue on this broker: they were dropped."""
        try:
            fingerprint = self._identity.fingerprint()
            for need in self._store.blocked_needs():
                if need.queue == queue and need.broker == fingerprint:
                    self._forget_need(need)
        except RegistryUnavailable as error:
            self._logger.warning("What was dropped from %r is still listed as blocked: %s", queue, error)

    def _forget_need(self, need: BlockedNeed) -> None:
        listed = 0
        while page := self._store.blocked_messages(need.need_id, limit=RELEASE_BATCH).messages:
            listed += len(page)
            self._store.release({need.need_id: [message.message_id for message in page]})
        # Those beyond the cap are only counted, so that any id stands for one of them.
        uncounted = [f"dropped-{number}" for number in range(need.messages - listed)]
        if uncounted:
            self._store.release({need.need_id: uncounted})

    def flush(self) -> None:
        """Clear the entries of messages that were taken, and report the needs that this restored.

        Raises:
            RegistryUnavailable: The registry does not answer; the entries are cleared at the next flush.
        """
        with self._flushing:
            while self._taken:
                batch = [self._taken.popleft() for _ in range(min(len(self._taken), RELEASE_BATCH))]
                by_need: defaultdict[str, list[str]] = defaultdict(list)
                for need_id, message_id in batch:
                    by_need[need_id].append(message_id)
                try:
                    released = self._store.release(by_need)
                except RegistryUnavailable:
                    self._taken.extendleft(reversed(batch))
                    raise
                for need in released:
                    self._diagnostics.emit(
                        Code.CAPABILITY_RESTORED,
                        f"{need.messages} message(s) for {need.need.actor or need.need.queue!r} are not "
                        f"blocked any more, the longest after {need.blocked_ms / 1000:.1f} s",
                        about=need.need.need_id,
                        token=need.need.queue,
                        actor=need.need.actor,
                        messages=need.messages,
                        blocked_ms=need.blocked_ms,
                    )
