"""Medians, their intervals, and what a planted slowdown does to them."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness.figures import at_least, ratio
from benchmarks.harness.pairs import Pair
from benchmarks.harness.statistics import median_estimate, quantile

SAMPLES = st.lists(st.floats(min_value=-1e6, max_value=1e6), min_size=1, max_size=40)


@given(SAMPLES)
def test_the_interval_holds_the_median_and_lies_within_the_samples(samples: list[float]) -> None:
    estimate = median_estimate(samples, resamples=100)

    assert estimate.value == statistics.median(samples)
    assert min(samples) <= estimate.low <= estimate.high <= max(samples)


@given(SAMPLES, st.integers(min_value=0, max_value=2**32))
def test_the_same_seed_and_samples_give_the_same_interval(samples: list[float], seed: int) -> None:
    random.seed()
    once = median_estimate(samples, seed=seed, resamples=50)
    random.seed()
    assert median_estimate(samples, seed=seed, resamples=50) == once


def test_another_seed_draws_other_samples() -> None:
    samples = [index**1.7 for index in range(30)]

    assert median_estimate(samples, seed=1, resamples=20) != median_estimate(samples, seed=2, resamples=20)


def test_samples_without_noise_have_an_interval_without_width() -> None:
    estimate = median_estimate([0.97] * 30)

    assert (estimate.low, estimate.value, estimate.high) == (0.97, 0.97, 0.97)


def test_the_interval_holds_the_true_median_about_nineteen_times_in_twenty() -> None:
    """Of 200 intervals from a skewed distribution whose median is 1, at least 90 and at most 99 % hold it."""
    rng = random.Random(20)
    holding = 0
    for _ in range(200):
        estimate = median_estimate([rng.lognormvariate(0, 0.5) for _ in range(30)], resamples=100)
        holding += estimate.low <= 1.0 <= estimate.high

    assert 0.90 <= holding / 200 <= 0.99


def test_more_samples_make_the_interval_narrower() -> None:
    rng = random.Random(3)
    many = [rng.gauss(1, 0.1) for _ in range(400)]

    few, all_of_them = median_estimate(many[:20]), median_estimate(many)

    assert all_of_them.high - all_of_them.low < (few.high - few.low) / 2


def test_an_outlier_moves_neither_the_median_nor_the_interval_by_much() -> None:
    """One pair in thirty that a neighbour spoiled must not decide."""
    calm = [1 + index / 1000 for index in range(30)]
    spoiled = [*calm[:-1], 50.0]

    estimate = median_estimate(spoiled)

    assert estimate.value == median_estimate(calm).value
    assert estimate.high < 1.03


def test_a_wider_confidence_gives_a_wider_interval() -> None:
    samples = [index**1.5 for index in range(30)]

    narrow, wide = median_estimate(samples, confidence=0.5), median_estimate(samples, confidence=0.99)

    assert wide.low < narrow.low < narrow.high < wide.high


def test_a_median_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        median_estimate([])


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 10.0), (0.25, 20.0), (0.5, 30.0), (0.625, 35.0), (1.0, 50.0)]
)
def test_a_quantile_lies_between_its_neighbours(share: float, value: float) -> None:
    assert quantile([10.0, 20.0, 30.0, 40.0, 50.0], share) == value


def test_a_quantile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        quantile([], 0.5)


def noisy_pairs(seed: int, cost: float) -> list[Pair]:
    """Thirty pairs on a machine that drifts by a third and jitters by 3 %, where ours costs so much more."""
    rng = random.Random(seed)
    pairs = []
    for number in range(30):
        drift = 1 + rng.random() / 3
        baseline, ours = (drift * rng.gauss(1, 0.03) for _ in range(2))
        pairs.append(Pair(baseline, ours * (1 + cost), number % 2 == 0))
    return pairs


@pytest.mark.parametrize("seed", range(6))
def test_pairs_tell_a_slowdown_of_five_percent_from_none(seed: int) -> None:
    """Through drift and jitter: free work clears a bar of 0.98, the same work 5 % slower does not."""

    def figure(cost: float):
        return ratio("ratio", noisy_pairs(seed, cost), bar=at_least(0.98), meaning="", seed=1)

    assert figure(0.0).is_met
    assert not figure(0.05).is_met
