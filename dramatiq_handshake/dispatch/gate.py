"""The way into a queue: plan what a message needs, then let the right queue carry it.

The broker's `enqueue` is wrapped once, on the instance. Whatever raises out of an enqueue that Dramatiq
makes itself (a retry, a pipeline's next step, a delayed message falling due) destroys the message; so
nothing of ours raises there, and in a producer's own send only what the user asked to hear.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dramatiq_handshake.decide.need import Need, PlaceKind, requirement_place
from dramatiq_handshake.decide.plan import DispatchPlan, DispatchStatus
from dramatiq_handshake.dispatch.options import (
    MESSAGE_OPTION,
    ActorProfile,
    marked_as_blocked,
    need_of,
    stamped,
)
from dramatiq_handshake.dispatch.registrar import open_lane
from dramatiq_handshake.errors import (
    CapabilityUnavailable,
    HandshakeError,
    ProtocolIncompatible,
    RegistryUnavailable,
    Undeliverable,
)

if TYPE_CHECKING:
    from dramatiq import Broker, Message

    from dramatiq_handshake.dispatch.blocked import BlockedIndex
    from dramatiq_handshake.dispatch.carriers.base import BrokerIdentity, Carrier
    from dramatiq_handshake.dispatch.registrar import LaneRegistrar
    from dramatiq_handshake.dispatch.view import FleetView

__all__ = ["Gate", "is_own_send"]

_REFUSALS: dict[str, type[Undeliverable]] = {
    CapabilityUnavailable.code: CapabilityUnavailable,
    ProtocolIncompatible.code: ProtocolIncompatible,
}


def is_own_send() -> bool:
    """Whether the application sends outside of Dramatiq's threads; only there may an enqueue raise."""
    return not any(
        kind.__module__ == "dramatiq" or kind.__module__.startswith("dramatiq.")
        for kind in type(threading.current_thread()).__mro__
    )


