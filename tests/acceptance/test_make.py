"""The Makefile on machines of all kinds: what it needs, when it installs, what it says when it can't.

The Python of these tests is a stub that writes down how it is called, so nothing is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.workers import ROOT

STUB = """#!/bin/sh
echo "$*" >> "{log}"
case "$*" in
  "-c import sys"*) exit {too_old} ;;
  "-m venv "*)
    [ {has_venv} = 1 ] || {{ echo "No module named venv" >&2; exit 1; }}
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
esac
"""


#: A moment before this test: seconds since the epoch.
BEFORE = 1_700_000_000


class Machine:
    """A folder with a fresh checkout's files, and a PATH that holds only what the test puts there."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "checkout"
        self.bin = folder / "bin"
        self.log = folder / "calls"
        self.checkout.mkdir()
        self.bin.mkdir()
        for name in ("Makefile", "requirements-dev.lock", "pyproject.toml"):
            shutil.copy(ROOT / name, self.checkout)
        for tool in ("make", "sh", "mkdir", "cp", "touch", "rm", "test"):
            self.bin.joinpath(tool).symlink_to(str(shutil.which(tool)))

    def give_python(self, *, too_old: bool = False, has_venv: bool = True) -> None:
        """Put a Python on the PATH."""
        stub = self.bin / "python3"
        stub.write_text(STUB.format(log=self.log, too_old=int(too_old), has_venv=int(has_venv)))
        stub.chmod(0o755)

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a verb, with variables."""
        return subprocess.run(
            [str(self.bin / "make"), "--no-print-directory", *arguments],
            cwd=self.checkout,
            env={"PATH": str(self.bin), "HOME": str(self.checkout)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def installs(self) -> list[str]:
        """What was installed since the last time this was asked: ``lock`` or ``package``."""
        calls = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [
            "lock" if "--require-hashes -r requirements-dev.lock" in call else "package"
            for call in calls
            if "pip install" in call
        ]

    def touch(self, name: str) -> None:
        """Change a file, in the eyes of make: all else is older."""
        for path in self.checkout.rglob("*"):
            os.utime(path, (BEFORE, BEFORE))
        os.utime(self.checkout / name, (BEFORE + 1, BEFORE + 1))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without any Python."""
    return Machine(tmp_path)


@pytest.mark.parametrize("verb", ["demo", "test", "lint", "conformance", "bench"])
def test_without_a_python_one_line_says_what_to_do(machine: Machine, verb: str) -> None:
    """No Python, or only an old one, is said in one line, before anything is made."""
    done = machine.make(verb)
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    (line,) = said
    assert line.startswith("dramatiq-handshake needs Python 3.11 or newer on PATH: install it, or name it")
    machine.give_python(too_old=True)
    assert machine.make(verb).stderr == done.stderr
    assert not (machine.checkout / ".venv").exists()


def test_without_the_venv_module_it_says_what_to_install(machine: Machine) -> None:
    """Debian splits the module off; nothing half-made stays behind."""
    machine.give_python(has_venv=False)
    done = machine.make("test")
    assert done.returncode != 0
    assert "install its venv module (Debian: apt-get install python3-venv)" in done.stderr
    assert not (machine.checkout / ".venv").exists()


def test_it_installs_only_what_changed(machine: Machine) -> None:
    """A fresh checkout installs lock and package; later verbs do so again only after a change."""
    machine.give_python()
    for expected, changed in [
        (["lock", "package"], None),
        ([], None),
        (["package"], "pyproject.toml"),
        (["lock", "package"], "requirements-dev.lock"),
        ([], None),
    ]:
        if changed:
            machine.touch(changed)
        done = machine.make("venv")
        assert done.returncode == 0, done.stderr
        assert machine.installs() == expected


def test_flags_reach_pytest(machine: Machine) -> None:
    """`make test TESTFLAGS=…` hands them on."""
    machine.give_python()
    assert machine.make("test", "TESTFLAGS=-k lanes -x").returncode == 0
    assert machine.log.read_text().splitlines()[-1] == "-m pytest -k lanes -x"
