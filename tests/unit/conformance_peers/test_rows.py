"""Which files a folder of vectors may hold, and how their rows are read."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from conformance.peers.rows import RowsInvalid, vector_rows
from tests.unit.conformance_peers.planted import row, rows_in


def test_rows_keep_their_file_line_and_text(tmp_path: Path) -> None:
    (tmp_path / "hash.jsonl").write_text(
        '{"descriptor":{"startedAt":1.0},"hash":"a"}\n\n{"descriptor":{},"hash":"b"}\n'
    )
    first, second = vector_rows(tmp_path)
    assert first.text == '{"descriptor":{"startedAt":1.0},"hash":"a"}'
    assert (first.place, second.place, second.expected) == ("hash.jsonl:1", "hash.jsonl:3", "b")


def test_a_token_row_calls_the_function_that_it_names(tmp_path: Path) -> None:
    (token,) = rows_in(tmp_path, tokens=[{"fn": "tenantGroup", "args": ["a"], "result": "a"}])
    assert (token.call, token.expected) == ("tenantGroup", "a")


def test_expectations_are_read_as_doubles_and_questions_as_python_reads_them(tmp_path: Path) -> None:
    huge = "9" * 400
    (tmp_path / "negotiate.jsonl").write_text(f'{{"local":{{"startedAt":{huge}}},"result":{huge}}}\n')
    (only,) = vector_rows(tmp_path)
    assert only.expected == math.inf
    assert only.value["local"]["startedAt"] == int(huge)


def test_malformed_rows_have_no_right_answer(tmp_path: Path) -> None:
    (only,) = rows_in(tmp_path, malformed=[{"what": "x", "descriptor": {}}])
    assert only.expected is None


def test_descriptors_are_found_wherever_a_row_holds_them() -> None:
    question = row(
        "plan", {}, workers=[{"instanceId": "w1"}, {"instanceId": "w2"}], control_plane={"instanceId": "cp"}
    )
    assert {d["instanceId"] for d in question.descriptors()} == {"w1", "w2", "cp"}


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", '{"fn":5}', "5"])
def test_a_line_that_is_no_row_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "hash.jsonl").write_text(f'{{"descriptor":{{}},"hash":"a"}}\n{line}\n')
    with pytest.raises(RowsInvalid, match=r"hash\.jsonl:2: expected a row"):
        vector_rows(tmp_path)


def test_a_file_that_the_format_does_not_know_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hashes.jsonl").write_text("{}\n")
    with pytest.raises(RowsInvalid, match=r"hashes\.jsonl: expected one of announced\.jsonl, "):
        vector_rows(tmp_path)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RowsInvalid, match="found none"):
        vector_rows(tmp_path)
