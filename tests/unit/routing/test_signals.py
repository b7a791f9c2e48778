"""The cancel signal: once, for any number of listeners in any thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dramatiq_handshake.routing import CancelSignal
from tests.support.poll import eventually


def test_only_the_first_cancellation_counts() -> None:
    signal, told = CancelSignal(), []
    signal.on_cancel(lambda: told.append(signal.reason))
    assert (signal.cancelled, signal.reason) == (False, "")

    assert signal.cancel("not needed")
    assert not signal.cancel("something else")
    assert (signal.cancelled, signal.reason, told) == (True, "not needed", ["not needed"])


def test_listeners_are_called_in_order_and_late_ones_at_once() -> None:
    signal, told = CancelSignal(), []
    signal.on_cancel(lambda: told.append("first"))
    signal.on_cancel(lambda: told.append("second"))
    signal.cancel()
    signal.on_cancel(lambda: told.append("late"))

    assert told == ["first", "second", "late"]


def test_a_listener_can_be_taken_off_at_any_time() -> None:
    signal, told = CancelSignal(), []
    off = signal.on_cancel(lambda: told.append("never"))
    off()
    off()
    signal.cancel()
    signal.on_cancel(lambda: None)()
    off()

    assert told == []


def test_a_listener_that_raises_keeps_nobody_from_hearing() -> None:
    signal, told = CancelSignal(), []
    signal.on_cancel(lambda: 1 / 0)
    signal.on_cancel(lambda: told.append("heard"))
    with pytest.raises(ZeroDivisionError):
        signal.cancel()

    assert told == ["heard"]
    assert signal.cancelled


def test_waiting_ends_with_the_cancellation_or_the_time() -> None:
    signal = CancelSignal()
    assert not signal.wait(timeout_ms=1)
    answers: list[bool] = []
    waiter = threading.Thread(target=lambda: answers.append(signal.wait()))
    waiter.start()
    signal.cancel()
    waiter.join(10)

    assert answers == [True]
    assert signal.wait(timeout_ms=0)


def test_an_event_loop_hears_of_it_from_another_thread() -> None:
    signal = CancelSignal()

    async def handler() -> str:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        signal.on_cancel(lambda: loop.call_soon_threadsafe(stopped.set))
        await asyncio.wait_for(asyncio.gather(stopped.wait(), asyncio.to_thread(signal.cancel, "over")), 10)
        return signal.reason

    assert asyncio.run(handler()) == "over"


def test_many_threads_cancel_once_only() -> None:
    signal, told, firsts = CancelSignal(), [], []
    signal.on_cancel(lambda: told.append(1))
    start = threading.Barrier(20)

    def cancel() -> None:
        start.wait()
        if signal.cancel():
            firsts.append(1)

    threads = [threading.Thread(target=cancel) for _ in range(20)]
    for thread in threads:
        thread.start()
    eventually(lambda: not any(thread.is_alive() for thread in threads))

    assert (told, firsts) == ([1], [1])
