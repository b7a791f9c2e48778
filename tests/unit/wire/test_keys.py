"""The contract's keys, written and read back."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.wire.keys import ContractKeys, glob_escape

keys = ContractKeys("dramatiq")
plain = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


def test_keys_are_spelled_as_the_contract_spells_them():
    """Another SDK reads these, letter for letter."""
    assert keys.heartbeat("ml@davi-local", "py-1") == "dramatiq-worker-heartbeat:ml@davi-local:py-1"
    assert keys.descriptor("ml", "py-1") == "dramatiq-worker-descriptor:ml:py-1"
    assert keys.control_plane("py-1") == "dramatiq-control-plane:py-1"


@given(plain, plain, plain)
def test_token_and_instance_come_back_from_the_key(prefix, token, instance):
    """The token can't hold ``:``, so an instance id may hold anything."""
    keys = ContractKeys(prefix)
    written = token.replace(":", "-")
    assert keys.parse_heartbeat(keys.heartbeat(token, instance)) == (written, instance)
    assert keys.parse_descriptor(keys.descriptor(token, instance).encode()) == (written, instance)
    assert keys.parse_control_plane(keys.control_plane(instance)) == instance


@pytest.mark.parametrize(
    "key",
    [
        b"\xff\xfe",
        "other-worker-heartbeat:ml:py-1",
        "dramatiq-worker-heartbeat:ml",
        "dramatiq-worker-heartbeat::py-1",
        "dramatiq-worker-heartbeat:ml:",
        "dramatiq-worker-descriptor:ml:py-1",
        "",
    ],
)
def test_a_key_of_another_family_or_deployment_is_not_a_heartbeat(key):
    """A scan may return anything; what is none of ours is passed over."""
    assert keys.parse_heartbeat(key) is None


def test_an_empty_instance_is_no_control_plane():
    """The key names nobody."""
    assert keys.parse_control_plane("dramatiq-control-plane:") is None


def test_patterns_match_every_key_of_their_family_only():
    """Each family is scanned on its own."""
    assert fnmatch.fnmatchcase(keys.heartbeat("ml", "py-1"), keys.heartbeats_pattern)
    assert fnmatch.fnmatchcase(keys.descriptor("ml", "py-1"), keys.descriptors_pattern)
    assert fnmatch.fnmatchcase(keys.control_plane("py-1"), keys.control_planes_pattern)
    assert not fnmatch.fnmatchcase(keys.descriptor("ml", "py-1"), keys.heartbeats_pattern)


@given(st.text(st.sampled_from("ab*?[]^\\-"), max_size=6))
def test_a_prefix_never_acts_as_a_pattern(prefix):
    """``team[1]*`` names one deployment; unescaped, it would read the keys of others."""
    escaped = glob_escape(prefix)
    assert re.sub(r"\\(.)", r"\1", escaped) == prefix
    assert not re.search(r"(?<!\\)(?:\\\\)*[*?\[\]^]", escaped)
    assert ContractKeys(prefix).heartbeats_pattern == f"{escaped}-worker-heartbeat:*"
