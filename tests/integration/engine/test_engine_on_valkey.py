"""The engine on a real server: our workers, other SDKs, legacy ones, and whatever else stands there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from time import monotonic
from typing import Any

import pytest
import redis

from dramatiq_handshake.decide.directory import Evidence
from dramatiq_handshake.decide.negotiate import Outcome
from dramatiq_handshake.engine import HandshakeEngine
from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.storage import RedisStore
from dramatiq_handshake.storage.base import BlockedMessage, BlockedNeed
from dramatiq_handshake.wire.keys import ContractKeys
from tests.support.advertising import ForeignSdk, advertise, announced, our_descriptor
from tests.support.valkey import OwnValkey

PREFIX = "dramatiq"


@pytest.fixture
def store(valkey: redis.Redis) -> Iterator[RedisStore]:
    """The registry as our workers write it."""
    registry = RedisStore(valkey, prefix=PREFIX)
    yield registry
    registry.close()


@pytest.fixture
def sdk(valkey: redis.Redis) -> ForeignSdk:
    return ForeignSdk(valkey, PREFIX)


@pytest.fixture
def engine(valkey: redis.Redis, valkey_url: str) -> Iterator[HandshakeEngine]:
    """A process without a broker, that only has the URL."""
    with HandshakeEngine(valkey_url) as standalone:
        yield standalone


@contextmanager
def counted(client: redis.Redis) -> Iterator[dict[str, int]]:
    """What the server is asked within the block, by command."""
    client.config_resetstat()
    calls: dict[str, int] = {}
    yield calls
    for name, stats in client.info("commandstats").items():
        calls[name.removeprefix("cmdstat_").partition("|")[0]] = stats["calls"]


def snapshot(client: redis.Redis) -> dict[bytes, bytes | None]:
    """Everything that stands on the server."""
    return {key: client.dump(key) for key in client.scan_iter(count=1_000)}


def test_ours_another_sdks_and_legacy_workers_are_seen_together(
    store: RedisStore, sdk: ForeignSdk, engine: HandshakeEngine
) -> None:
    advertise(store, our_descriptor("py-1", announced("train", "2"), capabilities=["gpu"]), "ml", in_flight=2)
    sdk.advertise(
        "invoice",
        "node-1",
        workflows=["invoice", "refund"],
        registrations=[{"name": "invoice", "version": "3", "group": "invoice", "origin": "billing"}],
        steps=["charge"],
    )
    sdk.beat("charge", "node-1", '{"status": "up"}')
    sdk.beat("processing", "old-1")
    directory = engine.workflow_directory()
    assert [(entry.evidence.value, entry.key, entry.runtimes) for entry in directory.workflows] == [
        ("declared", "invoice@3", ("node",)),
        ("observed", "processing", ()),
        ("declared", "refund", ("node",)),
        ("declared", "train@2", ("python",)),
    ]
    node, old, ours = engine.fleet()
    assert (node.instance_id, node.tokens, node.foreign) == ("node-1", ("charge", "invoice"), True)
    assert (node.legacy, node.state, node.runtime) == (False, "up", "node")
    assert (old.instance_id, old.legacy, old.foreign, old.outcome) == (
        "old-1",
        True,
        True,
        Outcome.COMPATIBLE,
    )
    assert (ours.instance_id, ours.foreign, ours.in_flight, ours.capabilities) == ("py-1", False, 2, ("gpu",))
    for worker in (node, old, ours):
        assert worker.last_beat_age_ms is not None
        assert 0 <= worker.last_beat_age_ms < 10_000


def test_garbage_of_every_kind_is_reported_and_harms_nobody(
    valkey: redis.Redis, store: RedisStore, sdk: ForeignSdk, engine: HandshakeEngine
) -> None:
    advertise(store, our_descriptor("py-1", announced("train")))
    sdk.advertise("invoice", "node-1", workflows=["invoice"])
    good, good_fleet = engine.workflow_directory(), engine.fleet()

    keys = ContractKeys(PREFIX)
    sdk.describe("bad", "huge", b'{"instanceId": "' + b"x" * (10 * 1024 * 1024) + b'"}')
    sdk.describe("bad", "bytes", bytes(range(256)))
    sdk.describe("bad", "deep", "[" * 100_000)
    sdk.describe("bad", "shape", {"instanceId": "shape", "runtime": "node", "workflows": {"length": 1}})
    valkey.rpush(keys.descriptor("bad", "list"), "a", "b")
    valkey.hset(keys.descriptor("bad", "hash"), "field", "value")
    sdk.beat("noise", "random", bytes(range(255, -1, -1)))
    valkey.sadd(keys.heartbeat("noise", "set"), "member")
    valkey.set(f"{PREFIX}-worker-heartbeat:", "no token")
    valkey.set(f"{PREFIX}-worker-descriptor:no-instance", "{}")
    valkey.set(f"{PREFIX}-worker-heartbeat:".encode() + b"\xff\xfe:x", "no text")
    valkey.set(keys.control_plane("junk"), "junk")
    valkey.lpush(keys.control_plane("list"), "junk")

    directory, fleet = engine.workflow_directory(), engine.fleet()
    declared = [entry for entry in directory.workflows if entry.evidence is Evidence.DECLARED]
    assert declared == list(good.workflows)
    assert [entry.key for entry in directory.workflows if entry not in declared] == ["noise"]
    assert {invalid.source: (invalid.field, invalid.got) for invalid in directory.invalid} == {
        "bad:huge": ("", f"{10 * 1024 * 1024 + 18}"),
        "bad:bytes": ("", "a byte that is none at 128"),
        "bad:deep": ("", "JSON nested too deep to read"),
        "bad:shape": ("workflows", "an object of 1"),
        "bad:list": ("", "a value of the server's type 'list'"),
        "bad:hash": ("", "a value of the server's type 'hash'"),
    }
    rows = {worker.instance_id: worker for worker in fleet}
    assert {"py-1", "node-1"} <= set(rows)
    for worker in good_fleet:
        stable = {"last_beat_age_ms", "uptime_ms"}
        assert rows[worker.instance_id].model_dump(exclude=stable) == worker.model_dump(exclude=stable)
    for instance in ("huge", "bytes", "deep", "shape", "list", "hash"):
        assert rows[instance].outcome is Outcome.INCOMPATIBLE, instance
    for instance in ("random", "set"):
        assert (rows[instance].legacy, rows[instance].state) == (True, None), instance
    assert [invalid.source for invalid in fleet.invalid if "control-plane" in invalid.source] == [
        "control-plane:junk"
    ]
    json.loads(fleet.to_json())


def test_other_partitions_of_every_sdk_are_named(
    store: RedisStore, sdk: ForeignSdk, valkey_url: str, engine: HandshakeEngine
) -> None:
    mine = our_descriptor("py-1", announced("train", group="ml@a"), namespace="a")
    advertise(store, mine, "ml@a")
    sdk.advertise("invoice@b", "node-1", workflows=["invoice"], namespace="b", partition="b")
    sdk.beat("processing@davi-local", "old-1")
    with HandshakeEngine(valkey_url, namespace="a") as tenant:
        directory, fleet = tenant.workflow_directory(), tenant.fleet()
    assert [entry.key for entry in directory.workflows] == ["train"]
    assert [(one.partition, one.groups, one.instances) for one in directory.other_partitions] == [
        ("b", ("invoice@b",), ("node-1",)),
        ("davi-local", ("processing@davi-local",), ("old-1",)),
    ]
    assert ([worker.instance_id for worker in fleet], fleet.other_namespaces) == (["py-1"], 2)
    assert len(engine.fleet()) == 3


def test_another_prefix_is_another_deployment(
    store: RedisStore, valkey_url: str, valkey: redis.Redis
) -> None:
    advertise(store, our_descriptor("py-1", announced("train")))
    ForeignSdk(valkey, "dramatiq-staging").advertise("invoice", "node-1", workflows=["invoice"])
    for prefix, found in (("dramatiq", ["train"]), ("dramatiq-staging", ["invoice"]), ("dramati?", [])):
        with HandshakeEngine(valkey_url, prefix=prefix) as engine:
            assert [entry.key for entry in engine.workflow_directory().workflows] == found


@pytest.mark.parametrize("seed", range(3))
def test_the_index_and_a_scan_give_one_answer_while_workers_die_at_random(
    valkey: redis.Redis, store: RedisStore, engine: HandshakeEngine, seed: int
) -> None:
    """The descriptor key is the authority: no index entry outlives its worker (design §5)."""
    random = Random(seed)
    keys = ContractKeys(PREFIX)
    tokens = ["ml", "cpu", "ml@a"]

    def beat(instance: str) -> None:
        descriptor = our_descriptor(
            instance, *(announced(name, random.choice([None, "1", "2"])) for name in random.sample("abcd", 2))
        )
        advertise(store, descriptor, *random.sample(tokens, random.randint(1, 3)))

    def die(instance: str) -> None:
        for token in tokens:
            valkey.delete(keys.heartbeat(token, instance), keys.descriptor(token, instance))

    def lose(instance: str) -> None:
        token = random.choice(tokens)
        valkey.delete(random.choice([keys.heartbeat, keys.descriptor])(token, instance))

    def leave(instance: str) -> None:
        store.withdraw(instance, random.sample(tokens, random.randint(1, 3)))

    for _ in range(40):
        random.choice([beat, beat, beat, die, lose, leave])(f"py-{random.randint(1, 5)}")
        scanned, indexed = engine.workflow_directory(), engine.workflow_directory(scan=False)
        assert scanned == indexed
        unstable = {"workers": {"__all__": {"last_beat_age_ms", "uptime_ms"}}}
        assert engine.fleet().model_dump(exclude=unstable) == engine.fleet(scan=False).model_dump(
            exclude=unstable
        )


def test_a_directory_costs_one_scan_and_writes_nothing(
    valkey: redis.Redis, store: RedisStore, sdk: ForeignSdk, engine: HandshakeEngine
) -> None:
    for number in range(30):
        advertise(store, our_descriptor(f"py-{number}", announced("train")), "ml", "cpu")
    sdk.advertise("invoice", "node-1", workflows=["invoice"])
    engine.workflow_directory()
    before = snapshot(valkey)
    with counted(valkey) as calls:
        engine.workflow_directory()
    assert calls["scan"] == 1
    assert "keys" not in calls
    assert sum(calls.values()) < 15
    with counted(valkey) as calls:
        engine.workflow_directory(scan=False)
    assert "scan" not in calls
    engine.fleet()
    engine.blocked()
    assert snapshot(valkey) == before


def test_blocked_messages_are_paged_from_the_server(store: RedisStore, engine: HandshakeEngine) -> None:
    """More than one page of the index: 2,300 messages of two needs, aged by the server's clock."""

    def need(need_id: str, **changes: Any) -> BlockedNeed:
        fields: dict[str, Any] = {
            "queue": "ml",
            "actor": "train",
            "version": None,
            "requires": ("gpu",),
            "protocol": 1,
            "place": "ml.requires.gpu",
            "code": "capability.unavailable",
            "reason": "blocked: no compatible worker (requires gpu)",
        }
        return BlockedNeed(need_id=need_id, **(fields | changes))

    for need_id, count in (("n1", 2_000), ("n2", 300)):
        store.block(
            need(need_id), [BlockedMessage(f"{need_id}-{n}", need_id) for n in range(count)], lane=None
        )
    first = engine.blocked(limit=1_700)
    assert (first.total, [group.messages for group in first.needs]) == (2_300, [2_000, 300])
    second = engine.blocked(limit=1_700, cursor=first.next_cursor)
    assert second.next_cursor is None
    ids = [message.message_id for message in (*first, *second)]
    assert ids == [f"n1-{n}" for n in range(2_000)] + [f"n2-{n}" for n in range(300)]
    assert all(0 <= message.age_ms < 60_000 for message in (*first, *second))


