"""`docs/keys.md` as data: which keys there may be, and which of them may live for ever."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import redis

from dramatiq_handshake.storage.keys import RegistryKeys

__all__ = ["Row", "leaks", "table"]

KEYS_PAGE = Path(__file__).parents[2] / "docs" / "keys.md"
_row = re.compile(r"^\| `(?P<key>[PR][^`]+)` \| (?P<kind>\w[\w ]*): .* \| (?P<life>[^|]+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    pattern: str
    kind: str
    exempt: bool

    def matches(self, key: str, prefix: str) -> bool:
        """Whether `key` is one of this row's."""
        root = RegistryKeys(prefix).root if self.pattern.startswith("R") else prefix
        parts = re.split(r"<\w+>", self.pattern[1:])
        return re.fullmatch(re.escape(root) + ".+".join(map(re.escape, parts)), key) is not None


def table() -> list[Row]:
    """Every row of `docs/keys.md`, the most specific first."""
    rows = [
        Row(found["key"], found["kind"], found["life"].startswith("none:"))
        for found in _row.finditer(KEYS_PAGE.read_text(encoding="utf-8"))
    ]
    return sorted(rows, key=lambda row: row.pattern.count("<"))


def leaks(client: redis.Redis, prefix: str) -> list[str]:
    """Each key of a deployment that the table doesn't know, or that outlives what it says."""
    rows, found = table(), []
    kinds = {"string": "string", "hash": "hash", "sorted set": "zset"}
    for raw in client.scan_iter(count=1000):
        key = raw.decode()
        row = next((row for row in rows if row.matches(key, prefix)), None)
        if row is None:
            found.append(f"{key}: not in docs/keys.md")
        elif kinds[row.kind] != client.type(key).decode():
            found.append(f"{key}: a {client.type(key).decode()}, in docs/keys.md a {row.kind}")
        elif client.ttl(key) == -1 and not row.exempt:
            found.append(f"{key}: has no expiry")
        elif client.ttl(key) >= 0 and row.exempt:
            found.append(f"{key}: has an expiry, and docs/keys.md says none")
    return found
