"""Diagnostics: each one is counted and heard, and a flood is one incident in the log."""

from __future__ import annotations

import logging
import threading

import pytest

from dramatiq_handshake import Code, Diagnostic
from dramatiq_handshake.dispatch import diagnostics as diagnostics_module
from dramatiq_handshake.dispatch.diagnostics import DESCRIBE_INTERVAL_S, Diagnostics
from dramatiq_handshake.storage.forking import _in_child
from tests.support.dispatching import Hands

LOGGER = logging.getLogger("tests.diagnostics")
BLOCKED = Code.CAPABILITY_UNAVAILABLE


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def diagnostics(hands: Hands) -> Diagnostics:
    return Diagnostics(LOGGER, clock=hands.s)


def test_a_flood_is_logged_once_a_minute_and_counted_each_time(
    diagnostics: Diagnostics, hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        diagnostics.emit(BLOCKED, "nobody", about="need-1")
        hands.advance(0.5)
    assert [record.getMessage() for record in caplog.records] == ["capability.unavailable: nobody"]

    hands.advance(DESCRIBE_INTERVAL_S - 50)
    diagnostics.emit(BLOCKED, "still nobody", about="need-1")

    assert caplog.messages[1:] == ["capability.unavailable: still nobody"]
    assert diagnostics.counts[BLOCKED] == 101


def test_each_thing_has_a_minute_of_its_own(
    diagnostics: Diagnostics, caplog: pytest.LogCaptureFixture
) -> None:
    for about in ("need-1", "need-2", "need-1"):
        diagnostics.emit(BLOCKED, about, about=about)
    diagnostics.emit(Code.PROTOCOL_INCOMPATIBLE, "majors", about="need-1")

    assert [message.split(": ")[1] for message in caplog.messages] == ["need-1", "need-2", "majors"]


def test_good_news_is_no_warning(diagnostics: Diagnostics, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for code in Code:
        diagnostics.emit(code, "something", about=code.value)

    good = {Code.CAPABILITY_RESTORED, Code.MESSAGE_CARRIED, Code.REGISTRY_RESTORED}
    assert {record.getMessage().split(":")[0] for record in caplog.records if record.levelname == "INFO"} == {
        code.value for code in good
    }


def test_a_subscriber_hears_every_occurrence_of_its_code_until_it_has_enough(
    diagnostics: Diagnostics,
) -> None:
    heard: list[Diagnostic] = []
    unsubscribe = diagnostics.on("capability.unavailable", heard.append)

    diagnostics.emit(BLOCKED, "one", about="n", actor="train")
    diagnostics.emit(BLOCKED, "two", about="n")
    diagnostics.emit(Code.CARRY_FAILED, "another code")
    assert [one.reason for one in heard] == ["one", "two"]
    assert heard[0].attributes == {"actor": "train"}

    unsubscribe()
    unsubscribe()
    diagnostics.emit(BLOCKED, "three", about="n")
    assert len(heard) == 2


def test_a_subscriber_that_raises_costs_nobody_else_a_diagnostic(
    diagnostics: Diagnostics, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Diagnostic] = []

    def fails(_: Diagnostic) -> None:
        raise RuntimeError("the application's own mistake")

    diagnostics.on(BLOCKED, fails)
    diagnostics.on(BLOCKED, heard.append)

    diagnostics.emit(BLOCKED, "nobody")

    assert [one.reason for one in heard] == ["nobody"]
    assert "A subscriber to capability.unavailable failed." in caplog.messages


def test_a_subscriber_may_unsubscribe_while_it_hears(diagnostics: Diagnostics) -> None:
    heard: list[str] = []

    def once(diagnostic: Diagnostic) -> None:
        heard.append(diagnostic.reason)
        unsubscribe()

    unsubscribe = diagnostics.on(BLOCKED, once)
    diagnostics.on(BLOCKED, lambda diagnostic: heard.append(diagnostic.reason))

    diagnostics.emit(BLOCKED, "a")
    diagnostics.emit(BLOCKED, "b")

    assert heard == ["a", "a", "b"]


def test_there_is_no_subscribing_to_what_does_not_exist(diagnostics: Diagnostics) -> None:
    with pytest.raises(ValueError, match=r"no\.such"):
        diagnostics.on("no.such", print)


def test_the_memory_for_what_was_described_is_bounded(
    diagnostics: Diagnostics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnostics_module, "MAX_DESCRIBED", 10)
    for number in range(100):
        diagnostics.emit(BLOCKED, "x", about=str(number))
    assert len(diagnostics._described) <= 10


def test_a_forked_child_can_emit_though_a_thread_was_emitting(diagnostics: Diagnostics) -> None:
    diagnostics._lock.acquire()  # by a thread that the child does not have
    _in_child()

    emitting = threading.Thread(target=diagnostics.emit, args=(BLOCKED, "in the child"), daemon=True)
    emitting.start()
    emitting.join(5)
    assert diagnostics.counts[BLOCKED] == 1
