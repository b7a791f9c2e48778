"""A worker and a gateway over a port, each against the other's messages, broken ones included."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from multiprocessing import Pipe
from multiprocessing.connection import Client, Listener
from typing import Any

import pytest

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing import (
    CancelSignal,
    ConnectionPort,
    DispatchOptions,
    DuplicateJob,
    HandlerRegistry,
    JobCancelled,
    JobFailed,
    Port,
    PortClosed,
    PortFault,
    TaskTypeRefused,
    Unsendable,
    WorkerLost,
    WorkerThreadGateway,
    WorkerThreadWorker,
    queue_ports,
)
from tests.support.apps import handlers as app
from tests.support.poll import eventually
from tests.support.routing import Gate, Log, job

WAIT_MS = 15_000


def connection_ports() -> tuple[Port, Port]:
    """Both ends of a pipe, in one process."""
    here, there = Pipe()
    return ConnectionPort(here), ConnectionPort(there)


KINDS: dict[str, Callable[[], tuple[Port, Port]]] = {"queues": queue_ports, "connection": connection_ports}


@pytest.fixture(params=KINDS)
def ports(request: pytest.FixtureRequest, closing: ExitStack) -> tuple[Port, Port]:
    """The gateway's end and the worker's."""
    pair = KINDS[request.param]()
    for port in pair:
        closing.callback(port.close)
    return pair


@pytest.fixture
def faults() -> list[PortFault]:
    return []


@pytest.fixture
def worker(
    ports: tuple[Port, Port], faults: list[PortFault], closing: ExitStack
) -> Iterator[WorkerThreadWorker]:
    with WorkerThreadWorker("worker-1", app.build(), ports[1], on_fault=faults.append) as at_work:
        yield at_work


@pytest.fixture
def gateway(ports: tuple[Port, Port], faults: list[PortFault]) -> Iterator[WorkerThreadGateway]:
    with WorkerThreadGateway("worker-1", ports[0], on_fault=faults.append) as listening:
        yield listening


def received(port: Port) -> Mapping[str, Any]:
    """The next frame."""
    frame = port.receive(WAIT_MS)
    assert isinstance(frame, Mapping)
    return frame


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


# What a port is


def test_frames_arrive_whole_and_in_order(ports: tuple[Port, Port]) -> None:
    """In both directions, large ones too."""
    frames = [{"type": "x", "number": number, "data": "é" * number * 1_000} for number in range(40)]
    for frame in frames:
        ports[0].send(frame)
    assert [ports[1].receive(WAIT_MS) for _ in frames] == frames
    ports[1].send(frames[3])
    assert ports[0].receive(WAIT_MS) == frames[3]


def test_waiting_for_a_frame_ends_with_its_timeout(ports: tuple[Port, Port]) -> None:
    """And the port goes on."""
    with pytest.raises(TimeoutError):
        ports[0].receive(1)
    ports[1].send({"type": "late"})
    assert ports[0].receive(WAIT_MS) == {"type": "late"}


def test_what_was_sent_before_a_close_arrives_and_then_the_news_of_it(ports: tuple[Port, Port]) -> None:
    """A closed port tells everybody, as often as they ask."""
    for number in range(50):
        ports[0].send({"number": number})
    ports[0].close()
    ports[0].close()
    assert [ports[1].receive(WAIT_MS) for _ in range(50)] == [{"number": number} for number in range(50)]
    for _ in range(2):
        with pytest.raises(PortClosed, match="the other end closed it"):
            ports[1].receive(WAIT_MS)
        with pytest.raises(PortClosed, match="it was closed here"):
            ports[0].receive(WAIT_MS)
        with pytest.raises(PortClosed):
            ports[0].send({})
    eventually(lambda: refuses(ports[1]))


def refuses(port: Port) -> bool:
    """Whether nothing can be sent through it any more."""
    try:
        port.send({})
    except PortClosed:
        return True
    return False


def test_closing_wakes_who_receives(ports: tuple[Port, Port]) -> None:
    """Its own thread, which waits without a timeout."""
    reasons: list[str] = []

    def listen() -> None:
        try:
            ports[0].receive()
        except PortClosed as closed:
            reasons.append(closed.reason)

    thread = threading.Thread(target=listen)
    thread.start()
    ports[0].close()
    thread.join()
    assert reasons == ["it was closed here"]


def test_sending_never_waits_for_a_peer_that_reads_nothing(ports: tuple[Port, Port]) -> None:
    """A megabyte is more than any pipe holds; and closing gives up on it."""
    for _ in range(4):
        ports[0].send({"data": "x" * 1_000_000})
    ports[0].close()


@pytest.mark.parametrize(
    ("value", "complaint"),
    [({1, 2}, "JSON"), (float, "JSON"), ({("a", "b"): 1}, "keys must be"), ("x" * (64 << 20), "at most")],
)
def test_what_a_process_port_can_not_carry_is_refused_and_harms_nothing(
    value: object, complaint: str
) -> None:
    """The sender learns of it; the port goes on."""
    here, there = connection_ports()
    with pytest.raises(Unsendable, match=complaint):
        here.send({"type": "job.assigned", "params": value})
    here.send({"type": "fine"})
    assert there.receive(WAIT_MS) == {"type": "fine"}
    here.close()
    there.close()


def test_a_one_way_or_closed_connection_is_no_port() -> None:
    """Said at once, and not at the first message."""
    reader, writer = Pipe(duplex=False)
    with reader, writer, pytest.raises(ConfigurationError, match="two-way"):
        ConnectionPort(reader)
    with pytest.raises(ConfigurationError, match="open"):
        ConnectionPort(writer)


def test_a_connection_over_a_socket_with_a_key_is_a_port(closing: ExitStack) -> None:
    """Workers need not be children: a listener and a client do."""
    listener = closing.enter_context(Listener(authkey=b"secret"))
    ends: list[ConnectionPort] = []
    dialling = threading.Thread(
        target=lambda: ends.append(ConnectionPort(Client(listener.address, authkey=b"secret")))
    )
    dialling.start()
    here = ConnectionPort(listener.accept())
    dialling.join()
    closing.callback(here.close)
    closing.callback(ends[0].close)
    closing.enter_context(WorkerThreadWorker("worker-1", app.build(), ends[0]))
    gateway = closing.enter_context(WorkerThreadGateway("worker-1", here))
    assert gateway.dispatch(job("echo", 5)).result(WAIT_MS).output["params"] == 5


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"garbage without a frame", "can't be read"),
        (struct.pack("!i", 2**31 - 1), "can't be read"),
        (struct.pack("!i", 100) + b"torn", "end of file during message"),
    ],
)
def test_bytes_that_are_no_frames_break_the_port_and_nothing_else(raw: bytes, reason: str) -> None:
    """No gigabyte is waited for."""
    here, there = Pipe()
    port = ConnectionPort(here)
    with socket.socket(fileno=os.dup(there.fileno())) as line:
        line.sendall(raw)
    there.close()
    with pytest.raises(PortClosed, match=reason):
        port.receive(WAIT_MS)
    port.close()


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe", b"{", b"[" * 100_000, b"1" * 5_000])
def test_a_frame_that_is_no_json_arrives_as_garbage(raw: bytes) -> None:
    """Whoever parses it reports it; the next one arrives."""
    here, there = Pipe()
    port = ConnectionPort(here)
    there.send_bytes(raw)
    there.send_bytes(b'{"type":"fine"}')
    assert port.receive(WAIT_MS) == raw
    assert port.receive(WAIT_MS) == {"type": "fine"}
    there.close()
    port.close()


# A worker, as its gateway sees it


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


GARBAGE = [
    "garbage",
    17,
    ["job.assigned"],
    {},
    {"type": "job.assigned"},
    {"type": "worker.ready", "version": 1, "worker_id": "worker-1", "task_types": []},
    {"type": "job.cancel", "version": 9, "job_id": "job"},
]


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


# A gateway, as its worker sees it


def test_a_gateway_assigns_and_cancels_in_this_order(
    ports: tuple[Port, Port], gateway: WorkerThreadGateway
) -> None:
    """Cancelling twice is cancelling once, and an unknown job is nobody's."""
    pending = gateway.dispatch(job("echo", {"n": 1}, job_id="job", attempt=2, outputs={"before": 3}))
    gateway.request_cancel("unknown")
    gateway.request_cancel("job")
    gateway.request_cancel("job")
    first, second = received(ports[1]), received(ports[1])
    assert {
        "type": "job.assigned",
        "job_id": "job",
        "attempt": 2,
        "params": {"n": 1},
    }.items() <= first.items()
    assert first["outputs"] == {"before": 3}
    assert (second["type"], second["job_id"]) == ("job.cancel", "job")
    ports[1].send({"type": "job.cancelled", "version": 1, "job_id": "job"})
    assert isinstance(pending.exception(WAIT_MS), JobCancelled)
    with pytest.raises(TimeoutError):
        ports[1].receive(20)


