"""A worker behind a port, as its gateway sees it: against messages of every kind, broken ones too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing import (
    Port,
    PortFault,
    WorkerThreadWorker,
)
from tests.support.apps import handlers as app
from tests.support.poll import eventually
from tests.support.routing import received

WAIT_MS = 15_000


@pytest.fixture
def worker(
    ports: tuple[Port, Port], faults: list[PortFault], closing: ExitStack
) -> Iterator[WorkerThreadWorker]:
    with WorkerThreadWorker("worker-1", app.build(), ports[1], on_fault=faults.append) as at_work:
        yield at_work


def assigned(task_type: str, job_id: str = "job", params: Any = None) -> dict[str, Any]:
    """What a gateway sends."""
    return {
        "type": "job.assigned",
        "version": 1,
        "job_id": job_id,
        "run_id": "run",
        "task_id": "task",
        "task_type": task_type,
        "params": params,
    }


GARBAGE = [
    "garbage",
    17,
    ["job.assigned"],
    {},
    {"type": "job.assigned"},
    {"type": "worker.ready", "version": 1, "worker_id": "worker-1", "task_types": []},
    {"type": "job.cancel", "version": 9, "job_id": "job"},
]


def test_a_worker_says_that_it_is_ready_then_how_each_job_goes(
    ports: tuple[Port, Port], worker: WorkerThreadWorker
) -> None:
    """Started, what it logs, and its end, in this order."""
    ready = received(ports[0])
    assert (ready["type"], ready["worker_id"], ready["version"]) == ("worker.ready", "worker-1", 1)
    assert tuple(ready["task_types"]) == app.build().types()
    ports[0].send(assigned("talk"))
    frames = [received(ports[0]) for _ in range(4)]
    assert [frame["type"] for frame in frames] == ["job.started", "job.log", "job.log", "job.succeeded"]
    assert {frame["job_id"] for frame in frames} == {"job"}
    assert (frames[1]["level"], frames[1]["message"], frames[1]["fields"]) == (
        "warning",
        "on it",
        {"step": 1},
    )
    assert frames[3]["output"] == "said"


def test_a_worker_tells_a_failure_with_name_message_and_stack(
    ports: tuple[Port, Port], worker: WorkerThreadWorker
) -> None:
    """All three as text."""
    received(ports[0])
    ports[0].send(assigned("boom", params="good"))
    assert received(ports[0])["type"] == "job.started"
    failed = received(ports[0])
    assert (failed["type"], failed["name"], failed["message"]) == ("job.failed", "ValueError", "no good")
    assert "in boom" in failed["stack"]
    assert failed["refused"] is False


def test_a_worker_refuses_a_type_that_it_has_no_handler_for(
    ports: tuple[Port, Port], worker: WorkerThreadWorker
) -> None:
    """Nothing is started; it says what it does run."""
    received(ports[0])
    ports[0].send(assigned("train"))
    failed = received(ports[0])
    assert (failed["type"], failed["refused"]) == ("job.failed", True)
    assert tuple(failed["types"]) == app.build().types()


def test_a_worker_beats_at_its_interval(ports: tuple[Port, Port], closing: ExitStack) -> None:
    """By itself, idle or not; without an interval never."""
    closing.enter_context(WorkerThreadWorker("worker-1", app.build(), ports[1], heartbeat_interval_ms=5))
    assert received(ports[0])["type"] == "worker.ready"
    ports[0].send(assigned("until_cancelled"))
    types = [received(ports[0])["type"] for _ in range(12)]
    assert types.count("worker.heartbeat") >= 9


def test_a_worker_without_an_interval_never_beats(
    ports: tuple[Port, Port], worker: WorkerThreadWorker
) -> None:
    """Nothing comes but what jobs say."""
    assert received(ports[0])["type"] == "worker.ready"
    with pytest.raises(TimeoutError):
        ports[0].receive(50)


def test_a_worker_that_is_kept_busy_with_messages_still_beats(
    ports: tuple[Port, Port], closing: ExitStack
) -> None:
    """A heartbeat is due by the clock, not in a pause."""
    closing.enter_context(WorkerThreadWorker("worker-1", app.build(), ports[1], heartbeat_interval_ms=1))
    for _ in range(2_000):
        ports[0].send({"type": "job.cancel", "version": 1, "job_id": "unknown"})
    types = [received(ports[0])["type"] for _ in range(4)]
    assert types == ["worker.ready"] + ["worker.heartbeat"] * 3


def test_a_worker_reports_and_skips_garbage(
    ports: tuple[Port, Port],
    worker: WorkerThreadWorker,
    faults: list[PortFault],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The next job runs; the first fault is a warning, a flood of them is not."""
    received(ports[0])
    for frame in GARBAGE:
        ports[0].send(frame)  # type: ignore[arg-type]  # the mistake under test
    ports[0].send(assigned("echo", params=1))
    assert received(ports[0])["type"] == "job.started"
    assert received(ports[0])["output"]["params"] == 1
    assert [fault.worker_id for fault in faults] == ["worker-1"] * len(GARBAGE)
    assert all("skipped a broken message" in fault.detail for fault in faults)
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


