"""What the parts of `RedisStore` share."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from dramatiq_handshake.storage.base import SERVED_LATELY_MS
from dramatiq_handshake.storage.keys import RegistryKeys
from dramatiq_handshake.storage.link import RegistryLink
from dramatiq_handshake.wire.keys import ContractKeys

__all__ = ["CHUNK", "Context", "chunks", "new_epoch", "text"]

#: How many keys, ids or entries one command handles, so that none keeps the server for long.
CHUNK = 500

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Context:
    """Where the registry is, what its keys are, and what time it is there.

    Attributes:
        link: The way to the server.
        prefix: Names the deployment.
        ttl_ms: How long an advertisement lives without a beat.
        server_now_ms: A clock in place of the server's, for tests; ``None`` asks the server.
    """

    link: RegistryLink
    prefix: str
    ttl_ms: int
    server_now_ms: Callable[[], int] | None = None
    memory_ms: int = SERVED_LATELY_MS
    keys: RegistryKeys = field(init=False)
    contract: ContractKeys = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", RegistryKeys(self.prefix))
        object.__setattr__(self, "contract", ContractKeys(self.prefix))

    @property
    def now_argument(self) -> int | str:
        """What a script is told about the time: nothing, as a rule, so that it asks the server."""
        return "" if self.server_now_ms is None else self.server_now_ms()

    def moment(self, time_reply: Sequence[Any]) -> int:
        """The server's time (ms) out of the reply to ``TIME``."""
        if self.server_now_ms is not None:
            return self.server_now_ms()
        seconds, microseconds = time_reply
        return int(seconds) * 1000 + int(microseconds) // 1000

    @property
    def life(self) -> tuple[str, int]:
        """The expiry of a contract key, as ``SET`` takes it: ``EX 35`` unless it is no whole second."""
        return ("PX", self.ttl_ms) if self.ttl_ms % 1000 else ("EX", self.ttl_ms // 1000)


def new_epoch() -> str:
    """An epoch that no other equals: random, since a counter may lose its last second and repeat it."""
    return uuid.uuid4().hex


def text(value: bytes) -> str:
    """A name that we wrote as bytes."""
    return value.decode("utf-8", "replace")


def chunks(items: Sequence[T], size: int = CHUNK) -> Iterator[list[T]]:
    """The items in lists of at most `size`."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
