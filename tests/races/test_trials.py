"""Four hundred random meetings of a sender and a worker, on each kind of store: nobody waits for ever."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import dramatiq
import pytest

from dramatiq_handshake.dispatch import lanes as lanes_module
from tests.support.inprocess import App, Apps

TRIALS = 400
#: Each meeting has an actor, and so a lane, of its own; as many go on at once.
AT_ONCE = 40
JITTER_S = 0.3
LONGEST_WAIT_S = 2.0
THREADS = 6

Event = tuple[float, Callable[[], None]]


class Meetings:
    """Meetings of one worker process: for each actor somebody sends while the worker comes to have it."""

    def __init__(self, sender: App, worker: App) -> None:
        self._sender = sender
        self._worker = worker
        self._through: dict[str, float] = {}
        self._ran: dict[str, float] = {}
        self._all_ran = threading.Event()
        self._lock = threading.Lock()

    def hold(self, chance: random.Random) -> list[float]:
        """Let both sides of every meeting come at a random time. Returns how long each message waited (s)."""
        names = [f"late{number}" for number in range(AT_ONCE)]
        events: list[Event] = []
        for name in names:
            events.append((chance.uniform(0, JITTER_S), self._send(name)))
            events.append((chance.uniform(0, JITTER_S), self._come(name)))
        events.sort(key=lambda event: event[0])
        began, pace = time.monotonic(), threading.Event()

        def happen(event: Event) -> None:
            pace.wait(max(0.0, began + event[0] - time.monotonic()))
            event[1]()

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(happen, events))
        assert self._all_ran.wait(15), f"never ran: {sorted(set(names) - self._ran.keys())}"
        return [self._ran[name] - self._through[name] for name in names]

    def _send(self, name: str) -> Callable[[], None]:
        def send() -> None:
            self._sender.broker.enqueue(dramatiq.Message("default", name, (name,), {}, {}))
            self._side_is_through(name)

        return send

    def _come(self, name: str) -> Callable[[], None]:
        def come() -> None:
            self._worker.actor(self._run, actor_name=name)
            self._side_is_through(name)

        return come

    def _side_is_through(self, name: str) -> None:
        with self._lock:
            self._through[name] = time.monotonic()

    def _run(self, name: str) -> None:
        with self._lock:
            assert name not in self._ran, f"{name} ran twice"
            self._ran[name] = time.monotonic()
            if len(self._ran) == AT_ONCE:
                self._all_ran.set()


@pytest.mark.parametrize("kind", ["stub", "redis"])
def test_no_message_waits_longer_than_two_seconds(
    apps: Apps, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes_module, "MANY_LANES", AT_ONCE)
    waits: list[float] = []
    for batch in range(TRIALS // AT_ONCE):
        worker = apps.stub() if kind == "stub" else apps.redis()
        sender = worker if kind == "stub" else apps.redis()
        for app in {worker, sender}:
            app.actor(actor_name="known")
        process = worker.worker(threads=4, timeout_ms=200)
        waits += Meetings(sender, worker).hold(random.Random(batch))
        worker.stop(process)

    assert len(waits) == TRIALS
    assert max(waits) < LONGEST_WAIT_S, sorted(waits)[-10:]
