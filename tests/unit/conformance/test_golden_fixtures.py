"""Our golden fixtures: produced and parsed byte for byte, hashes pinned beside them."""

from __future__ import annotations

import json

import pytest

from dramatiq_handshake.wire.descriptor import parse_descriptor
from dramatiq_handshake.wire.etag import descriptor_etag
from dramatiq_handshake.wire.heartbeat import Heartbeat, heartbeat_json, read_heartbeat
from tests.unit.conformance.golden import (
    DESCRIPTORS,
    FIXTURES,
    HEARTBEAT,
    NEGOTIATIONS,
    WORKER,
    manifest,
    negotiated,
    negotiation_text,
)

PINNED = {"descriptor.json": "a8ef83788b0e4bd3", "descriptor-with-registrations.json": "273955f66bcbe6a2"}


def fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_a_descriptor_is_produced_and_parsed_byte_identically(name):
    """What another SDK finds under our key, and what its own text would have to be."""
    assert DESCRIPTORS[name].to_json().encode() == fixture(name)
    parsed = parse_descriptor(fixture(name))
    assert parsed.to_json().encode() == fixture(name)
    assert json.loads(fixture(name)) == parsed.to_wire()


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_its_hash_is_pinned(name):
    """A changed hash makes every reader of the fleet read every descriptor again, for ever."""
    assert descriptor_etag(parse_descriptor(fixture(name))) == PINNED[name]
    assert descriptor_etag(DESCRIPTORS[name]) == PINNED[name]


def test_the_heartbeat_is_produced_and_parsed_byte_identically():
    """It carries the descriptor's hash."""
    digest = PINNED["descriptor.json"]
    assert heartbeat_json(descriptor_hash=digest, **HEARTBEAT).encode() == fixture("heartbeat.json")
    assert read_heartbeat(fixture("heartbeat.json")) == Heartbeat(
        last_beat_at=HEARTBEAT["ts_ms"],
        state=HEARTBEAT["state"],
        descriptor_hash=descriptor_etag(WORKER),
        threads=HEARTBEAT["threads"],
        in_flight=HEARTBEAT["in_flight"],
    )


@pytest.mark.parametrize("name", NEGOTIATIONS)
def test_a_negotiation_is_produced_byte_identically(name):
    """Each of the three outcomes, as its file name says."""
    assert negotiation_text(name).encode() == fixture(name)
    assert name == f"negotiation-{negotiated(name).outcome.value}.json"


def test_the_manifest_lists_every_fixture_with_its_pin():
    """Another SDK's test can be driven by it."""
    listed = {entry["file"]: entry for entry in manifest()}
    assert {path.name for path in FIXTURES.glob("*.json")} - {"manifest.json"} == listed.keys()
    assert {name: listed[name]["etag"] for name in PINNED} == PINNED
    assert listed["heartbeat.json"]["etag"] == PINNED["descriptor.json"]
    assert {listed[name]["outcome"] for name in NEGOTIATIONS} == {"compatible", "degraded", "incompatible"}
