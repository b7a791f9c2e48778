"""The two peers themselves, from their registries, asked every committed vector and fixture."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from conformance.peers.classify import Kind
from conformance.peers.install import PEERS
from conformance.peers.known import KNOWN
from conformance.peers.process import Request, converse
from conformance.peers.report import FLOORS, Report
from conformance.peers.rows import Row, fixture_rows, vector_rows
from conformance.peers.run import run
from tests.support.workers import ROOT

CACHE = ROOT / ".cache" / "peers"
FIXTURES = ROOT / "conformance" / "fixtures"
VECTORS = ROOT / "conformance" / "vectors"
PYTHON_PEER = PEERS[0]

#: The first run installs both peers.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return fixture_rows(FIXTURES) + vector_rows(VECTORS)


@pytest.fixture(scope="module")
def report(rows: list[Row]) -> Report:
    return run(rows, cache=CACHE, environ=os.environ)


def first(rows: list[Row], call: str, matches: Callable[[Row], bool] = lambda row: True) -> Row:
    return next(row for row in rows if row.call == call and matches(row))


def expecting(row: Row, expected: Any) -> Row:
    return replace(row, expected=expected)


def judged_by_python_peer(rows: list[Row]) -> list[str]:
    """What fails when the Python peer is asked these rows."""
    (half,) = run(rows, cache=CACHE, environ={}, peers=[PYTHON_PEER]).peers
    return [verdict.problem for verdict in half.verdicts if verdict.kind is Kind.FAILED]


def test_the_peers_differ_from_the_vectors_only_where_the_table_says(report: Report) -> None:
    assert report.failed() == 0, "\n".join(report.lines())


def test_every_row_has_one_class_for_each_peer_that_runs_here(report: Report, rows: list[Row]) -> None:
    sizes = Counter(row.file for row in rows)
    for half in report.peers:
        if half.missing is None:
            assert {file: kinds.total() for file, kinds in half.counts().items()} == sizes


def test_most_hashes_negotiations_and_tokens_are_compared(report: Report) -> None:
    assert set(report.coverage()) == set(FLOORS)
    for file, compared in report.coverage().items():
        assert compared >= 0.7 * report.sizes[file]


@pytest.mark.parametrize("call", ["hash", "negotiate", "tenantGroup"])
def test_a_vector_that_is_wrong_is_noticed_by_a_real_peer(rows: list[Row], call: str) -> None:
    plain = first(
        rows, call, lambda row: not any(defect.covers(row) for defect in KNOWN[PYTHON_PEER.name].defects)
    )
    wrong = "f" * 16 if call != "negotiate" else plain.expected | {"negotiatedProtocol": 99.0}
    assert judged_by_python_peer([plain]) == []
    assert len(judged_by_python_peer([expecting(plain, wrong)])) == 1


def test_a_defect_that_the_peer_no_longer_had_would_be_stale(rows: list[Row]) -> None:
    """Taking the peer's wrong hash for the right one is as if the peer had been mended."""
    defect = next(d for d in KNOWN[PYTHON_PEER.name].defects if d.name == "number text")
    row = first(rows, "hash", defect.covers)
    (answer,) = converse(PYTHON_PEER.prepare(CACHE), [Request(row)]).answers
    assert judged_by_python_peer([row]) == []
    (problem,) = judged_by_python_peer([expecting(row, answer.value)])
    assert "stale" in problem
