"""Who plays in the demo: worker processes, started through the ``dramatiq`` command line."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from dramatiq_handshake.cli.demo.application import Release, worker_environment
from dramatiq_handshake.dispatch.capabilities import CAPABILITIES_VARIABLE
from dramatiq_handshake.dispatch.settings import MODE_VARIABLE, NAMESPACE_VARIABLE

__all__ = ["CPU", "GPU", "LAPTOP", "OLD", "Break", "Cast", "Player", "Role"]

#: What every worker runs.
SETUP = "dramatiq_handshake.cli.demo.worker:setup"
#: The folder that holds the package, for workers of a source tree that nobody installed.
_IMPORT_ROOT = Path(__file__).resolve().parents[3]
#: How long the workers may take to stop before they are killed; what they hold is the demo's alone.
STOP_WAIT_S = 6.0
_OURS = "DRAMATIQ_HANDSHAKE_"


class Break(StrEnum):
    """How the story can be sabotaged, to see that its checks notice."""

    #: The worker that would resume the work comes up without its GPU.
    NO_RESUME = "no-resume"
    #: No worker advertises itself.
    NO_ADVERTISE = "no-advertise"


@dataclass(frozen=True, slots=True)
class Role:
    """One worker of the story.

    Attributes:
        name: What the story and the ledger call it.
        what: What makes it different, as part of a sentence.
        release: Which code it runs.
        queues: The base queues that it consumes; all if empty.
        capabilities: What its environment says that it can do.
        namespace: Its tenant.
    """

    name: str
    what: str
    release: Release
    queues: tuple[str, ...] = ()
    capabilities: str = ""
    namespace: str = ""


CPU = Role("cpu", "today's release on a machine without a GPU", Release.TODAY, queues=("ml",))
OLD = Role("old", "yesterday's release, not yet replaced", Release.YESTERDAY, queues=("default",))
LAPTOP = Role(
    "laptop",
    "a developer's machine with a GPU, in a namespace of its own",
    Release.TODAY,
    capabilities="gpu",
    namespace="ada-laptop",
)
GPU = Role("gpu", "today's release on a machine with a GPU", Release.TODAY, capabilities="gpu")


class Player:
    """One running worker.

    Args:
        role: What it plays.
        folder: Where it runs, and writes its log.
        environment: Its whole environment.
    """

    def __init__(self, role: Role, folder: Path, environment: dict[str, str]) -> None:
        self.role = role
        self.started_ns = time.monotonic_ns()
        self._log = folder / f"{role.name}.log"
        command = [sys.executable, "-m", "dramatiq", SETUP, "--processes", "1", "--threads", "2"]
        command += ["--queues", *role.queues] if role.queues else []
        with self._log.open("wb") as sink:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment,
                # A group of its own: Ctrl-C reaches the demo alone, which then ends the whole group.
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """How it ended; `None` while it runs."""
        return self._process.poll()

    def log_lines(self, *levels: str) -> list[str]:
        """What it logged at these levels; everything without one."""
        lines = self._log.read_text(errors="replace").splitlines()
        return [line for line in lines if not levels or any(f"[{level}]" in line for level in levels)]

    def request_stop(self) -> None:
        """Ask it to stop, as a process manager does."""
        if self.exit_code is None:
            self._process.terminate()

    def wait(self, timeout_s: float) -> None:
        """Wait for its end, at most so long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)

    def kill(self) -> None:
        """End whatever is left of its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Cast:
    """All workers of one showing; none outlives it.

    Args:
        folder: Takes their logs.
        url: The server that they share.
        ledger: The file that they write to.
        broken: How the story is sabotaged.
    """

    def __init__(self, folder: Path, url: str, ledger: Path, broken: Break | None = None) -> None:
        self.players: list[Player] = []
        self._folder = folder
        self._url = url
        self._ledger = ledger
        self._broken = broken

    def command(self, role: Role) -> str:
        """How one would start a worker in a shell."""
        settings = "".join(f"{name}={value} " for name, value in self._handshake(role).items())
        queues = f" -Q {' '.join(role.queues)}" if role.queues else ""
        return f"{settings}dramatiq {SETUP}{queues}"

    def start(self, role: Role) -> Player:
        """Start a worker and return at once."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        path = os.pathsep.join(filter(None, (str(_IMPORT_ROOT), environment.get("PYTHONPATH"))))
        environment |= {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
        environment |= worker_environment(self._url, self._ledger, role.name, role.release)
        player = Player(role, self._folder, environment | self._handshake(role))
        self.players.append(player)
        return player

    def _handshake(self, role: Role) -> dict[str, str]:
        """The environment that configures a worker's handshake."""
        gpu_is_missing = self._broken is Break.NO_RESUME and role is GPU
        settings = {
            CAPABILITIES_VARIABLE: "" if gpu_is_missing else role.capabilities,
            NAMESPACE_VARIABLE: role.namespace,
            MODE_VARIABLE: "off" if self._broken is Break.NO_ADVERTISE else "",
        }
        return {name: value for name, value in settings.items() if value}

    def stop(self) -> None:
        """Let every worker finish, and kill who takes too long."""
        for player in self.players:
            player.request_stop()
        deadline = time.monotonic() + STOP_WAIT_S
        for player in self.players:
            player.wait(max(0.0, deadline - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """End every worker at once."""
        for player in self.players:
            player.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Whoever breaks the story off wants the prompt back; Ctrl-C has reached the server as well.
        self.kill()
