"""One row and one answer: which class it falls in, and what each table entry excuses."""

from __future__ import annotations

import re
from dataclasses import replace

from conformance.peers.classify import Kind, classify, requests_for, stale_absences, unseen_defects
from conformance.peers.known import NOTHING, Absence, Defect, Knowledge
from tests.unit.conformance_peers.planted import raises, row, says

WRONG = "f" * 16

SHOUTS = Defect(
    "shouts", "answers in capitals", frozenset({"hash"}), lambda row: "loud" in row.value, blur=type
)
CHOKES = Defect("chokes", "can't swallow it", frozenset({"hash"}), lambda row: True, raises="ChokeError")
NO_PLAN = Absence(
    "plan", "plans nothing", frozenset({"plan"}), appears_as=re.compile("plan_?it", re.IGNORECASE)
)
NO_FIELD = Absence("registrations", "predates it", frozenset({"hash"}), field="registrations")


def test_the_right_answer_is_compared() -> None:
    verdict = classify(row("hash"), NOTHING, says("0" * 16))
    assert (verdict.kind, verdict.entry, verdict.problem) == (Kind.COMPARED, None, "")


def test_a_planted_difference_fails_and_says_where_and_what() -> None:
    question = row("negotiate", {"outcome": "compatible", "protocol": {"localRange": [1, 2]}})
    verdict = classify(
        question, NOTHING, says({"outcome": "compatible", "protocol": {"localRange": [1.0, 3.0]}})
    )
    assert verdict.kind is Kind.FAILED
    assert verdict.problem == "result.protocol.localRange[1]: expected 2.0, got 3.0"


def test_a_fixture_must_come_back_with_its_keys_in_the_contracts_order() -> None:
    """Values alone are enough for a vector; a golden fixture is held to the byte."""
    question = row("roundTrip", {"a": 1, "b": [{"c": 1, "d": 2}]})
    reordered = says({"a": 1.0, "b": [{"d": 2.0, "c": 1.0}]})
    assert classify(question, NOTHING, reordered).kind is Kind.COMPARED
    golden = replace(question, byte_identical=True)
    assert classify(golden, NOTHING, says(question.expected)).kind is Kind.COMPARED
    verdict = classify(golden, NOTHING, reordered)
    assert verdict.kind is Kind.FAILED
    assert verdict.problem.startswith("key order at 14: expected 'c")


def test_taking_out_prose_leaves_the_other_keys_where_they_were() -> None:
    golden = replace(row("negotiate", {"reason": {"code": "c"}, "local": {}}), byte_identical=True)
    said = says({"reason": {"message": "words", "code": "c"}, "local": {}})
    assert classify(golden, NOTHING, said).kind is Kind.COMPARED


def test_an_exception_that_nobody_knows_of_fails() -> None:
    verdict = classify(row("hash"), NOTHING, raises("TypeError"))
    assert verdict.kind is Kind.FAILED
    assert verdict.problem == "expected an answer, got TypeError: as planted"


def test_prose_is_each_sdks_own() -> None:
    """What a peer says in a negotiation's message or a plan's reason is no difference."""
    negotiation = row("negotiate", {"outcome": "degraded", "reason": {"code": "c", "detail": {}}})
    said = {"outcome": "degraded", "reason": {"code": "c", "message": "words", "detail": {}}}
    assert classify(negotiation, NOTHING, says(said)).kind is Kind.COMPARED
    plan = row("plan", {"status": "blocked"})
    assert classify(plan, NOTHING, says({"status": "blocked", "reason": "words"})).kind is Kind.COMPARED


def test_a_negotiation_without_its_reason_still_fails() -> None:
    negotiation = row("negotiate", {"outcome": "degraded", "reason": {"code": "c"}})
    assert classify(negotiation, NOTHING, says({"outcome": "degraded"})).kind is Kind.FAILED


def test_a_wrong_answer_that_a_defect_accounts_for_is_a_known_defect() -> None:
    verdict = classify(row("hash", loud=1), Knowledge(defects=(SHOUTS,)), says(WRONG))
    assert (verdict.kind, verdict.entry) == (Kind.KNOWN_DEFECT, "shouts")


def test_a_known_defect_that_no_longer_fails_is_stale() -> None:
    verdict = classify(row("hash", loud=1), Knowledge(defects=(SHOUTS,)), says("0" * 16))
    assert verdict.kind is Kind.FAILED
    assert "'shouts'" in verdict.problem
    assert "stale" in verdict.problem


def test_a_defect_excuses_no_row_that_it_does_not_concern() -> None:
    assert classify(row("hash"), Knowledge(defects=(SHOUTS,)), says(WRONG)).kind is Kind.FAILED
    assert (
        classify(row("negotiate", {}, loud=1), Knowledge(defects=(SHOUTS,)), says({"a": 1})).kind
        is Kind.FAILED
    )


