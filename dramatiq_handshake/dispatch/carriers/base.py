"""What the lanes need of a broker, beyond what Dramatiq's own interface offers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from dramatiq import Message, MessageProxy
    from dramatiq.broker import Consumer

    from dramatiq_handshake.decide.directory import PlainConsumers

__all__ = ["BrokerIdentity", "Carrier"]


class BrokerIdentity(Protocol):
    """Who this process's broker is, and who else may consume from it."""

    def fingerprint(self) -> str:
        """Names the broker that this process talks to; equal in every process that shares its queues."""
        ...

    def claim(self) -> str | None:
        """The id under which this process is known to the broker, for the registry to claim."""
        ...

    def renew_heartbeat(self) -> None:
        """Say to the broker that this process lives; a paused or saturated worker says nothing itself."""
        ...

    def plain_workers_possible(self) -> bool:
        """Whether a worker without this plugin consumes from the broker, or can't be ruled out."""
        ...

    def consumers(self) -> Sequence[PlainConsumers]:
        """Per declared queue, who holds messages fetched from it: plain workers and others alike."""
        ...

    def queues(self) -> Sequence[str]:
        """The base queues declared in this process, without their delay queues; asks nobody.

        None where the broker's depths can't be told.
        """
        ...

    def depths(self, queues: Sequence[str]) -> list[int]:
        """How many messages each queue or lane holds, those being processed included.

        Raises:
            RegistryUnavailable: The broker's server does not answer.
        """
        ...


class Carrier(BrokerIdentity, Protocol):
    """How one kind of broker carries a message in another queue than the one it names.

    The body of a message always names its base queue: results, dashboards and policies depend on it. Only
    the queue that holds it differs.
    """

    def prepare(self, message: Message[Any]) -> Message[Any]:
        """The message as this broker would store it, with whatever id it needs."""
        ...

    def reference(self, message: Message[Any] | MessageProxy) -> str:
        """The name under which the broker keeps the message, or ``""``."""
        ...

    def publish(self, queue: str, message: Message[Any]) -> None:
        """Put a prepared message into a base queue or lane, emitting no hooks."""
        ...

    def carry(self, origin: Consumer, source: str, lane: str, message: Message[Any] | MessageProxy) -> None:
        """Move a fetched, unacknowledged message from `source` to `lane`, so that it is never in none.

        Args:
            origin: The broker's own consumer that fetched it.
            source: The queue it was fetched from.
        """
        ...

    def consumer(self, lane: str, *, prefetch: int, timeout: int) -> Consumer:
        """The broker's own consumer for a lane (timeout in ms)."""
        ...

    def nack(self, origin: Consumer, lane: str, message: MessageProxy) -> None:
        """Dead-letter a message that came through a lane: among its base queue's dead letters."""
        ...

    def requeue(self, origin: Consumer, queue: str, messages: Sequence[MessageProxy]) -> None:
        """Return fetched, unacknowledged messages to the queue they came from."""
        ...

    def release_prefetched(self, origin: Consumer, queue: str, held: Sequence[MessageProxy]) -> None:
        """Make a consumer drop what it has prefetched and not handed out.

        Where the broker keeps account of it, `recover` then returns it and what was held; where not, this
        call does.

        Args:
            held: What it has handed out and nobody has taken.
        """
        ...

    def recover(self, queue: str, in_hand: Iterable[str]) -> int:
        """Return what this process fetched from `queue` and no longer remembers; answers how many.

        Args:
            in_hand: References of the messages that it does remember.
        """
        ...

    def flaw_of(self, message: Message[Any] | MessageProxy) -> str | None:
        """What makes a fetched body unfit to be handled at all, in half a sentence; ``None`` is nothing."""
        ...

    def reject_unfit(self, origin: Consumer, queue: str, message: MessageProxy | None) -> None:
        """Dead-letter what was fetched from a queue and is unfit, which Dramatiq would hold for ever.

        Args:
            origin: The broker's own consumer that fetched it.
            queue: Where from.
            message: It, where its body could be decoded.
        """
        ...
