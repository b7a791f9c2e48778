"""Many threads, and forks, in a producer that has not looked yet."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import dramatiq
import pytest

from dramatiq_handshake import plugin as plugin_module
from dramatiq_handshake.dispatch.binding import Binding
from tests.support.dispatching import WatchedStore, worker_up
from tests.support.forked_producer import LOCKS
from tests.support.inprocess import App, Apps
from tests.support.queues import Queues

ROOT = Path(__file__).resolve().parents[2]
THREADS = 64


def all_at_once(send: Any) -> list[Any]:
    """Call `send` from many threads at the same moment."""
    line = threading.Barrier(THREADS)

    def one(number: int) -> Any:
        line.wait(10)
        return send(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


@pytest.mark.parametrize("kind", ["stub", "redis"])
def test_a_cold_producer_looks_once_for_all_its_threads(
    apps: Apps, watched_stores: list[WatchedStore], kind: str
) -> None:
    app: App = getattr(apps, kind)()
    actors = [app.actor(actor_name=f"actor{number}") for number in range(THREADS)]
    (store,) = watched_stores
    fingerprint = app.binding.identity.fingerprint()
    worker_up(store, *(actor.actor_name for actor in actors), queue="default", broker=fingerprint)

    all_at_once(lambda number: actors[number].send(number))

    assert store.calls["look"] == 1
    assert store.calls["class_bodies"] == 1
    assert store.calls["announce_control_plane"] == 1
    assert app.binding._view._queues["default"].free == {actor.actor_name for actor in actors}


@pytest.mark.parametrize("kind", ["stub", "redis"])
def test_the_first_contact_of_many_threads_binds_once(
    apps: Apps, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that declares nothing binds with its first enqueue; wrapped twice, hooks would run twice."""
    bindings: list[Binding] = []

    class Slow(Binding):
        """Whose making can be interrupted."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            bindings.append(self)
            threading.Event().wait(0.02)
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(plugin_module, "Binding", Slow)
    app: App = getattr(apps, kind)()
    if kind == "stub":
        app.broker.queues["default"] = Queue()  # declared without a hook, which would bind already
    all_at_once(lambda number: app.broker.enqueue(dramatiq.Message("default", "theirs", (number,), {}, {})))

    assert len(bindings) == 1


def test_forked_children_send_though_threads_of_their_parent_held_locks(
    apps: Apps, valkey_url: str, queues: Queues
) -> None:
    """Field notes 24: a web server loads the application, its threads are busy, and it forks."""
    live = apps.redis()
    live.actor(actor_name="known")
    worker = live.worker()
    parent = subprocess.run(
        [sys.executable, "-m", "tests.support.forked_producer", valkey_url],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert parent.returncode == 0, parent.stderr
    assert sorted(live.log.wait_for(2)) == ["after", "before"]
    live.stop(worker)
    assert sum(queues.unfinished().values()) == len(LOCKS), "each child's message is kept"
