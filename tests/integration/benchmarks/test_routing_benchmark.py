"""The benchmark `routing` on a real server, small; and its ideal, against schedules worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cli import main
from benchmarks.harness.figures import WrongResult
from benchmarks.harness.server import Server
from benchmarks.suites import routing
from benchmarks.suites.routing import POOL, Makespan, ideal_makespan_s, time_selects
from dramatiq_handshake.routing import (
    LeastActiveWorkerRouter,
    RoundRobinRouter,
    WorkerDirectory,
    WorkerRouter,
)


def test_a_small_run_reports_every_figure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What is counted is met on any machine; what is timed is only there."""
    main(["routing", "--pairs", "2", "--operations", "40", "--json", "--keep", str(tmp_path)])
    document = json.loads(capsys.readouterr().out)
    makespans = ("makespan_ratio", "shared_makespan", "round_robin_ratio")
    keys = ("select_ms", "select_round_trips", *makespans)

    assert all(document[key] > 0 for key in keys)
    assert document["bars"].keys() == set(keys)
    assert document["select_round_trips"] == 1
    assert document["makespan_ratio"] > 1
    assert document["details"]["jobs"] == 40


@pytest.mark.parametrize(
    ("lengths", "places", "expected"),
    [([3, 1, 1, 1], 2, 3), ([1, 1, 1, 3], 2, 4), ([5], 3, 5), ([2, 2, 2], 1, 6), ([], 2, 0)],
)
def test_the_ideal_gives_the_next_job_to_who_is_free_first(
    lengths: list[float], places: int, expected: float
) -> None:
    assert ideal_makespan_s(lengths, places) == expected


@given(st.lists(st.floats(0.01, 0.2), min_size=1, max_size=50), st.integers(1, 16))
def test_the_ideal_is_no_less_than_what_must_be(lengths: list[float], places: int) -> None:
    ideal = ideal_makespan_s(lengths, places)
    assert max(lengths) <= ideal + 1e-9
    assert sum(lengths) / places <= ideal + 1e-9 <= sum(lengths) + 2e-9


def test_choices_that_are_wrong_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def last(directory: WorkerDirectory) -> WorkerRouter:
        router = RoundRobinRouter(directory)
        router.select(routing._job("one before"))
        return router

    monkeypatch.setattr(routing, "LeastActiveWorkerRouter", last)
    with pytest.raises(WrongResult, match="not the least active workers"):
        time_selects(5)


def test_a_job_that_counts_for_ever_is_noticed(valkey: redis.Redis, valkey_url: str) -> None:
    """The makespan is not measured of a directory that leaks."""

    class Leaking:
        def __init__(self, directory: WorkerDirectory) -> None:
            self._router = LeastActiveWorkerRouter(directory)
            self._router.select(routing._job("leaks"))

        def select(self, job: routing.Job) -> str:
            return self._router.select(job)

    server = Server(valkey_url)
    with server.client, pytest.raises(WrongResult, match="jobs are counted although all have ended"):
        Makespan([0.001] * (POOL + 1)).measure(Leaking, server=server)
