"""The circuit breaker, by a clock that the test moves."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.storage.breaker import Admission, Breaker


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000.0

    def __call__(self) -> float:
        return self.ms


def opened(clock: Clock) -> Breaker:
    breaker = Breaker(now_ms=clock)
    assert breaker.failed(breaker.admit()) is True
    return breaker


def test_everybody_is_admitted_while_nothing_fails() -> None:
    breaker = Breaker(now_ms=Clock())

    for _ in range(3):
        assert breaker.admit() is Admission.FREE
        assert breaker.succeeded(Admission.FREE) is False, "there was no outage to end"
    assert breaker.available


def test_the_first_failure_begins_an_outage_and_refuses_everybody() -> None:
    breaker = opened(Clock())

    assert not breaker.available
    assert breaker.admit() is Admission.REFUSED


def test_those_who_were_already_on_their_way_begin_no_second_outage() -> None:
    breaker = opened(clock := Clock())
    clock.ms += 900

    assert breaker.failed(Admission.FREE) is False

    clock.ms += 100
    assert breaker.admit() is Admission.PROBE, "and they don't put the probe off either"


def test_an_answer_to_what_was_asked_before_the_outage_does_not_end_it() -> None:
    breaker = opened(Clock())

    assert breaker.succeeded(Admission.FREE) is False
    assert not breaker.available


def test_after_the_pause_one_caller_probes_and_the_others_stay_refused() -> None:
    breaker = opened(clock := Clock())
    clock.ms += 999
    assert breaker.admit() is Admission.REFUSED
    clock.ms += 1

    assert [breaker.admit() for _ in range(3)] == [Admission.PROBE, Admission.REFUSED, Admission.REFUSED]


def test_a_probe_that_is_answered_ends_the_outage() -> None:
    breaker = opened(clock := Clock())
    clock.ms += 1_000

    assert breaker.succeeded(breaker.admit()) is True

    assert breaker.available
    assert breaker.admit() is Admission.FREE


def test_each_failed_probe_doubles_the_pause_up_to_thirty_seconds() -> None:
    breaker = opened(clock := Clock())
    pauses = []
    for _ in range(7):
        start = clock.ms
        while (admission := breaker.admit()) is Admission.REFUSED:
            clock.ms += 500
        pauses.append(clock.ms - start)
        assert breaker.failed(admission) is False, "it is still the same outage"

    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]


def test_a_new_outage_starts_with_the_first_pause_again() -> None:
    breaker = opened(clock := Clock())
    for _ in range(3):
        clock.ms += 30_000
        breaker.failed(breaker.admit())
    clock.ms += 30_000
    breaker.succeeded(breaker.admit())

    assert breaker.failed(breaker.admit()) is True
    clock.ms += 1_000
    assert breaker.admit() is Admission.PROBE


def test_an_abandoned_probe_leaves_the_probing_to_the_next() -> None:
    """Interrupted, or spoilt by a mistake of our own: nothing was learnt about the server."""
    breaker = opened(clock := Clock())
    clock.ms += 1_000

    breaker.abandoned(breaker.admit())

    assert breaker.admit() is Admission.PROBE


def test_a_forked_child_does_not_wait_for_its_parents_probe() -> None:
    breaker = opened(clock := Clock())
    clock.ms += 1_000
    assert breaker.admit() is Admission.PROBE

    breaker.after_fork()

    assert breaker.admit() is Admission.PROBE


def test_of_many_threads_one_probes() -> None:
    breaker = opened(clock := Clock())
    clock.ms += 1_000
    barrier = threading.Barrier(16)

    def admit(_: int) -> Admission:
        barrier.wait(10)
        return breaker.admit()

    with ThreadPoolExecutor(16) as pool:
        admissions = list(pool.map(admit, range(16)))

    assert admissions.count(Admission.PROBE) == 1
    assert admissions.count(Admission.REFUSED) == 15


@given(st.lists(st.tuples(st.integers(0, 40_000), st.booleans())))
def test_an_outage_begins_and_ends_in_turn_and_is_never_longer_unasked_than_the_pause(
    history: list[tuple[int, bool]],
) -> None:
    clock = Clock()
    breaker = Breaker(now_ms=clock)
    told: list[str] = []
    last_asked = clock.ms
    for waited, answers in history:
        clock.ms += waited
        admission = breaker.admit()
        if admission is Admission.REFUSED:
            assert clock.ms - last_asked < 30_000
            continue
        last_asked = clock.ms
        if answers and breaker.succeeded(admission):
            told.append("ended")
        if not answers and breaker.failed(admission):
            told.append("began")

    assert told == ["began", "ended"] * (len(told) // 2) + ["began"] * (len(told) % 2)
    assert breaker.available == (len(told) % 2 == 0)
