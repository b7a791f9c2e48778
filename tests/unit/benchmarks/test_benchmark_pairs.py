"""How a pair is run: in which order, what is timed, and what a plant adds. The clock is a fake."""

from __future__ import annotations

import pytest

from benchmarks.harness.figures import WrongResult, added_us, at_most
from benchmarks.harness.pairs import Method, Pair, run_pairs


class FakeClock:
    """Time passes by being spent; each reading costs a little, as on a real machine."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now


class FakeSide:
    """Work that takes a known time, and remembers what was asked of it."""

    def __init__(self, name: str, clock: FakeClock, log: list[str], *, per_operation_s: float) -> None:
        self.name = name
        self.clock = clock
        self.log = log
        self.per_operation_s = per_operation_s
        self.fails_at: int | None = None
        self.blocks = 0

    def prepare(self, operations: int) -> None:
        self.clock.now += 7.0
        self.log.append(f"{self.name} prepare {operations}")

    def run(self, operations: int) -> None:
        self.clock.now += operations * self.per_operation_s
        self.log.append(f"{self.name} run {operations}")

    def check(self, operations: int) -> None:
        self.clock.now += 5.0
        self.log.append(f"{self.name} check {operations}")
        self.blocks += 1
        if self.blocks == self.fails_at:
            raise WrongResult("planted")


class Scene:
    """A bare side that takes 100 µs an operation, and ours that takes what a test says."""

    def __init__(self, ours_us: float = 100.0) -> None:
        self.clock = FakeClock()
        self.log: list[str] = []
        self.bare = FakeSide("bare", self.clock, self.log, per_operation_s=100e-6)
        self.ours = FakeSide("ours", self.clock, self.log, per_operation_s=ours_us * 1e-6)

    def run(self, **method) -> tuple[Pair, ...]:
        return run_pairs(self.bare, self.ours, Method(**method), clock=self.clock)


def test_sides_alternate_and_the_order_within_a_pair_does_too() -> None:
    scene = Scene()
    pairs = scene.run(pairs=3, operations=10)

    ran = [line.split()[0] for line in scene.log if " run " in line]
    assert ran == ["bare", "ours", "ours", "bare", "bare", "ours", "ours", "bare"], "a thrown away pair first"
    assert [pair.baseline_first for pair in pairs] == [False, True, False]


def test_each_block_is_prepared_run_and_checked_before_the_next_one() -> None:
    scene = Scene()
    scene.run(pairs=1, operations=4)

    steps = [line.split()[1] for line in scene.log]
    assert steps == ["prepare", "run", "check"] * 4
    assert all(line.endswith(" 4") for line in scene.log)


def test_only_the_run_is_timed() -> None:
    (pair,) = Scene(ours_us=125).run(pairs=1, operations=1_000)

    assert pair.baseline_s == pytest.approx(0.1, rel=1e-4)
    assert pair.ours_s == pytest.approx(0.125, rel=1e-4)


def test_a_ratio_is_our_throughput_as_a_share_of_the_baselines() -> None:
    (pair,) = Scene(ours_us=125).run(pairs=1, operations=1_000)

    assert pair.ratio == pytest.approx(0.8, rel=1e-4)


def test_the_first_pair_is_thrown_away() -> None:
    """It pays for what happens once, such as opening a connection."""
    scene = Scene()
    run = scene.ours.run

    def run_slowly_once(operations: int) -> None:
        scene.clock.now += 60.0
        scene.ours.run = run
        run(operations)

    scene.ours.run = run_slowly_once
    pairs = scene.run(pairs=4, operations=100)

    assert len(pairs) == 4
    assert [pair.ratio for pair in pairs] == pytest.approx([1.0] * 4, rel=1e-4)


def test_a_plant_slows_our_side_down_by_its_share_of_the_baseline_whoever_is_first() -> None:
    pairs = Scene().run(pairs=4, operations=1_000, plant_percent=5)

    assert {pair.baseline_first for pair in pairs} == {True, False}
    assert [pair.ratio for pair in pairs] == pytest.approx([1 / 1.05] * 4, rel=1e-4)
    assert [pair.baseline_s for pair in pairs] == pytest.approx([0.1] * 4, rel=1e-4)


def test_a_plant_is_a_share_of_the_baseline_and_not_of_ours() -> None:
    """Where ours is slow already, 5 % of it would hide how little the plant is."""
    pairs = Scene(ours_us=200).run(pairs=2, operations=1_000, plant_percent=5)

    assert [pair.ours_s for pair in pairs] == pytest.approx([0.205] * 2, rel=1e-4)


def test_work_that_came_out_wrong_ends_the_run() -> None:
    scene = Scene()
    scene.ours.fails_at = 2

    with pytest.raises(WrongResult, match="planted"):
        scene.run(pairs=30, operations=1)
    assert scene.ours.blocks == 2


@pytest.mark.parametrize(
    ("pairs", "operations", "trial"), [(30, 2_000, False), (29, 2_000, True), (30, 1_999, True)]
)
def test_less_than_the_method_asks_for_is_a_trial(pairs: int, operations: int, trial: bool) -> None:
    assert Method(pairs=pairs, operations=operations).is_trial is trial


def test_what_is_added_is_told_per_operation_in_microseconds() -> None:
    pairs = Scene(ours_us=101.5).run(pairs=5, operations=1_000)

    figure = added_us("added", pairs, 1_000, bar=at_most(2), meaning="", seed=1)

    assert figure.value == pytest.approx(1.5, rel=1e-2)
    assert figure.is_met
    assert len(figure.samples) == 5
