"""What a worker has in hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dramatiq import MessageProxy

__all__ = ["Deliveries"]


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
