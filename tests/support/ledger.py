"""The ledger: what really happened, written by the actors themselves.

Claims in tests and in the demo come from here and never from the API under test. A ledger is a file to
which every process appends one JSON line per event; one `write` on an ``O_APPEND`` descriptor is atomic
for lines this short, so no lock and no server is involved.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.support.poll import DEFAULT_TIMEOUT_S, eventually

__all__ = ["Entry", "Ledger"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger.

    Attributes:
        event: ``ran``, or what else the actor wants to tell (``started``, ``failed``).
        actor: The actor's name.
        message_id: The message that ran; ``""`` outside a message.
        worker: The label of the process, as given to it by the test.
        pid: Its process id.
        wall_ms: Milliseconds since the epoch.
        monotonic_ms: Milliseconds of the host's monotonic clock, comparable across its processes.
        data: What else the actor recorded, its arguments as a rule.
        queue: The ``queue_name`` of the message, as the actor sees it.
        retries: How often the message has been retried.
    """

    event: str
    actor: str
    message_id: str
    worker: str
    pid: int
    wall_ms: int
    monotonic_ms: int
    data: Any = None
    queue: str = ""
    retries: int = 0


class Ledger:
    """An append-only file of `Entry` lines; safe to write from any thread of any process."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.path.touch()

    def record(
        self,
        event: str,
        actor: str,
        message_id: str = "",
        *,
        worker: str = "",
        data: Any = None,
        queue: str = "",
        retries: int = 0,
    ) -> None:
        """Append one entry."""
        entry = Entry(
            event,
            actor,
            message_id,
            worker,
            os.getpid(),
            time.time_ns() // 1_000_000,
            time.monotonic_ns() // 1_000_000,
            data,
            queue,
            retries,
        )
        line = json.dumps(asdict(entry)).encode() + b"\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            written = os.write(descriptor, line)
        finally:
            os.close(descriptor)
        if written != len(line):
            raise OSError(f"the ledger took {written} of {len(line)} bytes: is the disk full?")

    def entries(
        self,
        *,
        event: str | None = "ran",
        actor: str | None = None,
        worker: str | None = None,
        message_id: str | None = None,
    ) -> list[Entry]:
        """The entries so far, oldest first; ``None`` matches all, and by default only what ran."""
        text = self.path.read_text()
        complete = text[: text.rfind("\n") + 1]
        every = (Entry(**json.loads(line)) for line in complete.splitlines())
        return [
            entry
            for entry in every
            if (event is None or entry.event == event)
            and (actor is None or entry.actor == actor)
            and (worker is None or entry.worker == worker)
            and (message_id is None or entry.message_id == message_id)
        ]

    def count(self, **match: Any) -> int:
        """How many entries match (the arguments of `entries`)."""
        return len(self.entries(**match))

    def runs(self, **match: Any) -> Counter[str]:
        """How often each message ran, by message id."""
        return Counter(entry.message_id for entry in self.entries(**match))

    def workers(self, **match: Any) -> set[str]:
        """The labels of the processes that wrote matching entries."""
        return {entry.worker for entry in self.entries(**match)}

    def wait_for(self, n: int, timeout_s: float = DEFAULT_TIMEOUT_S, **match: Any) -> list[Entry]:
        """Wait until at least `n` entries match, and return them."""

        def enough() -> list[Entry]:
            found = self.entries(**match)
            return found if len(found) >= n else []

        return eventually(enough, timeout_s, what=f"{n} entries {match or ''}", state=self.summary)

    def wait_for_messages(
        self, message_ids: Sequence[str], timeout_s: float = DEFAULT_TIMEOUT_S, **match: Any
    ) -> Counter[str]:
        """Wait until every one of these messages has run, and return how often each did."""

        def all_ran() -> Counter[str] | None:
            runs = self.runs(**match)
            return runs if all(message_id in runs for message_id in message_ids) else None

        counted: Callable[[], Counter[str] | None] = all_ran
        answer = eventually(
            counted, timeout_s, what=f"all of {len(message_ids)} messages", state=self.summary
        )
        assert answer is not None
        return answer

    def summary(self) -> dict[str, int]:
        """Counts by event, actor and worker, for failure messages."""
        return dict(
            Counter(f"{entry.event} {entry.actor} on {entry.worker}" for entry in self.entries(event=None))
        )