def test_a_worker_runs_a_job_once_that_was_assigned_twice(
    ports: tuple[Port, Port], worker: WorkerThreadWorker, faults: list[PortFault]
) -> None:
    """The second is reported; the first goes on."""
    received(ports[0])
    ports[0].send(assigned("until_cancelled"))
    assert [received(ports[0])["type"] for _ in range(2)] == ["job.started", "job.log"]
    ports[0].send(assigned("until_cancelled"))
    eventually(lambda: faults)
    assert "'job' is under way already" in faults[0].detail
    ports[0].send({"type": "job.cancel", "version": 1, "job_id": "job", "reason": "enough"})
    cancelled = received(ports[0])
    assert (cancelled["type"], cancelled["reason"]) == ("job.cancelled", "enough")


def test_a_fault_listener_that_fails_harms_nothing(ports: tuple[Port, Port], closing: ExitStack) -> None:
    """It is foreign code."""

    def broken(fault: PortFault) -> None:
        raise RuntimeError

    closing.enter_context(WorkerThreadWorker("worker-1", app.build(), ports[1], on_fault=broken))
    received(ports[0])
    ports[0].send({})
    ports[0].send(assigned("echo"))
    assert received(ports[0])["type"] == "job.started"


def test_a_worker_ends_with_its_port_and_cancels_what_runs(
    ports: tuple[Port, Port], worker: WorkerThreadWorker
) -> None:
    """Whichever end closes it."""
    received(ports[0])
    ports[0].send(assigned("until_cancelled"))
    assert [received(ports[0])["type"] for _ in range(2)] == ["job.started", "job.log"]
    ports[0].close()
    assert worker.join(WAIT_MS)
    assert not worker.alive


def test_a_worker_whose_port_fails_ends(caplog: pytest.LogCaptureFixture) -> None:
    """A port of one's own may raise anything."""

    class Broken:
        def send(self, frame: Mapping[str, Any]) -> None: ...

        def receive(self, timeout_ms: int | None = None) -> object:
            raise OSError("unplugged")

        def close(self) -> None: ...

    worker = WorkerThreadWorker("worker-1", app.build(), Broken())
    assert worker.join(WAIT_MS)
    assert "its port failed" in caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        {"worker_id": ""},
        {"handlers": {"echo": app.echo}},
        {"heartbeat_interval_ms": 0},
        {"concurrency": 0},
    ],
)
def test_what_is_no_worker_is_refused(ports: tuple[Port, Port], changes: dict[str, Any]) -> None:
    """Before any thread starts."""
    arguments: dict[str, Any] = {"worker_id": "worker-1", "handlers": app.build(), "port": ports[1]}
    with pytest.raises(ConfigurationError, match="expected"):
        WorkerThreadWorker(**arguments | changes)