def test_a_dispatch_whose_signal_is_cancelled_already_is_not_sent(
    ports: tuple[Port, Port], gateway: WorkerThreadGateway
) -> None:
    """And a signal that is cancelled later is passed on with its reason."""
    signal = CancelSignal()
    gateway.dispatch(job(job_id="job"), DispatchOptions(signal=signal))
    signal.cancel("not needed")
    late = gateway.dispatch(job(job_id="late"), DispatchOptions(signal=signal))
    assert isinstance(late.exception(0), JobCancelled)
    assert received(ports[1])["job_id"] == "job"
    cancel = received(ports[1])
    assert (cancel["type"], cancel["job_id"], cancel["reason"]) == ("job.cancel", "job", "not needed")
    ports[1].send({"type": "job.succeeded", "version": 1, "job_id": "job"})


def test_a_gateway_reports_and_skips_garbage(
    ports: tuple[Port, Port], gateway: WorkerThreadGateway, faults: list[PortFault]
) -> None:
    """Broken messages, another worker's, and those of jobs that are not there."""
    pending = gateway.dispatch(job(job_id="job"))
    received(ports[1])
    broken: list[Any] = [
        "garbage",
        None,
        {"type": "job.succeeded", "version": 1},
        {"type": "job.cancel", "version": 1, "job_id": "job"},
        {"type": "worker.heartbeat", "version": 1, "worker_id": "worker-2"},
        {"type": "job.succeeded", "version": 1, "job_id": "unknown"},
    ]
    for frame in broken:
        ports[1].send(frame)
    ports[1].send({"type": "job.started", "version": 1, "job_id": "job"})
    ports[1].send({"type": "job.succeeded", "version": 1, "job_id": "job", "output": 5})
    assert pending.result(WAIT_MS).output == 5
    assert len(faults) == len(broken)
    assert "another worker, 'worker-2'" in faults[4].detail
    assert "job 'unknown'" in faults[5].detail


