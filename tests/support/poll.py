"""Waiting for a condition instead of sleeping a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["ConditionNeverHeld", "eventually"]

T = TypeVar("T")

#: Generous, because a loaded machine is slow; a condition that holds costs no more than it takes.
DEFAULT_TIMEOUT_S = 15.0
FIRST_PAUSE_S = 0.002
LONGEST_PAUSE_S = 0.05


class ConditionNeverHeld(AssertionError):
    """A condition that a test waited for did not hold in time."""


def eventually(
    predicate: Callable[[], T],
    timeout_s: float = DEFAULT_TIMEOUT_S,
    *,
    what: str = "",
    state: Callable[[], object] | None = None,
) -> T:
    """Poll `predicate` until it answers something truthy, and return that.

    An `AssertionError` in the predicate counts as "not yet", so that it may hold plain asserts; every
    other exception is a mistake and passes through at once.

    Args:
        predicate: Asked at once, then after pauses that grow from 2 to 50 ms.
        timeout_s: How long to go on asking, in seconds.
        what: What was hoped for, as the failure tells it; by default the predicate's name.
        state: Describes the world for the failure message; asked only on failure.

    Raises:
        ConditionNeverHeld: It never held; the message tells the last answer and the state.
    """
    deadline = time.monotonic() + timeout_s
    pause = FIRST_PAUSE_S
    asked = 0
    while True:
        asked += 1
        refusal: AssertionError | None = None
        try:
            answer = predicate()
        except AssertionError as error:
            answer, refusal = None, error  # type: ignore[assignment]  # None stands for "no answer"
        if answer:
            return answer
        if time.monotonic() >= deadline:
            hoped = what or getattr(predicate, "__name__", "the condition")
            last = f"last refusal: {refusal}" if refusal is not None else f"last answer: {answer!r}"
            world = f"\nstate: {state()}" if state is not None else ""
            raise ConditionNeverHeld(
                f"{hoped!r} did not hold within {timeout_s:g} s (asked {asked} times); {last}{world}"
            ) from refusal
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_S)
