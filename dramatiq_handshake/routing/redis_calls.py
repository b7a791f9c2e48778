"""Calling the directory's scripts, and reading what they answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dramatiq_handshake.routing.base import WorkerStatus
from dramatiq_handshake.routing.keys import RoutingKeys
from dramatiq_handshake.routing.policy import Candidate
from dramatiq_handshake.routing.times import Times
from dramatiq_handshake.storage.link import RegistryLink
from dramatiq_handshake.storage.scripts import Argument, Batch, Script

__all__ = ["Calls", "Row", "read_rows", "text", "types_text"]


def text(value: bytes) -> str:
    """A name as whoever gave it wrote it: any text is one, also what UTF-8 proper refuses."""
    return value.decode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Calls:
    """What the parts of `RedisWorkerDirectory` share.

    Attributes:
        link: The way to the server.
        keys: The directory's keys.
        times: Its durations.
        server_now: A clock in place of the server's, for tests; ``None`` asks the server.
    """

    link: RegistryLink
    keys: RoutingKeys
    times: Times
    server_now: Callable[[], int] | None = None

    def call(self, script: Script, *arguments: Argument) -> Any:
        """Run a script: one round trip.

        Raises:
            RegistryUnavailable: The server failed, or an outage is going on.
        """
        now = "" if self.server_now is None else self.server_now()
        with self.link.attempt(writes=True) as client:
            batch = Batch(client)
            batch.script(script, self.keys.all, [now, self.times.forget_after_ms, *arguments])
            (reply,) = batch.send()
        return reply


@dataclass(frozen=True, slots=True)
class Row:
    """What the directory knows of a worker."""

    number: int
    registered_at: int
    task_types: frozenset[str]
    candidate: Candidate

    def status(self, times: Times, now: int) -> WorkerStatus:
        """The same as a status."""
        seen = self.candidate
        return WorkerStatus(
            worker_id=seen.worker_id,
            task_types=self.task_types,
            active_jobs=seen.active_jobs,
            registered_at=self.registered_at,
            last_heartbeat_at=seen.last_heartbeat_at,
            health=times.health(seen.unhealthy_reason, seen.last_heartbeat_at, now),
            unhealthy_reason=seen.unhealthy_reason,
        )


def read_rows(reply: Sequence[Sequence[bytes]]) -> list[Row]:
    """The workers of a reply in the order of registration."""
    rows = []
    for worker, entry, beat, active, reason in reply:
        head, *types = text(entry).split("\n")
        number, registered_at, _ = head.split(":")
        candidate = Candidate(text(worker), int(active), int(beat), text(reason)[1:] if reason else None)
        rows.append(Row(int(number), int(registered_at), frozenset(types) - {""}, candidate))
    return sorted(rows, key=lambda row: row.number)


def types_text(task_types: frozenset[str]) -> str:
    """Task types as the scripts take them."""
    return "".join(f"{each}\n" for each in sorted(task_types))
