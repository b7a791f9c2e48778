"""Medians with an interval that owes nothing to the shape of the noise.

Timings on a shared machine are skewed and have far outliers. So the estimate is a median, and its
interval comes from resampling what was measured (the percentile bootstrap), not from a formula that
takes a normal distribution for granted. The random numbers are seeded: one set of samples has one answer.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["SEED", "Estimate", "median_estimate", "quantile"]

SEED = 20_240_229
#: Enough that the ends of a 95 % interval move by less than what is printed of them.
RESAMPLES = 2_000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median, and the interval that holds the true one with 95 % confidence.

    Attributes:
        value: The median of the samples.
        low, high: The ends of the interval.
    """

    value: float
    low: float
    high: float


def median_estimate(
    samples: Sequence[float],
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Estimate the median of what the samples were drawn from.

    Args:
        samples: At least one; with fewer than about ten the interval is too narrow to be believed.
        seed: Begins the random numbers; the same seed and samples give the same interval.
        resamples: How many times the samples are drawn again, with replacement.
        confidence: The share of intervals, made this way, that hold the true median.

    Raises:
        ValueError: There is no sample.
    """
    if not samples:
        raise ValueError("a median needs at least one sample, got none")
    rng = random.Random(seed)  # noqa: S311  # draws samples, keeps no secret
    medians = sorted(statistics.median(rng.choices(samples, k=len(samples))) for _ in range(resamples))
    tail = (1 - confidence) / 2
    return Estimate(statistics.median(samples), quantile(medians, tail), quantile(medians, 1 - tail))


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the sorted values lie, between neighbours where need be.

    Raises:
        ValueError: There is no value.
    """
    if not ordered:
        raise ValueError("a quantile needs at least one value, got none")
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
