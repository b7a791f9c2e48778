"""The gateway that routes: a router chooses the worker, and that worker's endpoint gets the job.

Invariant: a job that a dispatch gave a slot loses it before the dispatch is told how the job ended,
whatever happens in between. So whoever waited for a result and asks the directory finds the job gone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace

from dramatiq_handshake.routing.base import WorkerDirectory, WorkerGateway, WorkerRouter
from dramatiq_handshake.routing.errors import (
    DuplicateJob,
    DuplicateWorker,
    EndpointMissing,
    JobCancelled,
    ReservationLapsed,
    UnknownWorker,
)
from dramatiq_handshake.routing.handlers import TaskTypeRefused
from dramatiq_handshake.routing.jobs import DispatchOptions, Job, JobResult, PendingJob
from dramatiq_handshake.routing.settling import rejected

__all__ = ["Endpoints", "RoutingWorkerGateway"]

logger = logging.getLogger(__name__)

#: How often a worker is chosen for a job whose chosen worker left, or whose slot lapsed, before it started.
SELECTIONS = 3

Endpoints = Mapping[str, WorkerGateway] | Iterable[tuple[str, WorkerGateway]]


class RoutingWorkerGateway:
    """Implements `WorkerGateway` over others: spec "Route Tasks Across Workers", design §10.

    A worker that refuses a task type which it was registered for is marked unhealthy: it has the fewest
    active jobs for ever, and would draw all of them.

    Args:
        directory: Where jobs are counted; the one that `router` chooses from.
        router: Chooses the worker.
        endpoints: Worker id → the gateway that reaches it, as a mapping or as pairs.
        on_refusal: Called instead of marking the worker unhealthy.

    Raises:
        DuplicateWorker: Two endpoints have the same worker id.
    """

    def __init__(
        self,
        directory: WorkerDirectory,
        router: WorkerRouter,
        endpoints: Endpoints = (),
        *,
        on_refusal: Callable[[TaskTypeRefused], None] | None = None,
    ) -> None:
        self._directory = directory
        self._router = router
        self._on_refusal = on_refusal or self._mark_unhealthy
        self._lock = threading.Lock()
        self._routes: dict[str, _Route] = {}
        self._endpoints: dict[str, WorkerGateway] = {}
        for worker_id, gateway in _pairs(endpoints):
            self.add_endpoint(worker_id, gateway)

    def add_endpoint(self, worker_id: str, gateway: WorkerGateway) -> None:
        """Reach a further worker.

        Raises:
            DuplicateWorker: There is an endpoint for this worker.
        """
        with self._lock:
            if worker_id in self._endpoints:
                raise DuplicateWorker(worker_id)
            self._endpoints[worker_id] = gateway

    def remove_endpoint(self, worker_id: str) -> None:
        """Reach a worker no more; its jobs go on, and can still be cancelled. Unknown ids are no error."""
        with self._lock:
            self._endpoints.pop(worker_id, None)

    def dispatch(self, job: Job, options: DispatchOptions | None = None) -> PendingJob:
        """See `WorkerGateway.dispatch`.

        The `PendingJob` also raises what the router and the directory raise (`NoHealthyWorker`, …), and
        `EndpointMissing` where the chosen worker has no endpoint here.
        """
        options = options or DispatchOptions()
        if options.signal is not None and options.signal.cancelled:
            return rejected(job.job_id, JobCancelled(job.job_id, options.signal.reason))
        route = _Route(job.job_id, options)
        with self._lock:
            known = self._routes.get(job.job_id)
            if known is None:
                self._routes[job.job_id] = route
        if known is not None:
            return rejected(job.job_id, DuplicateJob(job.job_id, known.worker_id))
        try:
            return self._dispatched(route, job, options)
        except BaseException as error:
            self._clear(route)
            if isinstance(error, Exception):
                return rejected(job.job_id, error)
            raise

    def request_cancel(self, job_id: str) -> None:
        """See `WorkerGateway.request_cancel`.

        A job that another gateway dispatched is found through the directory, and reached where there is
        an endpoint for its worker here.

        Raises:
            RegistryUnavailable: The job was not dispatched here, and the directory can't be reached.
        """
        with self._lock:
            route = self._routes.get(job_id)
            if route is not None:
                if route.cancel_requested:
                    return
                # A job that is still on its way is stopped by `_dispatched`, which looks again.
                route.cancel_requested = True
                endpoint = route.endpoint
        if route is None:
            worker_id = self._directory.get_worker_for_job(job_id)
            with self._lock:
                endpoint = self._endpoints.get(worker_id) if worker_id is not None else None
        if endpoint is not None:
            endpoint.request_cancel(job_id)

    def _dispatched(self, route: _Route, job: Job, options: DispatchOptions) -> PendingJob:
        worker_id = self._start(route, job)
        with self._lock:
            endpoint = self._endpoints.get(worker_id)
            known = tuple(self._endpoints)
        if endpoint is None:
            raise EndpointMissing(worker_id, known)
        if route.unwanted():
            raise JobCancelled(job.job_id, route.reason())
        inner = endpoint.dispatch(job, options)
        future: Future[JobResult] = Future()
        outer = PendingJob(job.job_id, future)
        inner.add_done_callback(lambda ended: self._settle(route, ended, future))
        with self._lock:
            route.endpoint = endpoint
            cancel = route.cancel_requested
        if cancel:
            endpoint.request_cancel(job.job_id)
        return outer

    def _start(self, route: _Route, job: Job) -> str:
        """Choose a worker and count the job there; the route holds a slot from then on."""
        for selection in range(1, SELECTIONS + 1):
            worker_id = self._router.select(job)
            route.worker_id = worker_id
            route.counted = True
            try:
                self._directory.track_job_start(worker_id, job.job_id)
            except (ReservationLapsed, UnknownWorker):
                route.counted = False
                if selection == SELECTIONS:
                    raise
            except DuplicateJob:
                route.counted = False  # the slot is that of the other job
                raise
            else:
                return worker_id
        raise AssertionError("unreachable: the last selection returns or raises")

    def _settle(self, route: _Route, ended: PendingJob, future: Future[JobResult]) -> None:
        self._clear(route)
        error = ended.exception()
        if error is None:
            result = ended.result()
            future.set_result(result if result.worker_id else replace(result, worker_id=route.worker_id))
            return
        if isinstance(error, TaskTypeRefused):
            try:
                self._on_refusal(error)
            except Exception as unmarked:  # noqa: BLE001 - whatever it was, the dispatcher waits for its answer
                logger.warning("%s; and it could not be marked unhealthy: %s", error, unmarked)
        future.set_exception(error)

    def _clear(self, route: _Route) -> None:
        with self._lock:
            self._routes.pop(route.job_id, None)
        if route.counted:
            try:
                self._directory.track_job_end(route.job_id)
            except Exception:  # no directory of ours raises here; one that does must not lose the result
                logger.exception("job %r ended, and the directory could not be told", route.job_id)

    def _mark_unhealthy(self, refusal: TaskTypeRefused) -> None:
        self._directory.mark_unhealthy(
            refusal.worker_id, f"it refused {refusal.task_type!r}, which it was registered for"
        )


@dataclass(slots=True, eq=False)
class _Route:
    """A job between `dispatch` and its end, and who has it."""

    job_id: str
    options: DispatchOptions
    worker_id: str = ""
    counted: bool = False
    endpoint: WorkerGateway | None = None
    cancel_requested: bool = False

    def unwanted(self) -> bool:
        """Whether somebody cancelled before the job was sent."""
        signal = self.options.signal
        return self.cancel_requested or (signal is not None and signal.cancelled)

    def reason(self) -> str:
        """What the canceller said."""
        return self.options.signal.reason if self.options.signal is not None else ""


def _pairs(endpoints: Endpoints) -> Iterable[tuple[str, WorkerGateway]]:
    """Endpoints as pairs, however they were given."""
    return endpoints.items() if isinstance(endpoints, Mapping) else endpoints
