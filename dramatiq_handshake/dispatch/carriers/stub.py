"""Carrying on Dramatiq's StubBroker, the one of users' own tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from queue import Queue
from typing import TYPE_CHECKING, Any

from dramatiq.brokers.stub import StubBroker
from dramatiq.errors import QueueNotFound

from dramatiq_handshake.decide.need import base_of, is_lane
from dramatiq_handshake.dispatch.carriers.flaws import flaw_of

if TYPE_CHECKING:
    from dramatiq import Message, MessageProxy
    from dramatiq.broker import Consumer

    from dramatiq_handshake.decide.directory import PlainConsumers

__all__ = ["StubCarrier"]


class StubCarrier:
    """Lanes are further queues in the broker's own dictionary, so that `flush_all` empties them too."""

    def __init__(self, broker: StubBroker) -> None:
        self._broker = broker

    def _queue(self, name: str) -> Queue[bytes]:
        queues: dict[str, Queue[bytes]] = self._broker.queues
        if base_of(name) not in queues:
            raise QueueNotFound(base_of(name))  # type: ignore[no-untyped-call]  # Dramatiq's
        # setdefault, not a check: a producer and a consumer thread may meet here.
        return queues.setdefault(name, Queue()) if is_lane(name) else queues[name]

    def lanes(self, base: str) -> list[str]:
        """The lanes beside `base` that exist so far."""
        return [name for name in list(self._broker.queues) if is_lane(name) and base_of(name) == base]

    def unfinished_lanes(self, base: str) -> set[str]:
        """Those of them that hold messages, being processed or not."""
        return {name for name in self.lanes(base) if self._broker.queues[name].unfinished_tasks}

    def only_waits(self, lane: str) -> bool:
        """Whether no message of the lane is with a worker."""
        queue = self._broker.queues[lane]
        return bool(queue.unfinished_tasks <= queue.qsize())

    def fingerprint(self) -> str:
        """A stub broker lives in this process alone."""
        return f"stub:{id(self._broker):x}"

    def prepare(self, message: Message[Any]) -> Message[Any]:
        """The stub needs no id of its own."""
        return message

    def reference(self, message: Message[Any] | MessageProxy) -> str:
        """The stub has none."""
        return ""

    def publish(self, queue: str, message: Message[Any]) -> None:
        """Put the message, encoded, into a queue."""
        self._queue(queue).put(message.encode())

    def carry(self, origin: Consumer, source: str, lane: str, message: Message[Any] | MessageProxy) -> None:
        """Enqueue before acknowledging, so that `join` never sees neither."""
        self._queue(lane).put(message.encode())
        origin.ack(message)  # type: ignore[arg-type]  # the stub's only counts

    def consumer(self, lane: str, *, prefetch: int, timeout: int) -> Consumer:
        """The broker's own consumer on the lane, with the base queue's dead letters."""
        self._queue(lane)
        consumer = StubBroker.consume(self._broker, lane, prefetch, timeout)
        dead_letters = self._broker.dead_letters_by_queue[base_of(lane)]
        consumer.dead_letters = dead_letters  # type: ignore[attr-defined]  # of the stub's consumer
        return consumer

    def nack(self, origin: Consumer, lane: str, message: MessageProxy) -> None:
        """The consumer already has the base's dead letters."""
        origin.nack(message)

    def requeue(self, origin: Consumer, queue: str, messages: Sequence[MessageProxy]) -> None:
        """Put the messages back, again before acknowledging."""
        for message in messages:
            self._queue(queue).put(message.encode())
            origin.ack(message)

    def release_prefetched(self, origin: Consumer, queue: str, held: Sequence[MessageProxy]) -> None:
        """The stub's consumers prefetch nothing that they have not handed out."""
        self.requeue(origin, queue, held)

    def recover(self, queue: str, in_hand: Iterable[str]) -> int:
        """A stub's consumer can't lose its connection."""
        return 0

    def flaw_of(self, message: Message[Any] | MessageProxy) -> str | None:
        """Fields of the wrong type."""
        return flaw_of(message)

    def reject_unfit(self, origin: Consumer, queue: str, message: MessageProxy | None) -> None:
        """Count the body as done; the stub's dead letters hold messages only."""
        self._queue(queue).task_done()
        origin.prefetch_semaphore.release()  # type: ignore[attr-defined]  # of its consumer, which forgets to

    def queues(self) -> Sequence[str]:
        """The broker's own dictionary has delay queues and lanes as well."""
        return [name for name in list(self._broker.queues) if not is_lane(name) and base_of(name) == name]

    def depths(self, queues: Sequence[str]) -> list[int]:
        """What was put and not yet acknowledged."""
        known: dict[str, Queue[bytes]] = self._broker.queues
        return [known[queue].unfinished_tasks if queue in known else 0 for queue in queues]

    def renew_heartbeat(self) -> None:
        """Nobody watches."""

    def claim(self) -> str | None:
        """Nobody could be taken for another."""
        return None

    def plain_workers_possible(self) -> bool:
        """The only consumers are in this process, and they have the plugin."""
        return False

    def consumers(self) -> Sequence[PlainConsumers]:
        """None that the registry does not know."""
        return ()
