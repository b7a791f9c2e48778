"""Telling plain Dramatiq workers from web processes by heartbeats alone, by a clock that the test moves."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.dispatch.carriers.plain_workers import MOVING_WINDOW_S, PlainWorkers
from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.storage.forking import _in_child
from tests.support.dispatching import Hands

TIMEOUT_MS = 60_000


class Heartbeats:
    """Dramatiq's heartbeat set, written by clients whose clocks may be wrong."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands
        self.written: dict[str, float] = {}
        self.claimed: set[str] = set()
        self.samples = 0

    def beat(self, broker_id: str, skew_s: float = 0) -> None:
        self.written[broker_id] = self.hands.ms_now + skew_s * 1000

    def sample(self) -> Mapping[str, tuple[float, float]]:
        self.samples += 1
        return {who: (when, self.hands.ms_now - when) for who, when in self.written.items()}

    def unclaimed(self, ids: Sequence[str]) -> frozenset[str]:
        return frozenset(ids) - self.claimed


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def heartbeats(hands: Hands) -> Heartbeats:
    return Heartbeats(hands)


@pytest.fixture
def plain(heartbeats: Heartbeats) -> PlainWorkers:
    return watching(heartbeats)


def watching(heartbeats: Heartbeats) -> PlainWorkers:
    return PlainWorkers(
        heartbeats.sample, heartbeats.unclaimed, heartbeat_timeout_ms=TIMEOUT_MS, clock=heartbeats.hands.s
    )


def seconds(heartbeats: Heartbeats, plain: PlainWorkers, number: int, *, moving: Sequence[str] = ()) -> bool:
    """Let so many seconds pass, in each of which these ids beat."""
    answer = plain.possible()
    for _ in range(number):
        heartbeats.hands.advance(1)
        for broker_id in moving:
            heartbeats.beat(broker_id)
        answer = plain.possible()
    return answer


def test_without_heartbeats_there_is_nobody(plain: PlainWorkers) -> None:
    assert not plain.possible()


def test_a_heartbeat_that_keeps_moving_is_a_worker(heartbeats: Heartbeats, plain: PlainWorkers) -> None:
    heartbeats.beat("plain")
    assert seconds(heartbeats, plain, 30, moving=["plain"])


def test_a_web_process_that_enqueued_once_is_ruled_out_within_seconds(
    heartbeats: Heartbeats, plain: PlainWorkers
) -> None:
    heartbeats.beat("web")
    assert plain.possible(), "at first sight it can't be told from a worker"
    assert not seconds(heartbeats, plain, int(MOVING_WINDOW_S) + 1)


def test_who_claimed_its_id_is_no_plain_worker(heartbeats: Heartbeats, plain: PlainWorkers) -> None:
    heartbeats.beat("ours")
    heartbeats.claimed.add("ours")
    assert not seconds(heartbeats, plain, 5, moving=["ours"])
    heartbeats.beat("plain")
    assert seconds(heartbeats, plain, 1, moving=["ours", "plain"])


def test_a_worker_that_stops_is_noticed(heartbeats: Heartbeats, plain: PlainWorkers) -> None:
    heartbeats.beat("plain")
    assert seconds(heartbeats, plain, 10, moving=["plain"])
    assert not seconds(heartbeats, plain, int(MOVING_WINDOW_S) + 2)


def test_a_worker_whose_heartbeat_is_cleaned_away_and_comes_back_is_seen(
    heartbeats: Heartbeats, plain: PlainWorkers
) -> None:
    heartbeats.beat("plain")
    seconds(heartbeats, plain, 5)
    del heartbeats.written["plain"]
    assert not seconds(heartbeats, plain, 1)
    heartbeats.beat("plain")
    assert seconds(heartbeats, plain, 1)


@given(st.floats(-90_000, 90_000))
def test_a_workers_wrong_clock_does_not_hide_it(skew_s: float) -> None:
    heartbeats = Heartbeats(Hands())
    plain = watching(heartbeats)
    heartbeats.beat("plain", skew_s)
    plain.possible()
    heartbeats.hands.advance(1)
    heartbeats.beat("plain", skew_s)
    assert plain.possible()


def test_old_heartbeats_of_long_dead_processes_count_for_nothing(
    heartbeats: Heartbeats, plain: PlainWorkers
) -> None:
    heartbeats.beat("dead", skew_s=-2 * TIMEOUT_MS / 1000)
    assert not plain.possible()


def test_it_looks_at_most_once_a_second(heartbeats: Heartbeats, plain: PlainWorkers) -> None:
    heartbeats.beat("plain")
    for _ in range(50):
        plain.possible()
        heartbeats.hands.advance(0.1)
    assert heartbeats.samples == 5


def test_a_look_that_fails_is_made_again(heartbeats: Heartbeats) -> None:
    answers: Iterator[object] = iter([RegistryUnavailable("away"), frozenset({"plain"})])

    def unclaimed(_: Sequence[str]) -> frozenset[str]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, frozenset)
        return answer

    heartbeats.beat("plain")
    plain = PlainWorkers(
        heartbeats.sample, unclaimed, heartbeat_timeout_ms=TIMEOUT_MS, clock=heartbeats.hands.s
    )
    with pytest.raises(RegistryUnavailable):
        plain.possible()
    assert plain.possible()


def test_a_forked_child_can_ask_though_a_thread_was_asking(
    heartbeats: Heartbeats, plain: PlainWorkers
) -> None:
    plain._lock.acquire()  # by a thread that the child does not have
    _in_child()

    answers: list[bool] = []
    asking = threading.Thread(target=lambda: answers.append(plain.possible()), daemon=True)
    asking.start()
    asking.join(5)
    assert answers == [False]