def test_a_server_that_is_down_is_an_error_and_never_empty(own_valkey: OwnValkey) -> None:
    own_valkey.stop()
    with HandshakeEngine(own_valkey.url) as engine:
        for ask in (engine.workflow_directory, engine.announced_workflows, engine.fleet, engine.blocked):
            with pytest.raises(RegistryUnavailable):
                ask()


def test_a_server_that_hangs_is_given_up_within_the_engines_budget(own_valkey: OwnValkey) -> None:
    with HandshakeEngine(own_valkey.url, registry_timeout_ms=200) as engine:
        assert engine.workflow_directory().supported
        own_valkey.pause()
        began = monotonic()
        with pytest.raises(RegistryUnavailable, match="200 ms"):
            engine.workflow_directory()
        assert monotonic() - began < 5
        own_valkey.resume()


def test_the_password_of_a_url_is_never_repeated(own_valkey: OwnValkey) -> None:
    url = f"redis://reader:hush-hush@127.0.0.1:{own_valkey.port}/0"
    with HandshakeEngine(url) as engine, pytest.raises(RegistryUnavailable) as caught:
        engine.fleet()
    chain: list[str] = []
    error: BaseException | None = caught.value
    while error is not None:
        chain.append(f"{error!r} {error}")
        error = error.__cause__
    assert "hush-hush" not in " ".join(chain)
