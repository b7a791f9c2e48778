"""Every command that a server executes, in its order: for counting what really happens on it."""

from __future__ import annotations

import threading
import uuid
from types import TracebackType
from typing import Self

import redis

__all__ = ["CommandLog"]

JOIN_S = 10.0


class CommandLog:
    """Records a server's commands (MONITOR), those inside scripts included, while its block runs.

    Args:
        url: The server.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        #: The commands, arguments and all, as the server shows them; complete once the block has ended.
        self.commands: list[str] = []
        #: Those of them that clients sent; what scripts called is left out.
        self.by_clients: list[str] = []
        self._end = uuid.uuid4().hex
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="command-log")

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._listening.wait(JOIN_S):
            raise AssertionError("MONITOR did not begin")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What the server executed before this echo stands before it in the log.
        with redis.Redis.from_url(self._url) as client:
            client.echo(self._end)
        self._thread.join(JOIN_S)

    def count(self, *parts: str) -> int:
        """How many commands begin with these words, whatever their case."""
        begin = " ".join(parts).lower()
        return sum(command.lower().startswith(begin) for command in self.commands)

    def _listen(self) -> None:
        with redis.Redis.from_url(self._url) as client, client.monitor() as monitor:
            self._listening.set()
            for entry in monitor.listen():
                if self._end in entry["command"]:
                    return
                self.commands.append(entry["command"])
                if entry["client_type"] != "lua":
                    self.by_clients.append(entry["command"])
