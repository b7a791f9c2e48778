"""Carrying on Dramatiq's RedisBroker."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import product
from typing import TYPE_CHECKING, Any

import dramatiq
import redis
from dramatiq.common import current_millis
from dramatiq.errors import DecodeError

from dramatiq_handshake.decide.directory import PlainConsumers
from dramatiq_handshake.decide.need import base_of
from dramatiq_handshake.dispatch.carriers.flaws import flaw_of
from dramatiq_handshake.dispatch.carriers.plain_workers import PlainWorkers
from dramatiq_handshake.errors import RegistryUnavailable

if TYPE_CHECKING:
    from dramatiq import Message, MessageProxy
    from dramatiq.broker import Consumer
    from dramatiq.brokers.redis import RedisBroker

__all__ = ["RedisCarrier"]

#: How many of the latest heartbeats are looked at for plain workers; more broker ids than this do not live.
MAX_HEARTBEATS = 1_000


def _script(name: str) -> str:
    return files("dramatiq_handshake.dispatch").joinpath("lua", f"{name}.lua").read_text("utf-8")


def _forget(origin: Consumer, message: Message[Any] | MessageProxy) -> None:
    """Give back the prefetch slot: Dramatiq's consumer does so itself only on ack and nack."""
    origin.queued_message_ids.discard(message.message_id)  # type: ignore[attr-defined]  # of its Redis consumer


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


