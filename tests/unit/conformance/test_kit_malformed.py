"""The judge of malformed rows, held against the library from both sides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.kit import malformed
from conformance.kit.malformed import check_malformed
from conformance.kit.rows import read_file
from conformance.kit.shape import fault_of_descriptor, fault_of_heartbeat
from dramatiq_handshake.decide.directory import build_directory
from dramatiq_handshake.errors import DescriptorInvalid
from dramatiq_handshake.wire.descriptor import parse_descriptor
from tests.unit.conformance.golden import VECTORS
from tests.unit.wire.strategies import json_values, raw_descriptors

FIELDS = [
    "instanceId", "runtime", "sdk", "protocol", "capabilities", "workflows", "steps", "registrations",
    "partition", "namespace", "startedAt",
]  # fmt: skip


@given(raw_descriptors(unknown=True), st.data())
def test_judge_and_library_agree_on_any_value_in_any_field(raw, data):
    """Written apart, they refuse the same descriptors for the same field."""
    raw = {**raw, data.draw(st.sampled_from(FIELDS)): data.draw(json_values)}
    fault = fault_of_descriptor(raw)
    if fault is None:
        parse_descriptor(raw)
        return
    with pytest.raises(DescriptorInvalid) as caught:
        parse_descriptor(raw)
    assert caught.value.field.startswith(fault.split("[]")[0])


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"instanceId": "a", "runtime": "node"}, None),
        ({"instanceId": "", "runtime": "node", "capabilities": None}, None),
        ({"instanceId": "a", "runtime": "ruby"}, "runtime"),
        ({"instanceId": "a", "runtime": "node", "protocol": {"version": 1, "range": [1]}}, "protocol.range"),
        (
            {"instanceId": "a", "runtime": "node", "registrations": [{"name": "a"}, {}]},
            "registrations[].name",
        ),
        ("x", ""),
    ],
)
def test_the_judge_names_the_first_fault(value, fault):
    """By CONTRACT.md."""
    assert fault_of_descriptor(value) == fault


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"group": "q", "instanceId": "i"}, None),
        ({"group": 5}, "group"),
        ({"group": "q"}, "instanceId"),
        (5, ""),
    ],
)
def test_the_judge_names_a_heartbeats_fault(value, fault):
    """Both names are needed."""
    assert fault_of_heartbeat(value) == fault


def test_how_many_of_the_public_rows_are_at_fault_is_pinned():
    """CONTRACT.md 2.7 says so: a change of our reading shows here."""
    rows = [row.value for row in read_file(VECTORS / "malformed.jsonl")]
    faults = [
        fault_of_descriptor(row["descriptor"])
        if "descriptor" in row
        else fault_of_heartbeat(row["heartbeat"])
        for row in rows
    ]
    assert (len(faults), len([fault for fault in faults if fault is not None])) == (252, 210)


BAD = {"what": "steps", "descriptor": {"instanceId": "x", "runtime": "node", "steps": 5}}
LEGAL = {"what": "steps: []", "descriptor": {"instanceId": "x", "runtime": "node", "steps": []}}
BAD_BEAT = {"what": "heartbeat", "heartbeat": {"group": "q"}}


@pytest.mark.parametrize("row", [BAD, LEGAL, BAD_BEAT], ids=lambda row: row["what"])
def test_a_library_that_skips_and_reports_passes(row):
    """In every position, for an operator and for a tenant."""
    assert check_malformed(row) is None


def planted(monkeypatch, change):
    """A directory that goes wrong whenever something unreadable is in the list."""

    def build(descriptors, heartbeats, **options):
        return change(build_directory(descriptors, heartbeats, **options))

    monkeypatch.setattr(malformed, "build_directory", build)


@pytest.mark.parametrize(
    ("row", "change", "says"),
    [
        (
            BAD,
            lambda got: got.model_copy(update={"workflows": got.workflows[1:]}) if got.invalid else got,
            "came out changed",
        ),
        (BAD, lambda got: got.model_copy(update={"invalid": ()}), "exactly one descriptor.invalid, got []"),
        (
            BAD,
            lambda got: got.model_copy(update={"invalid": got.invalid * 2}),
            "exactly one descriptor.invalid",
        ),
        (
            BAD,
            lambda got: got.model_copy(
                update={"invalid": tuple(one.model_copy(update={"field": "sdk"}) for one in got.invalid)}
            ),
            "to name 'steps', got 'sdk'",
        ),
        (
            LEGAL,
            lambda got: build_directory([5], namespace=None).model_copy(update={"workflows": got.workflows}),
            "no report of a legal row",
        ),
        (
            BAD_BEAT,
            lambda got: got.model_copy(update={"other_partitions": ()}) if got.invalid else got,
            "left something behind",
        ),
    ],
)
def test_a_library_that_does_harm_or_misreports_is_caught(row, change, says, monkeypatch):
    """The check itself is checked."""
    planted(monkeypatch, change)
    difference = check_malformed(row)
    assert difference is not None
    assert says in difference
