"""Handlers for workers under test; a module, so that worker processes can import them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from multiprocessing.connection import Connection

from dramatiq_handshake.routing import HandlerRegistry, JobContext

__all__ = ["build", "build_nothing", "send_then_wait"]


def echo(context: JobContext) -> dict[str, object]:
    """Everything that the handler was given, and where it ran."""
    return {
        "params": context.params,
        "outputs": dict(context.outputs),
        "attempt": context.attempt,
        "worker": context.worker_id,
        "pid": os.getpid(),
    }


async def echo_async(context: JobContext) -> dict[str, object]:
    await asyncio.sleep(0)
    return echo(context)


def boom(context: JobContext) -> None:
    raise ValueError(f"no {context.params}")


def talk(context: JobContext) -> str:
    context.log("on it", level="warning", step=1)
    context.log("an object", thing=complex(1, 2))
    return "said"


def until_cancelled(context: JobContext) -> None:
    """Follows its signal."""
    context.log("waiting")
    context.signal.wait()
    context.raise_if_cancelled()


async def until_cancelled_async(context: JobContext) -> None:
    """Knows nothing of signals."""
    context.log("waiting")
    await asyncio.Event().wait()


def unsendable(context: JobContext) -> object:
    return object()


def never_returns(context: JobContext) -> None:
    """Follows no signal whatever."""
    context.log("waiting")
    while True:
        time.sleep(60)


def build() -> HandlerRegistry:
    """The registry of all of these, by their names."""
    handlers = [
        echo,
        echo_async,
        boom,
        talk,
        until_cancelled,
        until_cancelled_async,
        unsendable,
        never_returns,
    ]
    return HandlerRegistry({handler.__name__: handler for handler in handlers})


def build_nothing() -> HandlerRegistry:
    """Fails, as a module does that lacks what it needs."""
    raise RuntimeError("there is no GPU here")


def send_then_wait(connection: Connection) -> None:
    """Be the other end of a port, until killed."""
    connection.send_bytes(b'{"type":"last words"}')
    signal.pause()
