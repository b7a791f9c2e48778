"""A fleet of dispatchers and workers that share a directory, killed at random: one program.

    python -m tests.support.apps.routing URL SEED JOBS FOLDER

It forks everything and starts again what it killed, until all jobs are done and nobody holds a slot. What
happened is in the server's list `EVENTS`, in the order in which the server saw it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any, TypeVar

import redis

from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.routing import (
    DispatchOptions,
    DuplicateWorker,
    Job,
    JobFailed,
    LeastActiveWorkerRouter,
    PendingJob,
    RedisWorkerDirectory,
    RoutingError,
    WorkerLost,
    WorkersBusy,
)
from dramatiq_handshake.routing.gateway import RoutingWorkerGateway
from dramatiq_handshake.routing.handlers import HandlerRegistry, JobContext
from dramatiq_handshake.routing.ports.connections import ConnectionPort
from dramatiq_handshake.routing.settling import rejected
from dramatiq_handshake.routing.thread_gateway import WorkerThreadGateway
from dramatiq_handshake.routing.thread_worker import WorkerThreadWorker

__all__ = ["DISPATCHERS", "EVENTS", "LIMIT", "TODO", "WORKERS"]

WORKERS = [f"worker-{number}" for number in range(4)]
DISPATCHERS = 8
LIMIT = 2
#: Jobs that a dispatcher has under way at once; all together, more than the workers may run.
LINES = (1, 2)
EVENTS, TODO = "events", "todo"
PREFIX = "killed"

HEARTBEAT_TIMEOUT_MS, RESERVATION_MS = 1_000, 400
#: For how long a number that a dispatcher took is its own; afterwards it died, as far as others know.
CLAIM_MS = 3_000
#: One job in so many outlasts every lease of a dispatcher that died, and must count until it has ended.
LONG_EVERY, LONG_S = 500, 3.5
#: How often a dispatcher kills itself at a spot.
CHANCE = 1 / 500

#: Take a number whose time has come; the time of its claim passes on the server.
TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1)[1]
if found then redis.call('ZADD', KEYS[1], now + ARGV[1], found) end
return found or redis.call('ZCARD', KEYS[1])
"""
#: Stamp an event; the end of a job takes its number off.
STAMP = """
local time = redis.call('TIME')
redis.call('RPUSH', KEYS[1], time[1] .. string.format('%06d', time[2]) .. ' ' .. ARGV[1])
if ARGV[2] ~= '' then redis.call('ZREM', KEYS[2], ARGV[2]) end
"""

T = TypeVar("T")


def persistently(call: Callable[[], T]) -> T:
    """The server is away for a moment."""
    while True:
        try:
            return call()
        except redis.RedisError:
            time.sleep(0.01)


class Server:
    """What the fleet itself, not its directory, keeps on the server."""

    def __init__(self, url: str) -> None:
        self.client = redis.Redis.from_url(url)

    def stamp(self, what: str, worker: str, job_id: str = "", *, done: str = "") -> None:
        event = json.dumps([what, worker, job_id])
        persistently(lambda: self.client.eval(STAMP, 2, EVENTS, TODO, event, done))

    def take(self) -> str | int:
        """A number to do; or, for the time being, how many others have theirs."""
        found: Any = persistently(lambda: self.client.eval(TAKE, 1, TODO, CLAIM_MS))
        return found.decode() if isinstance(found, bytes) else int(found)


def open_directory(url: str) -> RedisWorkerDirectory:
    return RedisWorkerDirectory(
        url=url, prefix=PREFIX, heartbeat_timeout_ms=HEARTBEAT_TIMEOUT_MS, reservation_ms=RESERVATION_MS
    )


def work(url: str, worker_id: str, folder: Path) -> None:
    """Be a worker: as soon as the predecessor's registration is stale, take whoever connects."""
    server, directory = Server(url), open_directory(url)
    while True:
        with suppress(DuplicateWorker, RegistryUnavailable):
            lease = directory.register(worker_id, ["work"], heartbeat_interval_ms=200)
            break
        time.sleep(0.02)

    def handle(context: JobContext) -> None:
        job_id = context.job.job_id
        with lease.running(job_id):
            server.stamp("start", worker_id, job_id)
            time.sleep(context.params["for_s"])
            server.stamp("end", worker_id, job_id, done=context.job.task_id)

    handlers = HandlerRegistry({"work": handle})
    address = folder / worker_id
    address.unlink(missing_ok=True)
    with Listener(str(address), "AF_UNIX", backlog=64) as listener:
        while True:
            WorkerThreadWorker(worker_id, handlers, ConnectionPort(listener.accept()))


class Line:
    """A gateway to a worker that may come back: connects again after a loss."""

    def __init__(self, worker_id: str, folder: Path) -> None:
        self._worker_id = worker_id
        self._address = str(folder / worker_id)
        self._lock = threading.Lock()
        self._gateway: WorkerThreadGateway | None = None

    def dispatch(self, job: Job, options: DispatchOptions | None = None) -> PendingJob:
        with self._lock:
            if self._gateway is None or "open" not in repr(self._gateway):
                try:
                    port = ConnectionPort(Client(self._address, "AF_UNIX"))
                except OSError as error:
                    return rejected(job.job_id, WorkerLost(self._worker_id, str(error)))
                self._gateway = WorkerThreadGateway(self._worker_id, port)
            gateway = self._gateway
        return gateway.dispatch(job, options)

    def request_cancel(self, job_id: str) -> None:
        """Nothing here is cancelled."""


