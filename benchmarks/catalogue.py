"""The benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.harness.figures import Outcome
from benchmarks.harness.pairs import Method
from benchmarks.harness.server import Server
from benchmarks.suites import beat, enqueue, resume, routing

__all__ = ["CATALOGUE", "Benchmark"]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark.

    Attributes:
        run: Measures on a server of its own.
        summary: What it measures, in a line.
        feels_plant: Whether a slowdown of 5 % must make it fall short. Bars that leave more room than
            that on purpose can't tell.
    """

    run: Callable[[Method, Server], Outcome]
    summary: str
    feels_plant: bool


CATALOGUE: Mapping[str, Benchmark] = {
    "enqueue": Benchmark(enqueue.run, "a steady send, against bare Dramatiq", feels_plant=True),
    "beat": Benchmark(beat.run, "a worker's beat, against the contract's plain one", feels_plant=True),
    "resume": Benchmark(resume.run, "blocked work, once a capable worker appears", feels_plant=False),
    "routing": Benchmark(routing.run, "choosing a worker, and how well that fills them", feels_plant=False),
}
