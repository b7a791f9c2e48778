"""Classes: equal routing content, equal class; a body reads back as the same candidate."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.decide.candidate import candidate_of, legacy_candidate
from dramatiq_handshake.decide.classes import class_of, read_class
from dramatiq_handshake.wire.descriptor import parse_descriptor
from dramatiq_handshake.wire.ecmascript import stringify
from tests.unit.wire.strategies import descriptors, json_values, raw_descriptors, texts

WORKER = {
    "instanceId": "py-1",
    "runtime": "python",
    "sdk": {"name": "dramatiq-handshake", "version": "0.1.0"},
    "protocol": {"version": 1, "range": [1, 1]},
    "capabilities": ["gpu", "saga"],
    "workflows": ["train"],
    "steps": ["load"],
    "registrations": [
        {"name": "train", "version": "2", "group": "ml", "requires": ["gpu"], "origin": "vision"}
    ],
    "partition": "a",
    "namespace": "a",
    "startedAt": 5,
}


def class_id(**changes):
    return class_of(parse_descriptor({**WORKER, **changes}), "broker")[0]


@given(raw_descriptors(), st.text(max_size=3))
def test_a_class_body_reads_back_as_the_same_candidate(raw, broker):
    """Nothing that counts for dispatch is lost on the way through the registry."""
    descriptor = parse_descriptor(raw)
    name, body = class_of(descriptor, broker)
    assert read_class(name, body) == candidate_of(descriptor, id=name, broker=broker)


@pytest.mark.parametrize(
    "change",
    [
        {"instanceId": "py-2"},
        {"startedAt": 6},
        {"sdk": {"name": "dramatiq-handshake", "version": "0.2.0"}},
        {"capabilities": ["saga", "gpu", "gpu"]},
        {"protocol": {"version": 2, "range": [1, 1]}},
        {"registrations": [{**WORKER["registrations"][0], "origin": "other"}]},
        {"registrations": WORKER["registrations"] * 2},
    ],
    ids=str,
)
def test_what_is_unique_to_a_worker_or_does_not_count_for_routing_keeps_the_class(change):
    """A fleet of any size is a handful of classes."""
    assert class_id(**change) == class_id()


@pytest.mark.parametrize(
    "change",
    [
        {"sdk": {"name": "durable-worker", "version": "0.1.0"}},
        {"protocol": {"version": 1, "range": [1, 2]}},
        {"protocol": None},
        {"capabilities": ["gpu"]},
        {"capabilities": None},
        {"workflows": []},
        {"steps": []},
        {"registrations": []},
        {"registrations": None},
        {"registrations": [{**WORKER["registrations"][0], "version": "3"}]},
        {"registrations": [{**WORKER["registrations"][0], "group": "other"}]},
        {"registrations": [{**WORKER["registrations"][0], "requires": []}]},
        {"partition": "b"},
        {"namespace": "b"},
    ],
    ids=str,
)
def test_whatever_counts_for_routing_makes_another_class(change):
    """A verdict on a class must hold for all of its workers."""
    assert class_id(**change) != class_id()


def test_workers_of_two_brokers_are_two_classes():
    """Two virtual hosts may share one registry (design §5, identity)."""
    worker = parse_descriptor(WORKER)
    assert class_of(worker, "one")[0] != class_of(worker, "two")[0]


def test_the_body_of_this_format_is_pinned():
    """Two releases share it: a change of the text needs a new format version, never an edit."""
    assert class_of(parse_descriptor(WORKER), "redis:1") == (
        "f3badadd9d0129c8",
        (
            '{"class":1,"broker":"redis:1","runtime":"python","sdk":{"name":"dramatiq-handshake"},"protocol":[1,1],'
            '"capabilities":["gpu","saga"],"workflows":["train"],"steps":["load"],'
            '"registrations":[{"name":"train","version":"2","group":"ml","requires":["gpu"]}],'
            '"partition":"a","namespace":"a"}'
        ),
    )


@pytest.mark.parametrize(
    "body",
    [None, "", "{", "5", "null", "{}", '{"class":2}', '{"class":1,"runtime":5}', "[" * 9000, "x" * (2 << 20)],
    ids=lambda body: str(body)[:20],
)
def test_a_body_that_is_gone_unreadable_or_of_a_later_format_is_a_legacy_worker(body):
    """Somebody is live, and nothing more is known: assumed compatible."""
    assert read_class("c", body) == legacy_candidate("c")


@given(st.one_of(texts, json_values.map(stringify), st.dictionaries(texts, json_values).map(stringify)))
def test_reading_a_class_is_total(body):
    """A hostile body never raises."""
    assert read_class("c", body).id == "c"


@given(descriptors)
def test_a_candidate_is_a_value(descriptor):
    """It is frozen, hashable, and equal by content: plans are remembered by it."""
    one = candidate_of(descriptor)
    assert {one: 1}[dataclasses.replace(one)] == 1