def test_both_ends_work_together(
    ports: tuple[Port, Port], worker: WorkerThreadWorker, gateway: WorkerThreadGateway
) -> None:
    """Success, failure, refusal and log, as with a worker in memory."""
    result = gateway.dispatch(job("echo_async", [1, 2])).result(WAIT_MS)
    assert (result.output["params"], result.worker_id) == ([1, 2], "worker-1")
    with pytest.raises(JobFailed, match="ValueError: no good") as failed:
        gateway.dispatch(job("boom", "good")).result(WAIT_MS)
    assert "in boom" in failed.value.stack
    with pytest.raises(TaskTypeRefused, match="'worker-1' refused task type 'train'") as refused:
        gateway.dispatch(job("train")).result(WAIT_MS)
    assert refused.value.types == app.build().types()
    log = Log()
    gateway.dispatch(job("talk"), log.options).result(WAIT_MS)
    assert [line.message for line in log.lines] == ["on it", "an object"]
    assert log.lines[0].fields == {"step": 1}


@pytest.mark.parametrize("task_type", ["until_cancelled", "until_cancelled_async"])
def test_a_cancellation_reaches_the_handler(
    ports: tuple[Port, Port], worker: WorkerThreadWorker, gateway: WorkerThreadGateway, task_type: str
) -> None:
    """Through the port."""
    log = Log()
    pending = gateway.dispatch(job(task_type), log.options)
    log.wait_for("waiting")
    gateway.request_cancel(pending.job_id)
    assert isinstance(pending.exception(WAIT_MS), JobCancelled)


def test_a_job_id_is_used_once_at_a_time(ports: tuple[Port, Port], gateway: WorkerThreadGateway) -> None:
    """The first keeps its place."""
    first = gateway.dispatch(job(job_id="job"))
    assert isinstance(gateway.dispatch(job(job_id="job")).exception(0), DuplicateJob)
    ports[1].send({"type": "job.succeeded", "version": 1, "job_id": "job"})
    first.result(WAIT_MS)


