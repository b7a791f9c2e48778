"""When two answers say the same on the wire."""

from __future__ import annotations

import pytest

from conformance.peers.compare import first_difference


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (1, 1.0),
        (0, -0.0),
        (float("inf"), float("inf")),
        ([1, [None, True]], [1, [None, True]]),
    ],
)
def test_same(one: object, other: object) -> None:
    """Key order and the spelling of a double make no difference."""
    assert first_difference(one, other) is None


@pytest.mark.parametrize(
    ("expected", "got", "words"),
    [
        ({"a": None}, {}, "result.a: expected null, got nothing"),
        ({}, {"a": None}, "result.a: expected nothing, got null"),
        (True, 1, "result: expected true, got 1"),
        (1, True, "result: expected 1, got true"),
        (0, None, "result: expected 0, got null"),
        ("1", 1, 'result: expected "1", got 1'),
        ([], {}, "result: expected [], got {}"),
        (["a", "b"], ["b", "a"], 'result[0]: expected "a", got "b"'),
        (["a"], ["a", "b"], "result: expected 1 entries, got 2"),
        ({"x": [{"y": 1}]}, {"x": [{"y": 2}]}, "result.x[0].y: expected 1, got 2"),
        ("\ud800", "\udc00", r'result: expected "\ud800", got "\udc00"'),
    ],
)
def test_different(expected: object, got: object, words: str) -> None:
    """The first difference is named by its path, in words a terminal can show."""
    assert first_difference(expected, got) == words
