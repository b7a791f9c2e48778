"""Worker processes die in the middle of a run, and the run goes on with those that are left.

    python examples/routing_recovery.py

The first attempt at each page kills its own process, as a fault in a C library would. The orchestrator
tries again, and the router chooses among those that live.
"""

from __future__ import annotations

import os
import signal

from dramatiq_handshake.routing import (
    HandlerRegistry,
    InMemoryOrchestratorStore,
    InMemoryWorkerDirectory,
    JobContext,
    LeastActiveWorkerRouter,
    Orchestrator,
    PooledWorkerGateway,
    RunEvent,
    Task,
    WorkerProcess,
)

WORKERS = ("worker-1", "worker-2", "worker-3")


def render(context: JobContext) -> str:
    """Draw a page; a first attempt takes the whole process with it."""
    if context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"page {context.params}"


def bind(context: JobContext) -> str:
    """Put the pages together."""
    return ", ".join(context.outputs[task_id] for task_id in sorted(context.outputs))


def handlers() -> HandlerRegistry:
    """What a worker process runs; called there."""
    return HandlerRegistry({"render": render, "bind": bind})


def tell(event: RunEvent) -> None:
    """Tell the story as it happens."""
    reason = event.detail.partition(":")[0]
    print(f"{event.kind:15} {event.task_id:6} {event.attempt or ''} {reason}".rstrip())


def main() -> None:
    """Two pages, which are bound."""
    directory = InMemoryWorkerDirectory(heartbeat_timeout_ms=5_000)
    workers = [WorkerProcess(worker_id, handlers) for worker_id in WORKERS]
    ports = [(worker.worker_id, worker.port) for worker in workers]
    tasks = [
        Task(task_id="page-1", task_type="render", params=1, max_attempts=2),
        Task(task_id="page-2", task_type="render", params=2, max_attempts=2, depends_on=["page-1"]),
        Task(task_id="book", task_type="bind", depends_on=["page-1", "page-2"]),
    ]
    store = InMemoryOrchestratorStore(on_event=tell)
    with (
        PooledWorkerGateway(directory, LeastActiveWorkerRouter(directory), ports) as gateway,
        Orchestrator(store, gateway) as orchestrator,
    ):
        gateway.wait_ready()
        run = orchestrator.wait_for_run(orchestrator.start_run(tasks)).result()
        print("workers left:", len(directory.list()))
    print(run.outputs["book"])
    for worker in workers:
        worker.stop()
    print("exit codes:", sorted(worker.exit_code or 0 for worker in workers))


if __name__ == "__main__":
    main()
