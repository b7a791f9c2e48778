"""Each peer at its pinned version, in this project's own cache: installed once, checked by hash.

What is installed stands in ``pypi/requirements.txt`` and ``npm/package-lock.json``. A finished folder is
named after the digest of its lock, so a new lock installs afresh, and a run that finds the folder installs
nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.peers.known import NODE, PYTHON

__all__ = ["PEERS", "InstallFailed", "Peer", "PeerUnavailable"]

_HERE = Path(__file__).parent
#: The oldest major of Node that the npm peer is run with: what Debian 12 has.
_NODE_MAJOR = 18
#: Seconds for one installation over a slow line.
_PATIENCE_S = 300


class InstallFailed(Exception):
    """A peer could not be installed: the command, its last words, and what to do."""


class PeerUnavailable(Exception):
    """This machine lacks what a peer runs on."""


@dataclass(frozen=True)
class Peer:
    """An SDK that we are compared with.

    Attributes:
        name: Its name in its registry.
        version: The release that is pinned.
        registry: Which registry, for the report.
        prepare: Installs it under a cache folder where needed, and gives the command of its adapter.
            Raises `PeerUnavailable` or `InstallFailed`.
    """

    name: str
    version: str
    registry: str
    prepare: Callable[[Path], Sequence[str]]


def prepare_python(cache: Path) -> Sequence[str]:
    """Install the PyPI peer into a folder that only its adapter looks into."""
    lock = _HERE / "pypi" / "requirements.txt"

    def fill(folder: Path) -> None:
        options = ["--require-hashes", "--no-deps", "--target", str(folder), "--requirement", str(lock)]
        _run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options],
            folder,
        )

    site = _installed(cache / "pypi", [lock], fill)
    # -I and -S: the standard library and the peer, nothing of this project's environment.
    return [sys.executable, "-I", "-S", str(_HERE / "adapters" / "python_peer.py"), str(site)]


def prepare_node(cache: Path, search_path: str | None = None) -> Sequence[str]:
    """Install the npm peer, without running any package's scripts.

    Args:
        cache: Where to install.
        search_path: Where to look for ``node`` and ``npm``, instead of the environment's ``PATH``.
    """
    node, npm = _node(search_path)
    manifest, lock, options = (
        _HERE / "npm" / name for name in ("package.json", "package-lock.json", ".npmrc")
    )

    def fill(folder: Path) -> None:
        for path in (manifest, lock, options):
            shutil.copy(path, folder)
        _run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], folder)

    folder = _installed(cache / "npm", [manifest, lock], fill)
    return [node, str(_HERE / "adapters" / "node_peer.mjs"), str(folder)]


PEERS = (
    Peer(PYTHON, "0.26.1", "PyPI", prepare_python),
    Peer(NODE, "0.62.0", "npm", prepare_node),
)


def _node(search_path: str | None) -> tuple[str, str]:
    node, npm = (shutil.which(name, path=search_path) for name in ("node", "npm"))
    wanted = f"Node {_NODE_MAJOR} or newer with npm"
    if node is None or npm is None:
        raise PeerUnavailable(
            f"expected {wanted} on the PATH, found no {'npm' if node else 'node'}: install it"
        )
    said = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=False)
    major = re.match(r"v(\d+)\.", said.stdout)
    if major is None or int(major[1]) < _NODE_MAJOR:
        raise PeerUnavailable(f"expected {wanted}, found {node} {said.stdout.strip()!r}: install a newer one")
    return node, npm


def _installed(home: Path, locks: Sequence[Path], fill: Callable[[Path], None]) -> Path:
    """The folder for these locks, filled if it isn't there yet.

    It is filled beside its place and moved there at once: an installation that was interrupted, or that runs
    twice at the same time, never leaves half a peer behind.
    """
    home = home.resolve()
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in locks)).hexdigest()
    folder = home / digest[:16]
    if folder.is_dir():
        return folder
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home, prefix="installing-") as scratch:
        filling = Path(scratch) / "peer"
        filling.mkdir()
        fill(filling)
        try:
            os.replace(filling, folder)
        except OSError:
            if not folder.is_dir():  # otherwise another run was first, with the same content
                raise
    return folder


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        process = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InstallFailed(f"{' '.join(command)}: no end after {_PATIENCE_S} s; try again") from None
    if process.returncode:
        last_words = process.stdout.decode("utf-8", "replace").strip()[-2000:]
        raise InstallFailed(
            f"{' '.join(command)}: exit code {process.returncode}; check that the package registry can be"
            f" reached, and try again\n{last_words}"
        )
