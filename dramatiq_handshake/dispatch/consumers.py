"""A worker's consumers, when one message may come through another queue than it names.

Dramatiq acknowledges through ``worker.consumers[message.queue_name]``. A carried message names its base
queue, whose consumer would acknowledge something else or not exist at all. So every delivery remembers
the consumer it came from, and this dictionary's indexing leads there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dramatiq.worker import _ConsumerThread as ConsumerThread

from dramatiq_handshake.decide.need import base_of, is_lane
from dramatiq_handshake.wire.tokens import tenant_group

if TYPE_CHECKING:
    from dramatiq import Broker, MessageProxy

    from dramatiq_handshake.dispatch.admission_consumer import AdmissionConsumer

__all__ = ["Consumers", "Whitelist", "origin_of", "remember_origin"]

_ORIGIN = "handshake_origin"


def remember_origin(message: MessageProxy, consumer: AdmissionConsumer) -> None:
    """Note on a delivery which consumer it came from."""
    setattr(message, _ORIGIN, consumer)


def origin_of(message: MessageProxy) -> AdmissionConsumer | None:
    """The consumer that a delivery came from; ``None`` where it did not pass our admission."""
    return message.__dict__.get(_ORIGIN)


class Consumers(dict[str, ConsumerThread]):
    """`Worker.consumers`: iterating sees a snapshot, indexing gives a poster that routes by origin.

    Lanes open and close while Dramatiq iterates to pause, resume and stop; hence the snapshots.
    """

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._poster = _Poster(broker, self)

    def __getitem__(self, queue_name: str) -> Any:
        return self._poster

    def thread(self, queue_name: str) -> ConsumerThread | None:
        """The consumer thread of a queue or lane."""
        return super().get(queue_name)

    def values(self) -> Any:
        """A snapshot of the threads."""
        return list(super().values())

    def items(self) -> Any:
        """A snapshot of queue names and threads."""
        return list(super().items())

    def __iter__(self) -> Any:
        return iter(list(super().keys()))


class _PostProcessing:
    """As much of a ConsumerThread as Dramatiq's post-processing needs, around the delivery's origin."""

    def __init__(self, consumer: AdmissionConsumer, thread: ConsumerThread | None, broker: Broker) -> None:
        self.consumer = consumer
        self.broker = broker
        self.logger = thread.logger if thread is not None else broker.logger


class _Poster:
    """What `Worker.consumers[...]` answers: acknowledges and returns messages where they came from."""

    def __init__(self, broker: Broker, consumers: Consumers) -> None:
        self._broker = broker
        self._consumers = consumers

    def post_process_message(self, message: MessageProxy) -> None:
        """Run Dramatiq's own post-processing against the consumer that delivered the message."""
        origin = origin_of(message)
        thread = self._consumers.thread(message.queue_name if origin is None else origin.queue_name)
        if origin is None:
            if thread is not None:
                thread.post_process_message(message)
            return
        processing: Any = _PostProcessing(origin, thread, self._broker)
        ConsumerThread.post_process_message(processing, message)

    def requeue_messages(self, messages: Iterable[MessageProxy]) -> None:
        """Return messages to where each came from."""
        by_origin: defaultdict[AdmissionConsumer, list[MessageProxy]] = defaultdict(list)
        for message in messages:
            origin = origin_of(message)
            if origin is not None:
                by_origin[origin].append(message)
                continue
            thread = self._consumers.thread(message.queue_name)
            if thread is not None:
                thread.requeue_messages([message])
        for origin, theirs in by_origin.items():
            origin.requeue(theirs)


class Whitelist:
    """`Worker.consumer_whitelist` as a predicate: it is true whatever it holds, and answers ``in``.

    Dramatiq reads an empty set as "every queue", and a filled one drops what is declared later. Nor may a
    worker consume a queue that it merely publishes to: on RabbitMQ publishing declares it.

    Args:
        admitted: What ``-Q`` names, or ``None`` for everything.
        own: Whether this process consumes a base queue: it was declared at boot, or has an actor here.
        namespace: The tenant, which queues carry as a suffix and ``-Q`` need not.
    """

    def __init__(
        self, admitted: Iterable[str] | None, own: Callable[[str], bool], *, namespace: str | None = None
    ) -> None:
        self._admitted: frozenset[str] | None = None
        if admitted:
            named = {base_of(name) for name in admitted}
            self._admitted = frozenset(named | {tenant_group(name, namespace) for name in named})
        self._own = own
        self._closed = False

    def close(self) -> None:
        """Admit nothing from now on: the worker is leaving."""
        self._closed = True

    def admits(self, base: str) -> bool:
        """Whether this worker may consume a base queue and the lanes beside it."""
        if self._closed:
            return False
        return (self._admitted is None or base in self._admitted) and self._own(base)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, queue_name: str) -> bool:
        # Lanes are opened by `lanes.LaneKeeper`, never by Dramatiq's own declaration hook.
        return not is_lane(queue_name) and self.admits(base_of(queue_name))
