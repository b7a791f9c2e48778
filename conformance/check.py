"""Run a folder of vector files through dramatiq-handshake.

    python conformance/check.py conformance/vectors

Prints a count per file, each failing row's first difference, and last ``N passed, N failed``. The exit
code is 1 where anything failed. A file or row that the documented format (``vectors/README.md``)
doesn't know is a failure, and so is a folder without any.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if __name__ == "__main__":
    # Run as a script, the folder above this one is not on the path; `conformance.kit` is found from it.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.kit.rows import Row, RowError, read_file, vector_files
from conformance.kit.suites import check_row

__all__ = ["check_folder", "main"]


def check_folder(folder: Path) -> tuple[int, int]:
    """Run every vector file of a folder and print what came of it.

    Returns:
        How many rows passed, and how many rows, files or folders failed.
    """
    try:
        files = vector_files(folder)
    except RowError as error:
        print(str(error).encode("ascii", "backslashreplace").decode())
        return 0, 1
    counts = [_check_file(path) for path in files]
    return sum(passed for passed, _ in counts), sum(failed for _, failed in counts)


def _check_file(path: Path) -> tuple[int, int]:
    differences: list[str] = []
    passed = 0
    try:
        for row in read_file(path):
            if isinstance(row, Row):
                line, difference = row.line, check_row(path.name, row)
            else:
                line, difference = row[0], str(row[1])
            if difference is None:
                passed += 1
            else:
                differences.append(f"  {path.name}:{line}: {difference}")
    except RowError as error:
        differences.append(f"  {path.name}: {error}")
    print(f"{path.name:<18} {passed:>6} passed, {len(differences)} failed")
    for difference in differences:
        # A lone surrogate in a message would break the output of the very row that explains it.
        print(difference.encode("ascii", "backslashreplace").decode())
    return passed, len(differences)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description="Run a folder of vector files through dramatiq-handshake.")
    parser.add_argument("folder", type=Path, help="the folder that holds the *.jsonl files")
    passed, failed = check_folder(parser.parse_args(arguments).folder)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
