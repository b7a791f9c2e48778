"""Baseline and ours, in pairs.

A machine changes while it measures: it warms up, its clock is throttled, neighbours come and go. What is
compared is therefore run back to back, each pair gives one ratio, and the order within a pair alternates,
so that neither side always runs on what the other left behind.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from benchmarks.harness.statistics import SEED

__all__ = ["OPERATIONS", "PAIRS", "Clock", "Method", "Pair", "Side", "run_pairs"]

PAIRS = 30
OPERATIONS = 2_000

#: Seconds that only grow: `time.perf_counter`, or `time.thread_time` where only the CPU's time counts.
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Method:
    """How much is measured.

    Attributes:
        pairs: How many pairs are measured, after one that is thrown away.
        operations: How many operations each side of a pair does.
        plant_percent: By how much of the baseline's time our side is slowed down on purpose: the proof
            that a regression of that size would be seen.
        seed: Begins the random numbers of the bootstrap.
    """

    pairs: int = PAIRS
    operations: int = OPERATIONS
    plant_percent: float = 0.0
    seed: int = SEED

    @property
    def is_trial(self) -> bool:
        """Whether this is too little to judge by: fewer pairs or operations than the method asks for."""
        return self.pairs < PAIRS or self.operations < OPERATIONS


class Side(Protocol):
    """One way to do the work that is compared."""

    def prepare(self, operations: int) -> None:
        """Make ready for a block of operations; not timed."""
        ...

    def run(self, operations: int) -> None:
        """Do the operations; this alone is timed."""
        ...

    def check(self, operations: int) -> None:
        """See that all of the work was done, and clean up after it; not timed.

        Raises:
            WrongResult: It was not.
        """
        ...


@dataclass(frozen=True, slots=True)
class Pair:
    """What one pair took (seconds).

    Attributes:
        baseline_s, ours_s: For all operations of a block.
        baseline_first: Which side ran first.
    """

    baseline_s: float
    ours_s: float
    baseline_first: bool

    @property
    def ratio(self) -> float:
        """Our throughput as a share of the baseline's: 1 is "costs nothing", 0.5 is "takes twice as long"."""
        return self.baseline_s / self.ours_s


def run_pairs(
    baseline: Side, ours: Side, method: Method, *, clock: Clock = time.perf_counter
) -> tuple[Pair, ...]:
    """Measure pairs, and check the work of every block.

    A first pair is run, checked and thrown away: it pays for connections, caches and loaded scripts.

    Raises:
        WrongResult: A block did not do its work.
    """
    planted = _Planted(ours, method.plant_percent, clock)
    pairs = []
    for number in range(method.pairs + 1):
        baseline_first = number % 2 == 0
        if baseline_first:
            baseline_s = planted.baseline_s = _block(baseline, method.operations, clock)
            ours_s = _block(planted, method.operations, clock)
        else:
            ours_s = _block(planted, method.operations, clock)
            baseline_s = planted.baseline_s = _block(baseline, method.operations, clock)
        pairs.append(Pair(baseline_s, ours_s, baseline_first))
    return tuple(pairs[1:])


def _block(side: Side, operations: int, clock: Clock) -> float:
    side.prepare(operations)
    # Garbage of checks and of the other side is not this block's to collect; its own stays its own.
    gc.collect()
    started = clock()
    side.run(operations)
    elapsed = clock() - started
    side.check(operations)
    return elapsed


class _Planted:
    """A side that is slower by a share of what the baseline took last.

    Attributes:
        baseline_s: What the baseline's latest block took.
    """

    def __init__(self, side: Side, percent: float, clock: Clock) -> None:
        self.baseline_s = 0.0
        self._side = side
        self._share = percent / 100
        self._clock = clock

    def prepare(self, operations: int) -> None:
        self._side.prepare(operations)

    def run(self, operations: int) -> None:
        self._side.run(operations)
        # Busy, not asleep: a clock of CPU time must see it too.
        until = self._clock() + self._share * self.baseline_s
        while self._share and self._clock() < until:
            pass

    def check(self, operations: int) -> None:
        self._side.check(operations)
