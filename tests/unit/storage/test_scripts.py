"""The Lua scripts: what their files promise."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from dramatiq_handshake.storage.scripts import SCRIPTS, Script

every_script = pytest.mark.parametrize("script", SCRIPTS, ids=[script.name for script in SCRIPTS])


def code(script: Script) -> str:
    """A script without its comments."""
    return "\n".join(line for line in script.text.splitlines() if not line.lstrip().startswith("--"))


def commands(script: Script) -> set[str]:
    return set(re.findall(r"redis\.call\('(\w+)'", code(script)))


def test_every_file_is_one_of_the_scripts_and_carries_its_version() -> None:
    folder = resources.files("dramatiq_handshake.storage").joinpath("lua")

    assert {entry.name for entry in folder.iterdir()} == {f"{script.name}.lua" for script in SCRIPTS}
    assert all(re.fullmatch(r"[a-z_]+_v[0-9]+", script.name) for script in SCRIPTS)


@every_script
def test_a_script_opens_with_what_it_is_for_and_a_catalogue_of_its_keys(script: Script) -> None:
    head = script.text.partition("\n\n")[0]

    assert re.match(r"-- [A-Z].*\.", head)
    assert re.search(r"^-- KEYS\n--   +1 +[\w ]+ (ZSET|HASH|STRING) ", head, re.MULTILINE)
    assert re.search(r"^-- ARGV\n--   1 now in ms", head, re.MULTILINE)


@every_script
def test_a_script_touches_only_keys_that_it_declares(script: Script) -> None:
    """Every key comes from KEYS, by itself or through a name that was bound to it."""
    bound = {
        "set",
        "companion",
        "classes",
        "members",
        "live",
        "placed",
        "claims",
        "record",
        "served",
        "epoch_key",
    }
    bound |= {"blocked", "messages", "need", "listed"}
    keys = re.findall(r"redis\.call\('\w+', ([^,)]+)", code(script))

    assert keys
    assert [key for key in keys if not key.startswith("KEYS[") and key not in bound] == []
    names = set(keys) - {"set", "companion"}
    unbound = [
        name
        for name in names
        if "KEYS[" not in name
        and not re.search(rf"local [^=\n]*\b{name}\b[^=\n]* = [^\n]*KEYS\[", code(script))
        and not re.search(rf"local function \w+\([^)]*\b{name}\b", code(script))
    ]
    assert unbound == []


@every_script
def test_a_script_searches_no_keyspace_and_builds_no_key(script: Script) -> None:
    assert not commands(script) & {"KEYS", "SCAN", "RANDOMKEY", "WATCH", "EVAL"}
    assert "handshake:" not in code(script)


@every_script
def test_a_script_asks_the_server_for_the_time_unless_a_test_gives_it(script: Script) -> None:
    assert "TIME" in commands(script)
    assert not re.search(r"math\.random|os\.", code(script))


@pytest.mark.parametrize("name", ["look_v1", "index_v1", "unclaimed_v1"])
def test_reading_scripts_hold_no_writing_command(name: str) -> None:
    reading = {"TIME", "GET", "HVALS", "HMGET", "ZCOUNT", "ZSCORE", "ZRANGEBYSCORE"}

    assert commands(Script.load(name)) <= reading
