"""What a benchmark reports: figures, the bars they must clear, and what they were computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from benchmarks.harness.pairs import Pair
from benchmarks.harness.statistics import Estimate, median_estimate

__all__ = ["Bar", "Figure", "Outcome", "Relation", "WrongResult", "added_us", "at_least", "at_most", "ratio"]


class WrongResult(Exception):
    """A benchmark's work was not done as it should have been, so its times mean nothing."""


class Relation(Enum):
    """On which side of a bar a figure must lie."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure must reach, or must not exceed."""

    relation: Relation
    limit: float

    def is_met(self, value: float) -> bool:
        """Whether a value is on the right side; the limit itself is."""
        return value >= self.limit if self.relation is Relation.AT_LEAST else value <= self.limit

    def __str__(self) -> str:
        return f"{self.relation.value} {self.limit:g}"


def at_least(limit: float) -> Bar:
    """The bar of a figure that must reach `limit`."""
    return Bar(Relation.AT_LEAST, limit)


def at_most(limit: float) -> Bar:
    """The bar of a figure that must not exceed `limit`."""
    return Bar(Relation.AT_MOST, limit)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value.

    Attributes:
        key: Its name, in output and documents.
        value: The median of its samples, or a count.
        meaning: What it says, in a few words, with its unit.
        bar: What it must clear; ``None`` for what only explains.
        interval: The 95 % interval of a median; ``None`` for a count.
        samples: What it was computed from, raw: a pair's times, a trial's milliseconds.
    """

    key: str
    value: float
    meaning: str
    bar: Bar | None = None
    interval: tuple[float, float] | None = None
    samples: Sequence[Any] = ()

    @property
    def is_met(self) -> bool:
        """Whether it clears its bar; without one it does."""
        return self.bar is None or self.bar.is_met(self.value)

    @property
    def is_clear(self) -> bool:
        """Whether its whole interval says the same about the bar as its median does."""
        if self.bar is None or self.interval is None:
            return True
        return all(self.bar.is_met(end) == self.is_met for end in self.interval)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a benchmark found.

    Attributes:
        figures: Its figures, those with a bar first.
        details: What else belongs to the record: sizes and counts that the figures rest on.
    """

    figures: tuple[Figure, ...]
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_met(self) -> bool:
        """Whether every figure clears its bar."""
        return all(figure.is_met for figure in self.figures)


def ratio(key: str, pairs: Sequence[Pair], *, bar: Bar, meaning: str, seed: int) -> Figure:
    """The median of the pairs' ratios: our throughput as a share of the baseline's."""
    return of_estimate(
        key,
        median_estimate([pair.ratio for pair in pairs], seed=seed),
        meaning=meaning,
        bar=bar,
        samples=[asdict(pair) for pair in pairs],
    )


def added_us(
    key: str, pairs: Sequence[Pair], operations: int, *, bar: Bar, meaning: str, seed: int
) -> Figure:
    """The median of what we add to one operation, in microseconds."""
    added = [(pair.ours_s - pair.baseline_s) / operations * 1e6 for pair in pairs]
    return of_estimate(
        key,
        median_estimate(added, seed=seed),
        meaning=meaning,
        bar=bar,
        samples=[asdict(pair) for pair in pairs],
    )


def of_estimate(
    key: str, estimate: Estimate, *, meaning: str, bar: Bar | None = None, samples: Sequence[Any] = ()
) -> Figure:
    """A figure from a median and its interval."""
    return Figure(key, estimate.value, meaning, bar, (estimate.low, estimate.high), samples)
