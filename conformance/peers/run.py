"""The run: install, ask, judge, report. The only module here that touches the machine and the terminal."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from conformance.kit.rows import RowError
from conformance.peers.classify import classify, requests_for, stale_absences, unseen_defects
from conformance.peers.install import PEERS, InstallFailed, Peer, PeerUnavailable
from conformance.peers.known import KNOWN, NOTHING, Knowledge
from conformance.peers.process import AdapterFailed, converse
from conformance.peers.report import PeerReport, Report
from conformance.peers.rows import Row, fixture_rows, vector_rows

__all__ = ["main", "run"]

_ROOT = Path(__file__).resolve().parents[2]


def run(
    rows: Sequence[Row],
    *,
    cache: Path,
    environ: Mapping[str, str],
    peers: Sequence[Peer] = PEERS,
    known: Mapping[str, Knowledge] = KNOWN,
) -> Report:
    """Ask every peer every row.

    Args:
        rows: The questions.
        cache: Where peers are installed.
        environ: The environment: a non-empty ``CI`` makes a peer that can't run here a failure.
        peers: The peers.
        known: What is known of each, by name.
    """
    report = Report(dict(Counter(row.file for row in rows)), bool(environ.get("CI")))
    for peer in peers:
        report.peers.append(_ask(peer, known.get(peer.name, NOTHING), rows, cache))
    return report


def _ask(peer: Peer, knowledge: Knowledge, rows: Sequence[Row], cache: Path) -> PeerReport:
    questions = [(row, requests_for(row, knowledge)) for row in rows]
    try:
        conversation = converse(peer.prepare(cache), [request for _, asked in questions for request in asked])
    except PeerUnavailable as error:
        return PeerReport(peer, knowledge, missing=str(error))
    except (InstallFailed, AdapterFailed) as error:
        return PeerReport(peer, knowledge, problems=[str(error)])
    answers = iter(conversation.answers)
    verdicts = [classify(row, knowledge, *islice(answers, len(asked))) for row, asked in questions]
    problems = stale_absences(knowledge, conversation.names) + unseen_defects(knowledge, verdicts)
    if conversation.version != peer.version:
        problems.append(f"expected release {peer.version}, which is pinned, got {conversation.version}")
    return PeerReport(peer, knowledge, verdicts, problems)


def main(argv: Sequence[str] | None = None, *, peers: Sequence[Peer] = PEERS) -> int:
    """Run from the command line; 0 where nothing failed, 1 where something did, 2 for a bad folder."""
    parser = argparse.ArgumentParser(prog="python -m conformance.peers", description=__doc__)
    parser.add_argument("vectors", type=Path, nargs="?", default=_ROOT / "conformance" / "vectors")
    parser.add_argument("--fixtures", type=Path, default=_ROOT / "conformance" / "fixtures")
    parser.add_argument("--cache", type=Path, default=_ROOT / ".cache" / "peers", help="where peers live")
    options = parser.parse_args(argv)
    try:
        rows = fixture_rows(options.fixtures) + vector_rows(options.vectors)
    except RowError as error:
        print(error, file=sys.stderr)
        return 2
    report = run(rows, cache=options.cache, environ=os.environ, peers=peers)
    for line in report.lines():
        # A lone surrogate in a message would break the output of the very row that explains it.
        print(line.encode("ascii", "backslashreplace").decode())
    return 1 if report.failed() else 0
