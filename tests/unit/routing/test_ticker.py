"""The thread that does something now and then."""

from __future__ import annotations

import pytest

from dramatiq_handshake.routing.ticker import Ticker
from tests.support.poll import eventually
from tests.support.threads import our_threads


def test_it_goes_on_until_it_is_stopped() -> None:
    before, ticks = our_threads(), []
    ticker = Ticker("test", 1, lambda: ticks.append(1) or True)
    ticker.start()
    eventually(lambda: len(ticks) > 3)
    ticker.stop()

    assert our_threads() == before


def test_it_ends_by_itself_when_there_is_nothing_more_to_do() -> None:
    before = our_threads()
    Ticker("test", 1, lambda: False).start()
    eventually(lambda: our_threads() == before)


def test_it_goes_on_after_an_error_and_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    ticks: list[int] = []

    def tick() -> bool:
        ticks.append(1)
        if len(ticks) == 1:
            raise ZeroDivisionError
        return len(ticks) < 3

    before = our_threads()
    Ticker("the test", 1, tick).start()
    eventually(lambda: our_threads() == before)

    assert len(ticks) == 3
    assert "dramatiq-handshake the test failed, it goes on" in caplog.text


def test_it_may_stop_itself() -> None:
    before = our_threads()
    ticker: Ticker = Ticker("test", 1, lambda: ticker.stop() is None)
    ticker.start()
    eventually(lambda: our_threads() == before)
