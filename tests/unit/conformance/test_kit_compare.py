"""Comparing answers: exact, except where the format says that an order is the host's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from conformance.kit.compare import first_difference, in_our_order
from tests.unit.wire.strategies import json_values

DIRECTORY = {
    "workflows": [
        {"key": "b", "evidence": "observed", "requires": [["y"], ["x"]], "groups": ["2", "1"]},
        {"key": "b", "evidence": "declared", "disagreements": [{"axis": "requires", "values": ["y", "x"]}]},
        {"key": "a", "evidence": "declared", "disagreements": [{"axis": "group", "values": ["y", "x"]}]},
    ],
    "otherPartitions": [{"partition": "q"}, {"partition": "p"}],
}


@given(json_values)
def test_an_answer_equals_itself(value):
    """Whatever it is."""
    assert first_difference(value, value) is None


@pytest.mark.parametrize(
    ("expected", "got", "says"),
    [
        ({"a": None}, {}, "result.a: expected null, got nothing"),
        ({}, {"a": None}, "result.a: expected nothing, got null"),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "result.a[1].b: expected 2, got 3"),
        ([1], [1, 2], "result: expected 1 entries, got 2"),
        ([1, 2], [2, 1], "result[0]: expected 1, got 2"),
        (1, True, "result: expected 1, got true"),
        ("1", 1, 'result: expected "1", got 1'),
        (None, False, "result: expected null, got false"),
        ([], {}, "result: expected [], got {}"),
    ],
)
def test_the_first_difference_is_told(expected, got, says):
    """Absent is not null, a number is not a boolean, a list is ordered."""
    assert first_difference(expected, got) == says


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (math.inf, math.inf), ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
)
def test_equal_doubles_and_reordered_keys_are_the_same(one, other):
    """An object's keys have no order."""
    assert first_difference(one, other) is None


def test_a_long_value_is_cut():
    """The line stays readable."""
    difference = first_difference("x" * 1000, "y")
    assert difference is not None
    assert len(difference) < 250


def test_only_the_named_axes_are_compared_as_multisets():
    """Everything else keeps its order."""
    assert in_our_order(DIRECTORY, frozenset()) == DIRECTORY
    keys = in_our_order(DIRECTORY, frozenset({"keys"}))
    assert [(one["key"], one["evidence"]) for one in keys["workflows"]] == [
        ("a", "declared"),
        ("b", "declared"),
        ("b", "observed"),
    ]
    assert keys["otherPartitions"] == DIRECTORY["otherPartitions"]
    requires = in_our_order(DIRECTORY, frozenset({"requires"}))["workflows"]
    assert requires[0]["requires"] == [["x"], ["y"]]
    assert requires[0]["groups"] == ["2", "1"]
    assert requires[1]["disagreements"][0]["values"] == ["x", "y"]
    assert requires[2]["disagreements"][0]["values"] == ["y", "x"]
    partitions = in_our_order(DIRECTORY, frozenset({"partitions"}))
    assert [one["partition"] for one in partitions["otherPartitions"]] == ["p", "q"]
    assert in_our_order(DIRECTORY["workflows"], frozenset({"keys"})) == keys["workflows"]


def test_a_multiset_still_counts():
    """Twice is not once."""
    axes = frozenset({"keys"})
    one, two = ([{"key": "a", "evidence": "declared"}] * count for count in (1, 2))
    assert first_difference(in_our_order(one, axes), in_our_order(two, axes)) is not None


@pytest.mark.parametrize("answer", [None, "x", 5, {"workflows": 5}, [5]])
def test_an_answer_of_another_shape_is_left_to_the_comparison(answer):
    """A crash here would hide the difference."""
    assert in_our_order(answer, frozenset({"keys", "requires", "partitions"})) == answer
