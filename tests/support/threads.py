"""No thread of ours outlives the test that caused it."""

from __future__ import annotations

import threading

from tests.support.poll import ConditionNeverHeld, eventually

__all__ = ["OUR_THREADS", "our_threads", "wait_for_no_new_threads"]

#: Every thread that the library starts has a name with this beginning.
OUR_THREADS = "dramatiq-handshake"
PATIENCE_S = 3.0


def our_threads() -> set[threading.Thread]:
    """The living threads of ours in this process."""
    return {thread for thread in threading.enumerate() if thread.name.startswith(OUR_THREADS)}


def wait_for_no_new_threads(before: set[threading.Thread], patience_s: float = PATIENCE_S) -> None:
    """Fail where a thread of ours that was not there `before` does not end within `patience_s`.

    Raises:
        AssertionError: Names the threads that still run.
    """
    try:
        eventually(lambda: not our_threads() - before, patience_s)
    except ConditionNeverHeld:
        names = sorted(thread.name for thread in our_threads() - before)
        raise AssertionError(
            f"threads of ours outlived the test: {names}; every thread we start needs a stop path"
        ) from None
