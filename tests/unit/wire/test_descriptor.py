"""Descriptors: read totally, written as the contract orders them, unknown fields kept."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dramatiq_handshake.errors import DescriptorInvalid
from dramatiq_handshake.wire.descriptor import (
    MAX_DEPTH,
    MAX_DESCRIPTOR_BYTES,
    V1_BASELINE,
    ProtocolSupport,
    Sdk,
    WorkerDescriptor,
    WorkflowRegistration,
    describe,
    parse_descriptor,
)
from dramatiq_handshake.wire.ecmascript import stringify
from dramatiq_handshake.wire.etag import descriptor_etag
from tests.unit.wire.strategies import json_values, raw_descriptors, texts

BARE = {"instanceId": "a", "runtime": "python"}


def refusal(raw):
    with pytest.raises(DescriptorInvalid) as caught:
        parse_descriptor(raw)
    return caught.value


@given(raw_descriptors(unknown=True))
def test_what_was_stated_comes_back_unknown_fields_and_absence_included(raw):
    """Nothing is added, dropped or reordered between reading and repeating."""
    assert parse_descriptor(raw).to_wire() == raw
    assert parse_descriptor(stringify(raw)).to_wire() == raw
    assert parse_descriptor(stringify(raw).encode()).to_wire() == raw


@given(raw_descriptors(unknown=True))
def test_publishing_keeps_the_meaning(raw):
    """The published text reads back with the same ETag, fields, unknown ones included; no set is lost."""
    text = parse_descriptor(raw).to_json()
    again = parse_descriptor(text)
    assert descriptor_etag(again) == descriptor_etag(parse_descriptor(raw))
    assert again.to_wire().keys() == raw.keys()
    assert again.model_extra == parse_descriptor(raw).model_extra
    assert again.to_json() == text


@given(raw_descriptors(unknown=True))
def test_no_known_field_is_ever_published_as_null(raw):
    """An absent field is left out."""
    published = json.loads(parse_descriptor(raw).to_json())
    known = WorkerDescriptor.model_fields
    aliases = {info.alias for info in known.values()}
    assert not [name for name, value in published.items() if value is None and name in aliases]


def test_fields_are_published_in_the_contracts_order_and_sets_sorted():
    """Byte for byte what another SDK would write for the same worker."""
    descriptor = WorkerDescriptor(
        started_at=5,
        namespace="t",
        partition="t",
        registrations=(
            WorkflowRegistration(origin="o", requires=("b", "a"), group="g", version="1", name="w"),
        ),
        steps=("s",),
        workflows=("\ue000", "\U0001f680", "w", "w"),
        capabilities=("z", "a"),
        protocol=ProtocolSupport(range=(1, 1), version=1),
        sdk=Sdk(version="0", name="x"),
        runtime="python",
        instance_id="i",
    )
    assert descriptor.to_json() == (
        '{"instanceId":"i","runtime":"python","sdk":{"name":"x","version":"0"},'
        '"protocol":{"version":1,"range":[1,1]},"capabilities":["a","z"],"workflows":["w","\U0001f680","\ue000"],'
        '"steps":["s"],"registrations":[{"name":"w","version":"1","group":"g","requires":["a","b"],"origin":"o"}],'
        '"partition":"t","namespace":"t","startedAt":5}'
    )


def test_none_given_in_python_is_an_absent_field():
    """Our own code may pass `None` for what it doesn't state."""
    descriptor = WorkerDescriptor(instance_id="a", runtime="python", partition=None, registrations=None)
    assert descriptor.to_json() == '{"instanceId":"a","runtime":"python"}'


OPTIONAL = [
    "sdk",
    "protocol",
    "capabilities",
    "workflows",
    "steps",
    "registrations",
    "partition",
    "namespace",
    "startedAt",
]


@pytest.mark.parametrize("field", OPTIONAL)
def test_a_null_that_a_peer_wrote_is_read_as_absent(field):
    """It counts as absent everywhere; only a negotiation's own text repeats it as stated."""
    descriptor = parse_descriptor({**BARE, field: None})
    assert descriptor_etag(descriptor) == descriptor_etag(parse_descriptor(BARE))
    assert descriptor.to_wire() == BARE
    assert descriptor.to_wire(stated_nulls=True) == {**BARE, field: None}


def test_defaults_stand_in_for_what_is_absent():
    """The contract's defaults (design §3)."""
    descriptor = parse_descriptor(BARE)
    assert descriptor.is_legacy
    assert descriptor.normalised().to_wire() == {
        **BARE,
        "sdk": {"name": "unknown", "version": "0"},
        "protocol": {"version": 1, "range": [1, 1]},
        "capabilities": list(V1_BASELINE),
        "workflows": [],
        "steps": [],
        "startedAt": 0,
    }


def test_empty_is_not_absent():
    """``capabilities: []`` is a modern worker with none, ``registrations: []`` announces none."""
    raw = {**BARE, "capabilities": [], "registrations": [], "partition": ""}
    normalised = parse_descriptor(raw).normalised().to_wire()
    assert (normalised["capabilities"], normalised["registrations"], normalised["partition"]) == ([], [], "")


@given(raw_descriptors())
def test_normalising_twice_changes_nothing(raw):
    """And never changes the ETag: that is computed over the defaults."""
    once = parse_descriptor(raw).normalised()
    assert once.normalised().to_wire() == once.to_wire()
    assert descriptor_etag(once) == descriptor_etag(parse_descriptor(raw))


