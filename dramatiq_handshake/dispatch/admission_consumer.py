"""The way out of a queue: a worker takes only what it can run.

Every consumer of a booted worker is wrapped. Three rules hold the file together:

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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis
from dramatiq.broker import Consumer
from dramatiq.errors import ConnectionClosed, DecodeError

from dramatiq_handshake.decide.need import is_lane
from dramatiq_handshake.dispatch.admission import Verdict
from dramatiq_handshake.dispatch.consumers import origin_of, remember_origin

if TYPE_CHECKING:
    from dramatiq import MessageProxy

    from dramatiq_handshake.dispatch.admission import Admission

__all__ = ["AdmissionConsumer"]

#: How long what can't be carried is held before the next try, and at most.
HOLD_S = 0.5
HOLD_MAX_S = 30.0
#: How long a message that a plain worker may know stays here before it returns to the base queue.
PLAIN_HOLD_S = 1.0
#: How long a consumer that must not fetch waits before it looks again.
PAUSE_S = 0.05


@dataclass(slots=True)
class _Held:
    """A message that waits here: `settle` is tried when its time comes."""

    message: MessageProxy
    due: float
    tries: int = 0


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
        if is_lane(self.queue_name) and not self._admission.lanes_have_room(wait_s=self._pause_s):
            return None
        message = self._fetch()
        return None if message is None else self._admit(message)

    def ack(self, message: MessageProxy) -> None:
        """Acknowledge at the consumer that delivered the message."""
        origin = origin_of(message) or self
        with _as_dramatiq_knows_it():
            origin.inner.ack(message)
        origin.discard(message)

    def nack(self, message: MessageProxy) -> None:
        """Dead-letter the message among its base queue's."""
        origin = origin_of(message) or self
        with _as_dramatiq_knows_it():
            if is_lane(origin.queue_name):
                self._admission.carrier.nack(origin.inner, origin.queue_name, message)
            else:
                origin.inner.nack(message)
        origin.discard(message)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        """Return unacknowledged messages to the queue or lane they came from."""
        messages = list(messages)
        with _as_dramatiq_knows_it():
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
        # Dramatiq dropped or returned its delay queue before it asked for this consumer.
        self._admission.deliveries.forget_delayed(self.queue_name)
        self._recover()

    @property
    def is_idle(self) -> bool:
        """Whether nothing that it delivered is in hand."""
        return not self._admission.deliveries.of(self.queue_name)

    def discard(self, message: MessageProxy) -> None:
        """The delivery is no longer in hand."""
        self._admission.deliveries.discard(self.queue_name, message)

    def _fetch(self) -> MessageProxy | None:
        """What the broker delivers next, without what is no message."""
        try:
            with _as_dramatiq_knows_it():
                message = next(self.inner)
        except (DecodeError, TypeError) as error:
            # TypeError: Dramatiq's own bookkeeping, by a message id that can't be hashed.
            self._reject_unfit(str(error))
            return None
        flaw = None if message is None else self._admission.carrier.flaw_of(message)
        if flaw is not None:
            self._reject_unfit(flaw, message)
            return None
        return message

    def _admit(self, message: MessageProxy) -> MessageProxy | None:
        remember_origin(message, self)
        self._admission.deliveries.add(self.queue_name, message)
        self.delivered_at = time.monotonic()
        held = _Held(message, time.monotonic())
        try:
            verdict = self._admission.judge(message, self.queue_name)
        except Exception as error:  # noqa: BLE001 - admission never raises, whatever a peer's message is made of
            self._hold(held, error)
            return None
        if verdict is Verdict.TAKE:
            return message
        if verdict is Verdict.RETURN:
            held.due += PLAIN_HOLD_S
            self._held.append(held)
        else:
            self._settle(held)
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
            self._hold(held, error)

    def _hold(self, held: _Held, error: Exception) -> None:
        held.tries += 1
        wait_s = min(HOLD_S * 2**held.tries, HOLD_MAX_S)
        held.due = time.monotonic() + wait_s
        self._held.append(held)
        self._admission.carry_failed(held.message, error, wait_s)

    def _reject_unfit(self, flaw: str, message: MessageProxy | None = None) -> None:
        self._admission.logger.error(
            "A body on %r is no message and goes to the dead letters: %s", self.queue_name, flaw
        )
        try:
            self._admission.carrier.reject_unfit(self.inner, self.queue_name, message)
        except Exception:
            self._admission.logger.exception("It could not be dead-lettered; it stays unacknowledged.")

    def _return_prefetched(self) -> None:
        """Give back what was fetched and not handed out, once; and what is held here."""
        if self._prefetch_returned:
            return
        held = [one.message for one in self._held]
        self._admission.carrier.release_prefetched(self.inner, self.queue_name, held)
        self._held.clear()
        for message in held:
            self.discard(message)
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
        with _as_dramatiq_knows_it():
            recovered = carrier.recover(self.queue_name, in_hand)
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
                (waiting if self._came_through_here(item) else others).append(item)
            if waiting:
                work_queue.queue[:] = others
                heapq.heapify(work_queue.queue)
        while waiting:
            try:
                self.requeue([_message_in(waiting[-1])])
            except BaseException:
                # Out of the queue and not returned, they would be held here for ever.
                with work_queue.mutex:
                    for item in waiting:
                        heapq.heappush(work_queue.queue, item)
                    work_queue.not_empty.notify_all()
                raise
            waiting.pop()
            work_queue.task_done()

    def _came_through_here(self, item: Any) -> bool:
        """Whether this lane delivered a waiting message, be it through a consumer that was rebuilt since."""
        origin = origin_of(_message_in(item))
        return origin is not None and origin.queue_name == self.queue_name


@contextmanager
def _as_dramatiq_knows_it() -> Iterator[None]:
    """Turn whatever Redis answers into the one error at which Dramatiq waits and tries again.

    Of redis-py's errors its consumers know the `ConnectionError`; a timeout, or a refusal during a failover,
    ended a thread for good or left a message that had run to run again.
    """
    try:
        yield
    except redis.RedisError as error:
        raise ConnectionClosed(error) from None  # type: ignore[no-untyped-call]  # Dramatiq's


def _message_in(item: Any) -> MessageProxy:
    """The message of a work queue's item: Dramatiq 2 queues items, 1.17 tuples."""
    message: MessageProxy = item[-1] if isinstance(item, tuple) else item.message
    return message
