"""What every report of the engine has in common."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dramatiq_handshake.engine.report import Report, duration_text


class Sample(Report):
    """A report of one name and one number."""

    name: str
    number: int | float | None = None
    inner: tuple[Sample, ...] = ()


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (640, "640 ms"),
        (1_000, "1 s"),
        (185_400, "3 min 5 s"),
        (180_000, "3 min"),
        (3_600_000, "1 h"),
        (3_605_000, "1 h"),
        (187_200_000, "2 d 4 h"),
    ],
)
def test_a_duration_is_told_in_its_two_largest_units(ms: int, text: str) -> None:
    assert duration_text(ms) == text


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_every_duration_has_a_text(ms: int) -> None:
    assert duration_text(ms)


@given(st.text(st.characters(codec=None)), st.one_of(st.none(), st.floats(), st.integers()))
def test_json_is_written_whatever_a_worker_is_named(name: str, number: float | None) -> None:
    """Lone surrogates, control characters, infinities: 7-bit JSON that reads back."""
    text = Sample(name=name, number=number, inner=(Sample(name=name),)).to_json()
    assert text.isascii()
    assert json.loads(text)["inner"][0]["name"] == name


def test_what_json_has_no_word_for_becomes_null() -> None:
    assert json.loads(Sample(name="a", number=float("inf")).to_json())["number"] is None


def test_a_report_can_not_be_changed() -> None:
    report = Sample(name="a")
    with pytest.raises(ValidationError, match="frozen"):
        report.name = "b"  # type: ignore[misc]  # what the test is about
