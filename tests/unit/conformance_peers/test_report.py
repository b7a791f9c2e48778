"""The counts, the floors and the words of a run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from conformance.peers.classify import Kind, Verdict
from conformance.peers.known import NOTHING, Defect, Knowledge
from conformance.peers.report import PeerReport, Report
from tests.unit.conformance_peers.planted import parrot, row

SHOUTS = Defect("shouts", "answers in capitals", frozenset({"hash"}), lambda row: True)


def verdicts(call: str, *kinds: Kind) -> list[Verdict]:
    entries = {Kind.KNOWN_DEFECT: "shouts"}
    return [
        Verdict(row(call, line=line), kind, entries.get(kind), "as planted" * (kind is Kind.FAILED))
        for line, kind in enumerate(kinds, 1)
    ]


def report(*halves: Sequence[Verdict], **options: bool) -> Report:
    sizes = {
        verdict.row.file: sum(v.row.file == verdict.row.file for v in halves[0]) for verdict in halves[0]
    }
    peers = [PeerReport(parrot(), Knowledge(defects=(SHOUTS,)), half) for half in halves]
    return Report(sizes, options.get("missing_is_failure", False), peers)


def test_the_counts_of_a_file_sum_to_its_rows() -> None:
    half = verdicts("hash", *Kind, *Kind, Kind.COMPARED) + verdicts("plan", Kind.NOT_IN_VERSION)
    counts = PeerReport(parrot(), NOTHING, half).counts()
    assert counts["hash.jsonl"].total() == 9
    assert counts["plan.jsonl"].total() == 1
    assert [counts["hash.jsonl"][kind] for kind in Kind] == [3, 2, 2, 2]


def test_every_entry_that_was_used_is_printed_with_its_reason() -> None:
    lines = list(report(verdicts("hash", Kind.KNOWN_DEFECT, Kind.KNOWN_DEFECT)).lines())
    assert "  known defect: shouts (2 rows): answers in capitals" in lines


def test_each_failure_is_printed_with_its_place_up_to_twenty_a_file() -> None:
    lines = list(report(verdicts("plan", *[Kind.FAILED] * 23)).lines())
    assert "  FAILED plan.jsonl:20 (plan): as planted" in lines
    assert not any("plan.jsonl:21" in line for line in lines)
    assert "  FAILED plan.jsonl: 3 more" in lines
    assert lines[-1] == "0 passed, 23 failed"


def test_rows_that_are_not_in_that_version_neither_pass_nor_fail() -> None:
    assert list(report(verdicts("plan", *Kind)).lines())[-1] == "2 passed, 1 failed"


@pytest.mark.parametrize(("compared", "failed"), [(7, 0), (6, 1)])
def test_a_floor_of_seventy_percent_is_held(compared: int, failed: int) -> None:
    result = report(verdicts("hash", *[Kind.COMPARED] * compared, *[Kind.KNOWN_DEFECT] * (10 - compared)))
    assert result.failed() == failed
    assert any("FAILED: the floor is 70%" in line for line in result.lines()) is bool(failed)


def test_a_row_counts_for_its_floor_once_when_any_peer_was_compared_on_it() -> None:
    one = verdicts("negotiate", Kind.COMPARED, Kind.NOT_IN_VERSION, Kind.NOT_IN_VERSION)
    other = verdicts("negotiate", Kind.COMPARED, Kind.COMPARED, Kind.NOT_IN_VERSION)
    assert report(one, other).coverage() == {"negotiate.jsonl": 2}
    assert report(one, other).failed() == 1
    assert report(one, verdicts("negotiate", *[Kind.COMPARED] * 3)).failed() == 0


def test_a_file_without_a_floor_may_go_uncompared() -> None:
    assert report(verdicts("directory", Kind.NOT_IN_VERSION)).failed() == 0


@pytest.mark.parametrize(("on_ci", "failed"), [(True, 1), (False, 0)])
def test_a_peer_that_can_not_run_here_is_said_loudly_and_fails_on_ci(on_ci: bool, failed: int) -> None:
    result = Report({}, on_ci, [PeerReport(parrot(), NOTHING, missing="expected Node, found no node")])
    text = "\n".join(result.lines())
    assert "NOT RUN: expected Node, found no node" in text
    assert "!!!!!!" in text
    assert result.failed() == failed


def test_a_stale_entry_fails_and_is_printed() -> None:
    result = Report({}, False, [PeerReport(parrot(), NOTHING, problems=["entry 'x' is stale"])])
    assert "  FAILED entry 'x' is stale" in list(result.lines())
    assert result.failed() == 1
