"""A broker that no lanes are kept on: its workers are advertised and its messages planned, no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dramatiq import Broker

    from dramatiq_handshake.decide.directory import PlainConsumers

__all__ = ["ObservedBroker"]


class ObservedBroker:
    """Identity of a broker class that this release carries nothing on."""

    def __init__(self, broker: Broker) -> None:
        self._kind = f"{type(broker).__module__}.{type(broker).__qualname__}"

    def fingerprint(self) -> str:
        """Its class: brokers of one class and one registry are taken for the same."""
        return f"broker:{self._kind}"

    def claim(self) -> str | None:
        """Unknown."""
        return None

    def renew_heartbeat(self) -> None:
        """The broker's own threads do."""

    def plain_workers_possible(self) -> bool:
        """Nobody can rule them out."""
        return True

    def consumers(self) -> Sequence[PlainConsumers]:
        """Unknown."""
        return ()

    def queues(self) -> Sequence[str]:
        """None whose depth is known."""
        return ()

    def depths(self, queues: Sequence[str]) -> list[int]:
        """Unknown, and nobody asks: there are no `queues` and no lanes."""
        return [0] * len(queues)