def test_a_defect_excuses_only_the_part_that_it_accounts_for() -> None:
    """Sorting wrongly is no licence to give another outcome."""
    order = Defect(
        "sorts",
        "sorts what it lists",
        frozenset({"negotiate"}),
        lambda row: True,
        blur=lambda answer: answer | {"shared": sorted(answer["shared"])},
    )
    question = row("negotiate", {"outcome": "compatible", "shared": ["b", "a"]})
    knowledge = Knowledge(defects=(order,))
    reordered = {"outcome": "compatible", "shared": ["a", "b"]}
    assert classify(question, knowledge, says(reordered)).kind is Kind.KNOWN_DEFECT
    other_outcome = classify(question, knowledge, says(reordered | {"outcome": "degraded"}))
    assert other_outcome.kind is Kind.FAILED
    assert "does not account for it" in other_outcome.problem


def test_two_defects_on_one_row_are_taken_out_together() -> None:
    no_a = Defect("a", "", frozenset({"plan"}), lambda row: True, blur=lambda x: x | {"a": 0})
    no_b = Defect("b", "", frozenset({"plan"}), lambda row: True, blur=lambda x: x | {"b": 0})
    question, answer = row("plan", {"a": 1, "b": 1, "c": 1}), says({"a": 2, "b": 2, "c": 1})
    assert classify(question, Knowledge(defects=(no_a, no_b)), answer).entry == "a"
    assert classify(question, Knowledge(defects=(no_a,)), answer).kind is Kind.FAILED


def test_a_defect_that_raises_must_raise_just_that() -> None:
    knowledge = Knowledge(defects=(CHOKES,))
    assert classify(row("hash"), knowledge, raises("ChokeError")).kind is Kind.KNOWN_DEFECT
    assert classify(row("hash"), knowledge, raises("TypeError")).kind is Kind.FAILED
    assert classify(row("hash"), knowledge, says(WRONG)).kind is Kind.FAILED


def test_a_defect_that_answers_wrongly_does_not_excuse_an_exception() -> None:
    anything = Defect("any", "", frozenset({"hash"}), lambda row: True, blur=lambda answer: None)
    assert classify(row("hash"), Knowledge(defects=(anything,)), raises("TypeError")).kind is Kind.FAILED


def test_a_row_of_a_call_that_the_version_lacks_is_not_asked() -> None:
    knowledge = Knowledge(absences=(NO_PLAN,))
    question = row("plan", {})
    assert requests_for(question, knowledge) == []
    verdict = classify(question, knowledge)
    assert (verdict.kind, verdict.entry) == (Kind.NOT_IN_VERSION, "plan")


def test_a_row_that_went_unasked_without_a_reason_fails() -> None:
    assert classify(row("plan", {}), NOTHING).kind is Kind.FAILED


def test_a_row_with_a_field_that_the_version_lacks_is_asked_with_and_without_it() -> None:
    knowledge = Knowledge(absences=(NO_FIELD,))
    announcing = row("hash", descriptor={"registrations": []})
    silent = row("hash", descriptor={})
    assert [request.without for request in requests_for(announcing, knowledge)] == [None, "registrations"]
    assert [request.without for request in requests_for(silent, knowledge)] == [None]


def test_passing_over_a_field_is_not_in_that_version_only_if_the_field_makes_no_difference() -> None:
    knowledge = Knowledge(absences=(NO_FIELD,))
    question = row("hash", descriptor={"registrations": []})
    passed_over = classify(question, knowledge, says(WRONG), says(WRONG))
    assert (passed_over.kind, passed_over.entry) == (Kind.NOT_IN_VERSION, "registrations")
    misread = classify(question, knowledge, says(WRONG), says("e" * 16))
    assert misread.kind is Kind.FAILED
    assert "'registrations' does not account for" in misread.problem


def test_a_right_answer_is_compared_even_where_the_version_passes_over_a_field() -> None:
    question = row("hash", descriptor={"registrations": []})
    right = says("0" * 16)
    assert classify(question, Knowledge(absences=(NO_FIELD,)), right, right).kind is Kind.COMPARED


def test_an_absence_is_stale_once_the_peer_defines_such_a_name() -> None:
    knowledge = Knowledge(absences=(NO_PLAN, NO_FIELD))
    assert stale_absences(knowledge, ["hash", "explain"]) == []
    (problem,) = stale_absences(knowledge, ["hash", "planIt"])
    assert "'plan'" in problem
    assert "planIt" in problem


def test_a_defect_that_shows_on_no_row_is_stale_unless_none_of_its_calls_was_asked() -> None:
    knowledge = Knowledge(defects=(SHOUTS,))
    compared = classify(row("hash"), knowledge, says("0" * 16))
    shown = classify(row("hash", loud=1), knowledge, says(WRONG))
    elsewhere = classify(row("plan", {}), knowledge, says({}))
    assert unseen_defects(knowledge, [compared, shown]) == []
    assert unseen_defects(knowledge, [elsewhere]) == []
    (problem,) = unseen_defects(knowledge, [compared])
    assert "'shouts'" in problem
