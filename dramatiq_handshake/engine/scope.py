"""What an engine may see: its tenant, and what its own broker serves (design §2, §5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dramatiq_handshake.storage.base import WorkerRecord
from dramatiq_handshake.wire.tokens import DEFAULT_PARTITION, is_default_namespace, partition_of_token

__all__ = ["Scope"]


@dataclass(frozen=True, slots=True)
class Scope:
    """The two isolations of an answer.

    Attributes:
        namespace: The tenant; `None` is an operator, who sees all of them. What stands for "no tenant"
            (``""``, ``default``) is the tenant of those who named none.
        broker: The fingerprint of the broker; ``""`` sees the workers of every broker.
    """

    namespace: str | None = None
    broker: str = ""

    def on_broker(self, fingerprint: str) -> bool:
        """Whether what carries this fingerprint is of our broker, or can't be told not to be.

        Workers of other SDKs register none: they are listed, and never dispatched to.
        """
        return not self.broker or fingerprint in ("", self.broker)

    def sees_namespace(self, namespace: str | None) -> bool:
        """Whether this tenant is ours to see."""
        return self.namespace is None or _tenant(self.namespace) == _tenant(namespace)

    def sees_queue(self, queue: str) -> bool:
        """Whether a queue or token is of a tenant that is ours to see."""
        return self.namespace is None or _tenant(self.namespace) == partition_of_token(queue)

    def split(self, records: Iterable[WorkerRecord]) -> tuple[tuple[WorkerRecord, ...], int]:
        """The records of our broker, and how many workers are of another."""
        ours: list[WorkerRecord] = []
        others: set[str] = set()
        for record in records:
            if self.on_broker(record.broker):
                ours.append(record)
            else:
                others.add(record.instance_id)
        return tuple(ours), len(others)


def _tenant(namespace: str | None) -> str:
    return DEFAULT_PARTITION if namespace is None or is_default_namespace(namespace) else namespace
