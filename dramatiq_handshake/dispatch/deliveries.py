"""What a worker has in hand."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dramatiq_handshake.decide.need import is_lane

if TYPE_CHECKING:
    from dramatiq import MessageProxy

__all__ = ["Deliveries"]


class Deliveries:
    """What this worker process has fetched and not yet acknowledged, by queue or lane."""

    def __init__(self) -> None:
        self._by_queue: dict[str, dict[int, MessageProxy]] = {}
        self._lane_message_left = threading.Condition()

    def add(self, queue: str, message: MessageProxy) -> None:
        """Note a delivery; ids repeat on redelivery, so the proxy's identity names it."""
        self._by_queue.setdefault(queue, {})[id(message)] = message

    def discard(self, queue: str, message: MessageProxy) -> None:
        """The delivery was acknowledged, carried or returned."""
        self._by_queue.get(queue, {}).pop(id(message), None)
        if is_lane(queue):
            with self._lane_message_left:
                self._lane_message_left.notify_all()

    def wait_for_fewer_of_lanes(self, limit: int, timeout_s: float) -> bool:
        """Wait until fewer messages of all lanes together are in hand; answers whether they are."""
        with self._lane_message_left:
            return self._lane_message_left.wait_for(lambda: self.count(lanes_only=True) < limit, timeout_s)

    def forget_delayed(self, queue: str) -> None:
        """What came through this queue only to wait until it is due is in hand no more."""
        for message in self.of(queue):
            if message.options.get("eta") is not None:
                self.discard(queue, message)

    def of(self, queue: str) -> list[MessageProxy]:
        """The deliveries in hand that came through a queue or lane."""
        return list(self._by_queue.get(queue, {}).values())

    def count(self, *, lanes_only: bool = False) -> int:
        """How many are in hand altogether, or of all lanes."""
        held_by_queue = list(self._by_queue.items())
        return sum(len(held) for queue, held in held_by_queue if is_lane(queue) or not lanes_only)
