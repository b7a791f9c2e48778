"""What the peers are asked: vector rows as they stand in their files, and the claims of the fixtures."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from conformance.kit.rows import RowError
from conformance.peers.rows import fixture_rows, vector_rows
from dramatiq_handshake.wire.ecmascript import stringify
from tests.unit.conformance_peers.planted import row, rows_in

DESCRIPTOR = {"instanceId": "é", "runtime": "node", "startedAt": 1}


def test_rows_keep_their_file_line_and_text(tmp_path: Path) -> None:
    first_line = r'{"descriptor":{"startedAt":1.0,"instanceId":"\ud800"},"hash":"a"}'
    (tmp_path / "hash.jsonl").write_text(f'{first_line}\n{{"descriptor":{{}},"hash":"b"}}\n')
    first, second = vector_rows(tmp_path)
    assert (first.text, first.call, first.place) == (first_line, "hash", "hash.jsonl:1 (hash)")
    assert (second.line, second.expected) == (2, "b")


def test_a_token_row_calls_the_function_that_it_names(tmp_path: Path) -> None:
    (token,) = rows_in(tmp_path, tokens=[{"fn": "tenantGroup", "args": ["a"], "result": "a"}])
    assert (token.call, token.expected) == ("tenantGroup", "a")


def test_expectations_are_read_as_doubles_and_questions_as_python_reads_them(tmp_path: Path) -> None:
    huge = "9" * 400
    (tmp_path / "tokens.jsonl").write_text(f'{{"fn":"f","args":[{huge}],"result":{huge}}}\n')
    (only,) = vector_rows(tmp_path)
    assert only.expected == math.inf
    assert only.value["args"] == [int(huge)]


def test_malformed_rows_have_no_right_answer(tmp_path: Path) -> None:
    (only,) = rows_in(tmp_path, malformed=[{"what": "x", "descriptor": {}}])
    assert only.expected is None


def test_descriptors_are_found_wherever_a_row_holds_them() -> None:
    question = row(
        "plan", {}, workers=[{"instanceId": "w1"}, {"instanceId": "w2"}], control_plane={"instanceId": "cp"}
    )
    assert {d["instanceId"] for d in question.descriptors()} == {"w1", "w2", "cp"}


def test_a_line_that_is_no_row_is_named(tmp_path: Path) -> None:
    (tmp_path / "hash.jsonl").write_text('{"descriptor":{},"hash":"a"}\nnonsense\n')
    with pytest.raises(RowError, match=r"hash\.jsonl:2: expected one JSON object"):
        vector_rows(tmp_path)


def fixtures(folder: Path, *entries: dict[str, Any], **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.json").write_text(text)
    (folder / "manifest.json").write_text(json.dumps({"version": 1, "fixtures": entries}))
    return folder


def test_a_descriptor_fixture_claims_its_etag_and_its_own_bytes(tmp_path: Path) -> None:
    entry = {"file": "d.json", "kind": "descriptor", "etag": "abc"}
    hashed, again = fixture_rows(fixtures(tmp_path, entry, d=stringify(DESCRIPTOR)))
    assert (hashed.call, hashed.expected, hashed.value) == ("hash", "abc", {"descriptor": DESCRIPTOR})
    assert (again.call, again.expected, again.byte_identical) == ("roundTrip", DESCRIPTOR, True)
    assert hashed.file == again.file == "fixtures/d.json"


def test_a_heartbeat_fixture_is_what_a_peer_writes_of_the_descriptor_with_that_etag(tmp_path: Path) -> None:
    """Our own `load` is left out: no peer writes it."""
    beat = {"ts": 5, "status": "up", "descriptorHash": "abc", "load": {"threads": 8}}
    folder = fixtures(
        tmp_path,
        {"file": "h.json", "kind": "heartbeat", "etag": "abc"},
        {"file": "d.json", "kind": "descriptor", "etag": "abc"},
        h=stringify(beat),
        d=stringify(DESCRIPTOR),
    )
    written, read, *_ = fixture_rows(folder)
    assert (written.call, written.value) == ("beat", {"descriptor": DESCRIPTOR, "ts": 5, "status": "up"})
    assert written.expected == {"ts": 5, "status": "up", "descriptorHash": "abc"}
    assert (read.call, read.value) == ("readHeartbeat", {"raw": stringify(beat)})


def test_a_negotiation_fixture_is_a_row_of_its_own(tmp_path: Path) -> None:
    text = '{"local":{},"remote":{},"required":null,"result":{"outcome":"compatible"}}'
    entry = {"file": "n.json", "kind": "negotiation", "outcome": "compatible"}
    (only,) = fixture_rows(fixtures(tmp_path, entry, n=text))
    assert (only.call, only.text, only.expected) == ("negotiate", text, {"outcome": "compatible"})


@pytest.mark.parametrize("text", ['{"instanceId": "i"}', '{"startedAt":1.0}', '{"a":1}\n', "nonsense"])
def test_a_fixture_that_is_not_in_canonical_text_is_refused(tmp_path: Path, text: str) -> None:
    entry = {"file": "d.json", "kind": "descriptor", "etag": "abc"}
    with pytest.raises(RowError, match="expected"):
        fixture_rows(fixtures(tmp_path, entry, d=text))


def test_a_fixture_that_is_listed_but_missing_is_named(tmp_path: Path) -> None:
    entry = {"file": "gone.json", "kind": "descriptor", "etag": "abc"}
    with pytest.raises(RowError, match=r"expected a fixture gone\.json"):
        fixture_rows(fixtures(tmp_path, entry))
