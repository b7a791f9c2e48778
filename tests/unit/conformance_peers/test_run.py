"""A whole run against made-up peers: what makes it fail, and what it prints last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.peers.install import InstallFailed, Peer, PeerUnavailable
from conformance.peers.known import Absence, Defect, Knowledge
from conformance.peers.report import Report
from conformance.peers.run import main, run
from tests.unit.conformance_peers.planted import parrot, rows_in, write_vectors

RIGHT, WRONG = "0" * 16, "f" * 16
SHOUTS = Defect(
    "shouts", "answers in capitals", frozenset({"hash"}), lambda row: "loud" in row.value, blur=type
)
NO_FIELD = Absence("registrations", "predates it", frozenset({"hash"}), field="registrations")


def asked(
    tmp_path: Path,
    *rows: dict[str, Any],
    peer: Peer | None = None,
    knowledge: Knowledge | None = None,
    ci: str = "",
) -> Report:
    """Run these rows of ``hash.jsonl`` by one peer."""
    return run(
        rows_in(tmp_path / "vectors", hash=[{"descriptor": {}, "hash": RIGHT} | row for row in rows]),
        cache=tmp_path / "cache",
        environ={"CI": ci},
        peers=[peer or parrot()],
        known={"parrot": knowledge or Knowledge()},
    )


def last_line(report: Report) -> str:
    return list(report.lines())[-1]


def test_a_peer_that_agrees_passes(tmp_path: Path) -> None:
    assert last_line(asked(tmp_path, {}, {}, {})) == "4 passed, 0 failed"


def test_a_planted_difference_fails_the_run(tmp_path: Path) -> None:
    report = asked(tmp_path, *[{}] * 4, {"peer_says": WRONG})
    assert last_line(report) == "5 passed, 1 failed"
    assert f'  FAILED hash.jsonl:5 (hash): result: expected "{RIGHT}", got "{WRONG}"' in list(report.lines())


def test_a_known_defect_passes_while_it_fails_and_fails_once_it_passes(tmp_path: Path) -> None:
    knowledge = Knowledge(defects=(SHOUTS,))
    still = asked(tmp_path, *[{}] * 4, {"loud": 1, "peer_says": WRONG}, knowledge=knowledge)
    assert last_line(still) == "6 passed, 0 failed"
    mended = asked(tmp_path, *[{}] * 8, {"loud": 1, "peer_says": WRONG}, {"loud": 1}, knowledge=knowledge)
    assert mended.failed() == 1
    assert any("hash.jsonl:10" in line and "stale" in line for line in mended.lines())


def test_an_entry_that_no_row_bears_out_fails_the_run(tmp_path: Path) -> None:
    assert asked(tmp_path, {}, knowledge=Knowledge(defects=(SHOUTS,))).failed() == 1


def test_answers_with_and_without_a_field_are_not_mixed_up(tmp_path: Path) -> None:
    """Each row gets its own two answers, also when its neighbours have one."""
    announcing = {"descriptor": {"registrations": []}, "peer_says": WRONG, "peer_says_without": WRONG}
    misread = announcing | {"peer_says_without": "e" * 16}
    report = asked(
        tmp_path, {}, announcing, {}, misread, *[{}] * 8, knowledge=Knowledge(absences=(NO_FIELD,))
    )
    (counts,) = [peer.counts()["hash.jsonl"] for peer in report.peers]
    assert {kind.value: count for kind, count in counts.items()} == {
        "compared": 10,
        "not in that version": 1,
        "failed": 1,
    }
    assert any("hash.jsonl:4" in line for line in report.lines())


@pytest.mark.parametrize(
    ("greeting", "words"),
    [
        ({"version": "1.1"}, "expected release 1.0, which is pinned, got 1.1"),
        ({"dies": "no such module"}, "no such module"),
    ],
)
def test_a_peer_that_is_another_release_or_dies_fails_the_run(
    tmp_path: Path, greeting: dict[str, Any], words: str
) -> None:
    report = asked(tmp_path, {}, peer=parrot(**greeting))
    assert report.failed() >= 1
    assert any(words in line for line in report.lines())


def unavailable(cache: Path) -> list[str]:
    raise PeerUnavailable("expected Node 18 or newer with npm on the PATH, found no node")


def uninstallable(cache: Path) -> list[str]:
    raise InstallFailed("npm ci: exit code 1")


@pytest.mark.parametrize(("ci", "failed"), [("true", 1), ("1", 1), ("", 0)])
def test_a_missing_node_is_a_failure_where_ci_is_set(tmp_path: Path, ci: str, failed: int) -> None:
    token = {"fn": "tenantGroup", "args": ["a"], "result": "a"}
    rows = rows_in(tmp_path / "vectors", tokens=[token])
    node = Peer("node peer", "1.0", "npm", unavailable)
    report = run(rows, cache=tmp_path, environ={"CI": ci} if ci else {}, peers=[parrot(), node], known={})
    assert last_line(report) == f"2 passed, {failed} failed"
    assert any("NOT RUN: expected Node" in line for line in report.lines())


def test_a_failed_installation_is_a_failure_everywhere(tmp_path: Path) -> None:
    report = asked(tmp_path, {}, peer=Peer("parrot", "1.0", "npm", uninstallable))
    assert "  FAILED npm ci: exit code 1" in list(report.lines())


@pytest.fixture
def no_fixtures(tmp_path: Path) -> Path:
    folder = tmp_path / "fixtures"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"fixtures":[]}')
    return folder


@pytest.mark.parametrize(("row", "code"), [({}, 0), ({"peer_says": WRONG}, 1)])
def test_the_command_line_ends_with_the_counts_and_their_exit_code(
    tmp_path: Path, no_fixtures: Path, capsys: pytest.CaptureFixture[str], row: dict[str, Any], code: int
) -> None:
    right = {"descriptor": {}, "hash": RIGHT}
    vectors = write_vectors(tmp_path / "vectors", hash=[*[right] * 3, right | row])
    options = [str(vectors), "--fixtures", str(no_fixtures), "--cache", str(tmp_path)]
    assert main(options, peers=[parrot()]) == code
    assert capsys.readouterr().out.splitlines()[-1] == f"{5 - code} passed, {code} failed"


def test_what_a_terminal_can_not_show_is_escaped(
    tmp_path: Path, no_fixtures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = {"descriptor": {}, "hash": RIGHT, "peer_raises": "Error\ud800"}
    vectors = write_vectors(tmp_path / "vectors", hash=[odd])
    main([str(vectors), "--fixtures", str(no_fixtures)], peers=[parrot()])
    assert "got Error\\ud800: as planted" in capsys.readouterr().out


def test_a_folder_without_vectors_is_an_error_of_usage(
    tmp_path: Path, no_fixtures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(no_fixtures), "--fixtures", str(no_fixtures)]) == 2
    assert "expected at least one vector file" in capsys.readouterr().err