def test_a_port_that_closes_rejects_what_is_pending_and_what_comes(
    ports: tuple[Port, Port], gateway: WorkerThreadGateway
) -> None:
    """With the reason."""
    pendings = [gateway.dispatch(job()) for _ in range(3)]
    ports[1].close()
    for pending in pendings:
        with pytest.raises(WorkerLost, match="'worker-1' was lost: the other end closed it"):
            pending.result(WAIT_MS)
    assert isinstance(gateway.dispatch(job()).exception(0), WorkerLost)
    gateway.request_cancel(pendings[0].job_id)
    assert "the other end closed it" in repr(gateway)


def test_a_port_that_fails_rejects_what_is_pending(caplog: pytest.LogCaptureFixture) -> None:
    """A port of one's own may raise anything."""
    unplug = threading.Event()

    class Breaking:
        def send(self, frame: Mapping[str, Any]) -> None: ...

        def receive(self, timeout_ms: int | None = None) -> object:
            unplug.wait()
            raise OSError("unplugged")

        def close(self) -> None: ...

    gateway = WorkerThreadGateway("worker-1", Breaking())
    pending = gateway.dispatch(job())
    unplug.set()
    with pytest.raises(WorkerLost, match="its port failed: OSError: unplugged"):
        pending.result(WAIT_MS)
    gateway.close()


def test_an_unsendable_job_is_an_error_of_its_dispatch(closing: ExitStack) -> None:
    """The worker never hears of it, and others are sent."""
    here, there = connection_ports()
    closing.callback(there.close)
    gateway = closing.enter_context(WorkerThreadGateway("worker-1", here))
    assert isinstance(gateway.dispatch(job(params={1, 2})).exception(0), Unsendable)
    assert isinstance(gateway.dispatch(job(attempt=0)).exception(0), Unsendable)
    pending = gateway.dispatch(job(job_id="fine"))
    assert received(there)["job_id"] == "fine"
    there.close()
    pending.exception(WAIT_MS)


def test_an_unsendable_output_fails_the_job_and_an_unsendable_field_becomes_text(closing: ExitStack) -> None:
    """Nobody waits for an answer that can't be said."""
    here, there = connection_ports()
    closing.enter_context(WorkerThreadWorker("worker-1", app.build(), there))
    gateway = closing.enter_context(WorkerThreadGateway("worker-1", here))
    with pytest.raises(JobFailed, match=r"Unsendable: a job.succeeded message can't be sent: .*JSON"):
        gateway.dispatch(job("unsendable")).result(WAIT_MS)
    log = Log()
    gateway.dispatch(job("talk"), log.options).result(WAIT_MS)
    assert log.lines[1].fields == {"thing": "(1+2j)"}


def test_closing_a_gateway_cancels_what_runs_and_then_closes_the_port(
    ports: tuple[Port, Port], worker: WorkerThreadWorker, gateway: WorkerThreadGateway
) -> None:
    """The worker ends with it."""
    log = Log()
    pending = gateway.dispatch(job("until_cancelled"), log.options)
    log.wait_for("waiting")
    assert gateway.close() == ()
    assert isinstance(pending.exception(0), JobCancelled)
    assert isinstance(gateway.dispatch(job()).exception(0), WorkerLost)
    assert worker.join(WAIT_MS)


def test_closing_a_gateway_does_not_wait_for_a_handler_that_never_returns(
    ports: tuple[Port, Port], gate: Gate, closing: ExitStack
) -> None:
    """It is named, and whoever waits for it gets an error; on either side."""
    worker = WorkerThreadWorker("worker-1", HandlerRegistry({"gate": gate}), ports[1], close_timeout_ms=1)
    gateway = closing.enter_context(WorkerThreadGateway("worker-1", ports[0]))
    pending = gateway.dispatch(job("gate", job_id="stubborn"))
    gate.wait()
    assert gateway.close(timeout_ms=1) == ("stubborn",)
    assert isinstance(pending.exception(0), WorkerLost)
    assert worker.join(WAIT_MS)
    gate.opened.set()


def test_a_job_can_close_the_gateway_that_it_came_through(
    ports: tuple[Port, Port], worker: WorkerThreadWorker, gateway: WorkerThreadGateway
) -> None:
    """From its log, which is heard in the thread that listens to the port."""
    closed = threading.Event()

    def close(_line: object) -> None:
        gateway.close()
        closed.set()

    pending = gateway.dispatch(job("talk"), DispatchOptions(on_log=close))
    assert closed.wait(15)
    assert isinstance(pending.exception(WAIT_MS), WorkerLost | None)  # whatever was under way already
