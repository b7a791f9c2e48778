"""A web server in small: it loads the application, its threads are busy, it forks, and each child sends.

Run as a process of its own, since a fork of a test runner would take its threads' locks along:
``python -m tests.support.forked_producer URL``. Ends with 0 if every child's send was through.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from dramatiq_handshake import HandshakeMiddleware

__all__ = ["LOCKS"]

PATIENCE_S = 5.0

#: The locks that another thread may hold at the fork, found from the binding.
LOCKS: dict[str, Callable[[Any], AbstractContextManager[Any]]] = {
    "none": lambda binding: threading.Lock(),
    "view": lambda binding: binding._view._looking,
    "store": lambda binding: binding.store._link._lock,
    "breaker": lambda binding: binding.store._link._breaker._lock,
    "diagnostics": lambda binding: binding.diagnostics._lock,
    "plain-workers": lambda binding: binding.identity._plain_workers._lock,
}


def main(url: str) -> int:
    """Fork once for each lock, while a thread of the parent holds it. Returns how many children got stuck."""
    broker = RedisBroker(url=url)
    middleware = HandshakeMiddleware()
    broker.add_middleware(middleware)
    known = dramatiq.actor(print, broker=broker, actor_name="known")
    unknown = dramatiq.actor(print, broker=broker, actor_name="unknown")
    known.send("before")
    stuck = 0
    for name, lock in LOCKS.items():
        if _child_is_stuck(lock(middleware._bound()), lambda name=name: unknown.send(name)):
            print(f"the child is stuck where a thread of its parent held: {name}", file=sys.stderr)
            stuck += 1
    known.send("after")
    return stuck


def _child_is_stuck(lock: AbstractContextManager[Any], send: Callable[[], object]) -> bool:
    holds, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            holds.set()
            may_go.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    holds.wait(PATIENCE_S)
    child = os.fork()
    if child == 0:
        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        sending.join(PATIENCE_S)
        os._exit(1 if sending.is_alive() else 0)
    _, status = os.waitpid(child, 0)
    may_go.set()
    holder.join()
    return os.waitstatus_to_exitcode(status) != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
