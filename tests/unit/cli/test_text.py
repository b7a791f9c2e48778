"""Names that anybody may have advertised, made harmless for a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.cli.text import SHOWN_NAME, listed, visible

ANYTHING = st.text(st.characters(exclude_categories=()))


@given(ANYTHING, st.integers(2, 200))
def test_whatever_the_name_one_printable_line_of_bounded_length_is_shown(name: str, limit: int) -> None:
    shown = visible(name, limit)
    assert shown.isprintable()
    assert len(shown) <= limit
    shown.encode()  # it is text that can be written


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=SHOWN_NAME))
def test_an_ordinary_name_is_shown_as_it_is(name: str) -> None:
    assert visible(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\nb", "a\\nb"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b2J", "\\x9b2J"),
        ("abc\u202efdp", "abc\\u202efdp"),
        ("\ud800", "\\ud800"),
        ("line\u2028separator", "line\\u2028separator"),
    ],
)
def test_what_could_act_on_a_terminal_is_written_as_an_escape(name: str, shown: str) -> None:
    assert visible(name) == shown


def test_a_name_of_megabytes_is_cut() -> None:
    assert visible("x" * 10_000_000) == "x" * (SHOWN_NAME - 1) + "…"


def test_a_name_that_just_fits_is_not_cut() -> None:
    assert visible("x" * 10, 10) == "x" * 10
    assert visible("x" * 11, 10) == "x" * 9 + "…"


def test_escapes_count_as_the_characters_that_they_are() -> None:
    """A short name whose escapes would be long is cut as well."""
    assert visible("\x00" * 10, 10) == "\\x00\\x00\\…"


def test_a_long_list_tells_how_many_it_leaves_out() -> None:
    assert listed(["a", "b", "c"], ", ", most=2) == "a, b, and 1 more"
    assert listed(["a", "b"], ", ", most=2) == "a, b"
    assert listed([], ", ") == "-"
    assert listed([], ", ", none="nothing") == "nothing"
