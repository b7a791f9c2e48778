"""The table itself: what each entry for a real peer excuses, and that it excuses no more."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.peers.classify import Kind, Verdict, classify, stale_absences
from conformance.peers.known import KNOWN, NODE, PYTHON
from conformance.peers.rows import Row
from tests.unit.conformance_peers.planted import raises, row, says

#: By UTF-16 code unit the emoji comes first, by code point the private-use character does.
PRIVATE_USE, EMOJI = "\ue000", "\U0001f600"
OTHER_ETAG = "f" * 16
CALLS = ("partitionOfToken", "announced", "directory", "readHeartbeat", "survive")


def by_python_peer(question: Row, answer: Any) -> Verdict:
    return classify(question, KNOWN[PYTHON], says(answer))


def negotiation(**local: Any) -> Row:
    side = {"instanceId": "i", "runtime": "node", "sdk": {"name": "s", "version": "1"}} | local
    sets = {"shared": [EMOJI, PRIVATE_USE] if local.get("capabilities") else []}
    return row("negotiate", {"outcome": "compatible", "capabilities": sets, "local": side}, local=side)


@pytest.mark.parametrize(
    ("descriptor", "entry"),
    [
        ({"startedAt": 1.0}, "number text"),
        ({"workflows": [EMOJI, PRIVATE_USE]}, "code point order in ETags"),
    ],
)
def test_a_known_wrong_etag_is_still_an_etag(descriptor: dict[str, Any], entry: str) -> None:
    question = row("hash", descriptor=descriptor)
    assert by_python_peer(question, OTHER_ETAG).entry == entry
    for no_etag in ("f" * 15, "F" * 16, None, 5):
        assert by_python_peer(question, no_etag).kind is Kind.FAILED


def test_a_lone_surrogate_ends_in_the_one_exception_that_is_known() -> None:
    question = row("hash", descriptor={"instanceId": "\ud800"})
    assert classify(question, KNOWN[PYTHON], raises("UnicodeEncodeError")).entry == "lone surrogates"
    assert classify(question, KNOWN[PYTHON], raises("KeyError")).kind is Kind.FAILED


def test_code_point_order_excuses_the_order_of_a_set_and_not_its_members() -> None:
    question = negotiation(capabilities=[PRIVATE_USE, EMOJI])
    reordered = question.expected | {"capabilities": {"shared": [PRIVATE_USE, EMOJI]}}
    assert by_python_peer(question, reordered).entry == "code point order in sessions"
    short = question.expected | {"capabilities": {"shared": [EMOJI]}}
    assert by_python_peer(question, short).kind is Kind.FAILED


def test_a_lossy_round_trip_excuses_nulls_and_unknown_fields_and_nothing_else() -> None:
    question = negotiation(namespace=None, sdk={"name": "s", "version": "1", "build": "7"})
    local = {"instanceId": "i", "runtime": "node", "sdk": {"name": "s", "version": "1"}}
    assert by_python_peer(question, question.expected | {"local": local}).entry == "lossy round trip"
    for wrong in ({"runtime": "node"}, local | {"instanceId": "j"}, local | {"sdk": {"name": "s"}}):
        assert by_python_peer(question, question.expected | {"local": wrong}).kind is Kind.FAILED
    other = question.expected | {"local": local, "outcome": "degraded"}
    assert by_python_peer(question, other).kind is Kind.FAILED


@pytest.mark.parametrize("peer", [PYTHON, NODE])
@pytest.mark.parametrize("call", CALLS)
def test_what_both_peers_lack_is_not_asked_of_them(peer: str, call: str) -> None:
    assert classify(row(call, None), KNOWN[peer]).kind is Kind.NOT_IN_VERSION


@pytest.mark.parametrize(
    "name",
    ["partitionOfToken", "partition_of_token", "announcedWorkflows", "workflowDirectory", "parseHeartbeat"],
)
def test_a_release_that_brings_a_missing_call_makes_its_entry_stale(name: str) -> None:
    for peer in (PYTHON, NODE):
        assert stale_absences(KNOWN[peer], [name]) != []


def test_only_the_python_peer_lacks_dispatch_plans() -> None:
    assert stale_absences(KNOWN[PYTHON], ["plan_dispatch"]) != []
    assert stale_absences(KNOWN[NODE], ["planDispatch"]) == []


def test_every_entry_says_what_and_why_in_one_line() -> None:
    for knowledge in KNOWN.values():
        entries = [*knowledge.defects, *knowledge.absences]
        assert len({entry.name for entry in entries}) == len(entries)
        assert all(len(entry.why) > 30 and "\n" not in entry.why for entry in entries)
