"""The directory's Lua scripts: what their files promise."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from dramatiq_handshake.routing.keys import RoutingKeys
from dramatiq_handshake.routing.scripts import SCRIPTS
from dramatiq_handshake.storage.scripts import Script

every_script = pytest.mark.parametrize("script", SCRIPTS, ids=[script.name for script in SCRIPTS])
FOLDER = resources.files("dramatiq_handshake.routing").joinpath("lua")
PRELUDE = FOLDER.joinpath("prelude_v1.lua").read_text(encoding="utf-8")
#: What the prelude binds to KEYS, and names for one of them.
BOUND = {"workers", "beats", "unhealthy", "load", "jobs", "lapses", "turns", "key"}


def code(text: str) -> str:
    """A script without its comments."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))


def test_every_file_is_one_of_the_scripts_and_carries_its_version() -> None:
    files = {entry.name for entry in FOLDER.iterdir()}

    assert files == {f"{script.name}.lua" for script in SCRIPTS} | {"prelude_v1.lua"}
    assert all(re.fullmatch(r"[a-z_]+_v[0-9]+", script.name) for script in SCRIPTS)


def test_the_prelude_catalogues_the_keys_in_their_order() -> None:
    listed = re.findall(r"^--   ([0-9])  (\w+) +(?:HASH|ZSET) ", PRELUDE, re.MULTILINE)
    names = [key.rpartition(":")[2] for key in RoutingKeys("p").all]

    assert listed == [(str(number), name) for number, name in enumerate(names, 1)]


@every_script
def test_a_script_begins_with_the_prelude_and_says_what_it_is_for(script: Script) -> None:
    own = script.text.removeprefix(PRELUDE)

    assert own != script.text
    assert re.match(r"-- [A-Z].*\.", own)
    used = {int(number) for number in re.findall(r"ARGV\[([0-9]+)\]", own)} - {2}
    head = own.partition("\n\n")[0]
    assert all(re.search(rf"(^--| )  ?{number}(\.\.)? \w", head, re.MULTILINE) for number in used), head


@every_script
def test_a_script_touches_only_keys_that_it_declares(script: Script) -> None:
    keys = set(re.findall(r"redis\.call\('\w+', ([^,)]+)", code(script.text)))

    assert keys <= BOUND


@every_script
def test_a_script_uses_nothing_that_looks_at_the_whole_keyspace(script: Script) -> None:
    used = set(re.findall(r"redis\.call\('(\w+)'", code(script.text)))

    assert used
    assert used.isdisjoint({"KEYS", "SCAN", "FLUSHALL", "FLUSHDB", "RANDOMKEY"})
