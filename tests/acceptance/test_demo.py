"""`python -m dramatiq_handshake demo`, as a newcomer runs it: real processes, and nothing left behind."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dramatiq_handshake.cli.demo.show import CHAPTERS
from tests.support.poll import eventually
from tests.support.workers import ROOT, clean_environment

COMMAND = [sys.executable, "-m", "dramatiq_handshake", "demo"]
SHOWING_S = 90.0
COLUMNS = 80
CONTROL_SEQUENCE = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")
pytestmark = pytest.mark.timeout(150)


class Theatre:
    """Where demos are shown: a folder for their temporary files, in which nothing may stay.

    Args:
        folder: The folder, empty.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = clean_environment({"TMPDIR": str(folder)})

    def show(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """One showing to its end; its output goes to a pipe."""
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=self._folder.parent,
            env=self._environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SHOWING_S,
            check=False,
        )

    @contextmanager
    def terminal(self) -> Iterator[Terminal]:
        """One showing on a terminal."""
        pid, descriptor = pty.fork()
        if pid == 0:
            os.chdir(self._folder.parent)
            os.execve(sys.executable, COMMAND, self._environment | {"TERM": "xterm-256color"})
        screen = Terminal(pid, descriptor)
        try:
            yield screen
        finally:
            screen.close()

    def assert_nothing_is_left(self) -> None:
        """No process and no file of a showing is left."""
        eventually(lambda: not self._processes(), what="no process is left", state=self._processes)
        assert list(self._folder.iterdir()) == []

    def _processes(self) -> list[int]:
        """The demo's workers and its server: all of them run in a folder below ours."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                place = os.readlink(process / "cwd")
            except OSError:  # it has ended, or is somebody else's
                continue
            if place.startswith(f"{self._folder}/"):
                found.append(int(process.name))
        return found


class Terminal:
    """A terminal of 80 columns, and the program that runs on it."""

    def __init__(self, pid: int, descriptor: int) -> None:
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        self.raw = ""
        self._pid = pid
        self._descriptor = descriptor
        self._ended = False

    @property
    def text(self) -> str:
        """What the program printed, without the codes that colour it and move the cursor."""
        return CONTROL_SEQUENCE.sub("", self.raw)

    def read_until(self, text: str) -> None:
        """Read what the program prints until `text` is there."""
        deadline = time.monotonic() + SHOWING_S
        while text not in self.text:
            assert time.monotonic() < deadline, f"{text!r} was not printed:\n{self.text}"
            assert self._read(), f"the program ended without printing {text!r}:\n{self.text}"

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._descriptor, keys)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the program alone, as a process manager does."""
        os.kill(self._pid, number)

    def read_to_the_end(self) -> int:
        """Read on until the program has ended; return its exit code."""
        while self._read():
            pass
        _, status = os.waitpid(self._pid, 0)
        self._ended = True
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """End the program, if it still runs."""
        if not self._ended:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._descriptor)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], 0.1)
        if not ready:
            return True
        try:
            read = os.read(self._descriptor, 65_536)
        except OSError:  # how Linux says that nobody has the other end open
            return False
        self.raw += read.decode(errors="replace")
        return bool(read)


@pytest.fixture
def theatre(tmp_path: Path) -> Theatre:
    """A theatre of this test's own."""
    folder = tmp_path / "theatre"
    folder.mkdir()
    return Theatre(folder)


def failed_steps(text: str) -> list[int]:
    """The numbers of the steps that the closing lines name as failed."""
    _, _, closing = text.partition("Not all of it happened")
    return [int(number) for number in re.findall(r"^(\d)\. ", closing, re.MULTILINE)]


