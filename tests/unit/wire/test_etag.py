"""The ETag: the same for the same content, another for any other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.wire.descriptor import parse_descriptor
from dramatiq_handshake.wire.etag import descriptor_etag, fnv1a_64
from tests.unit.wire.strategies import raw_descriptors

FULL = {
    "instanceId": "py-1",
    "runtime": "python",
    "sdk": {"name": "s", "version": "1"},
    "protocol": {"version": 1, "range": [1, 1]},
    "capabilities": ["gpu"],
    "workflows": ["train"],
    "steps": ["load"],
    "registrations": [
        {"name": "train", "version": "2", "group": "ml", "requires": ["gpu"], "origin": "vision"}
    ],
    "partition": "a",
    "namespace": "a",
    "startedAt": 5,
}
REGISTRATION = FULL["registrations"][0]


def etag(raw):
    return descriptor_etag(parse_descriptor(raw))


def test_the_hash_is_of_code_units_with_one_multiplication_each():
    """The published FNV-1a of one byte, since a zero high byte changes nothing; then a two-byte unit."""
    assert fnv1a_64("") == "cbf29ce484222325"
    assert fnv1a_64("a") == "af63dc4c8601ec8c"
    assert fnv1a_64("\u0161") == fnv1a_64(chr(0x61 ^ 0x01))
    assert fnv1a_64("\U0001f680") == fnv1a_64("\ud83d\ude80")


@given(raw_descriptors(), st.randoms())
def test_the_order_and_repetition_of_sets_do_not_count(raw, random):
    """Sets are compared as sets, a registration's demands and the registrations included."""

    def shuffled(values):
        doubled = [*values, *values[:1]]
        random.shuffle(doubled)
        return doubled

    other = dict(raw)
    for field in ("capabilities", "workflows", "steps"):
        if field in raw:
            other[field] = shuffled(raw[field])
    if "registrations" in raw:
        other["registrations"] = shuffled(
            [
                {**entry, "requires": shuffled(entry["requires"])} if "requires" in entry else entry
                for entry in raw["registrations"]
            ]
        )
    assert etag(other) == etag(raw)


@given(raw_descriptors())
def test_unknown_fields_do_not_count(raw):
    """A newer SDK's fields must not make an older reader re-read for ever."""
    assert etag({**raw, "color": "red"}) == etag(raw)


@pytest.mark.parametrize(
    "change",
    [
        {"instanceId": "py-2"},
        {"runtime": "node"},
        {"sdk": {"name": "t", "version": "1"}},
        {"sdk": {"name": "s", "version": "2"}},
        {"protocol": {"version": 2, "range": [1, 1]}},
        {"protocol": {"version": 1, "range": [0, 1]}},
        {"protocol": {"version": 1, "range": [1, 2]}},
        {"capabilities": []},
        {"capabilities": ["gpu", "saga"]},
        {"workflows": []},
        {"steps": []},
        {"registrations": []},
        {"registrations": [REGISTRATION, {"name": "other"}]},
        {"registrations": [{**REGISTRATION, "name": "x"}]},
        {"registrations": [{**REGISTRATION, "version": "3"}]},
        {"registrations": [{**REGISTRATION, "group": "x"}]},
        {"registrations": [{**REGISTRATION, "requires": []}]},
        {"registrations": [{**REGISTRATION, "origin": "x"}]},
        {"partition": "b"},
        {"namespace": "b"},
        {"startedAt": 6},
    ],
    ids=str,
)
def test_every_field_counts(change):
    """One change anywhere is a new ETag, so that the descriptor is read again."""
    assert etag({**FULL, **change}) != etag(FULL)


@pytest.mark.parametrize("field", ["version", "group", "requires", "origin"])
def test_an_absent_field_of_a_registration_counts_as_null_and_not_as_empty(field):
    """``requires: []`` states "none"; leaving it out states nothing."""
    absent = {name: value for name, value in REGISTRATION.items() if name != field}
    empty = {**REGISTRATION, field: [] if field == "requires" else ""}
    null = {**REGISTRATION, field: None}
    hashes = [etag({**FULL, "registrations": [entry]}) for entry in (absent, null, empty, REGISTRATION)]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_a_default_counts_like_the_same_thing_stated():
    """No `capabilities` *is* the v1 baseline; an empty list is not."""
    bare = {"instanceId": "a", "runtime": "node"}
    baseline = "saga signals search-attributes priority entities child-workflows singleton schedules"
    baseline += " continue-as-new queries cancellation"
    stated = {
        **bare,
        "sdk": {"name": "unknown", "version": "0"},
        "protocol": {"version": 1, "range": [1, 1]},
        "capabilities": baseline.split(),
        "workflows": [],
        "steps": [],
        "startedAt": 0,
    }
    assert etag(stated) == etag(bare)
    assert etag({**bare, "capabilities": []}) != etag(bare)
    assert etag({**bare, "registrations": []}) != etag(bare)
