"""A pool of workers behind ports: the directory follows what they say, the router chooses among them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

from dramatiq_handshake.errors import HandshakeError
from dramatiq_handshake.routing.arguments import checked_id
from dramatiq_handshake.routing.base import WorkerDirectory, WorkerLease, WorkerRouter
from dramatiq_handshake.routing.errors import DuplicateWorker, WorkerLost
from dramatiq_handshake.routing.gateway import RoutingWorkerGateway
from dramatiq_handshake.routing.handlers import TaskTypeRefused
from dramatiq_handshake.routing.in_memory import CLOSE_TIMEOUT_MS
from dramatiq_handshake.routing.jobs import DispatchOptions, Job, PendingJob
from dramatiq_handshake.routing.ports.base import Port
from dramatiq_handshake.routing.ports.faults import FaultReporter, PortFault
from dramatiq_handshake.routing.thread_gateway import WorkerThreadGateway

__all__ = ["READY_TIMEOUT_MS", "PooledWorkerGateway"]

logger = logging.getLogger(__name__)

#: How long `PooledWorkerGateway.wait_ready` waits, unless it is told otherwise: a process imports first.
READY_TIMEOUT_MS = 30_000

Ports = Mapping[str, Port] | Iterable[tuple[str, Port]]


class PooledWorkerGateway:
    """Implements `WorkerGateway` for workers behind ports; listens to them from its construction on.

    | what a worker does | what becomes of it in the directory |
    | --- | --- |
    | ``worker.ready`` | it is registered, with the task types that it names |
    | ``worker.heartbeat`` | it beats |
    | its port closes or breaks, its process ends | it leaves, then its pending jobs raise `WorkerLost` |
    | it refuses a type that it named | it is unhealthy until its next ``worker.ready``, heartbeat or not |

    Args:
        directory: Where the workers are registered and jobs are counted.
        router: Chooses from that directory.
        workers: Worker id → the gateway's end of its port, as a mapping or as pairs.
        on_fault: Called with every message that was skipped because it was broken, and with what the
            directory refused.

    Raises:
        DuplicateWorker: Two ports have the same worker id.
    """

    def __init__(
        self,
        directory: WorkerDirectory,
        router: WorkerRouter,
        workers: Ports = (),
        *,
        on_fault: Callable[[PortFault], None] | None = None,
    ) -> None:
        self._directory = directory
        self._on_fault = on_fault
        self._routing = RoutingWorkerGateway(directory, router, on_refusal=self._refused)
        self._changed = threading.Condition()
        self._members: dict[str, _Member] = {}
        self._lost_early: dict[str, str] = {}
        pairs = list(workers.items() if isinstance(workers, Mapping) else workers)
        for number, (worker_id, _) in enumerate(pairs):
            if worker_id in dict(pairs[:number]):
                raise DuplicateWorker(worker_id)
        for worker_id, port in pairs:
            self.add_worker(worker_id, port)

    def add_worker(self, worker_id: str, port: Port) -> None:
        """Listen to a further worker, e.g. one that takes the place of one that was lost.

        Args:
            worker_id: Its id.
            port: The gateway's end of its port, which the pool owns from now on.

        Raises:
            DuplicateWorker: The pool has a worker of this id.
            ConfigurationError: The id is no text, or empty.
        """
        checked_id(worker_id)
        member = _Member(worker_id, self._directory, FaultReporter(worker_id, self._on_fault))
        with self._changed:
            if worker_id in self._members:
                raise DuplicateWorker(worker_id)
            self._members[worker_id] = member
            self._lost_early.pop(worker_id, None)
            member.gateway = WorkerThreadGateway(worker_id, port, watcher=self, on_fault=self._on_fault)
            self._routing.add_endpoint(worker_id, member.gateway)

    def dispatch(self, job: Job, options: DispatchOptions | None = None) -> PendingJob:
        """See `WorkerGateway.dispatch` and `RoutingWorkerGateway.dispatch`."""
        return self._routing.dispatch(job, options)

    def request_cancel(self, job_id: str) -> None:
        """See `WorkerGateway.request_cancel` and `RoutingWorkerGateway.request_cancel`."""
        self._routing.request_cancel(job_id)

    def wait_ready(self, timeout_ms: int = READY_TIMEOUT_MS) -> None:
        """Wait until every worker of the pool is in the directory.

        Raises:
            TimeoutError: Names those that are not, after `timeout_ms`.
            WorkerLost: One was lost before it was ready.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._lost_early or not self._absent(), timeout_ms / 1000)
            for worker_id, reason in self._lost_early.items():
                raise WorkerLost(worker_id, f"before it was ready: {reason}")
            if absent := self._absent():
                raise TimeoutError(f"not ready after {timeout_ms} ms: {', '.join(absent)}")

    def close(self, *, timeout_ms: int = CLOSE_TIMEOUT_MS) -> tuple[str, ...]:
        """Cancel every job, wait for all of them at most `timeout_ms`, then close every port.

        The workers leave the directory, and a worker of this library ends when its port is closed.

        Returns:
            The jobs that had not ended: their dispatchers get `WorkerLost`.
        """
        with self._changed:
            gateways = [member.gateway for member in self._members.values() if member.gateway is not None]
        for gateway in gateways:
            gateway.retire()
        deadline = time.monotonic() + timeout_ms / 1000
        left = [
            gateway.close(timeout_ms=max(0, round((deadline - time.monotonic()) * 1000)))
            for gateway in gateways
        ]
        return tuple(job_id for jobs in left for job_id in jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def ready(self, worker_id: str, task_types: tuple[str, ...]) -> None:
        """See `WorkerWatcher.ready`."""
        if (member := self._member(worker_id)) is not None:
            member.ready(task_types)
            self._notify()

    def beat(self, worker_id: str) -> None:
        """See `WorkerWatcher.beat`."""
        if (member := self._member(worker_id)) is not None:
            member.beat()
            self._notify()

    def lost(self, worker_id: str, reason: str) -> None:
        """See `WorkerWatcher.lost`."""
        with self._changed:
            member = self._members.pop(worker_id, None)
            if member is not None and not member.registered:
                self._lost_early[worker_id] = reason
            self._routing.remove_endpoint(worker_id)
            self._changed.notify_all()
        if member is not None:
            member.leave()

    def _refused(self, refusal: TaskTypeRefused) -> None:
        if (member := self._member(refusal.worker_id)) is not None:
            member.refused(refusal)

    def _member(self, worker_id: str) -> _Member | None:
        with self._changed:
            return self._members.get(worker_id)

    def _absent(self) -> list[str]:
        return [worker_id for worker_id, member in self._members.items() if not member.registered]

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()


class _Member:
    """A worker of the pool: what it said last, and its registration."""

    def __init__(self, worker_id: str, directory: WorkerDirectory, faults: FaultReporter) -> None:
        self.gateway: WorkerThreadGateway | None = None
        self._worker_id = worker_id
        self._directory = directory
        self._faults = faults
        self._lease: WorkerLease | None = None
        self._task_types: tuple[str, ...] | None = None
        self._refused = False

    @property
    def registered(self) -> bool:
        """Whether it is in the directory."""
        return self._lease is not None

    def ready(self, task_types: tuple[str, ...]) -> None:
        """It takes jobs of these types, whatever it said before."""
        if self._lease is not None and task_types != self._task_types:
            self._lease.stop()
            self._lease = None
        self._task_types = task_types
        self._refused = False
        self.beat()

    def beat(self) -> None:
        """Enter it, or beat for it. What the directory refuses is tried again with the next heartbeat."""
        if self._task_types is None:
            self._faults.report("skipped a worker.heartbeat: it has not said worker.ready")
            return
        if self._refused:
            return
        try:
            self._state(self._task_types)
        except HandshakeError as error:
            self._faults.report(f"the directory refused its sign of life: {error}")

    def refused(self, refusal: TaskTypeRefused) -> None:
        """It has no handler for a type that it named: keep jobs from it until it says what it runs."""
        self._refused = True
        self._directory.mark_unhealthy(
            self._worker_id, f"it refused {refusal.task_type!r}, which it had named in worker.ready"
        )

    def leave(self) -> None:
        """Take it off the directory."""
        if self._lease is not None:
            try:
                self._lease.stop()
            except HandshakeError as error:
                self._faults.report(f"the directory refused to let it go: {error}")

    def _state(self, task_types: tuple[str, ...]) -> None:
        if self._lease is None:
            self._lease = self._directory.register(self._worker_id, task_types)
        else:  # which also enters a worker again that the directory has forgotten
            self._lease.heartbeat()
