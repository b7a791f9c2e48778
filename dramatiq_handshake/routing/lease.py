"""A worker's lease: one for every kind of directory, over the few steps in which the kinds differ."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.routing.errors import DuplicateJob, DuplicateWorker, UnknownWorker
from dramatiq_handshake.routing.ticker import Ticker
from dramatiq_handshake.storage.forking import renew_after_fork

__all__ = ["Lease", "Registration"]

logger = logging.getLogger(__name__)


class Registration(Protocol):
    """A worker's registration in its directory.

    Each step states what the worker runs, and which jobs ended without the directory's having heard of
    it: what the worker says of itself is true, whatever the directory has lost.
    """

    def beat(self, timestamp: int | None, running: Collection[str], ended: Collection[str]) -> None:
        """See `WorkerLease.heartbeat`."""
        ...

    def begin(self, job_id: str, running: Collection[str], ended: Collection[str]) -> None:
        """See `WorkerLease.begin`."""
        ...

    def finish(self, job_id: str) -> None:
        """Give a slot back.

        Raises:
            RegistryUnavailable: The directory can't be reached.
        """
        ...

    def leave(self) -> None:
        """See `WorkerLease.stop`.

        Raises:
            RegistryUnavailable: The directory can't be reached.
        """
        ...


class Lease:
    """Implements `WorkerLease`.

    Args:
        worker_id: Whose.
        registration: Its registration.
        heartbeat_interval_ms: How often the lease beats by itself; ``None`` for never.
    """

    def __init__(self, worker_id: str, registration: Registration, heartbeat_interval_ms: int | None) -> None:
        self._worker_id = worker_id
        self._registration = registration
        self._running: set[str] = set()
        self._ended: set[str] = set()
        self._stopped = False
        # Held while what runs is stated, so that no statement arrives after the end that it contradicts.
        self._stating = threading.Lock()
        self._ticker: Ticker | None = None
        renew_after_fork(self)
        if heartbeat_interval_ms is not None:
            self._ticker = Ticker(f"beat of {worker_id}", heartbeat_interval_ms, self._tick)
            self._ticker.start()

    def __repr__(self) -> str:
        return f"<Lease of {self._worker_id!r}{' (stopped)' if self._stopped else ''}>"

    def after_fork(self) -> None:
        """The worker is the parent: the child must not beat for it, nor take it off."""
        self._stating = threading.Lock()
        self._running, self._ended = set(), set()
        self._stopped = True
        self._ticker = None

    @property
    def worker_id(self) -> str:
        """See `WorkerLease.worker_id`."""
        return self._worker_id

    def heartbeat(self, timestamp: int | None = None) -> None:
        """See `WorkerLease.heartbeat`."""
        with self._stating:
            self._not_stopped()
            self._registration.beat(timestamp, self._running, self._ended)
            self._ended.clear()

    def begin(self, job_id: str) -> None:
        """See `WorkerLease.begin`."""
        with self._stating:
            self._not_stopped()
            if job_id in self._running:
                raise DuplicateJob(job_id, self._worker_id)
            self._ended.discard(job_id)
            try:
                self._registration.begin(job_id, self._running, self._ended)
            except RegistryUnavailable:
                # Only the answer may have been lost: a slot that is ours by now must not stay for nothing.
                self._ended.add(job_id)
                raise
            self._ended.clear()
            self._running.add(job_id)

    def finish(self, job_id: str) -> None:
        """See `WorkerLease.finish`."""
        with self._stating:
            if job_id not in self._running:
                return
            self._running.remove(job_id)
        try:
            self._registration.finish(job_id)
        except RegistryUnavailable:
            with self._stating:
                self._ended.add(job_id)

    @contextmanager
    def running(self, job_id: str) -> Iterator[None]:
        """See `WorkerLease.running`."""
        self.begin(job_id)
        try:
            yield
        finally:
            self.finish(job_id)

    def stop(self) -> None:
        """See `WorkerLease.stop`."""
        if self._ticker is not None:
            self._ticker.stop()
        with self._stating:
            if self._stopped:
                return
            self._stopped = True
            try:
                self._registration.leave()
            except RegistryUnavailable as error:
                logger.warning(
                    "Worker %r could not leave its directory and goes stale: %s", self._worker_id, error
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _not_stopped(self) -> None:
        if self._stopped:
            raise UnknownWorker(self._worker_id)

    def _tick(self) -> bool:
        try:
            self.heartbeat()
        except RegistryUnavailable as error:
            logger.debug("Worker %r could not beat: %s", self._worker_id, error)
        except UnknownWorker:
            return False
        except DuplicateWorker:
            logger.error(  # noqa: TRY400 - what happened is said in full; a traceback adds nothing
                "Worker %r was silent for so long that another registration took over its id; "
                "this one beats no more and gets no jobs",
                self._worker_id,
            )
            return False
        return True
