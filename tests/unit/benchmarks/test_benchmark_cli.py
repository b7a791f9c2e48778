"""``python -m benchmarks``: what it runs, what it prints, and how it ends. The benchmarks are made up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.catalogue import CATALOGUE, Benchmark
from benchmarks.cli import main
from benchmarks.harness.figures import Figure, Outcome, WrongResult, at_least
from benchmarks.harness.pairs import Method
from benchmarks.harness.server import ServerMissing


class FakeServer:
    def version(self) -> str:
        return "none 0"


class Bench:
    """The command with made-up benchmarks; remembers what was measured, and on how many servers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.measured: list[tuple[str, Method]] = []
        self.servers = 0
        self.values = {"quick": 1.0, "steady": 2.0, "roomy": 3.0}
        self.wrong: set[str] = set()

    def __call__(self, *arguments: str) -> int:
        catalogue = {
            name: Benchmark(self._measure(name), f"what {name} is", feels_plant=name != "roomy")
            for name in self.values
        }
        return main([*arguments, "--keep", str(self.folder)], catalogue=catalogue, open_server=self._serve)

    @contextmanager
    def _serve(self) -> Iterator[FakeServer]:
        self.servers += 1
        yield FakeServer()

    def _measure(self, name: str):
        def run(method: Method, server: FakeServer) -> Outcome:
            self.measured.append((name, method))
            if name in self.wrong:
                raise WrongResult("a message is missing")
            slowed = self.values[name] * (1 - method.plant_percent / 100)
            return Outcome((Figure("ratio", slowed, "a share", at_least(1), samples=[{"ours_s": 1}]),))

        return run


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "kept")


def test_without_a_name_every_benchmark_runs_on_a_server_of_its_own(bench: Bench) -> None:
    assert bench() == 0
    assert [name for name, _ in bench.measured] == ["quick", "steady", "roomy"]
    assert bench.servers == 3


def test_by_default_the_method_is_what_the_method_asks_for(bench: Bench) -> None:
    bench("quick")

    assert bench.measured == [("quick", Method(pairs=30, operations=2_000, plant_percent=0.0))]
    assert not bench.measured[0][1].is_trial


def test_flags_say_how_much_is_measured(bench: Bench) -> None:
    bench("quick", "--pairs", "3", "--operations", "50", "--plant", "2.5", "--seed", "9")

    assert bench.measured == [("quick", Method(pairs=3, operations=50, plant_percent=2.5, seed=9))]


def test_json_is_exactly_one_object_on_stdout(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("quick", "--json") == 0

    document = json.loads(capsys.readouterr().out)
    assert document["benchmark"] == "quick"
    assert document["ratio"] == 1.0
    assert document["machine"]["server"] == "none 0"
    assert document["samples"] == {"ratio": [{"ours_s": 1}]}


def test_json_of_several_is_one_object_too(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.values["steady"] = 0.5

    assert bench("quick", "steady", "--json") == 1

    document = json.loads(capsys.readouterr().out)
    assert [one["benchmark"] for one in document["benchmarks"]] == ["quick", "steady"]
    assert document["met"] is False


def test_a_missed_bar_is_told_and_ends_with_one(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.values["steady"] = 0.5

    assert bench() == 1
    assert "steady: FALLS SHORT" in capsys.readouterr().out
    assert len(bench.measured) == 3, "the others are measured all the same"


def test_a_planted_slowdown_makes_the_run_fall_short(bench: Bench) -> None:
    assert bench("quick") == 0
    assert bench("quick", "--plant", "5") == 1


def test_without_a_name_a_plant_goes_to_those_that_can_feel_it(bench: Bench) -> None:
    bench("--plant", "5")

    assert [name for name, _ in bench.measured] == ["quick", "steady"]


def test_a_plant_that_proves_nothing_is_refused(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("roomy", "--plant", "5") == 2
    assert bench.measured == []
    assert "plant one in quick, steady" in capsys.readouterr().err


def test_an_unknown_name_is_told_with_those_that_there_are(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("quick", "nope") == 2
    assert bench.measured == []
    assert "'nope'; there are quick, steady, roomy" in capsys.readouterr().err


def test_work_that_came_out_wrong_is_a_failure_however_fast(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.wrong = {"quick"}

    assert bench("quick", "--json") == 1

    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert (document["met"], document["error"]) == (False, "a message is missing")
    assert "the work came out wrong" in printed.err


def test_raw_pairs_are_kept_and_a_planted_run_lies_beside_the_real_one(bench: Bench) -> None:
    bench("quick")
    bench("quick", "--plant", "5")

    real = json.loads((bench.folder / "quick.json").read_text())
    planted = json.loads((bench.folder / "quick.planted.json").read_text())
    assert (real["ratio"], planted["ratio"]) == (1.0, 0.95)
    assert real["samples"] == {"ratio": [{"ours_s": 1}]}


def test_a_trial_says_that_it_proves_nothing(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench("quick", "--pairs", "2")
    assert "prove nothing" in capsys.readouterr().out
    bench("quick")
    assert "prove nothing" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ("--pairs", "0"),
        ("--pairs", "-1"),
        ("--operations", "many"),
        ("--operations", "²"),
        ("--plant", "nan"),
        ("--plant", "-5"),
        ("--plant", "101"),
    ],
)
def test_flags_that_mean_nothing_are_refused(
    bench: Bench, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        bench(*arguments)
    assert ended.value.code == 2
    assert f"got {arguments[1]!r}" in capsys.readouterr().err


def test_a_missing_server_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    @contextmanager
    def none() -> Iterator[FakeServer]:
        raise ServerMissing("install the embedded server")
        yield

    assert main(["beat", "--keep", str(tmp_path)], open_server=none) == 2
    assert capsys.readouterr().err.strip() == "install the embedded server"


def test_what_an_outer_shell_set_for_a_fleet_is_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the mode off in the environment, ours would be bare Dramatiq, and cost nothing at all."""
    monkeypatch.setenv("DRAMATIQ_HANDSHAKE_MODE", "off")
    seen: list[str | None] = []

    def run(method: Method, server: FakeServer) -> Outcome:
        import os

        seen.append(os.environ.get("DRAMATIQ_HANDSHAKE_MODE"))
        return Outcome((Figure("ratio", 1.0, "", at_least(1)),))

    catalogue = {"only": Benchmark(run, "", feels_plant=True)}
    main(["only", "--keep", str(bench.folder)], catalogue=catalogue, open_server=bench._serve)

    assert seen == [None]


def test_the_catalogue_holds_what_the_readme_tells() -> None:
    readme = (Path(__file__).resolve().parents[3] / "benchmarks" / "README.md").read_text()
    table = {line.split("|")[1].strip() for line in readme.splitlines() if line.startswith("| ")}

    assert table - {"name", "---", ""} == set(CATALOGUE)
