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
    reading = {"TIME", "GET", "EXISTS", "HVALS", "HMGET", "ZCOUNT", "ZSCORE", "ZRANGEBYSCORE"}

    assert commands(Script.load(name)) <= reading


#: What 0.1.0 ships. A fleet runs two releases side by side during a deploy, and both call a script by
#: its name's content: once released, an entry here is never changed, only joined by the next version.
RELEASED = {
    "block_v1": "20adbc21fe2d1fbf090cec934c0f7dc0f151da36",
    "claim_v1": "2084ffe246a9d39e6e5193883c97aa4101c079c6",
    "index_v1": "92badfce025a57dce79fc53570a0d43529ff1fad",
    "look_v1": "852c20e0f26fc30a4c320c1446446175acedb79b",
    "open_lane_v1": "7676bf9bb711d7827174bb3d87647cacfd2458e7",
    "place_v1": "59a15d9e8dd97a849422e19b8ceb588559f6af9b",
    "release_v1": "335f71b6326392bddf00d7ac35d64c9c700ab3d0",
    "retire_lane_v1": "5415cec9b713deadbee76206e5737cf2ac3c2d50",
    "unclaimed_v1": "ff74bc13591f71fa91ed7c810ac65edffe462718",
}


def test_a_released_script_is_never_edited() -> None:
    current = {script.name: script.sha for script in SCRIPTS}

    assert {name: current.get(name) for name in RELEASED} == RELEASED