class Dispatcher:
    """Takes numbers and has them done; now and then it kills itself, at the worst moments."""

    def __init__(self, url: str, rng: random.Random, folder: Path) -> None:
        self._server = Server(url)
        self._rng = rng
        directory = open_directory(url)
        self._router = LeastActiveWorkerRouter(directory, max_concurrency=LIMIT)
        lines = {worker: Line(worker, folder) for worker in WORKERS}
        self._gateway = RoutingWorkerGateway(directory, self, lines)

    def select(self, job: Job) -> str:
        """A `WorkerRouter`; it may die between choosing and sending."""
        worker = self._router.select(job)
        self._perhaps_die("chosen", worker, job)
        return worker

    def run(self, at_once: int) -> None:
        lines = [threading.Thread(target=self._line) for _ in range(at_once)]
        for line in lines:
            line.start()
        for line in lines:
            line.join()

    def _line(self) -> None:
        try:
            while (number := self._server.take()) != 0:
                if isinstance(number, str):
                    self._do(number)
                else:
                    time.sleep(0.15)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def _do(self, number: str) -> None:
        deadline = time.monotonic() + CLAIM_MS / 1000
        while time.monotonic() < deadline:
            job_id = f"{number}.{self._rng.getrandbits(48):x}"
            for_s = LONG_S if int(number) % LONG_EVERY == 0 else self._rng.uniform(0, 0.004)
            job = Job(job_id, "run", number, "work", params={"for_s": for_s})
            pending = self._gateway.dispatch(job)
            if not pending.done():
                self._perhaps_die("sent", "", job, 0.5 if for_s == LONG_S else CHANCE)
            try:
                pending.result(timeout_ms=60_000)
            except WorkersBusy:
                time.sleep(self._rng.uniform(0.03, 0.12))
            except JobFailed as failed:
                if failed.name not in ("ReservationLapsed", "RegistryUnavailable", "DuplicateWorker"):
                    raise
            except (RoutingError, RegistryUnavailable):
                time.sleep(self._rng.uniform(0.01, 0.05))
            else:
                return

    def _perhaps_die(self, moment: str, worker: str, job: Job, chance: float = CHANCE) -> None:
        if self._rng.random() < chance:
            self._server.stamp(f"died: {moment}", worker, job.job_id)
            os.kill(os.getpid(), signal.SIGKILL)


class Supervisor:
    """Forks, kills, and starts again. It has no thread, so that forking is safe."""

    def __init__(self, url: str, seed: int, folder: Path) -> None:
        self._url = url
        self._seed = seed
        self._folder = folder
        self._rng = random.Random(seed)
        self._server = Server(url)
        self._workers: dict[int, str] = {}
        self._dispatchers: dict[int, int] = {}
        self._boots = 0

    def run(self, jobs: int) -> None:
        self._server.client.zadd(TODO, {str(number): 0 for number in range(jobs)})
        for worker in WORKERS:
            self._fork_worker(worker)
        for number in range(DISPATCHERS):
            self._fork_dispatcher(number)
        next_worker, next_dispatcher = time.monotonic() + 2, time.monotonic() + 1
        while persistently(lambda: self._server.client.zcard(TODO)) or self._dispatchers:
            self._reap()
            if time.monotonic() > next_worker:
                self._kill(self._workers)
                next_worker = time.monotonic() + self._rng.uniform(3, 5)
            if time.monotonic() > next_dispatcher and self._dispatchers:
                self._kill(self._dispatchers)
                next_dispatcher = time.monotonic() + self._rng.uniform(1.5, 3)
            time.sleep(0.02)

    def wait_for_no_slots(self) -> None:
        """All counts return to 0, with every worker back."""
        directory = open_directory(self._url)
        while True:
            with suppress(RegistryUnavailable):
                workers = directory.list()
                if len(workers) == len(WORKERS) and not sum(each.active_jobs for each in workers):
                    return
            time.sleep(0.05)

    def end(self) -> None:
        for pid in [*self._workers, *self._dispatchers]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _fork(self, kind: dict[int, Any], name: Any, run: Callable[[], None]) -> None:
        self._boots += 1
        pid = os.fork()
        if pid == 0:
            try:
                run()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        kind[pid] = name

    def _fork_worker(self, worker_id: str) -> None:
        self._fork(self._workers, worker_id, lambda: work(self._url, worker_id, self._folder))

    def _fork_dispatcher(self, number: int) -> None:
        rng = random.Random(self._seed * 1_000 + self._boots)
        at_once = LINES[number % len(LINES)]
        self._fork(self._dispatchers, number, lambda: Dispatcher(self._url, rng, self._folder).run(at_once))

    def _kill(self, kind: dict[int, Any]) -> None:
        pid = self._rng.choice(sorted(kind))
        os.kill(pid, signal.SIGKILL)
        self._reap(pid)

    def _reap(self, pid: int = -1) -> None:
        """Start again what was killed; what came to its end by itself was done, or failed."""
        while True:
            found, status = os.waitpid(pid, 0 if pid > 0 else os.WNOHANG)
            if found == 0:
                return
            worker, number = self._workers.pop(found, None), self._dispatchers.pop(found, None)
            if not os.WIFSIGNALED(status) and (worker or os.WEXITSTATUS(status)):
                raise SystemExit(f"{worker or number} ended with {status}")
            if worker is not None:
                # From here on nothing runs there; its successor begins after this.
                self._server.stamp("killed", worker)
                self._fork_worker(worker)
            elif number is not None and os.WIFSIGNALED(status):
                self._server.stamp("killed", f"dispatcher-{number}")
                self._fork_dispatcher(number)
            if pid > 0:
                return


def main() -> None:
    url, seed, jobs, folder = sys.argv[1:]
    supervisor = Supervisor(url, int(seed), Path(folder))
    try:
        supervisor.run(int(jobs))
        supervisor.wait_for_no_slots()
    finally:
        supervisor.end()


if __name__ == "__main__":
    main()
