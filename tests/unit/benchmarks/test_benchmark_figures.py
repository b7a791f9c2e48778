"""Bars, what lies on which side of them, and how that is told."""

from __future__ import annotations

import json

import pytest

from benchmarks.harness.figures import Bar, Figure, Outcome, at_least, at_most, ratio
from benchmarks.harness.pairs import Method, Pair
from benchmarks.harness.report import as_document, as_lines


@pytest.mark.parametrize(
    ("bar", "value", "met"),
    [
        (at_least(0.98), 0.98, True),
        (at_least(0.98), 0.979, False),
        (at_least(0.98), 1.2, True),
        (at_most(2), 2, True),
        (at_most(2), 2.001, False),
        (at_most(0), 0, True),
        (at_most(0), 1, False),
    ],
)
def test_a_bar_is_met_from_the_right_side_and_by_its_limit(bar: Bar, value: float, met: bool) -> None:
    assert bar.is_met(value) is met
    assert Figure("key", value, "", bar).is_met is met


def test_a_figure_without_a_bar_only_explains() -> None:
    assert Figure("key", 1e9, "").is_met
    assert Figure("key", 1e9, "", interval=(0, 2e9)).is_clear


@pytest.mark.parametrize(
    ("value", "interval", "clear"),
    [
        (0.99, (0.981, 0.995), True),
        (0.99, (0.97, 0.995), False),
        (0.97, (0.96, 0.979), True),
        (0.97, (0.96, 0.99), False),
    ],
)
def test_a_bar_within_the_interval_is_too_close_to_call(
    value: float, interval: tuple[float, float], clear: bool
) -> None:
    assert Figure("key", value, "", at_least(0.98), interval).is_clear is clear


def outcome(*values: float) -> Outcome:
    figures = [
        Figure(f"figure_{index}", value, "what it says", at_least(1)) for index, value in enumerate(values)
    ]
    return Outcome(tuple(figures), {"why": "told"})


def test_one_missed_bar_makes_the_outcome_fall_short() -> None:
    assert outcome(1, 2, 3).is_met
    assert not outcome(1, 0.5, 3).is_met


def test_the_document_holds_the_figures_by_key_and_everything_that_they_rest_on() -> None:
    pairs = [Pair(1.0, 1.25, True), Pair(2.0, 2.0, False), Pair(1.0, 2.0, True)]
    figure = ratio("ratio", pairs, bar=at_least(0.98), meaning="a share", seed=5)
    method = Method(pairs=3, operations=7, plant_percent=5, seed=5)

    document = as_document("enqueue", Outcome((figure,), {"sends": 7}), method, {"cores": 2})

    assert document["benchmark"] == "enqueue"
    assert document["ratio"] == 0.8
    assert document["met"] is False
    assert document["bars"] == {
        "ratio": {"bar": "at least 0.98", "limit": 0.98, "met": False, "clear": False}
    }
    assert document["intervals"]["ratio"] == [0.5, 1.0]
    assert document["samples"]["ratio"][0] == {"baseline_s": 1.0, "ours_s": 1.25, "baseline_first": True}
    assert len(document["samples"]["ratio"]) == 3
    assert document["details"] == {"sends": 7}
    assert document["method"] == {
        "pairs": 3,
        "operations": 7,
        "plant_percent": 5,
        "seed": 5,
        "trial": True,
    }
    assert document["machine"] == {"cores": 2}
    assert json.loads(json.dumps(document)) == document


def test_lines_tell_each_figure_with_its_bar_and_verdict() -> None:
    figures = (
        Figure("ratio", 0.91234, "a share", at_least(0.98), (0.9, 0.99)),
        Figure("extra", 0, "a count", at_most(0)),
        Figure("other", 7.0, "an explanation"),
    )

    head, *lines = as_lines("enqueue", Outcome(figures))

    assert head == "enqueue: FALLS SHORT"
    assert [" ".join(line.split()) for line in lines] == [
        "ratio 0.9123 [0.9 … 0.99] MISSED: at least 0.98, too close to call a share",
        "extra 0 ok: at most 0 a count",
        "other 7 an explanation",
    ]


def test_lines_say_so_where_every_bar_is_met() -> None:
    assert next(iter(as_lines("beat", outcome(1)))) == "beat: every bar is met"
