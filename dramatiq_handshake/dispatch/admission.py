"""The way out of a queue: a worker takes only what it can run.

Every consumer of a booted worker is wrapped. A message is judged before Dramatiq looks its actor up; what
this worker can't run is brought to the lane of those who can, once, and is neither dead-lettered nor
counted as a retry. Three rules hold the file together:

- admission never raises of its own: what can't be carried now is held and tried again;
- nothing fetched is forgotten: what is unacknowledged when a consumer goes returns to its queue;
- every delivery remembers the consumer it came from, and is acknowledged there.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import redis
from dramatiq.broker import Consumer
from dramatiq.errors import ConnectionClosed, DecodeError

from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.need import Need, Place, PlaceKind, is_lane, need_place, requirement_place
from dramatiq_handshake.decide.plan import DispatchStatus
from dramatiq_handshake.dispatch.consumers import origin_of, remember_origin
from dramatiq_handshake.dispatch.options import (
    MESSAGE_OPTION,
    is_listed_as_blocked,
    marked_as_blocked,
    need_of,
)
from dramatiq_handshake.dispatch.registrar import open_lane
from dramatiq_handshake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dramatiq import Message, MessageProxy, Worker

    from dramatiq_handshake.dispatch.abilities import Abilities
    from dramatiq_handshake.dispatch.blocked import BlockedIndex
    from dramatiq_handshake.dispatch.carriers.base import Carrier
    from dramatiq_handshake.dispatch.diagnostics import Diagnostics
    from dramatiq_handshake.dispatch.options import ActorProfile
    from dramatiq_handshake.dispatch.registrar import LaneRegistrar
    from dramatiq_handshake.dispatch.view import FleetView

__all__ = ["Admission", "AdmissionConsumer", "Deliveries"]

#: How long what can't be carried is held before the next try, and at most.
HOLD_S = 0.5
HOLD_MAX_S = 30.0
#: How long a message that a plain worker may know stays here before it returns to the base queue.
PLAIN_HOLD_S = 1.0
#: How long a consumer that must not fetch waits before it looks again.
PAUSE_S = 0.05
#: All lanes together fetch nothing while this many messages per worker thread wait for one.
LANE_PREFETCH_PER_THREAD = 2


class Deliveries:
    """What this worker process has fetched and not yet acknowledged, by queue or lane."""

    def __init__(self) -> None:
        self._by_queue: dict[str, dict[int, MessageProxy]] = {}

    def add(self, queue: str, message: MessageProxy) -> None:
        """Note a delivery; ids repeat on redelivery, so the proxy's identity names it."""
        self._by_queue.setdefault(queue, {})[id(message)] = message

    def discard(self, queue: str, message: MessageProxy) -> None:
        """The delivery was acknowledged, carried or returned."""
        self._by_queue.get(queue, {}).pop(id(message), None)

    def forget(self, queue: str) -> None:
        """Nothing of this queue is in hand any more."""
        self._by_queue.pop(queue, None)

    def of(self, queue: str) -> list[MessageProxy]:
        """The deliveries in hand that came through a queue or lane."""
        return list(self._by_queue.get(queue, {}).values())

    def count(self) -> int:
        """How many are in hand altogether."""
        return sum(len(held) for held in list(self._by_queue.values()))


class Verdict(Enum):
    """What becomes of a fetched message."""

    TAKE = "take"
    CARRY = "carry"
    RETURN = "return"


@dataclass(slots=True)
class _Held:
    """A message that waits here: `settle` is tried when its time comes."""

    message: MessageProxy
    due: float
    tries: int = 0


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
        self._abilities = abilities
        self._profiles = profiles
        self._view = view
        self._blocked = blocked
        self._registrar = registrar
        self._diagnostics = diagnostics

    @property
    def is_saturated(self) -> bool:
        """Whether enough messages wait for the worker's threads that no lane should fetch more."""
        return self.worker.work_queue.qsize() >= LANE_PREFETCH_PER_THREAD * self.worker.worker_threads

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
            if is_listed_as_blocked(message):
                self._blocked.taken(need, message)
            return Verdict.TAKE
        if self._may_be_plain_work(need, queue):
            return Verdict.RETURN
        return Verdict.CARRY

    def carry(self, message: MessageProxy, consumer: AdmissionConsumer) -> None:
        """Bring a message to the lane where it belongs.

        Raises:
            Exception: Whatever the broker raises; the caller holds the message and tries again.
        """
        need = self._need(message)
        place = self._place(need, consumer.queue_name)
        if place.queue == consumer.queue_name:
            # Its own lane, which this worker could serve a moment ago: whoever still can takes it there.
            consumer.requeue([message])
            return
        carried: Message[Any] | MessageProxy = message
        plan = self._view.plan(need, plain_workers=lambda: False)
        if plan is not None and plan.status is DispatchStatus.BLOCKED and not is_listed_as_blocked(message):
            self._blocked.report(need, plan)
            listed = self._blocked.add(
                need,
                plan,
                message,
                broker=self.carrier.fingerprint(),
                reference=self.carrier.reference(message),
            )
            if listed:
                carried = marked_as_blocked(message)
        self._registrar.ensure(open_lane(need, place))
        self.carrier.carry(consumer.inner, consumer.queue_name, place.queue, carried)
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
            about=message.actor_name,
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

    def _place(self, need: Need, queue: str) -> Place:
        """A lane other than `queue`, whose consumers can run the need."""
        standing = requirement_place(need)
        lacks_capability = not self._abilities.has(need.requires)
        plan = self._view.plan(need, plain_workers=lambda: False)
        if plan is not None and plan.place.kind is not PlaceKind.BASE and plan.place.queue != queue:
            return plan.place
        if lacks_capability and standing.queue != queue:
            return standing
        return need_place(need)

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


