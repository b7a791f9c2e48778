"""Workers in processes of their own: real ones, which are killed, stopped, and left alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing import (
    ConnectionPort,
    HandlerRegistry,
    Health,
    JobCancelled,
    JobFailed,
    LeastActiveWorkerRouter,
    NoHealthyWorker,
    PooledWorkerGateway,
    PortClosed,
    TaskTypeRefused,
    WorkerDirectory,
    WorkerLost,
    WorkerProcess,
    WorkerThreadGateway,
)
from tests.integration.routing.conftest import OpenDirectory
from tests.support.apps import handlers as app
from tests.support.poll import eventually
from tests.support.routing import Log, job
from tests.support.workers import ROOT, clean_environment

WAIT_MS = 30_000


#: Starts in a fraction of the time of a fresh interpreter; those are tested once.
FORK_SERVER = multiprocessing.get_context("forkserver")
FORK_SERVER.set_forkserver_preload(["tests.support.apps.handlers"])


def start(worker_id: str, closing: ExitStack, **options: Any) -> WorkerProcess:
    """Start a worker process; it is stopped when the test ends."""
    return closing.enter_context(WorkerProcess(worker_id, app.build, context=FORK_SERVER, **options))


def lives(pid: int | None) -> bool:
    """Whether there is such a process."""
    assert pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_processes_run_jobs_and_leave_nothing_behind(directory: WorkerDirectory, closing: ExitStack) -> None:
    """Each in its own process, with its own interpreter; all of the messages pass."""
    router = LeastActiveWorkerRouter(directory)
    workers = [start(f"worker-{number}", closing) for number in (1, 2)]
    pool = closing.enter_context(
        PooledWorkerGateway(directory, router, [(worker.worker_id, worker.port) for worker in workers])
    )
    pool.wait_ready(WAIT_MS)
    log = Log()
    waiting = [pool.dispatch(job("until_cancelled"), log.options) for _ in range(2)]
    eventually(lambda: len(log.lines) == 2)
    assert [status.active_jobs for status in directory.list()] == [1, 1]
    for kind in ("echo", "echo_async"):
        result = pool.dispatch(job(kind, {"n": [1, None]}, attempt=2, outputs={"a": 1})).result(WAIT_MS)
        ran_in = {worker.worker_id: worker.pid for worker in workers}[result.worker_id]
        assert result.output == {
            "params": {"n": [1, None]},
            "outputs": {"a": 1},
            "attempt": 2,
            "worker": result.worker_id,
            "pid": ran_in,
        }
    with pytest.raises(JobFailed, match="ValueError: no good") as failed:
        pool.dispatch(job("boom", "good")).result(WAIT_MS)
    assert "in boom" in failed.value.stack
    with pytest.raises(JobFailed, match="JSON"):
        pool.dispatch(job("unsendable")).result(WAIT_MS)
    for pending in waiting:
        pool.request_cancel(pending.job_id)
        assert isinstance(pending.exception(WAIT_MS), JobCancelled)
    assert pool.close() == ()
    for worker in workers:
        worker.stop()
        assert worker.exit_code == 0
        assert not worker.alive
        assert not lives(worker.pid)
    assert directory.list() == ()
    assert multiprocessing.active_children() == []


def test_a_killed_process_rejects_its_jobs_leaves_the_directory_and_is_replaced(
    directory: WorkerDirectory, closing: ExitStack
) -> None:
    """SIGKILL with jobs pending, one of which never returns."""
    worker = start("worker-1", closing)
    pool = closing.enter_context(
        PooledWorkerGateway(directory, LeastActiveWorkerRouter(directory), {"worker-1": worker.port})
    )
    pool.wait_ready(WAIT_MS)
    log = Log()
    pendings = [
        pool.dispatch(job(kind), log.options)
        for kind in ("never_returns", "until_cancelled", "until_cancelled_async")
    ]
    eventually(lambda: len(log.lines) == 3)
    worker.kill()
    for pending in pendings:
        with pytest.raises(WorkerLost, match=rf"process {worker.pid} ended with exit code -9"):
            pending.result(WAIT_MS)
    assert directory.list() == ()
    with pytest.raises(NoHealthyWorker):
        pool.dispatch(job("echo")).result(0)
    replacement = start("worker-1", closing)
    pool.add_worker("worker-1", replacement.port)
    pool.wait_ready(WAIT_MS)
    assert pool.dispatch(job("echo")).result(WAIT_MS).output["pid"] == replacement.pid


def test_a_stopped_process_blocks_nobody_and_is_passed_over(
    open_directory: OpenDirectory, closing: ExitStack
) -> None:
    """SIGSTOP: no heartbeat comes, so it goes stale; what is sent to it meanwhile waits for it."""
    directory = open_directory(heartbeat_timeout_ms=1_000)
    worker = start("worker-1", closing, heartbeat_interval_ms=50)
    pool = closing.enter_context(
        PooledWorkerGateway(directory, LeastActiveWorkerRouter(directory), {"worker-1": worker.port})
    )
    pool.wait_ready(WAIT_MS)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGSTOP)
    pending = pool.dispatch(job("echo", "x" * 1_000_000))
    assert not pending.done()
    eventually(lambda: [status.health for status in directory.list()] == [Health.STALE])
    with pytest.raises(NoHealthyWorker, match="stale"):
        pool.dispatch(job("echo")).result(0)
    os.kill(worker.pid, signal.SIGCONT)
    assert len(pending.result(WAIT_MS).output["params"]) == 1_000_000
    eventually(lambda: [status.health for status in directory.list()] == [Health.HEALTHY])


@pytest.mark.parametrize("stopped", [False, True], ids=["never-returns", "stopped"])
def test_a_process_that_does_not_end_by_itself_is_ended(closing: ExitStack, stopped: bool) -> None:
    """Its handler never returns, or it was stopped and follows no SIGTERM."""
    worker = start("worker-1", closing, close_timeout_ms=60_000)
    gateway = WorkerThreadGateway("worker-1", worker.port)
    log = Log()
    pending = gateway.dispatch(job("never_returns", job_id="stubborn"), log.options)
    log.wait_for("waiting")
    if stopped:
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGSTOP)
    assert gateway.close(timeout_ms=1) == ("stubborn",)
    assert isinstance(pending.exception(0), WorkerLost)
    worker.stop(timeout_ms=1)
    assert worker.exit_code == (-signal.SIGKILL if stopped else -signal.SIGTERM)
    assert not lives(worker.pid)


def test_handlers_that_can_not_be_made_end_the_process_and_whoever_waits_learns_it(
    directory: WorkerDirectory, closing: ExitStack
) -> None:
    """No timeout is waited for."""
    worker = closing.enter_context(WorkerProcess("worker-1", app.build_nothing))
    pool = closing.enter_context(
        PooledWorkerGateway(directory, LeastActiveWorkerRouter(directory), {"worker-1": worker.port})
    )
    with pytest.raises(WorkerLost, match=r"before it was ready: process \d+ ended with exit code 1"):
        pool.wait_ready(WAIT_MS)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"handlers": HandlerRegistry({"echo": lambda _: None})}, "another process can import"),
        ({"handlers": lambda: HandlerRegistry({"echo": app.echo})}, "another process can import"),
        ({"worker_id": ""}, "id"),
        ({"heartbeat_interval_ms": 0}, "heartbeat_interval_ms"),
        ({"concurrency": 0}, "max_concurrency"),
    ],
)
def test_what_can_not_be_started_is_refused(changes: dict[str, Any], complaint: str) -> None:
    """Nothing stays behind of it."""
    arguments: dict[str, Any] = {"worker_id": "worker-1", "handlers": app.build}
    with pytest.raises(ConfigurationError, match=complaint):
        WorkerProcess(**arguments | changes)
    assert multiprocessing.active_children() == []


def test_a_registry_is_brought_to_the_process_and_a_type_without_handler_is_refused(
    closing: ExitStack,
) -> None:
    """Functions of a module pickle."""
    worker = closing.enter_context(WorkerProcess("worker-1", HandlerRegistry({"echo": app.echo})))
    gateway = closing.enter_context(WorkerThreadGateway("worker-1", worker.port))
    assert gateway.dispatch(job("echo")).result(WAIT_MS).output["pid"] == worker.pid
    with pytest.raises(TaskTypeRefused, match="its types: 'echo'"):
        gateway.dispatch(job("boom")).result(WAIT_MS)


def test_a_process_that_exits_closes_its_port_though_its_end_was_inherited_elsewhere(
    closing: ExitStack,
) -> None:
    """The connection never ends, since this process holds a copy; what was sent before still arrives."""
    here, there = FORK_SERVER.Pipe()
    closing.enter_context(there)
    process = FORK_SERVER.Process(target=app.send_then_wait, args=(there,))
    process.start()
    port = ConnectionPort(here, process=process)
    closing.callback(port.close)
    assert wait([here], 30)
    process.kill()
    process.join()
    assert port.receive(WAIT_MS) == {"type": "last words"}
    with pytest.raises(PortClosed, match=f"process {process.pid} ended with exit code -9"):
        port.receive(WAIT_MS)


PARENT = """
import os, sys
from dramatiq_handshake.routing import Job, WorkerProcess, WorkerThreadGateway
from tests.support.apps import handlers

if __name__ == "__main__":
    worker = WorkerProcess("worker-1", handlers.build, close_timeout_ms=100)
    gateway = WorkerThreadGateway("worker-1", worker.port)
    gateway.dispatch(Job("echo", "run", "task", "echo")).result()
    gateway.dispatch(Job("job", "run", "task", "never_returns"))
    print(worker.pid, flush=True)
    sys.stdin.read()
"""


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    """They notice the end of their port; a handler that never returns does not keep them."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen(
        [sys.executable, str(script)],
        cwd=ROOT,
        env=clean_environment({}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert lives(pid)
        parent.kill()
    eventually(lambda: not lives(pid))
