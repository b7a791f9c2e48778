"""The private keys: one place, one hash tag, one page that lists them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.routing.keys import RoutingKeys
from dramatiq_handshake.storage.keys import RegistryKeys
from dramatiq_handshake.wire.keys import ContractKeys
from tests.contract.leaks import table

NAME = "x"


def every_key(prefix: str) -> list[str]:
    """Each private key, with one and the same name wherever one is needed."""
    keys, found = RegistryKeys(prefix), []
    for attribute in vars(RegistryKeys):
        if attribute.startswith("_") or attribute in ("prefix", "root", "advertisements_pattern"):
            continue
        value = getattr(keys, attribute)
        found.append(value(NAME) if callable(value) else value)
    return [*found, *RoutingKeys(prefix).all]


def hash_tag(key: str) -> str:
    """What Redis Cluster hashes of a key."""
    found = re.search(r"\{([^}]+)\}", key)
    assert found is not None
    return found[1]


@given(st.text(st.characters(exclude_characters="{}"), min_size=1))
def test_all_private_keys_are_different_and_share_one_hash_tag(prefix: str) -> None:
    keys = every_key(prefix)

    assert len(set(keys)) == len(keys) > 12
    assert {hash_tag(key) for key in keys} == {f"{prefix}:handshake:1"}


def test_every_private_key_is_in_the_documentation_and_nothing_else_is() -> None:
    documented = [row for row in table() if row.pattern.startswith("R")]
    used = set()
    for key in every_key("P"):
        row = next((row for row in documented if row.matches(key, "P")), None)
        assert row is not None, key
        used.add(row.pattern)

    assert used == {row.pattern for row in documented}


def test_only_lanes_and_blocked_messages_outlive_everything() -> None:
    exempt = {row.pattern for row in table() if row.exempt}

    assert exempt == {
        "R:lanes:<base>",
        "R:epoch::lanes",
        "R:blocked",
        "R:blocked-need:<need>",
        "R:blocked-listed:<need>",
        "R:blocked-messages",
    }


@pytest.mark.parametrize("prefix", ["dramatiq", "a*b", "a[b]?", "x\\y"])
def test_one_scan_finds_heartbeats_and_descriptors_of_this_deployment_only(prefix: str) -> None:
    pattern = RegistryKeys(prefix).advertisements_pattern
    contract = ContractKeys(prefix)

    def as_regex(glob: str) -> str:
        parts = re.findall(r"\\(.)|(\*)|([^\\*])", glob)
        return "".join(".*" if star else re.escape(escaped or plain) for escaped, star, plain in parts)

    assert re.fullmatch(as_regex(pattern), contract.heartbeat("ml", "w1"))
    assert re.fullmatch(as_regex(pattern), contract.descriptor("ml", "w1"))
    assert not re.fullmatch(as_regex(pattern), contract.control_plane("w1"))
    assert not re.fullmatch(as_regex(pattern), ContractKeys("other").heartbeat("ml", "w1"))
