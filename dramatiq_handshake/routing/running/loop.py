"""The event loop that a worker's async handlers share, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

__all__ = ["JobLoop"]


class JobLoop:
    """An event loop that starts with the first async handler.

    One loop for all of them, so that they can share what belongs to a loop: an HTTP session, a pool.

    Args:
        name: What its thread is called.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(
        self, begin: Callable[[], Awaitable[object]], ended: Callable[[object, BaseException | None], None]
    ) -> Callable[[], None]:
        """Await what `begin` answers, and tell `ended` its result or its error, both on the loop.

        Returns:
            A function that cancels it, from any thread and at any time.
        """
        running: list[asyncio.Task[tuple[object, BaseException | None]]] = []

        async def job() -> tuple[object, BaseException | None]:
            try:
                return await begin(), None
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - a SystemExit that left a task would end the loop
                return None, error

        def start() -> None:
            task = loop.create_task(job())
            task.add_done_callback(finish)
            running.append(task)

        def finish(task: asyncio.Task[tuple[object, BaseException | None]]) -> None:
            # Not at the end of `job`: a task that is cancelled before its first step never enters it.
            ended(*((None, asyncio.CancelledError()) if task.cancelled() else task.result()))

        def cancel() -> None:
            # The loop runs callbacks in their order, so `start` has come before this.
            for task in running:
                task.cancel()

        with self._lock:
            closed = self._closed
            if not closed:
                loop = self._started()
                loop.call_soon_threadsafe(start)
        if closed:
            ended(None, asyncio.CancelledError())
            return lambda: None
        return lambda: self._call(cancel)

    def close(self, timeout_ms: int) -> None:
        """Cancel what runs, and wait for the thread's end, at most `timeout_ms`."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._call(loop.stop)
        if thread is not threading.current_thread():
            thread.join(timeout_ms / 1000)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._serve, args=(self._loop,), name=self._name, daemon=True
            )
            self._thread.start()
        return self._loop

    def _call(self, callback: Callable[[], object]) -> None:
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(callback)
            except RuntimeError:  # the loop was closed in the meantime, and nothing runs on it
                return

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            for task in (left := asyncio.all_tasks(loop)):
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
