"""`join` and `flush` of a broker whose messages may be in lanes: mostly for users' own tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dramatiq.brokers.stub import StubBroker
from dramatiq.common import dq_name
from dramatiq.errors import QueueJoinTimeout

from dramatiq_handshake.errors import CapabilityUnavailable

if TYPE_CHECKING:
    from dramatiq_handshake.dispatch.carriers.stub import StubCarrier

__all__ = ["flushing_lanes", "joining_depths", "joining_lanes"]

_POLL_S = 0.01


def joining_lanes(
    broker: StubBroker,
    join: Callable[..., None],
    carrier: StubCarrier,
    *,
    is_hopeless: Callable[[str], bool],
    why: Callable[[str], str],
) -> Callable[..., None]:
    """A `StubBroker.join` that waits for the base, its delay queue and every lane beside it.

    Args:
        join: The broker's own join, which also raises the exceptions of dead letters.
        is_hopeless: Whether workers live, and none of them can serve a lane.
        why: The reason why a lane's messages are blocked.
    """

    def join_all(queue_name: str, *, timeout: int | None = None, **options: Any) -> None:
        """Wait until nothing on the queue or its lanes is unfinished (timeout in ms).

        Raises:
            CapabilityUnavailable: Only messages are left that no live worker can run.
            QueueJoinTimeout: The timeout elapsed.
            QueueNotFound: The queue was never declared.
        """
        deadline = None if timeout is None else time.monotonic() + timeout / 1000
        while True:
            left_ms = None if deadline is None else max(1, int((deadline - time.monotonic()) * 1000))
            were_finished = not carrier.unfinished_lanes(queue_name)
            # It looks for dead letters last: those of the lanes count only where these were finished before.
            join(queue_name, timeout=left_ms, **options)
            unfinished = carrier.unfinished_lanes(queue_name)
            if not unfinished:
                # A lane's message may have put another one on the base.
                if were_finished and not any(
                    broker.queues[name].unfinished_tasks for name in (queue_name, dq_name(queue_name))
                ):
                    return
                continue
            if all(carrier.only_waits(lane) and is_hopeless(lane) for lane in unfinished):
                raise CapabilityUnavailable("; ".join(why(lane) for lane in sorted(unfinished)))
            if deadline is not None and time.monotonic() >= deadline:
                raise QueueJoinTimeout(  # type: ignore[no-untyped-call]  # Dramatiq's
                    f"{queue_name}: lanes {', '.join(sorted(unfinished))} are not finished"
                )
            time.sleep(_POLL_S)

    return join_all


def joining_depths(
    join: Callable[..., None],
    lanes: Callable[[str], Iterable[str]],
    depths: Callable[[Sequence[str]], Sequence[int]],
) -> Callable[..., None]:
    """A `RedisBroker.join` that waits for the lanes beside a queue as well.

    Args:
        join: The broker's own join.
        lanes: The lanes that may hold messages of a base queue.
        depths: How many messages each of some lanes holds, those being processed included.
    """

    def join_all(queue_name: str, *, interval: int = 100, timeout: int | None = None) -> None:
        """Wait until the queue and its lanes are empty (interval and timeout in ms).

        Raises:
            QueueJoinTimeout: The timeout elapsed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout / 1000
        while True:
            left_ms = None if deadline is None else max(1, int((deadline - time.monotonic()) * 1000))
            join(queue_name, interval=interval, timeout=left_ms)
            beside = list(lanes(queue_name))
            if not any(depths(beside)):
                return
            if deadline is not None and time.monotonic() >= deadline:
                raise QueueJoinTimeout(  # type: ignore[no-untyped-call]  # Dramatiq's
                    f"{queue_name}: lanes {', '.join(sorted(beside))} are not empty"
                )
            time.sleep(interval / 1000)

    return join_all


def flushing_lanes(
    flush: Callable[[str], None],
    lanes: Callable[[str], Iterable[str]],
    forget: Callable[[str], None],
) -> Callable[[str], None]:
    """A `Broker.flush` that empties the lanes beside a queue with it.

    Args:
        flush: The broker's own flush.
        lanes: The lanes that may hold messages of a base queue.
        forget: Takes a base queue's messages off the blocked index.
    """

    def flush_all(queue_name: str) -> None:
        """Drop all the messages of a queue and of its lanes."""
        flush(queue_name)
        for lane in lanes(queue_name):
            flush(lane)
        forget(queue_name)

    return flush_all
