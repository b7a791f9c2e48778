"""Jobs, gateways and watchers for tests of routing."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from itertools import count
from multiprocessing import Pipe
from typing import Any

from dramatiq_handshake.routing import (
    ConnectionPort,
    DispatchOptions,
    Job,
    JobCancelled,
    JobLog,
    JobResult,
    PendingJob,
    Port,
    Task,
    TaskTypeRefused,
)
from tests.support.poll import eventually

__all__ = ["Gate", "Log", "RecordingGateway", "connection_ports", "job", "received", "task"]

_numbers = count(1)


def job(task_type: str = "echo", params: Any = None, *, job_id: str = "", **fields: Any) -> Job:
    """A job; one with an id of its own unless `job_id` is given."""
    job_id = job_id or f"numbered-{next(_numbers)}"
    return Job(job_id, "run", fields.pop("task_id", job_id), task_type, params=params, **fields)


class Log:
    """Collects what jobs write."""

    def __init__(self) -> None:
        self.lines: list[JobLog] = []
        self.options = DispatchOptions(on_log=self.lines.append)

    def wait_for(self, message: str) -> None:
        """Wait until a job has written this."""
        eventually(lambda: message in [line.message for line in self.lines], what=f"the log says {message!r}")


class Gate:
    """A handler's door: tells that somebody waits at it, and opens when the test says so."""

    def __init__(self) -> None:
        self.arrived = threading.Semaphore(0)
        self.opened = threading.Event()
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0

    def __call__(self, _context: object = None) -> str:
        """Wait at the door."""
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
        self.arrived.release()
        assert self.opened.wait(30)
        with self._lock:
            self._inside -= 1
        return "through"

    def wait(self, arrivals: int = 1) -> None:
        """Wait until so many more have arrived."""
        for _ in range(arrivals):
            assert self.arrived.acquire(timeout=15)


class RecordingGateway:
    """An endpoint whose jobs end when the test says so."""

    def __init__(self, types: tuple[str, ...] | None = None) -> None:
        self.types = types
        self.dispatched: list[Job] = []
        self.cancelled: list[str] = []
        self.futures: dict[str, Future[JobResult]] = {}

    def dispatch(self, job: Job, options: DispatchOptions | None = None) -> PendingJob:
        """Note the job, and refuse a type that is not among `types`."""
        self.dispatched.append(job)
        future: Future[JobResult] = Future()
        pending = PendingJob(job.job_id, future)
        self.futures[job.job_id] = future
        if self.types is not None and job.task_type not in self.types:
            future.set_exception(TaskTypeRefused("worker-1", job.task_type, self.types))
        return pending

    def request_cancel(self, job_id: str) -> None:
        """Note the request."""
        self.cancelled.append(job_id)

    def succeed(self, job_id: str, output: Any = None) -> None:
        """End a job."""
        self.futures[job_id].set_result(JobResult(job_id, output))

    def fail(self, job_id: str, error: Exception) -> None:
        """End a job with an error."""
        self.futures[job_id].set_exception(error)

    def cancel(self, job_id: str) -> None:
        """End a job as cancelled."""
        self.fail(job_id, JobCancelled(job_id, "as asked"))


def task(task_id: str, task_type: str = "echo", *depends_on: str, **fields: object) -> Task:
    """A task."""
    return Task(task_id=task_id, task_type=task_type, depends_on=depends_on, **fields)


def connection_ports() -> tuple[Port, Port]:
    """Both ends of a pipe, in one process."""
    here, there = Pipe()
    return ConnectionPort(here), ConnectionPort(there)


def received(port: Port) -> Mapping[str, Any]:
    """The next frame."""
    frame = port.receive(15_000)
    assert isinstance(frame, Mapping)
    return frame
