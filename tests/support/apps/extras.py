"""Further actors of the sample application, for the tests that ask for them by name.

They are apart from the common ones so that what every other test sees announced stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import dramatiq
from dramatiq.middleware import CurrentMessage

__all__ = ["declare_extras"]

RETRY_BACKOFF_MS = 50

Declare = Callable[[dramatiq.Broker, Any, Any], dramatiq.Actor[..., Any]]


def _unplug(broker: dramatiq.Broker, middleware: Any, record: Any) -> dramatiq.Actor[..., Any]:
    """Its first attempt takes the GPU away from the process that runs it, and may fail afterwards."""

    def unplug(number: int, fails: bool = False) -> int:
        message = CurrentMessage.get_current_message()
        assert message is not None
        if not message.options.get("retries"):
            middleware.remove_capability("gpu")
            if fails:
                record("failed", "unplug", number)
                raise RuntimeError("fails the first time, on purpose")
        record("ran", "unplug", number)
        return number

    return dramatiq.actor(
        unplug,
        broker=broker,
        queue_name="ml",
        requires=["gpu"],
        max_retries=1,
        min_backoff=RETRY_BACKOFF_MS,
        max_backoff=RETRY_BACKOFF_MS,
    )


def _relay(broker: dramatiq.Broker, middleware: Any, record: Any) -> dramatiq.Actor[..., Any]:
    """Sends on from within a worker, to whatever queue it is told."""

    def relay(actor: str, queue: str, value: Any) -> None:
        broker.enqueue(dramatiq.Message(queue, actor, (value,), {}, {}))
        record("ran", "relay", queue)

    return dramatiq.actor(relay, broker=broker)


def _infer(broker: dramatiq.Broker, middleware: Any, record: Any) -> dramatiq.Actor[..., Any]:
    """An actor of a later release that requires a GPU."""

    def infer(value: Any) -> None:
        record("ran", "infer", value)

    return dramatiq.actor(infer, broker=broker, queue_name="ml", requires=["gpu"])


def _tidy(broker: dramatiq.Broker, middleware: Any, record: Any) -> dramatiq.Actor[..., Any]:
    """Work on the queue ``ml`` that anybody there can run."""

    def tidy(value: Any) -> None:
        record("ran", "tidy", value)

    return dramatiq.actor(tidy, broker=broker, queue_name="ml")


def _polish(broker: dramatiq.Broker, middleware: Any, record: Any) -> dramatiq.Actor[..., Any]:
    """A step: reached only from other actors, and it too requires a GPU."""

    def polish(value: Any) -> None:
        record("ran", "polish", value)

    return dramatiq.actor(polish, broker=broker, queue_name="ml", requires=["gpu"], step=True)


EXTRAS: dict[str, Declare] = {
    "unplug": _unplug,
    "relay": _relay,
    "infer": _infer,
    "tidy": _tidy,
    "polish": _polish,
}


def declare_extras(
    names: Iterable[str], broker: dramatiq.Broker, middleware: Any, record: Any
) -> dict[str, dramatiq.Actor[..., Any]]:
    """Declare the named actors.

    Args:
        names: Keys of `EXTRAS`.
        broker: Their broker.
        middleware: The application's `HandshakeMiddleware`; ``None`` where there is none.
        record: Writes to the ledger (`tests.support.apps.application.Recorder`).
    """
    return {name: EXTRAS[name](broker, middleware, record) for name in names}
