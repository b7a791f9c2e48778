"""What a run found, counted and put in words; nothing is judged here but the floors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from conformance.peers.classify import Kind, Verdict
from conformance.peers.install import Peer
from conformance.peers.known import Knowledge

__all__ = ["FLOORS", "PeerReport", "Report"]

#: Of these files, the share of rows that must have been compared with at least one peer.
FLOORS = {"hash.jsonl": 0.7, "negotiate.jsonl": 0.7, "tokens.jsonl": 0.7}

#: Failures spelled out per peer and file; the rest are counted.
_SPELLED_OUT = 20


@dataclass(frozen=True)
class PeerReport:
    """One peer's half of a run.

    Attributes:
        peer: The peer.
        knowledge: The entries it was judged by.
        verdicts: One per row.
        problems: What failed beside the rows: an installation, a conversation, a stale entry.
        missing: What this machine lacks to run the peer; None where it ran.
    """

    peer: Peer
    knowledge: Knowledge
    verdicts: Sequence[Verdict] = ()
    problems: Sequence[str] = ()
    missing: str | None = None

    def counts(self) -> dict[str, Counter[Kind]]:
        """Per file, how many rows of each kind; a file's counts sum to its rows."""
        files: defaultdict[str, Counter[Kind]] = defaultdict(Counter)
        for verdict in self.verdicts:
            files[verdict.row.file][verdict.kind] += 1
        return dict(files)

    def lines(self) -> Iterator[str]:
        """The table of counts, then every entry that was used with its reason, then what failed."""
        yield f"{self.peer.name} {self.peer.version} ({self.peer.registry})"
        if self.missing is not None:
            yield from ("  " + "!" * 76, f"  NOT RUN: {self.missing}", "  " + "!" * 76)
        if self.verdicts:
            yield from self._table()
            yield from self._entries()
        yield from self._failures()

    def _table(self) -> Iterator[str]:
        yield "  " + f"{'':46}{'rows':>6}" + "".join(f"{kind.value:>21}" for kind in Kind)
        for name, kinds in self.counts().items():
            yield f"  {name:46}{kinds.total():>6}" + "".join(f"{kinds[kind]:>21}" for kind in Kind)

    def _entries(self) -> Iterator[str]:
        used = Counter(verdict.entry for verdict in self.verdicts)
        for title, entries in (
            (Kind.KNOWN_DEFECT, self.knowledge.defects),
            (Kind.NOT_IN_VERSION, self.knowledge.absences),
        ):
            for entry in entries:
                if used[entry.name]:
                    yield f"  {title.value}: {entry.name} ({used[entry.name]} rows): {entry.why}"

    def _failures(self) -> Iterator[str]:
        spelled_out: Counter[str] = Counter()
        for verdict in self.verdicts:
            if verdict.kind is Kind.FAILED:
                spelled_out[verdict.row.file] += 1
                if spelled_out[verdict.row.file] <= _SPELLED_OUT:
                    yield f"  FAILED {verdict.row.place}: {verdict.problem}"
        for file, count in spelled_out.items():
            if count > _SPELLED_OUT:
                yield f"  FAILED {file}: {count - _SPELLED_OUT} more"
        for problem in self.problems:
            yield f"  FAILED {problem}"


@dataclass
class Report:
    """A whole run.

    Attributes:
        sizes: Per file, how many rows it has.
        missing_is_failure: Whether a peer that this machine can't run is a failure (it is on CI).
        peers: One report each.
    """

    sizes: dict[str, int]
    missing_is_failure: bool
    peers: list[PeerReport] = field(default_factory=list)

    def coverage(self) -> dict[str, int]:
        """Per file that has a floor, how many rows were compared with at least one peer."""
        compared = {
            (verdict.row.file, verdict.row.line)
            for peer in self.peers
            for verdict in peer.verdicts
            if verdict.kind is Kind.COMPARED
        }
        reached = Counter(file for file, _ in compared)
        return {file: reached[file] for file in FLOORS if file in self.sizes}

    def passed(self) -> int:
        """Rows compared, known defects that still fail as they must, and floors reached."""
        counted = sum(
            verdict.kind in {Kind.COMPARED, Kind.KNOWN_DEFECT}
            for peer in self.peers
            for verdict in peer.verdicts
        )
        return counted + len(self.coverage()) - len(self._too_low())

    def failed(self) -> int:
        """Rows and entries that failed, peers missing where they must not, and floors missed."""
        rows = sum(verdict.kind is Kind.FAILED for peer in self.peers for verdict in peer.verdicts)
        problems = sum(len(peer.problems) for peer in self.peers)
        missing = sum(peer.missing is not None for peer in self.peers) if self.missing_is_failure else 0
        return rows + problems + missing + len(self._too_low())

    def _too_low(self) -> list[str]:
        return [
            file for file, reached in self.coverage().items() if reached < FLOORS[file] * self.sizes[file]
        ]

    def lines(self) -> Iterator[str]:
        """Everything a person or CI reads, ending in ``N passed, N failed``."""
        for peer in self.peers:
            yield from peer.lines()
            yield ""
        yield "Compared with at least one peer"
        too_low = self._too_low()
        for file, reached in self.coverage().items():
            share, floor = reached / self.sizes[file], FLOORS[file]
            verdict = f"FAILED: the floor is {floor:.0%}" if file in too_low else f"floor {floor:.0%}"
            yield f"  {file}: {reached} of {self.sizes[file]} rows ({share:.1%}; {verdict})"
        missing = [peer for peer in self.peers if peer.missing is not None]
        if missing:
            names = ", ".join(peer.peer.name for peer in missing)
            weight = (
                "which is a failure with CI set" if self.missing_is_failure else "which CI does not accept"
            )
            yield f"  NOT RUN: {names}, {weight}"
        yield f"{self.passed()} passed, {self.failed()} failed"
