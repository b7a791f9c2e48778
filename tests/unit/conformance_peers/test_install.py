"""How peers come into the cache: pinned, once, whole, and without a registry's address."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.peers import install
from conformance.peers.install import PEERS, InstallFailed, PeerUnavailable, prepare_node
from conformance.peers.known import KNOWN

PINS = Path(install.__file__).parent


def executable(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "lock"
    path.write_text("peer==1.0\n")
    return path


def test_a_second_run_installs_nothing(tmp_path: Path, lock: Path) -> None:
    filled: list[Path] = []

    def fill(folder: Path) -> None:
        filled.append(folder)
        (folder / "peer.py").write_text("")

    first = install._installed(tmp_path / "home", [lock], fill)
    assert install._installed(tmp_path / "home", [lock], fill) == first
    assert (first / "peer.py").exists()
    assert len(filled) == 1


def test_another_lock_installs_afresh(tmp_path: Path, lock: Path) -> None:
    first = install._installed(tmp_path / "home", [lock], lambda folder: None)
    lock.write_text("peer==1.1\n")
    assert install._installed(tmp_path / "home", [lock], lambda folder: None) != first


def test_an_installation_that_fails_leaves_nothing_behind(tmp_path: Path, lock: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "half").write_text("")
        raise InstallFailed("no network")

    with pytest.raises(InstallFailed, match="no network"):
        install._installed(tmp_path / "home", [lock], fill)
    assert list((tmp_path / "home").iterdir()) == []


def test_two_installations_at_once_end_in_one_whole_folder(tmp_path: Path, lock: Path) -> None:
    def fill_slowly(folder: Path) -> None:
        (folder / "peer.py").write_text("")
        install._installed(
            tmp_path / "home", [lock], lambda other: (other / "peer.py").write_text("") or None
        )

    folder = install._installed(tmp_path / "home", [lock], fill_slowly)
    assert list((tmp_path / "home").iterdir()) == [folder]
    assert (folder / "peer.py").exists()


def test_the_words_of_a_failed_command_are_kept(tmp_path: Path) -> None:
    executable(tmp_path / "npm", "echo no such version >&2; exit 3")
    with pytest.raises(InstallFailed, match=r"npm ci: exit code 3; check .*\nno such version"):
        install._run([str(tmp_path / "npm"), "ci"], tmp_path)


@pytest.mark.parametrize(
    ("has", "words"),
    [([], "found no node"), (["node"], "found no npm"), (["npm"], "found no node")],
)
def test_without_node_or_npm_the_peer_is_unavailable(tmp_path: Path, has: list[str], words: str) -> None:
    for name in has:
        executable(tmp_path / name, "echo v20.1.0")
    with pytest.raises(PeerUnavailable, match=words):
        prepare_node(tmp_path / "cache", search_path=str(tmp_path))


@pytest.mark.parametrize("version", ["v16.20.2", "nonsense"])
def test_a_node_that_is_too_old_is_no_node(tmp_path: Path, version: str) -> None:
    executable(tmp_path / "node", f"echo {version}")
    executable(tmp_path / "npm", "exit 0")
    with pytest.raises(PeerUnavailable, match=f"expected Node 18 or newer with npm, found .*{version}"):
        prepare_node(tmp_path / "cache", search_path=str(tmp_path))


def test_npm_installs_the_committed_lock_without_running_scripts(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    executable(tools / "node", "echo v20.1.0")
    executable(tools / "npm", 'echo "$@" > arguments')
    *_, folder = prepare_node(tmp_path / "cache", search_path=str(tools))
    installed = Path(folder)
    assert "ci --ignore-scripts" in (installed / "arguments").read_text()
    lock = (PINS / "npm" / "package-lock.json").read_bytes()
    assert (installed / "package-lock.json").read_bytes() == lock


def test_the_locks_pin_the_releases_that_the_runner_expects() -> None:
    python, node = PEERS
    requirement, digest = (PINS / "pypi" / "requirements.txt").read_text().split()
    assert requirement == f"{python.name}=={python.version}"
    assert digest.startswith("--hash=sha256:")
    lock = json.loads((PINS / "npm" / "package-lock.json").read_text())
    assert lock["packages"][f"node_modules/{node.name}"]["version"] == node.version
    assert all("integrity" in package for path, package in lock["packages"].items() if path)


def test_no_lock_names_where_a_registry_is() -> None:
    lock = json.loads((PINS / "npm" / "package-lock.json").read_text())
    assert not any("resolved" in package for package in lock["packages"].values())
    for path in [*(PINS / "npm").iterdir(), *(PINS / "pypi").iterdir()]:
        assert "registry." not in path.read_text()
    assert (PINS / "npm" / ".npmrc").read_text() == "omit-lockfile-registry-resolved=true\n"


def test_every_peer_has_its_entries_in_the_table() -> None:
    assert {peer.name for peer in PEERS} == set(KNOWN)


def test_the_cache_is_kept_out_of_the_repository() -> None:
    root = PINS.parents[1]
    assert ".cache/" in (root / ".gitignore").read_text().splitlines()
