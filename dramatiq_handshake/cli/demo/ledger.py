"""The demo's ledger: a file to which the demo's processes write what they really did.

What the demo claims is compared with it and never with the library's own answers alone. Each event is one
line, written by one `write` on an ``O_APPEND`` descriptor: atomic for lines this short, so no lock and no
server is involved.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["BOOTED", "RAN", "SENT", "Entry", "Ledger"]

#: A worker process consumes; a producer sends a message; an actor ran one.
BOOTED, SENT, RAN = "booted", "sent", "ran"

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger.

    Attributes:
        event: ``booted``, ``sent`` or ``ran``.
        process: The name that the demo gave to the process.
        pid: Its process id.
        at_ns: When, on the host's monotonic clock, which all of its processes share.
        actor: The actor, of a message.
        message_id: The message.
        argument: What it was called with.
        queues: Of a worker that booted: the base queues that it consumes.
        capabilities: Of a worker that booted: what its environment says that it can do.
        actors: Of a worker that booted: the actors on these queues that it can run with these capabilities.
    """

    event: str
    process: str
    pid: int
    at_ns: int
    actor: str = ""
    message_id: str = ""
    argument: str = ""
    queues: Sequence[str] = ()
    capabilities: Sequence[str] = ()
    actors: Sequence[str] = ()

    def ms_after(self, earlier: Entry) -> float:
        """How many milliseconds lie between an earlier entry and this one."""
        return (self.at_ns - earlier.at_ns) / _NS_PER_MS


class Ledger:
    """The file; safe to write from any thread of any process.

    Args:
        path: Where it is; it must exist.
        process: The name under which this process writes.
    """

    def __init__(self, path: str | os.PathLike[str], process: str) -> None:
        self._path = Path(path)
        self._process = process

    def booted(self, *, queues: Sequence[str], capabilities: Sequence[str], actors: Sequence[str]) -> None:
        """A worker process consumes."""
        self._append(self._entry(BOOTED, queues=queues, capabilities=capabilities, actors=actors))

    def sent(self, actor: str, message_id: str, argument: str) -> None:
        """This process is about to send a message."""
        self._append(self._entry(SENT, actor=actor, message_id=message_id, argument=argument))

    def ran(self, actor: str, message_id: str, argument: str) -> None:
        """An actor ran a message to its end."""
        self._append(self._entry(RAN, actor=actor, message_id=message_id, argument=argument))

    def entries(
        self, event: str, *, process: str | None = None, message_id: str | None = None
    ) -> list[Entry]:
        """The entries of a kind so far, oldest first; `None` matches all."""
        # A line without its end is still being written.
        lines = self._path.read_bytes().split(b"\n")[:-1]
        return [
            entry
            for entry in (Entry(**json.loads(line)) for line in lines)
            if entry.event == event
            and (process is None or entry.process == process)
            and (message_id is None or entry.message_id == message_id)
        ]

    def _entry(self, event: str, **fields: str | Sequence[str]) -> Entry:
        return Entry(event, self._process, os.getpid(), time.monotonic_ns(), **fields)  # type: ignore[arg-type]  # by name

    def _append(self, entry: Entry) -> None:
        line = json.dumps(asdict(entry)).encode() + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
