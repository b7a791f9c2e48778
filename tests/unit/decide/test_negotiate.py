"""Negotiation: three outcomes, and everything that separates two sides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.negotiate import (
    Outcome,
    negotiate,
    negotiate_in_fleet,
    range_text,
    ranges_overlap,
)
from dramatiq_handshake.wire.descriptor import V1_BASELINE, ProtocolSupport, WorkerDescriptor
from tests.unit.wire.strategies import descriptors, names

MIRROR = {"missing_on_remote": "missing_on_local", "local_range": "remote_range", "local": "remote"}


def side(*capabilities, speaks=(1, 1), instance="i"):
    return WorkerDescriptor(
        instance_id=instance,
        runtime="python",
        protocol=ProtocolSupport(version=speaks[1], range=speaks),
        capabilities=capabilities,
    )


def test_equal_sides_are_compatible():
    """And the session speaks the highest common major."""
    result = negotiate(side("a", speaks=(1, 3)), side("a", speaks=(2, 4)))
    assert (result.outcome, result.session_protocol, result.code, result.reason) == (
        Outcome.COMPATIBLE, 3, None, "",
    )  # fmt: skip
    assert result.shared == ("a",)


def test_any_difference_of_capabilities_degrades():
    """Both differences are told, sorted by code unit."""
    result = negotiate(side("b", "\ue000", "\U0001f680"), side("b", "c"))
    assert (result.outcome, result.code) == (Outcome.DEGRADED, Code.CAPABILITY_UNAVAILABLE)
    assert result.missing_on_remote == ("\U0001f680", "\ue000")
    assert result.missing_on_local == ("c",)
    assert "the remote side lacks \U0001f680" in result.reason
    assert "the local side lacks c" in result.reason


def test_what_is_required_is_looked_for_on_the_remote_only():
    """Two equal sides are degraded where neither has it."""
    result = negotiate(side("a"), side("a"), ["b", "a", "b"])
    assert (result.outcome, result.missing_required) == (Outcome.DEGRADED, ("b",))
    assert result.reason.endswith("what is required: b")
    assert negotiate(side("a", "b"), side("a"), ["b"]).missing_required == ("b",)


def test_no_common_major_is_incompatible_whatever_else_is_missing():
    """Then there is no session, and the code is the protocol's."""
    result = negotiate(side(speaks=(1, 2)), side("a", speaks=(3, 3)), ["b"])
    assert (result.outcome, result.code) == (Outcome.INCOMPATIBLE, Code.PROTOCOL_INCOMPATIBLE)
    assert result.session_protocol is None
    assert "1 to 2" in result.reason
    assert result.to_wire()["reason"]["detail"] == {"localRange": [1, 2], "remoteRange": [3, 3]}


@given(descriptors, descriptors, st.lists(names, max_size=3))
def test_both_sides_come_to_the_same_verdict(one, other, required):
    """Without demands, negotiating is symmetric: every field is its mirror image."""
    here, there = negotiate(one, other), negotiate(other, one)
    assert (here.outcome, here.session_protocol, here.shared, here.code) == (
        there.outcome, there.session_protocol, there.shared, there.code,
    )  # fmt: skip
    for name, mirror in MIRROR.items():
        assert getattr(here, name) == getattr(there, mirror)
        assert getattr(here, mirror) == getattr(there, name)
    demanding = negotiate(one, other, required)
    assert demanding.session_protocol == here.session_protocol
    assert (demanding.outcome is Outcome.INCOMPATIBLE) == (here.outcome is Outcome.INCOMPATIBLE)
    assert here.outcome is not Outcome.DEGRADED or demanding.outcome is Outcome.DEGRADED


@given(descriptors)
def test_a_side_agrees_with_itself_unless_its_range_is_inverted(descriptor):
    """An inverted range overlaps none, not even itself."""
    result = negotiate(descriptor, descriptor)
    lowest, highest = result.local_range
    assert (result.outcome is Outcome.COMPATIBLE) == (lowest <= highest)
    assert result.session_protocol == (highest if lowest <= highest else None)


def test_a_legacy_side_has_the_baseline_and_speaks_one():
    """A worker that states nothing is v1 with everything that v1 had."""
    result = negotiate(side(*V1_BASELINE), WorkerDescriptor(instance_id="old", runtime="node"))
    assert result.outcome is Outcome.COMPATIBLE
    assert result.remote.to_wire()["protocol"] == {"version": 1, "range": [1, 1]}


def test_in_the_fleet_view_more_than_was_asked_is_not_degraded():
    """The control plane's side holds its actors' demands plus whatever the worker offers."""
    control_plane = side(instance="cp")
    able = negotiate_in_fleet(control_plane, side("gpu", "saga"), ["gpu"])
    assert (able.outcome, able.missing_on_local) == (Outcome.COMPATIBLE, ())
    assert able.local.capabilities == ("gpu", "saga")
    unable = negotiate_in_fleet(control_plane, side("saga"), ["gpu"])
    assert (unable.outcome, unable.missing_on_remote) == (Outcome.DEGRADED, ("gpu",))
    assert negotiate_in_fleet(control_plane, side("gpu", speaks=(2, 2)), []).outcome is Outcome.INCOMPATIBLE


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [((1, 1), (1, 1), True), ((1, 2), (2, 3), True), ((1, 1), (2, 2), False), ((2, 1), (1, 2), False)],
)
def test_ranges_overlap_where_they_share_a_major(one, other, overlap):
    """Both ends are included."""
    assert ranges_overlap(one, other) is overlap
    assert ranges_overlap(other, one) is overlap


def test_a_range_is_told_in_words():
    """One major, or the two ends."""
    assert (range_text((1, 1)), range_text((1, 2))) == ("1", "1 to 2")
