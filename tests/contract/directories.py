"""What the contract suite needs of a kind of worker directory besides `WorkerDirectory` itself."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import Any, Protocol

import redis

from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.routing import InMemoryWorkerDirectory, Job, RedisWorkerDirectory, WorkerDirectory
from tests.contract.harness import PREFIX, FakeClock

__all__ = ["Directories", "MemoryDirectories", "RedisDirectories", "active_jobs", "job"]

_numbers = count(1)


def job(job_id: str = "", task_type: str = "train", **fields: Any) -> Job:
    """A job; one with an id of its own unless `job_id` is given."""
    job_id = job_id or f"job-{next(_numbers)}"
    return Job(job_id, fields.pop("run_id", "run"), fields.pop("task_id", job_id), task_type, **fields)


def active_jobs(directory: WorkerDirectory) -> dict[str, int]:
    """Worker id → how many slots its jobs hold."""
    return {each.worker_id: each.active_jobs for each in directory.list()}


class Directories(Protocol):
    """Makes directories that know the same workers."""

    def open(self, **options: Any) -> WorkerDirectory:
        """The directory as another process sees it, so to speak."""
        ...

    def close(self) -> None:
        """End everything."""
        ...


class MemoryDirectories:
    """The one directory of this process."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._directory: WorkerDirectory | None = None

    def open(self, **options: Any) -> WorkerDirectory:
        if self._directory is None:
            self._directory = InMemoryWorkerDirectory(now=self._clock, **options)
        return self._directory

    def close(self) -> None:
        """There is nothing to close."""


class RedisDirectories:
    """Directories on one server; what their threads renew in time, they renew as the fake clock goes."""

    def __init__(self, clock: FakeClock, client: redis.Redis) -> None:
        self._clock = clock
        self._client = client
        self._opened: list[RedisWorkerDirectory] = []
        clock.also_ages(self._renew)

    def open(self, **options: Any) -> WorkerDirectory:
        directory = RedisWorkerDirectory(self._client, prefix=PREFIX, now=self._clock, **options)
        self._opened.append(directory)
        return directory

    def close(self) -> None:
        for directory in self._opened:
            directory.close()

    def _renew(self, _ms: int) -> None:
        for directory in self._opened:
            with suppress(RegistryUnavailable):
                directory._dispatches.renew()
