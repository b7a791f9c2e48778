"""JSON text, numbers and order as ECMAScript has them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.wire.ecmascript import (
    code_units,
    js_number,
    loads,
    number_text,
    sorted_unique,
    stringify,
)
from tests.unit.wire.strategies import json_values, texts


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-1752710400000, "-1752710400000"),
        (1752710400000.5, "1752710400000.5"),
        (123.45, "123.45"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e15, "1000000000000000"),
        (1e20, "100000000000000000000"),
        (123456789012345680000, "123456789012345680000"),
        (1e21, "1e+21"),
        (-1e21, "-1e+21"),
        (1.5e300, "1.5e+300"),
        (5e-324, "5e-324"),
        (0.000001, "0.000001"),
        (0.00000123, "0.00000123"),
        (0.0000001, "1e-7"),
        (-7.926353593356908e-10, "-7.926353593356908e-10"),
        (2**53 + 1, "9007199254740992"),
        (2**60, "1152921504606847000"),
        (2**64 - 1, "18446744073709552000"),
        (10**400, "null"),
        (-(10**400), "null"),
        (math.inf, "null"),
        (math.nan, "null"),
    ],
)
def test_numbers_are_written_as_json_stringify_writes_them(value, text):
    """The text of a number decides an ETag, so each branch of ``Number::toString`` is pinned."""
    assert number_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_reads_back_as_the_same_double(value):
    """Whatever layout is chosen, no digit is lost."""
    assert float(number_text(value)) == value


@given(st.integers())
def test_an_integer_becomes_the_double_that_javascript_reads(value):
    """An integral double is an `int` with the double's value; what is too large is an infinity."""
    number = js_number(value)
    assert isinstance(number, int) or math.isinf(number)
    assert float(number) == float(value)


@given(json_values)
def test_what_is_written_reads_back_equal(value):
    """`stringify` and `loads` are inverse; no lone surrogate is left raw, so the text can be encoded."""
    assert loads(stringify(value).encode().decode()) == value


def test_texts_are_escaped_exactly_where_javascript_does():
    """Control characters and lone surrogates are escaped; U+007F, U+2028 and astral ones stay raw."""
    assert stringify('\b\t\n\f\r\x00\x1f"\\/') == '"\\b\\t\\n\\f\\r\\u0000\\u001f\\"\\\\/"'
    assert stringify("\x7f\x80\u2028\u2029\ufeff\U0001f680") == '"\x7f\x80\u2028\u2029\ufeff\U0001f680"'
    assert stringify("a\ud83da\ude80") == '"a\\ud83da\\ude80"'


def test_two_surrogates_that_make_a_pair_are_one_character():
    """Python can hold a pair as two code points; ECMAScript can't tell it from the character."""
    assert stringify("\ud83d\ude80") == '"\U0001f680"'


def test_keys_keep_their_order_and_are_escaped():
    """An object's keys are not sorted: the contract's field order is part of the text."""
    assert (
        stringify({"b": [1, None, True, False], "a\ud800": ()}) == '{"b":[1,null,true,false],"a\\ud800":[]}'
    )


def test_what_json_has_no_word_for_is_refused():
    """A programming error, so it is loud."""
    with pytest.raises(TypeError, match="expected a JSON value, got set"):
        stringify({"a": {1}})


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "\ufeff{}", "01", "{'a':1}", "[1,]", ""])
def test_what_json_parse_refuses_is_refused(text):
    """Python's own reader takes ``NaN`` and ``Infinity``; the contract's does not."""
    with pytest.raises(ValueError):
        loads(text)


def test_numbers_are_read_as_doubles_however_long():
    """Python alone would refuse more than 4,300 digits, and keep what a double can't hold."""
    assert loads("[1.0, 1E3, -0, 9007199254740993, 1e400]") == [1, 1000, 0, 9007199254740992, math.inf]
    assert loads("1" * 5000) == math.inf


def test_order_is_by_code_unit_not_by_code_point():
    """An emoji is U+1F680 but starts with the unit D83D, which sorts before U+E000."""
    assert sorted_unique(["\ue000", "\U0001f680", "z", "\ue000"]) == ["z", "\U0001f680", "\ue000"]


@given(st.lists(texts))
def test_sorting_agrees_with_a_comparison_of_code_units(values):
    """The shortcut for ASCII texts changes nothing."""
    units = [list(memoryview(code_units(value)).cast("B")) for value in sorted_unique(values)]
    assert units == sorted(units)
    assert set(sorted_unique(values)) == set(values)
