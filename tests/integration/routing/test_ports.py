"""What a port is, between threads and between processes."""

from __future__ import annotations

import os
import socket
import struct
import threading
from contextlib import ExitStack
from multiprocessing import Pipe
from multiprocessing.connection import Client, Listener

import pytest

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing import (
    ConnectionPort,
    Port,
    PortClosed,
    Unsendable,
    WorkerThreadGateway,
    WorkerThreadWorker,
)
from tests.support.apps import handlers as app
from tests.support.poll import eventually
from tests.support.routing import connection_ports, job

WAIT_MS = 15_000


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


def refuses(port: Port) -> bool:
    """Whether nothing can be sent through it any more."""
    try:
        port.send({})
    except PortClosed:
        return True
    return False


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
