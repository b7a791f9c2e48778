"""The directory's Lua scripts: a prelude that all of them begin with, and one file for each step.

As for the registry's (`storage.scripts`), a file is never edited after a release: a change is a new file
with the next version.
"""

from __future__ import annotations

import hashlib
from importlib import resources

from dramatiq_handshake.storage.scripts import Script

__all__ = [
    "BEAT",
    "BEGIN",
    "END",
    "FIND",
    "FINISH",
    "HEARTBEAT",
    "LEAVE",
    "LIST",
    "MARK_UNHEALTHY",
    "REGISTER",
    "RENEW",
    "RESERVE",
    "SCRIPTS",
    "START",
]


def _text(name: str) -> str:
    return resources.files(__package__).joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


_PRELUDE = _text("prelude_v1")


def _load(name: str) -> Script:
    text = _PRELUDE + _text(name)
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


REGISTER = _load("register_v1")
HEARTBEAT = _load("heartbeat_v1")
MARK_UNHEALTHY = _load("mark_unhealthy_v1")
LIST = _load("list_v1")
RESERVE = _load("reserve_v1")
START = _load("start_v1")
END = _load("end_v1")
FIND = _load("find_v1")
RENEW = _load("renew_v1")
BEAT = _load("beat_v1")
BEGIN = _load("begin_v1")
FINISH = _load("finish_v1")
LEAVE = _load("leave_v1")

SCRIPTS = (
    REGISTER,
    HEARTBEAT,
    MARK_UNHEALTHY,
    LIST,
    RESERVE,
    START,
    END,
    FIND,
    RENEW,
    BEAT,
    BEGIN,
    FINISH,
    LEAVE,
)