class AdmissionConsumer(Consumer):
    """Wraps one consumer of a worker: a base queue's, a delay queue's or a lane's.

    Args:
        inner: The broker's own consumer.
        queue_name: The queue or lane it fetches from.
        timeout_ms: How long it may idle.
    """

    def __init__(self, inner: Consumer, queue_name: str, admission: Admission, *, timeout_ms: int) -> None:
        self.inner = inner
        self.queue_name = queue_name
        #: When its thread last came round, and when it last delivered (monotonic seconds).
        self.came_round_at = time.monotonic()
        self.delivered_at = self.came_round_at
        #: Set to wind the consumer down from within its own thread (lanes only).
        self.closing = threading.Event()
        self._admission = admission
        self._pause_s = min(timeout_ms / 1000, PAUSE_S)
        self._held: deque[_Held] = deque()
        self._prefetch_returned = False
        self._told_unreturned = False

    def __getattr__(self, name: str) -> Any:
        # Whatever else Dramatiq or another plugin wants of a consumer is the broker's own.
        return getattr(self.inner, name)

    def __next__(self) -> MessageProxy | None:
        """The next message that this worker can run; ``None`` when there is none just now."""
        self.came_round_at = time.monotonic()
        if self.closing.is_set():
            self._wind_down()
            return None
        if self._admission.draining.is_set():
            self._return_prefetched_quietly()
            time.sleep(self._pause_s)
            return None
        self._settle_held()
        if is_lane(self.queue_name) and self._admission.is_saturated:
            time.sleep(self._pause_s)
            return None
        try:
            message = next(self.inner)
        except DecodeError as error:
            self._reject_undecodable(error)
            return None
        return None if message is None else self._admit(message)

    def ack(self, message: MessageProxy) -> None:
        """Acknowledge at the consumer that delivered the message."""
        origin = origin_of(message) or self
        origin.inner.ack(message)
        origin.discard(message)

    def nack(self, message: MessageProxy) -> None:
        """Dead-letter the message among its base queue's."""
        origin = origin_of(message) or self
        if is_lane(origin.queue_name):
            self._admission.carrier.nack(origin.inner, origin.queue_name, message)
        else:
            origin.inner.nack(message)
        origin.discard(message)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        """Return unacknowledged messages to the queue or lane they came from."""
        messages = list(messages)
        if is_lane(self.queue_name):
            self._admission.carrier.requeue(self.inner, self.queue_name, messages)
        else:
            self.inner.requeue(messages)
        for message in messages:
            self.discard(message)

    def close(self) -> None:
        """Return what was prefetched or held here, then close the broker's consumer."""
        self._return_prefetched_quietly()
        self.inner.close()

    def recover(self) -> None:
        """Return what an earlier consumer of this queue fetched and nobody remembers.

        Raises:
            ConnectionClosed: The broker is away; Dramatiq rebuilds the consumer later.
        """
        if self.queue_name.endswith(".DQ"):
            # Dramatiq dropped or returned its delay queue before it asked for this consumer.
            self._admission.deliveries.forget(self.queue_name)
        self._recover()

    @property
    def is_idle(self) -> bool:
        """Whether nothing that it delivered is in hand."""
        return not self._admission.deliveries.of(self.queue_name)

    def discard(self, message: MessageProxy) -> None:
        """The delivery is no longer in hand."""
        self._admission.deliveries.discard(self.queue_name, message)

    def _admit(self, message: MessageProxy) -> MessageProxy | None:
        remember_origin(message, self)
        self._admission.deliveries.add(self.queue_name, message)
        self.delivered_at = time.monotonic()
        verdict = self._admission.judge(message, self.queue_name)
        if verdict is Verdict.TAKE:
            return message
        if verdict is Verdict.RETURN:
            self._held.append(_Held(message, time.monotonic() + PLAIN_HOLD_S))
        else:
            self._settle(_Held(message, 0.0))
        return None

    def _settle_held(self) -> None:
        now = time.monotonic()
        for held in [held for held in self._held if held.due <= now]:
            self._held.remove(held)
            self._settle(held)

    def _settle(self, held: _Held) -> None:
        """Bring a message that this worker does not take to where it belongs, or hold it."""
        message = held.message
        try:
            # The fleet may have changed while it was held.
            verdict = self._admission.judge(message, self.queue_name)
            if verdict is Verdict.CARRY:
                self._admission.carry(message, self)
            else:
                self._admission.carrier.requeue(self.inner, self.queue_name, [message])
            self.discard(message)
        except Exception as error:  # noqa: BLE001 - admission never raises: a rebuilt consumer forgets its prefetch
            held.tries += 1
            wait_s = min(HOLD_S * 2**held.tries, HOLD_MAX_S)
            held.due = time.monotonic() + wait_s
            self._held.append(held)
            self._admission.carry_failed(message, error, wait_s)

    def _reject_undecodable(self, error: DecodeError) -> None:
        self._admission.logger.error(
            "A body on %r is no message and goes to the dead letters: %s", self.queue_name, error
        )
        body = error.args[1] if len(error.args) > 1 else getattr(error, "data", b"")
        try:
            self._admission.carrier.reject_undecodable(self.inner, self.queue_name, body)
        except Exception:
            self._admission.logger.exception("It could not be dead-lettered; it stays unacknowledged.")

    def _return_prefetched(self) -> None:
        """Give back what was fetched and not handed out, once; and what is held here."""
        if self._prefetch_returned:
            return
        self._admission.carrier.release_prefetched(self.inner)
        while self._held:
            self.discard(self._held.popleft().message)
        self._recover()
        self._prefetch_returned = True

    def _return_prefetched_quietly(self) -> None:
        try:
            self._return_prefetched()
        except Exception as error:  # noqa: BLE001 - raised here it would end the consumer's thread
            # Tried again each time round; at last whoever consumes the queue next does it, see `recover`.
            level = logging.DEBUG if self._told_unreturned else logging.WARNING
            self._told_unreturned = True
            self._admission.logger.log(
                level, "What was prefetched from %r can't be returned now: %s", self.queue_name, error
            )

    def _recover(self) -> None:
        carrier, deliveries = self._admission.carrier, self._admission.deliveries
        in_hand = [carrier.reference(message) for message in deliveries.of(self.queue_name)]
        try:
            recovered = carrier.recover(self.queue_name, in_hand)
        except redis.ConnectionError as error:
            raise ConnectionClosed(error) from None  # type: ignore[no-untyped-call]  # Dramatiq's
        if recovered:
            self._admission.logger.info("Returned %d fetched messages to %r.", recovered, self.queue_name)

    def _wind_down(self) -> None:
        """Close a lane without running anything twice: return what waits, finish what runs, then stop.

        Any other order redelivers running messages, or leaves acknowledgements without a consumer.
        """
        try:
            self._return_prefetched()
            self._leave_work_queue()
        except Exception as error:  # noqa: BLE001 - a lane that can't be closed now is closed later
            self._admission.logger.warning("Closing %r: %s; trying again.", self.queue_name, error)
        else:
            if self.is_idle:
                threading.current_thread().stop()  # type: ignore[attr-defined]  # Dramatiq's ConsumerThread
                return
        time.sleep(self._pause_s)

    def _leave_work_queue(self) -> None:
        """Take this lane's messages out of the worker's queue and return them to the lane."""
        work_queue = self._admission.worker.work_queue
        with work_queue.mutex:
            waiting: list[Any] = []
            others: list[Any] = []
            for item in work_queue.queue:
                (waiting if origin_of(_message_in(item)) is self else others).append(item)
            if waiting:
                work_queue.queue[:] = others
                heapq.heapify(work_queue.queue)
        for item in waiting:
            self.requeue([_message_in(item)])
            work_queue.task_done()


def _message_in(item: Any) -> MessageProxy:
    """The message of a work queue's item: Dramatiq 2 queues items, 1.17 tuples."""
    message: MessageProxy = item[-1] if isinstance(item, tuple) else item.message
    return message
