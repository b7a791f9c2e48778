"""``check.py``: every row is run, every difference is told, nothing passes by accident."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.check import check_folder, main
from conformance.kit.rows import FIELDS
from tests.unit.conformance.golden import CONFORMANCE, VECTORS

#: A row of each kind, and a change that makes its answer wrong (or, where it has none, its shape).
WRONG = {
    "announced.jsonl": lambda row: row["result"].append({"key": "x"}),
    "directory.jsonl": lambda row: row["result"].update(supported=None),
    "hash.jsonl": lambda row: row.update(hash="0" * 16),
    "heartbeat.jsonl": lambda row: row["result"].update(lastBeatAt=-1),
    "malformed.jsonl": lambda row: row.pop("what"),
    "negotiate.jsonl": lambda row: row["result"].update(outcome="x"),
    "plan.jsonl": lambda row: row["result"].update(status="x"),
    "tokens.jsonl": lambda row: row.update(result="x"),
}


def some_row(name: str) -> dict:
    return json.loads((VECTORS / name).read_bytes().split(b"\n")[0])


def written(folder: Path, name: str, *lines: bytes) -> Path:
    (folder / name).write_bytes(b"".join(line + b"\n" for line in lines))
    return folder


def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = main([str(folder)])
    return code, capsys.readouterr().out.splitlines()


def test_every_row_of_the_public_vectors_passes(capsys):
    """2,508 rows with an answer, and 252 that only must do no harm."""
    code, lines = run(VECTORS, capsys)
    assert (code, lines[-1]) == (0, "2760 passed, 0 failed")
    counts = {line.split()[0]: int(line.split()[1]) for line in lines[:-1]}
    assert counts == {
        "announced.jsonl": 338,
        "directory.jsonl": 428,
        "hash.jsonl": 659,
        "heartbeat.jsonl": 83,
        "malformed.jsonl": 252,
        "negotiate.jsonl": 518,
        "plan.jsonl": 402,
        "tokens.jsonl": 80,
    }


@pytest.mark.parametrize("name", FIELDS)
def test_a_wrong_answer_fails_and_shows_its_first_difference(name, tmp_path, capsys):
    """Per file: the right row passes, the wrong one fails, and its line is named."""
    right, wrong = some_row(name), some_row(name)
    WRONG[name](wrong)
    written(tmp_path, name, *(json.dumps(row).encode() for row in (right, wrong)))
    code, lines = run(tmp_path, capsys)
    assert code == 1
    assert lines[0].split() == [name, "1", "passed,", "1", "failed"]
    assert lines[1].startswith(f"  {name}:2: ")
    assert "expected" in lines[1]
    assert lines[2:] == ["1 passed, 1 failed"]


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b"5", b"{}", b'{"descriptor":{},"hash":"\xc3\xa9"}', b"\xff", b"[" * 100_000],
    ids=["blank", "cut", "list", "number", "no fields", "not ASCII", "not UTF-8", "deep"],
)
def test_a_row_that_can_not_be_read_is_a_failure(line, tmp_path, capsys):
    """And the rows beside it still run."""
    good = json.dumps(some_row("hash.jsonl")).encode()
    code, lines = run(written(tmp_path, "hash.jsonl", good, line, good), capsys)
    assert (code, lines[-1]) == (1, "2 passed, 1 failed")
    assert lines[1].startswith("  hash.jsonl:2: ")


def test_lines_are_split_at_line_feeds_only(tmp_path, capsys):
    """A raw U+2028, or a carriage return, is no end of a row."""
    text = json.dumps(some_row("hash.jsonl")).replace(", ", ",\r ", 1)
    code, lines = run(written(tmp_path, "hash.jsonl", text.encode()), capsys)
    assert (code, lines[-1]) == (0, "1 passed, 0 failed")


def test_an_unknown_file_is_a_failure(tmp_path, capsys):
    """A set that this kit is too old for must not look as if it passed."""
    (tmp_path / "README.md").write_text("not a vector file")
    written(tmp_path, "signals.jsonl", b"{}")
    code, lines = run(tmp_path, capsys)
    assert (code, lines[-1]) == (1, "0 passed, 1 failed")
    assert "expected one of" in lines[1]


@pytest.mark.parametrize("content", [None, b""], ids=["no file", "an empty file"])
def test_nothing_to_check_is_a_failure(content, tmp_path):
    """An empty run is the most common false success."""
    if content is not None:
        (tmp_path / "hash.jsonl").write_bytes(content)
    assert check_folder(tmp_path) == (0, 1)


def test_a_folder_that_does_not_exist_is_a_failure(tmp_path):
    """A mistyped path is no success either."""
    assert check_folder(tmp_path / "missing") == (0, 1)


def test_an_unknown_function_or_axis_fails_its_row(tmp_path):
    """A newer set may ask what this library has no word for."""
    row = some_row("announced.jsonl") | {"localeSensitive": True, "localeAxes": ["colour"]}
    written(tmp_path, "announced.jsonl", json.dumps(row).encode())
    written(tmp_path, "tokens.jsonl", b'{"fn":"unheardOf","args":[],"result":""}')
    assert check_folder(tmp_path) == (0, 2)


def test_a_hostile_message_can_not_break_the_output(tmp_path, capsys):
    """A lone surrogate in an error is escaped on its way to the terminal."""
    row = {"fn": "sanitizeQueueToken", "args": ["\ud800"], "result": "x"}
    code, lines = run(written(tmp_path, "tokens.jsonl", json.dumps(row).encode()), capsys)
    assert code == 1
    assert lines[1].isascii()


def test_it_runs_as_the_documented_command(tmp_path):
    """From any directory, without the repository on the path."""
    written(tmp_path, "hash.jsonl", json.dumps(some_row("hash.jsonl")).encode())
    done = subprocess.run(
        [sys.executable, str(CONFORMANCE / "check.py"), str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 passed, 0 failed")
