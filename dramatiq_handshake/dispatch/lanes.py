"""Opening and closing the lanes that one worker serves.

A lane's consumer is a thread of Dramatiq's own kind in the worker's own dictionary, so that pausing,
resuming, stopping and joining a worker include it. One lock orders opening and closing against all of
them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from dramatiq.worker import _ConsumerThread as ConsumerThread

if TYPE_CHECKING:
    from dramatiq import Broker, Worker

    from dramatiq_handshake.dispatch.consumers import Whitelist

__all__ = ["LaneKeeper", "LaneThread"]

#: Each lane costs a thread, and on RabbitMQ a connection; from here on that is worth a word.
MANY_LANES = 5


class LaneThread(ConsumerThread):
    """A consumer thread that may leave while the worker lives."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._leaving = threading.Lock()
        self._left = False

    def run(self) -> None:
        """Consume until stopped; then let nobody wait for this thread to pause."""
        try:
            super().run()
        finally:
            with self._leaving:
                self._left = True
                self.paused_event.set()

    def pause(self) -> None:
        """Pause; a thread that has left already counts as paused."""
        with self._leaving:
            self.paused = True
            if self._left:
                # An earlier resume has cleared it, and nobody is there to set it again.
                self.paused_event.set()
            else:
                self.paused_event.clear()


class LaneKeeper:
    """Keeps one worker's set of open lanes equal to what it can serve.

    Args:
        worker: Dramatiq's worker, before it boots.
        broker: Its broker, whose `consume` builds the wrapped consumers.
        whitelist: Closed together with the lanes when the worker leaves.
    """

    def __init__(
        self, worker: Worker, broker: Broker, whitelist: Whitelist, *, logger: logging.Logger
    ) -> None:
        self._worker = worker
        self._broker = broker
        self._whitelist = whitelist
        self._logger = logger
        self._lock = threading.Lock()
        self._open: dict[str, LaneThread] = {}
        self._closing: dict[str, LaneThread] = {}
        self._paused = False
        self._stopped = False
        worker.pause = self._ordered(worker.pause, paused=True)  # type: ignore[method-assign]  # on the instance
        worker.resume = self._ordered(worker.resume, paused=False)  # type: ignore[method-assign]

    @property
    def open(self) -> tuple[str, ...]:
        """The names of the lanes that this worker serves now."""
        return tuple(self._open)

    def sync(self, wanted: AbstractSet[str]) -> None:
        """Open the lanes that are wanted and not open, wind down those that are open and not wanted.

        Skipped while the worker is being paused or resumed: the next tick comes in a second.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._reap()
            if self._stopped:
                return
            for name in wanted - self._open.keys() - self._closing.keys():
                self._start(name)
            for name in self._open.keys() - wanted:
                self._wind_down(name)
        finally:
            self._lock.release()

    def stop(self) -> None:
        """Open nothing from now on; Dramatiq stops and closes what is open with its other consumers."""
        with self._lock:
            self._stopped = True
            self._whitelist.close()

    def idle(self, *, for_s: float) -> list[str]:
        """The open lanes that have delivered nothing for so many seconds and have nothing in hand."""
        now = time.monotonic()
        idle = []
        for name, thread in list(self._open.items()):
            consumer: Any = thread.consumer
            if consumer is not None and now - consumer.delivered_at > for_s and consumer.is_idle:
                idle.append(name)
        return idle

    def _ordered(self, call: Callable[[], None], *, paused: bool) -> Callable[[], None]:
        def ordered() -> None:
            with self._lock:
                self._paused = paused
                call()

        return ordered

    def _start(self, name: str) -> None:
        thread = LaneThread(
            broker=self._broker,
            queue_name=name,
            prefetch=self._worker.queue_prefetch,
            work_queue=self._worker.work_queue,
            worker_timeout=self._worker.worker_timeout,
        )
        thread.paused = self._paused
        self._open[name] = thread
        self._worker.consumers[name] = thread
        thread.start()
        self._logger.info("Serving lane %r.", name)
        if len(self._open) == MANY_LANES + 1:
            self._logger.warning(
                "This worker serves more than %d lanes, each with a thread of its own: %s. "
                "Fewer distinct requires= sets per queue, or a queue per set, cost less.",
                MANY_LANES,
                ", ".join(sorted(self._open)),
            )

    def _wind_down(self, name: str) -> None:
        thread = self._open.pop(name)
        self._closing[name] = thread
        consumer: Any = thread.consumer
        if consumer is None:
            thread.stop()
        else:
            consumer.closing.set()

    def _reap(self) -> None:
        for name, thread in list(self._open.items()):
            if not thread.is_alive():
                # Whatever ended it: closed here, the lane is opened anew.
                self._closing[name] = self._open.pop(name)
        for name, thread in list(self._closing.items()):
            consumer: Any = thread.consumer
            if consumer is not None:
                # A consumer that Dramatiq rebuilt meanwhile has not heard yet.
                consumer.closing.set()
            if not thread.is_alive():
                thread.close()
                del self._closing[name]
                self._worker.consumers.pop(name, None)
                self._logger.info("No longer serving lane %r.", name)