def test_the_whole_story_happens(theatre: Theatre, tmp_path: Path) -> None:
    """Away from the source tree every step happens, and the story tells what a newcomer came for."""
    shutil.copytree(ROOT / "dramatiq_handshake", tmp_path / "installed" / "dramatiq_handshake")
    shown = theatre.show(PYTHONPATH=str(tmp_path / "installed"))
    text = shown.stdout
    assert shown.returncode == 0, text + shown.stderr
    assert shown.stderr == ""
    assert "✗" not in text
    assert re.findall(r"^(\d)\. ", text, re.MULTILINE) == [
        str(number) for number in range(1, len(CHAPTERS) + 1)
    ]
    # Who is live, and how each negotiated.
    assert re.search(r"^ +cpu +ml +- +- +degraded: lacks gpu", text, re.MULTILINE)
    assert re.search(r"^ +old +default +- +greet@1 +degraded: lacks gpu", text, re.MULTILINE)
    assert re.search(r"^ +laptop +default@ada-laptop +gpu +added_later@1 +compatible", text, re.MULTILINE)
    # What is blocked, and why.
    assert "blocked: no compatible worker (requires gpu)" in text
    assert re.search(r"nearest +cpu lacks gpu", text)
    assert "blocked: no live worker on queue 'default' announces actor 'added_later'" in text
    # How soon it resumed.
    for actor in ("train", "added_later"):
        ran = re.search(rf"✓ {actor} ran on gpu, (\d+\.\d) ms after that worker appeared", text)
        assert ran
        assert 0 < float(ran[1]) < 5_000
    # What exists.
    assert re.search(r"^ +train@2 +declared +ml +gpu +vision +gpu", text, re.MULTILINE)
    assert "Disagreement on greet@1: its workers state more than one origin (shop / shop-core)." in text
    assert "Another partition, 'ada-laptop': laptop on default@ada-laptop, ml@ada-laptop." in text
    assert "5 messages were sent, and each ran exactly once" in text
    theatre.assert_nothing_is_left()


def test_without_a_capable_worker_the_story_fails(theatre: Theatre) -> None:
    """What never resumes is noticed, and the step is named; the exit code is 1."""
    shown = theatre.show("--break", "no-resume", FORCE_COLOR="1", COLUMNS="40")
    assert shown.returncode == 1, shown.stdout + shown.stderr
    assert re.search(r"✗ train has not run \d+ s after gpu came up", shown.stdout)
    assert "✗ work is still listed as blocked" in shown.stdout
    assert "✗ not run exactly once: train" in shown.stdout
    # added_later needs no GPU: what today's release can run, it ran.
    assert re.search(r"✓ added_later ran on gpu", shown.stdout)
    assert failed_steps(shown.stdout) == [5, 7]
    # Into a pipe goes plain text that is wide enough to read, whatever the environment asks for.
    assert "\x1b" not in shown.stdout
    assert 80 < max(len(line.rstrip()) for line in shown.stdout.splitlines()) <= 120
    theatre.assert_nothing_is_left()


def test_without_advertisements_the_story_fails(theatre: Theatre) -> None:
    """Workers that say nothing are noticed: nobody is live, the old worker dead-letters, nothing resumes."""
    # A terminal of another fleet: what it has set is none of the demo's business.
    shown = theatre.show(
        "--break",
        "no-advertise",
        DRAMATIQ_HANDSHAKE_NAMESPACE="somebody",
        DRAMATIQ_HANDSHAKE_URL="redis://127.0.0.1:1/0",
    )
    assert shown.returncode == 1, shown.stdout + shown.stderr
    assert "✗ cpu, laptop and old wrote in the ledger that they consume; live, by the registry: nobody" in (
        shown.stdout
    )
    assert "1 in the dead-letter queues" in shown.stdout
    # Whatever needs no handshake still runs, and a message that requires a GPU is kept from everybody.
    assert failed_steps(shown.stdout) == [1, 4, 5, 6, 7]
    theatre.assert_nothing_is_left()


def test_ctrl_c_ends_everything(theatre: Theatre) -> None:
    """On a terminal a spinner turns; Ctrl-C in the middle of it leaves neither process nor file."""
    with theatre.terminal() as terminal:
        terminal.read_until("starting cpu, laptop, old")
        assert "\x1b[1m" in terminal.raw
        terminal.type(b"\x03")
        assert terminal.read_to_the_end() == 130
        assert "Interrupted" in terminal.text
        assert "Traceback" not in terminal.text
    theatre.assert_nothing_is_left()


def test_a_process_manager_ends_everything(theatre: Theatre) -> None:
    """SIGTERM while workers run leaves neither process nor file."""
    with theatre.terminal() as terminal:
        terminal.read_until("✓ greet ran on old")
        terminal.send(signal.SIGTERM)
        assert terminal.read_to_the_end() == 128 + signal.SIGTERM
        assert "Traceback" not in terminal.text
    theatre.assert_nothing_is_left()