class Gate:
    """Stands in for one broker's `enqueue`.

    Args:
        broker: The broker.
        enqueue: Its own enqueue, as it was.
        identity: Who else may consume from the broker.
        carrier: Brings messages to lanes; without, everything goes to its base and is only reported.
        view: Plans.
        blocked: The blocked index.
        registrar: Makes lanes known.
        profiles: The declared actors' options.
        protocol: The major that this process sends.
        raise_blocked: Whether a producer's own send of a blocked message raises instead.
        raise_unavailable: Whether a producer's own send raises while the registry is away.
        sending: Called when this process is seen to enqueue, at least once a second while it does.
    """

    def __init__(
        self,
        broker: Broker,
        enqueue: Callable[..., Message[Any]],
        *,
        identity: BrokerIdentity,
        carrier: Carrier | None,
        view: FleetView,
        blocked: BlockedIndex,
        registrar: LaneRegistrar,
        profiles: Mapping[str, ActorProfile],
        protocol: int,
        raise_blocked: bool,
        raise_unavailable: bool,
        sending: Callable[[], None],
        logger: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker = broker
        self._enqueue = enqueue
        self._identity = identity
        self._carrier = carrier
        self._view = view
        self._blocked = blocked
        self._registrar = registrar
        self._profiles = profiles
        self._protocol = protocol
        self._raise_blocked = raise_blocked
        self._raise_unavailable = raise_unavailable
        self._sending = sending
        self._logger = logger
        self._clock = clock

    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        """Enqueue a message where those consume who can run it (delay in ms).

        Raises:
            CapabilityUnavailable, ProtocolIncompatible: Nobody live can run it, in a producer's own send
                with ``on_blocked="raise"``.
            RegistryUnavailable: In a producer's own send with ``on_registry_error="raise"``.
            DeclarationError: A ``requires=`` or ``version=`` given with a producer's own send is malformed.
        """
        now = self._clock()
        if delay is None and self._needs_nothing(message, now):
            sent = self._enqueue(message)
        else:
            self._sending()
            sent = self._plan_and_enqueue(message, delay)
        if self._view.is_due(now):
            self._renew()
        return sent

    def _renew(self) -> None:
        try:
            self._sending()
            self._view.renew_if_due()
        except Exception:
            # The message is enqueued: raising now would only tell its sender that it is not.
            self._logger.exception("Looking at the fleet failed; the next enqueue tries again.")

    def _needs_nothing(self, message: Message[Any], now: float) -> bool:
        """Whether the message just goes to its base queue: the answer to nearly every send, so kept cheap."""
        options = message.options
        return (
            self._protocol == 1
            and not (options and (MESSAGE_OPTION in options or "requires" in options or "version" in options))
            and self._view.is_free(message.queue_name, message.actor_name, now)
        )

    def _plan_and_enqueue(self, message: Message[Any], delay: int | None) -> Message[Any]:
        # What has an eta waits in the base or its delay queue; its place is chosen when it falls due.
        waits = delay is not None or message.options.get("eta") is not None
        plan = None
        try:
            need = need_of(message, self._profiles.get(message.actor_name), major=self._protocol)
            message = stamped(message, need)
            if not waits:
                plan = self._plan(need)
        except HandshakeError:
            if is_own_send():
                raise
            need = Need(queue=message.queue_name, actor=message.actor_name)
        except Exception:
            # A fault of ours lets Dramatiq work as it did, and says so.
            self._logger.exception("Planning %s failed; enqueueing it as plain Dramatiq would.", message)
            waits = True
        if waits:
            return self._enqueue(message, delay=delay)
        return self._publish(message, need, plan)

    def _plan(self, need: Need) -> DispatchPlan | None:
        plan = self._view.plan(need, plain_workers=self._plain_workers)
        if plan is None:
            self._refuse_without_registry()
        elif plan.status is DispatchStatus.BLOCKED:
            self._refuse(plan)
            self._blocked.report(need, plan)
        return plan

    def _publish(self, message: Message[Any], need: Need, plan: DispatchPlan | None) -> Message[Any]:
        """Publish with the hooks that the broker's own enqueue would call, and encode after them."""
        place = requirement_place(need) if plan is None else plan.place
        blocked_by = plan if plan is not None and plan.status is DispatchStatus.BLOCKED else None
        carrier = self._carrier
        if carrier is None or (place.kind is PlaceKind.BASE and blocked_by is None):
            return self._enqueue(message)
        message = carrier.prepare(message)
        self._broker.logger.debug("Enqueueing message %r on queue %r.", message.message_id, place.queue)
        self._broker.emit_before("enqueue", message, None)
        if blocked_by is not None:
            sent = self._publish_blocked(carrier, message, need, blocked_by)
        else:
            self._registrar.ensure(open_lane(need, place))
            carrier.publish(place.queue, message)
            sent = message
        self._broker.emit_after("enqueue", message, None)
        return sent

    def _publish_blocked(
        self, carrier: Carrier, message: Message[Any], need: Need, plan: DispatchPlan
    ) -> Message[Any]:
        """List the message once no hook can refuse it any more, and before anybody can take it."""
        listed = self._blocked.add(need, plan, message, reference=carrier.reference(message))
        sent = marked_as_blocked(message, need.id) if listed else message
        try:
            carrier.publish(plan.place.queue, sent)
        except Exception:
            if listed:
                self._blocked.retract(need, message)
            raise
        return sent

    def _refuse(self, plan: DispatchPlan) -> None:
        if self._raise_blocked and is_own_send():
            raise _REFUSALS[str(plan.code)](plan.reason)

    def _refuse_without_registry(self) -> None:
        if self._raise_unavailable and is_own_send():
            raise RegistryUnavailable(
                "the fleet registry does not answer, so nobody can say whether a worker takes this message; "
                'nothing was enqueued, because of on_registry_error="raise"'
            )

    def _plain_workers(self) -> bool:
        try:
            return self._identity.plain_workers_possible()
        except Exception:
            # Whoever can't be ruled out is treated as there: plain Dramatiq's behaviour is the safe one.
            self._logger.debug("Looking for plain workers failed.", exc_info=True)
            return True
