"""`fleet`, `directory` and `blocked` against a real server: for people, and as JSON for programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from dramatiq_handshake.cli.app import run
from dramatiq_handshake.storage.base import BlockedMessage, BlockedNeed
from dramatiq_handshake.storage.redis import RedisStore
from tests.support.advertising import ForeignSdk, advertise, announced, our_descriptor
from tests.support.workers import ROOT, clean_environment

EVIL = "evil\x1b[2J\nname\ud800"
NEED = "78e7e1e035048070"


def blocked_need(need_id: str = NEED, actor: str = "train", queue: str = "ml") -> BlockedNeed:
    """A need that nobody could serve."""
    return BlockedNeed(
        need_id=need_id,
        queue=queue,
        actor=actor,
        version="2",
        requires=("gpu",),
        protocol=1,
        place=f"{queue}.requires.gpu",
        code="capability.unavailable",
        reason="blocked: no compatible worker (requires gpu)",
        detail="{}",
        broker="",
    )


def entry(message_id: str, need_id: str = NEED) -> BlockedMessage:
    """A message of it."""
    return BlockedMessage(message_id=message_id, need_id=need_id, broker_ref="", traceparent="")


@pytest.fixture
def store(valkey: redis.Redis, valkey_url: str) -> Iterator[RedisStore]:
    """The registry that the commands look into."""
    registry = RedisStore(url=valkey_url, prefix="dramatiq")
    yield registry
    registry.close()


class Shell:
    """Runs commands in this process."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._url = url
        self._capsys = capsys

    def text(self, *arguments: str) -> str:
        """What a command that succeeds prints."""
        code = run([*arguments, "--url", self._url])
        printed = self._capsys.readouterr()
        assert (code, printed.err) == (0, "")
        assert "\x1b" not in printed.out
        return printed.out

    def json(self, *arguments: str) -> Any:
        """What it prints as JSON, which is 7-bit text."""
        text = self.text(*arguments, "--json")
        assert text.isascii()
        return json.loads(text)


@pytest.fixture
def shell(valkey_url: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A shell at the session's server."""
    return Shell(valkey_url, capsys)


def test_an_empty_fleet_says_so(store: RedisStore, shell: Shell) -> None:
    assert shell.text("fleet") == "No worker is live here.\n"
    assert shell.text("directory").startswith("No worker is live: start one")
    assert shell.text("blocked") == "Nothing is blocked.\n"


def test_fleet_lists_workers_of_every_kind(store: RedisStore, valkey: redis.Redis, shell: Shell) -> None:
    advertise(store, our_descriptor("py-1", announced("train", "2"), capabilities=("gpu",)), in_flight=3)
    advertise(store, "{broken", instance="py-2")
    ForeignSdk(valkey).advertise("billing", "nest-9", workflows=["invoice"])
    text = shell.text("fleet")
    assert "train@2" in text
    assert "3 in flight, 8 threads" in text
    assert "SDK @dudousxd/nestjs-durable-core" in text
    assert "descriptor.invalid: advertisement ml:py-2 skipped" in text
    assert "3 worker(s) live: 2 compatible, 1 incompatible" in text
    report = shell.json("fleet")
    assert [worker["instance_id"] for worker in report["workers"]] == ["nest-9", "py-1", "py-2"]
    assert report["workers"][1]["capabilities"] == ["gpu"]


def test_directory_lists_claims_and_partitions(store: RedisStore, shell: Shell) -> None:
    for instance, origin in (("py-1", "shop"), ("py-2", "shop-core")):
        advertise(store, our_descriptor(instance, announced("greet", "1", origin=origin)))
    advertise(store, our_descriptor("py-3", announced("greet", "1"), namespace="ada"), "ml@ada")
    text = shell.text("directory", "--namespace", "default")
    assert "Disagreement on greet@1: its workers state more than one origin (shop / shop-core)." in text
    assert "Another partition, 'ada': py-3 on ml@ada." in text
    answer = shell.json("directory", "--namespace", "default")
    assert answer["workflows"][0]["instances"] == ["py-1", "py-2"]
    assert answer["other_partitions"] == [{"partition": "ada", "groups": ["ml@ada"], "instances": ["py-3"]}]
    assert answer["detail"]


def test_blocked_lists_needs_and_as_json_messages(store: RedisStore, shell: Shell) -> None:
    store.block(blocked_need(), [entry(f"m-{number}") for number in range(3)], lane=None)
    store.block(blocked_need("other", "embed", "cpu"), [entry("m-9", "other")], lane=None)
    text = shell.text("blocked")
    assert "train@2" in text
    assert "blocked: no compatible worker (requires gpu)" in text
    assert "4 message(s) blocked for 2 need(s)" in text
    assert "embed" not in shell.text("blocked", "--actor", "train")
    assert "train" not in shell.text("blocked", "--queue", "cpu")
    report = shell.json("blocked", "--actor", "train", "--limit", "2")
    assert report["total"] == 3
    assert len(report["messages"]) == 2
    assert report["next_cursor"]


def test_prefix_namespace_and_url_may_come_from_the_environment(
    store: RedisStore, valkey_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    advertise(store, our_descriptor("py-1"))
    advertise(store, our_descriptor("py-2", namespace="ada"), "ml@ada")
    monkeypatch.setenv("DRAMATIQ_HANDSHAKE_URL", valkey_url)
    monkeypatch.setenv("DRAMATIQ_HANDSHAKE_NAMESPACE", "ada")
    assert run(["fleet", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [worker["instance_id"] for worker in report["workers"]] == ["py-2"]
    assert report["other_namespaces"] == 1
    monkeypatch.setenv("DRAMATIQ_HANDSHAKE_PREFIX", "another")
    assert run(["fleet"]) == 0
    assert "No worker is live here." in capsys.readouterr().out


def test_hostile_names_are_harmless(store: RedisStore, shell: Shell) -> None:
    """Names with escape sequences, newlines and lone surrogates neither act nor break anything."""
    advertise(
        store,
        our_descriptor("py-1", announced(EVIL, EVIL, origin=EVIL), capabilities=(EVIL,), namespace=None),
    )
    advertise(store, our_descriptor("py-2"))
    for command in ("fleet", "directory", "blocked"):
        assert shell.text(command).replace("\n", "").isprintable()
    assert shell.json("fleet")["workers"][0]["capabilities"] == [EVIL]
    assert shell.json("directory")["workflows"][0]["name"] == EVIL


def test_a_reader_who_leaves_early_is_no_error(store: RedisStore, valkey_url: str) -> None:
    """As with ``| head``: no traceback, whatever was left to print."""
    advertise(store, our_descriptor("py-1"))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "dramatiq_handshake", "fleet", "--url", valkey_url],
            cwd=ROOT,
            env=clean_environment({}),
            stdin=subprocess.DEVNULL,
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            timeout=40,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "")