@pytest.mark.parametrize(
    ("raw", "field", "expected", "got"),
    [
        (None, "", "an object", "null"),
        ([], "", "an object", "a list of 0"),
        ({}, "instanceId", "a value", "nothing"),
        ({**BARE, "runtime": "ruby"}, "runtime", "'node' or 'python'", "the text 'ruby'"),
        ({**BARE, "capabilities": "gpu"}, "capabilities", "a list", "the text 'gpu'"),
        ({**BARE, "capabilities": {"a": 1}}, "capabilities", "a list", "an object of 1"),
        ({**BARE, "steps": ["a", 5]}, "steps[1]", "a text", "the number 5"),
        ({**BARE, "startedAt": True}, "startedAt", "a number", "true"),
        ({**BARE, "startedAt": math.nan}, "startedAt", "a number", "the number null"),
        ({**BARE, "sdk": {"name": "x"}}, "sdk.version", "a value", "nothing"),
        (
            {**BARE, "registrations": [{"name": "a"}, {"name": "b", "group": 7}]},
            "registrations[1].group",
            "a text",
            "the number 7",
        ),
        (
            {**BARE, "protocol": {"version": 1, "range": [1, 2, 3]}},
            "protocol.range",
            "[lowest, highest], two numbers",
            "a list of 3",
        ),
        ("{", "", "JSON", None),
        (b"\xff", "", "UTF-8", "a byte that is none at 0"),
        ('{"startedAt":NaN}', "", "JSON", "text that is none (NaN is not JSON)"),
    ],
)
def test_an_error_names_the_field_what_is_expected_and_what_came(raw, field, expected, got):
    """Enough for the owner of that worker to mend it."""
    error = refusal(raw)
    assert (error.field, error.expected) == (field, expected)
    assert got is None or error.got == got
    assert error.field in str(error)
    assert error.expected in str(error)


def test_a_python_name_is_an_unknown_field_on_the_wire():
    """Only the camelCase names are the contract's."""
    assert refusal({"instance_id": "a", "runtime": "python"}).field == "instanceId"
    assert parse_descriptor({**BARE, "instance_id": "b"}).instance_id == "a"


@given(
    st.one_of(
        json_values, st.binary(), texts, st.dictionaries(st.sampled_from([*BARE, *OPTIONAL]), json_values)
    )
)
def test_reading_is_total(raw):
    """Anything is a descriptor or a `DescriptorInvalid`; nothing else is ever raised."""
    try:
        assert isinstance(parse_descriptor(raw), WorkerDescriptor)
    except DescriptorInvalid as error:
        str(error).encode()


@given(raw_descriptors(), st.data())
def test_one_broken_field_is_refused_by_its_name(raw, data):
    """Whatever the rest looks like."""
    field = data.draw(
        st.sampled_from(["instanceId", "runtime", "capabilities", "workflows", "steps", "startedAt"])
    )
    assert refusal({**raw, field: {"never": "right"}}).field == field


@pytest.mark.parametrize(
    "raw",
    [
        "x" * (10 << 20),
        b" " * (MAX_DESCRIPTOR_BYTES + 1),
        "[" * 500_000,
        '{"instanceId":"a","runtime":"python","x":' + "[" * 900 + "]" * 900 + "}",
        '{"instanceId":"a","runtime":"python","capabilities":[' + "1," * 400_000 + "1]}",
        '{"instanceId":"a","runtime":"python","\\ud800":1}',
        {**BARE, "x": {1: 2}},
        {**BARE, "x": {1, 2}},
        {**BARE, 5: 1},
        {**BARE, "x": math.nan},
    ],
    ids=[
        "10 MB",
        "1 MiB",
        "deep",
        "deep unknown",
        "many faults",
        "surrogate name",
        "key",
        "set",
        "root key",
        "nan",
    ],
)
def test_hostile_descriptors_are_refused_in_a_short_sentence(raw):
    """Size, depth and sheer number of faults are bounded, and so is what is said of them."""
    assert len(str(refusal(raw))) < 300


def test_an_unknown_field_may_nest_as_deep_as_the_limit_says():
    """One level more is refused, naming the field."""

    def nested(depth):
        value = "leaf"
        for _ in range(depth - 1):
            value = [value]
        return value

    kept = parse_descriptor({**BARE, "x": nested(MAX_DEPTH)})
    assert parse_descriptor(kept.to_json()).to_wire()["x"] == nested(MAX_DEPTH)
    assert (
        refusal({**BARE, "sdk": {"name": "a", "version": "1", "x": nested(MAX_DEPTH + 1)}}).field == "sdk.x"
    )


def test_an_integer_of_any_length_is_the_double_that_the_reference_reads():
    """Python alone would refuse it, or keep digits that no other SDK has."""
    assert (
        parse_descriptor('{"instanceId":"a","runtime":"node","startedAt":9007199254740993}').started_at
        == 2**53
    )
    assert (
        parse_descriptor('{"instanceId":"a","runtime":"node","startedAt":' + "9" * 5000 + "}").started_at
        == math.inf
    )


def test_a_descriptor_is_frozen():
    """It is shared between threads and remembered by its ETag."""
    with pytest.raises(ValidationError, match="frozen"):
        parse_descriptor(BARE).instance_id = "b"


def test_our_own_mistakes_are_refused_when_constructing():
    """A capability that is no text never gets as far as the wire."""
    with pytest.raises(ValidationError, match="capabilities"):
        WorkerDescriptor(instance_id="a", runtime="python", capabilities=(5,))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (False, "false"),
        (1e21, "the number 1e+21"),
        ("x" * 50, "a text of 50 characters, '" + "x" * 40 + "'…"),
        ("\ud800", "the text '\\ud800'"),
        ({"a": 1}, "an object of 1"),
        ({1}, "a Python set"),
    ],
)
def test_values_are_described_shortly_and_printably(value, text):
    """What came may be endless or unprintable; the error is neither."""
    assert describe(value) == text
