"""Workers and dispatchers that are nobody's children, and a directory on Redis that all of them share.

    REDIS_URL=redis://127.0.0.1:6379/0 python examples/routing_fleet.py

starts the cast itself: two workers and three dispatchers, each a program of its own, which could as well
run on machines of their own (give `Listener` a host and a port then). No worker ever runs more than two jobs
at once, whoever sends them: choosing a worker and counting the job is one step on the server, and the worker
takes over the job's slot before it runs it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from multiprocessing.connection import Client, Listener
from pathlib import Path

from dramatiq_handshake.routing import (
    ConnectionPort,
    HandlerRegistry,
    Job,
    JobContext,
    LeastActiveWorkerRouter,
    PendingJob,
    RedisWorkerDirectory,
    ReservationLapsed,
    RoutingWorkerGateway,
    WorkersBusy,
    WorkerThreadGateway,
    WorkerThreadWorker,
)

WORKERS = ("worker-1", "worker-2")
DISPATCHERS = ("anna", "ben", "cleo")
JOBS = 8
LIMIT = 2
KEY = b"known to all of the fleet"


def work(worker_id: str, folder: Path) -> None:
    """Be a worker until SIGTERM: one listener, one directory entry, a port for each dispatcher."""
    directory = RedisWorkerDirectory(url=os.environ["REDIS_URL"])
    running, most, counting = 0, 0, threading.Lock()

    def measure(context: JobContext) -> int:
        """Note how many run at once; the slot is this worker's from `begin` on."""
        nonlocal running, most
        with lease.running(context.job.job_id):
            with counting:
                running += 1
                most = max(most, running)
            time.sleep(0.01)
            with counting:
                running -= 1
                return most

    handlers = HandlerRegistry({"measure": measure})
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with (
        Listener(str(folder / worker_id), family="AF_UNIX", authkey=KEY) as listener,
        directory.register(worker_id, handlers.types(), heartbeat_interval_ms=1_000) as lease,
        ExitStack() as workers,
    ):

        def accept() -> None:
            while True:
                port = ConnectionPort(listener.accept())
                workers.callback(WorkerThreadWorker(worker_id, handlers, port).close)

        threading.Thread(target=accept, daemon=True).start()
        print("ready", flush=True)
        stopped.wait()
    directory.close()


def dispatch(name: str, folder: Path) -> None:
    """Be a dispatcher: send so many jobs as fast as the workers' places allow, and tell what came of them."""
    directory = RedisWorkerDirectory(url=os.environ["REDIS_URL"])
    router = LeastActiveWorkerRouter(directory, max_concurrency=LIMIT)
    with ExitStack() as gateways:
        endpoints = {
            worker_id: gateways.enter_context(
                WorkerThreadGateway(worker_id, ConnectionPort(Client(str(folder / worker_id), authkey=KEY)))
            )
            for worker_id in WORKERS
        }
        routing = RoutingWorkerGateway(directory, router, endpoints)
        sent = [
            _sent(routing, Job(f"{name}-{number}", name, f"{number}", "measure")) for number in range(JOBS)
        ]
        results = [pending.result() for pending in sent]
    directory.close()
    print(
        f"{name}: {len(results)} done, at most {max(result.output for result in results)} at once on a worker"
    )


def _sent(routing: RoutingWorkerGateway, job: Job) -> PendingJob:
    """Send a job as soon as there is a place for it."""
    while True:
        pending = routing.dispatch(job)
        if not pending.done() or not isinstance(pending.exception(), WorkersBusy | ReservationLapsed):
            return pending
        time.sleep(0.005)


def main() -> None:
    """Start everybody, wait for the dispatchers, and stop the workers."""
    with tempfile.TemporaryDirectory() as folder:
        workers = [_start("work", worker_id, folder) for worker_id in WORKERS]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        dispatchers = [_start("dispatch", name, folder) for name in DISPATCHERS]
        for dispatcher in dispatchers:
            told, _ = dispatcher.communicate()
            print(told, end="")
        for worker in workers:
            worker.terminate()
            worker.communicate()
    directory = RedisWorkerDirectory(url=os.environ["REDIS_URL"])
    print("left in the directory:", directory.list())
    directory.close()
    print("exit codes:", [each.returncode for each in workers + dispatchers])


def _start(role: str, name: str, folder: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, role, name, folder]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - this very program


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        {"work": work, "dispatch": dispatch}[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