class RedisCarrier:
    """Moves messages between Dramatiq's own keys, each move in one script.

    A carried message keeps its redis id: the id names the body in whichever queue holds it.

    Args:
        broker: The broker whose client and keys are used.
        server: Names the Redis server among those that share a registry; ``""`` where broker and registry
            are one.
        unclaimed: Which broker ids no plugin process has claimed (`FleetStore.unclaimed`).
    """

    def __init__(
        self,
        broker: RedisBroker,
        *,
        server: Callable[[], str],
        unclaimed: Callable[[Sequence[str]], frozenset[str]],
    ) -> None:
        self._broker = broker
        self._client: redis.Redis = broker.client
        self._server = server
        self._carry = self._client.register_script(_script("carry_v1"))
        self._dead_letter = self._client.register_script(_script("dead_letter_v1"))
        self._recover = self._client.register_script(_script("recover_v1"))
        self._plain_workers = PlainWorkers(
            self._heartbeats, unclaimed, heartbeat_timeout_ms=broker.heartbeat_timeout
        )

    def _key(self, name: str) -> str:
        return f"{self._broker.namespace}:{name}"

    def _acks(self, queue: str) -> str:
        return self._key(f"__acks__.{self._broker.broker_id}.{queue}")

    def fingerprint(self) -> str:
        """Server, database and the broker's own namespace."""
        database = self._client.connection_pool.connection_kwargs.get("db", 0)
        return f"redis:{self._server()}/{database}/{self._broker.namespace}"

    def prepare(self, message: Message[Any]) -> Message[Any]:
        """A copy with a redis id of its own: a message may be enqueued many times."""
        return message.copy(options={"redis_message_id": str(uuid.uuid4())})

    def reference(self, message: Message[Any] | MessageProxy) -> str:
        """The redis id."""
        return str(message.options.get("redis_message_id", ""))

    def publish(self, queue: str, message: Message[Any]) -> None:
        """Append the message to a queue as the broker itself would."""
        self._broker.do_enqueue(queue, message.options["redis_message_id"], message.encode())

    def carry(self, origin: Consumer, source: str, lane: str, message: Message[Any] | MessageProxy) -> None:
        """Move the message in one script; one that is no longer ours is left to whoever reclaimed it."""
        self._carry(
            keys=[
                self._acks(source),
                self._key(f"{source}.msgs"),
                self._key(lane),
                self._key(f"{lane}.msgs"),
            ],
            args=[message.options["redis_message_id"], message.encode()],
        )
        _forget(origin, message)

    def consumer(self, lane: str, *, prefetch: int, timeout: int) -> Consumer:
        """The broker's own consumer class, on the lane."""
        consumer: Consumer = self._broker.consumer_class(self._broker, lane, prefetch, timeout)
        return consumer

    def nack(self, origin: Consumer, lane: str, message: MessageProxy) -> None:
        """Dead-letter in one script."""
        dead_letters = self._key(f"{base_of(lane)}.XQ")
        try:
            self._dead_letter(
                keys=[self._acks(lane), self._key(f"{lane}.msgs"), dead_letters, f"{dead_letters}.msgs"],
                args=[message.options["redis_message_id"], current_millis()],
            )
        finally:
            _forget(origin, message)

    def requeue(self, origin: Consumer, queue: str, messages: Sequence[MessageProxy]) -> None:
        """Return the messages to the end of their queue."""
        if messages:
            self._broker.do_requeue(queue, *(message.options["redis_message_id"] for message in messages))
            for message in messages:
                _forget(origin, message)

    def release_prefetched(self, origin: Consumer, queue: str, held: Sequence[MessageProxy]) -> None:
        """Drop the consumer's cache: `recover` then finds these ids in the ack set and returns them."""
        origin.message_cache = []  # type: ignore[attr-defined]  # of Dramatiq's Redis consumer

    def recover(self, queue: str, in_hand: Iterable[str]) -> int:
        """Return the forgotten ids in one script."""
        keys = [self._acks(queue), self._key(queue), self._key(f"{queue}.msgs")]
        return int(self._recover(keys=keys, args=list(in_hand)))

    def flaw_of(self, message: Message[Any] | MessageProxy) -> str | None:
        """Fields of the wrong type, or no redis id: then it could never be acknowledged."""
        flaw = flaw_of(message)
        if flaw is None and not isinstance(message.options.get("redis_message_id"), str):
            flaw = "it has no redis_message_id, which every RedisBroker gives"
        return flaw

    def reject_unfit(self, origin: Consumer, queue: str, message: MessageProxy | None) -> None:
        """Find the fetched ids whose bodies are unfit, and dead-letter them under their base."""
        if message is not None:
            _forget(origin, message)
        fetched = [_text(member) for member in self._client.smembers(self._acks(queue))]
        if not fetched:
            return
        bodies = self._client.hmget(self._key(f"{queue}.msgs"), fetched)
        dead_letters = self._key(f"{base_of(queue)}.XQ")
        for redis_id, body in zip(fetched, bodies, strict=True):
            if isinstance(body, bytes) and self._is_unfit(body):
                self._dead_letter(
                    keys=[
                        self._acks(queue),
                        self._key(f"{queue}.msgs"),
                        dead_letters,
                        f"{dead_letters}.msgs",
                    ],
                    args=[redis_id, current_millis()],
                )

    def _is_unfit(self, body: bytes) -> bool:
        try:
            return self.flaw_of(dramatiq.Message.decode(body)) is not None
        except DecodeError:
            return True

    def queues(self) -> Sequence[str]:
        """Those that the broker names; it keeps the delay queues apart."""
        return sorted(self._broker.get_declared_queues())

    def depths(self, queues: Sequence[str]) -> list[int]:
        """Bodies are kept until they are acknowledged, so their number is the depth."""
        if not queues:
            return []
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for queue in queues:
                    pipeline.hlen(self._key(f"{queue}.msgs"))
                return [int(depth) for depth in pipeline.execute()]
        except redis.RedisError as error:
            raise RegistryUnavailable(
                f"the broker's Redis server does not tell what its queues hold ({type(error).__name__}); "
                "try again"
            ) from error

    def renew_heartbeat(self) -> None:
        """Write Dramatiq's own heartbeat."""
        self._client.zadd(self._key("__heartbeats__"), {self._broker.broker_id: current_millis()})

    def claim(self) -> str | None:
        """The broker's id."""
        return str(self._broker.broker_id)

    def plain_workers_possible(self) -> bool:
        """By Dramatiq's heartbeats of ids that nobody claimed."""
        return self._plain_workers.possible()

    def consumers(self) -> Sequence[PlainConsumers]:
        """By the ack sets that Dramatiq keeps while a process holds messages of a queue.

        Raises:
            RegistryUnavailable: The broker's server does not answer.
        """
        queues = sorted(self._broker.get_declared_queues())
        try:
            timeout_ms = self._broker.heartbeat_timeout
            ids = sorted(id_ for id_, (_, age_ms) in self._heartbeats().items() if age_ms < timeout_ms)
            holding: dict[str, list[str]] = {queue: [] for queue in queues}
            with self._client.pipeline(transaction=False) as pipeline:
                for queue, broker_id in product(queues, ids):
                    pipeline.exists(self._key(f"__acks__.{broker_id}.{queue}"))
                answers = pipeline.execute() if queues and ids else []
        except redis.RedisError as error:
            raise RegistryUnavailable(
                f"the broker's Redis server does not tell who consumes ({type(error).__name__}); try again"
            ) from error
        for (queue, broker_id), exists in zip(product(queues, ids), answers, strict=False):
            if exists:
                holding[queue].append(broker_id)
        return [PlainConsumers(queue, tuple(ids), len(ids)) for queue, ids in holding.items() if ids]

    def _heartbeats(self) -> Mapping[str, tuple[float, float]]:
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            pipeline.zrevrange(self._key("__heartbeats__"), 0, MAX_HEARTBEATS - 1, withscores=True)
            (seconds, microseconds), rows = pipeline.execute()
        now_ms = seconds * 1000 + microseconds / 1000
        return {
            _text(broker_id): (written, now_ms - written)
            for broker_id, written in rows
            if _text(broker_id) != self._broker.broker_id
        }
