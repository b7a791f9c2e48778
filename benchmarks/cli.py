"""The command line: which benchmarks, how much of them, and what comes out."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from benchmarks.catalogue import CATALOGUE, Benchmark
from benchmarks.harness.figures import WrongResult
from benchmarks.harness.machine import describe_machine
from benchmarks.harness.pairs import OPERATIONS, PAIRS, Method
from benchmarks.harness.report import as_document, as_lines
from benchmarks.harness.server import Server, ServerMissing, serve
from benchmarks.harness.statistics import SEED

__all__ = ["main"]

#: Where the raw pairs of a run are kept unless something else is asked for.
KEPT = Path(__file__).resolve().parents[1] / ".cache" / "benchmarks"
#: What an outer shell set for a fleet would change what is measured here.
OUR_ENVIRONMENT = "DRAMATIQ_HANDSHAKE_"


def main(
    arguments: Sequence[str] | None = None,
    *,
    catalogue: Mapping[str, Benchmark] = CATALOGUE,
    open_server: Callable[[], AbstractContextManager[Server]] = serve,
) -> int:
    """Run benchmarks from the command line.

    Args:
        arguments: Those of the command line, `sys.argv` by default.
        catalogue: The benchmarks that there are.
        open_server: Runs the server that a benchmark measures on.

    Returns:
        0 where every bar is met, 1 where one is missed or a benchmark's work came out wrong, 2 where the
        command can't be carried out.
    """
    options = _parser(catalogue).parse_args(arguments)
    names = options.names or [name for name in catalogue if catalogue[name].feels_plant or not options.plant]
    complaint = _complaint(names, catalogue, options.plant)
    if complaint:
        print(complaint, file=sys.stderr)
        return 2
    _forget_surroundings()
    method = Method(options.pairs, options.operations, options.plant, options.seed)
    documents = []
    for name in names:
        try:
            with open_server() as server:
                document = _run(name, catalogue[name], method, server, tell=not options.json)
        except ServerMissing as error:
            print(error, file=sys.stderr)
            return 2
        _keep(document, options.keep, method)
        documents.append(document)
    met = all(document["met"] for document in documents)
    if options.json:
        print(json.dumps(documents[0] if len(names) == 1 else {"benchmarks": documents, "met": met}))
    elif method.is_trial:
        print(
            f"A trial: {method.pairs} pairs of {method.operations} prove nothing; see benchmarks/README.md."
        )
    return 0 if met else 1


def _run(name: str, benchmark: Benchmark, method: Method, server: Server, *, tell: bool) -> dict[str, Any]:
    """Run one benchmark, and tell people what came of it."""
    print(f"{name}: {benchmark.summary} …", file=sys.stderr, flush=True)
    started = time.monotonic()
    machine = {**describe_machine(), "server": server.version()}
    try:
        outcome = benchmark.run(method, server)
    except WrongResult as error:
        print(f"{name}: the work came out wrong: {error}", file=sys.stderr)
        return {"benchmark": name, "met": False, "error": str(error), "machine": machine}
    document = as_document(name, outcome, method, machine)
    document["took_s"] = round(time.monotonic() - started, 1)
    if tell:
        for line in as_lines(name, outcome):
            print(line)
        print(flush=True)
    return document


def _keep(document: dict[str, Any], folder: Path, method: Method) -> None:
    """Write a run down, raw pairs and all; one that was slowed down on purpose beside the real one."""
    folder.mkdir(parents=True, exist_ok=True)
    suffix = ".planted.json" if method.plant_percent else ".json"
    path = folder / (document["benchmark"] + suffix)
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def _complaint(names: Sequence[str], catalogue: Mapping[str, Benchmark], plant: float) -> str:
    """Why the command can't be carried out; empty where it can."""
    unknown = [name for name in names if name not in catalogue]
    if unknown:
        return f"there is no benchmark {unknown[0]!r}; there are {', '.join(catalogue)}"
    feeling = [name for name in catalogue if catalogue[name].feels_plant]
    numb = [name for name in names if plant and name not in feeling]
    if numb:
        return (
            f"{numb[0]}: its bars leave more room on purpose than a slowdown of a few percent takes, so a "
            f"plant proves nothing; plant one in {', '.join(feeling)}"
        )
    return ""


def _forget_surroundings() -> None:
    """Measure what the code does, not what an outer shell set for a fleet; and print only errors."""
    for name in [name for name in os.environ if name.startswith(OUR_ENVIRONMENT)]:
        del os.environ[name]
    handler = logging.StreamHandler(sys.stderr)
    # Blocked messages are what some benchmarks are about, so their warnings tell nothing here.
    handler.setLevel(logging.ERROR)
    logging.basicConfig(handlers=[handler])


def _parser(catalogue: Mapping[str, Benchmark]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure what the handshake costs, and hold it against its bars.",
        epilog="; ".join(f"{name}: {benchmark.summary}" for name, benchmark in catalogue.items()),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a benchmark; all of them by default")
    parser.add_argument(
        "--json", action="store_true", help="print exactly one JSON object, raw pairs included"
    )
    parser.add_argument(
        "--pairs", type=_positive, default=PAIRS, help="how many pairs to measure (default: %(default)s)"
    )
    parser.add_argument(
        "--operations",
        type=_positive,
        default=OPERATIONS,
        help="how many operations each side of a pair does (default: %(default)s)",
    )
    parser.add_argument(
        "--plant",
        type=_percent,
        default=0.0,
        metavar="PERCENT",
        help="slow our side down by so much of the baseline's time: the run must then fall short",
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the bootstrap's random numbers")
    parser.add_argument(
        "--keep", type=Path, default=KEPT, metavar="FOLDER", help="where runs are written down"
    )
    return parser


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def _percent(text: str) -> float:
    try:
        percent = float(text)
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise argparse.ArgumentTypeError(f"expected a percentage from 0 to 100, got {text!r}")
    return percent
