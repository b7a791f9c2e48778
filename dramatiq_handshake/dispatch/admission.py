"""What becomes of a message that a worker has fetched: it takes it, carries it away, or returns it.

A message is judged before Dramatiq looks its actor up; what this worker can't run is brought to the lane
of those who can, once, and is neither dead-lettered nor counted as a retry.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.need import Need, Place, PlaceKind, is_lane, need_place, requirement_place
from dramatiq_handshake.decide.plan import DispatchStatus
from dramatiq_handshake.dispatch.deliveries import Deliveries
from dramatiq_handshake.dispatch.options import (
    MESSAGE_OPTION,
    blocked_need_id,
    marked_as_blocked,
    need_of,
)
from dramatiq_handshake.dispatch.registrar import open_lane
from dramatiq_handshake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dramatiq import MessageProxy, Worker

    from dramatiq_handshake.decide.plan import DispatchPlan
    from dramatiq_handshake.dispatch.abilities import Abilities
    from dramatiq_handshake.dispatch.admission_consumer import AdmissionConsumer
    from dramatiq_handshake.dispatch.blocked import BlockedIndex
    from dramatiq_handshake.dispatch.carriers.base import Carrier
    from dramatiq_handshake.dispatch.diagnostics import Diagnostics
    from dramatiq_handshake.dispatch.options import ActorProfile
    from dramatiq_handshake.dispatch.registrar import LaneRegistrar
    from dramatiq_handshake.dispatch.view import FleetView

__all__ = ["Admission", "Verdict"]

#: As many messages per worker thread may be in hand of all lanes together: what one queue may have. Counted
#: by themselves, since several busy base queues keep more than that waiting, and lanes would starve.
LANE_PREFETCH_PER_THREAD = 2


def _nothing() -> None:
    """What is called where nobody listens."""


class Verdict(Enum):
    """What becomes of a fetched message."""

    TAKE = "take"
    CARRY = "carry"
    RETURN = "return"


class Admission:
    """Judges messages for one worker, and brings away what it can't run.

    Args:
        worker: Dramatiq's worker.
        carrier: Moves messages between queues.
        abilities: What the worker can run.
        view: Plans, for what the worker can't run.
    """

    def __init__(
        self,
        worker: Worker,
        *,
        carrier: Carrier,
        abilities: Abilities,
        profiles: Mapping[str, ActorProfile],
        view: FleetView,
        blocked: BlockedIndex,
        registrar: LaneRegistrar,
        diagnostics: Diagnostics,
        logger: logging.Logger,
    ) -> None:
        self.worker = worker
        self.carrier = carrier
        self.deliveries = Deliveries()
        self.logger = logger
        #: Set when the worker leaves: nothing more is taken, what was prefetched goes back.
        self.draining = threading.Event()
        #: Called when the worker has taken a message that is listed as blocked.
        self.on_taken: Callable[[], None] = _nothing
        self._abilities = abilities
        self._profiles = profiles
        self._view = view
        self._blocked = blocked
        self._registrar = registrar
        self._diagnostics = diagnostics

    def lanes_have_room(self, *, wait_s: float) -> bool:
        """Whether a lane may fetch, within their common budget; waits up to so long for half of it.

        For half, so that a busy lane fetches several messages in one round trip instead of one in each.
        """
        budget = LANE_PREFETCH_PER_THREAD * self.worker.worker_threads
        if self.deliveries.count(lanes_only=True) < budget:
            return True
        return self.deliveries.wait_for_fewer_of_lanes(budget // 2 + 1, wait_s)

    def judge(self, message: MessageProxy, queue: str) -> Verdict:
        """Whether the worker may take a message fetched from `queue`."""
        options = message.options
        is_plain = MESSAGE_OPTION not in options and "requires" not in options and "version" not in options
        if is_plain and self._abilities.runs_plain(message.actor_name):
            return Verdict.TAKE
        if options.get("eta") is not None:
            # It only waits here; it is planned and judged again when it falls due.
            return Verdict.TAKE
        need = self._need(message)
        if self._abilities.runs(need):
            listed_under = blocked_need_id(message)
            if listed_under is not None:
                self._blocked.taken(listed_under, message)
                self.on_taken()
            return Verdict.TAKE
        if self._belongs_to(need, queue) or self._may_be_plain_work(need, queue):
            return Verdict.RETURN
        return Verdict.CARRY

    def carry(self, message: MessageProxy, consumer: AdmissionConsumer) -> None:
        """Bring a message to the lane where it belongs.

        Raises:
            Exception: Whatever the broker raises; the caller holds the message and tries again.
        """
        need = self._need(message)
        plan = self._view.plan(need, plain_workers=lambda: False)
        place = self._place(need, plan, consumer.queue_name)
        listed = False
        if plan is not None and plan.status is DispatchStatus.BLOCKED and blocked_need_id(message) is None:
            plan = replace(plan, place=place)
            self._blocked.report(need, plan)
            listed = self._blocked.add(need, plan, message, reference=self.carrier.reference(message))
        body = marked_as_blocked(message, need.id) if listed else message
        self._registrar.ensure(open_lane(need, place))
        try:
            self.carrier.carry(consumer.inner, consumer.queue_name, place.queue, body)
        except Exception:
            if listed:
                # It is still here and does not say that it is listed: its taker would leave the entry.
                self._blocked.retract(need, message)
            raise
        self._diagnostics.emit(
            Code.MESSAGE_CARRIED,
            f"this worker can't run {need.actor!r} from {consumer.queue_name!r}; brought to {place.queue!r}",
            about=f"{consumer.queue_name}>{place.queue}",
            token=need.queue,
            actor=need.actor,
            place=place.queue,
        )

    def carry_failed(self, message: MessageProxy, error: BaseException, retry_s: float) -> None:
        """Say that a message could not be carried and is held."""
        self._diagnostics.emit(
            Code.CARRY_FAILED,
            f"a message for {message.actor_name!r} could not be brought to its lane ({type(error).__name__}: "
            f"{error}); it is held here and tried again in {retry_s:.1f} s",
            about=str(message.actor_name),
            actor=message.actor_name,
        )

    def _need(self, message: MessageProxy) -> Need:
        profile = self._profiles.get(message.actor_name)
        try:
            return need_of(message, profile)
        except ConfigurationError:
            # A peer's malformed option: what the actor itself declares still holds.
            requires = frozenset[str]() if profile is None else profile.requires
            return Need(message.queue_name, message.actor_name, requires=requires)

    def _place(self, need: Need, plan: DispatchPlan | None, queue: str) -> Place:
        """A lane other than `queue`, whose consumers can run the need."""
        standing = requirement_place(need)
        lacks_capability = not self._abilities.has(need.requires)
        if plan is not None and plan.place.kind is not PlaceKind.BASE and plan.place.queue != queue:
            return plan.place
        if lacks_capability and standing.queue != queue:
            return standing
        return need_place(need)

    def _belongs_to(self, need: Need, queue: str) -> bool:
        """Whether `queue` is the lane of those who can, and this worker has just ceased to be one of them.

        It closes the lane at its next tick; whoever still can takes the message there.
        """
        if queue == need_place(need).queue:
            return True
        return not self._abilities.has(need.requires) and queue == requirement_place(need).queue

    def _may_be_plain_work(self, need: Need, queue: str) -> bool:
        """Whether a worker without the plugin may know what nobody with it announces (design §4)."""
        if need.requires or is_lane(queue):
            return False
        plan = self._view.plan(need, plain_workers=self._plain_workers_possible)
        return plan is not None and plan.status is DispatchStatus.LEGACY

    def _plain_workers_possible(self) -> bool:
        try:
            return self.carrier.plain_workers_possible()
        except Exception:
            self.logger.debug("Looking for plain workers failed.", exc_info=True)
            return False
