"""The Lua scripts, and batches of commands and scripts that travel in one round trip.

A script is called by its digest. Where the server does not know it (a new server, SCRIPT FLUSH), only
that script is sent again, in full: a second round trip once, never in steady state. A script file is
never edited after a release; a change is a new file with the next version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeAlias

import redis
from redis.exceptions import NoScriptError

__all__ = [
    "BLOCK",
    "CLAIM",
    "INDEX",
    "LOOK",
    "OPEN_LANE",
    "PLACE",
    "RELEASE",
    "RETIRE_LANE",
    "SCRIPTS",
    "UNCLAIMED",
    "Argument",
    "Batch",
    "Script",
]

Argument: TypeAlias = str | bytes | int


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script: its file's name without the suffix, its text, its SHA-1 digest."""

    name: str
    text: str
    sha: str

    @classmethod
    def load(cls, name: str) -> Script:
        """Read the script ``lua/<name>.lua`` of this package."""
        text = resources.files(__package__).joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
        return cls(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


PLACE = Script.load("place_v1")
LOOK = Script.load("look_v1")
INDEX = Script.load("index_v1")
CLAIM = Script.load("claim_v1")
UNCLAIMED = Script.load("unclaimed_v1")
OPEN_LANE = Script.load("open_lane_v1")
RETIRE_LANE = Script.load("retire_lane_v1")
BLOCK = Script.load("block_v1")
RELEASE = Script.load("release_v1")

SCRIPTS = (PLACE, LOOK, INDEX, CLAIM, UNCLAIMED, OPEN_LANE, RETIRE_LANE, BLOCK, RELEASE)


@dataclass(frozen=True, slots=True)
class _ScriptCall:
    script: Script
    rest: tuple[Argument, ...]

    @property
    def by_digest(self) -> tuple[Argument, ...]:
        return ("EVALSHA", self.script.sha, *self.rest)

    @property
    def in_full(self) -> tuple[Argument, ...]:
        return ("EVAL", self.script.text, *self.rest)


class Batch:
    """Commands and scripts for one round trip, executed in order but not as a transaction.

    Args:
        client: A client of our own pool.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._calls: list[tuple[Argument, ...] | _ScriptCall] = []

    def command(self, *parts: Argument) -> int:
        """Add a command; returns the position of its reply."""
        self._calls.append(parts)
        return len(self._calls) - 1

    def script(self, script: Script, keys: Sequence[str], args: Sequence[Argument]) -> int:
        """Add a script call; returns the position of its reply."""
        self._calls.append(_ScriptCall(script, (len(keys), *keys, *args)))
        return len(self._calls) - 1

    def send(self, *, tolerate: Container[int] = ()) -> list[Any]:
        """Send everything and return the replies, raw.

        Args:
            tolerate: Positions whose error is returned in place of a reply; any other error raises.

        Raises:
            redis.RedisError: The connection failed, or the server answered an error.
        """
        if not self._calls:
            return []
        calls = [call.by_digest if isinstance(call, _ScriptCall) else call for call in self._calls]
        replies = self._exchange(calls)
        unknown = [
            (position, call.in_full)
            for position, (call, reply) in enumerate(zip(self._calls, replies, strict=True))
            if isinstance(reply, NoScriptError) and isinstance(call, _ScriptCall)
        ]
        if unknown:
            again = self._exchange([call for _, call in unknown])
            for (position, _), reply in zip(unknown, again, strict=True):
                replies[position] = reply
        for position, reply in enumerate(replies):
            if isinstance(reply, Exception) and position not in tolerate:
                raise reply
        return replies

    def _exchange(self, calls: Sequence[tuple[Argument, ...]]) -> list[Any]:
        with self._client.pipeline(transaction=False) as pipeline:
            for call in calls:
                pipeline.execute_command(*call)  # type: ignore[no-untyped-call]  # redis-py leaves it so
            replies: list[Any] = pipeline.execute(raise_on_error=False)
        return replies
