"""What the registry costs, counted on the server and on the wire."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from redis.connection import AbstractConnection

from dramatiq_handshake.storage import RedisStore
from dramatiq_handshake.storage.keys import RegistryKeys
from tests.contract.builders import ad, lane, look_at, messages, need
from tests.integration.storage.conftest import PREFIX, StoreFactory

KEYS = RegistryKeys(PREFIX)


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], int]:
    """Counts how often something is sent while a call runs, on any connection."""
    sent: list[int] = []
    send = AbstractConnection.send_packed_command

    def counting(connection: AbstractConnection, command: Any, *args: Any, **options: Any) -> Any:
        sent.append(1)
        return send(connection, command, *args, **options)

    monkeypatch.setattr(AbstractConnection, "send_packed_command", counting)

    def count(call: Callable[[], Any]) -> int:
        sent.clear()
        call()
        return len(sent)

    return count


class Commands(list[str]):
    """What a server was asked for, by clients (not by scripts): one text per command."""


@contextmanager
def watching(client: redis.Redis) -> Iterator[Commands]:
    """Collect the commands that others send in the meantime."""
    seen = Commands()
    with client.monitor() as monitor:
        yield seen
        client.echo("that was all")
        entries = []
        for entry in monitor.listen():
            entries.append(entry)
            if "that was all" in entry["command"]:
                break
    own = entries[-1]["client_port"]
    seen += [
        entry["command"] for entry in entries if entry["client_type"] != "lua" and entry["client_port"] != own
    ]


def names(commands: Commands) -> list[str]:
    """The commands' names, but for ``CLIENT``, which Redis 6.2 does not show."""
    return [name for command in commands if (name := command.split()[0]) != "CLIENT"]


def test_a_steady_beat_is_one_round_trip_without_the_descriptor(
    store: RedisStore, valkey: redis.Redis, round_trips: Callable[[Callable[[], Any]], int]
) -> None:
    steady = ad("w1", "ml", "mail", descriptor_json='{"secret of the test":1}')
    store.advertise(steady)
    store.advertise(steady)

    with watching(valkey) as commands:
        trips = round_trips(lambda: store.advertise(steady))

    assert trips == 1
    assert names(commands) == ["SET", "PEXPIRE", "SET", "PEXPIRE", "PEXPIRE", "EVALSHA"]
    assert not [command for command in commands if "secret of the test" in command or '"class"' in command]


def test_a_changed_descriptor_is_sent_once_for_each_token_in_the_same_round_trip(
    store: RedisStore, valkey: redis.Redis, round_trips: Callable[[Callable[[], Any]], int]
) -> None:
    store.advertise(ad("w1", "ml", "mail"))
    changed = ad("w1", "ml", "mail", etag="new", descriptor_json='{"changed":1}')

    with watching(valkey) as commands:
        trips = round_trips(lambda: store.advertise(changed))

    assert trips == 1
    assert len([command for command in commands if "changed" in command]) == 2


def test_a_token_that_comes_along_costs_its_own_descriptor_only(
    store: RedisStore, valkey: redis.Redis
) -> None:
    store.advertise(ad("w1", "ml"))

    with watching(valkey) as commands:
        store.advertise(ad("w1", "ml", "mail"))

    assert names(commands).count("SET") == 3, "two heartbeats and one descriptor"


def test_a_vanished_descriptor_costs_one_more_round_trip_once(
    store: RedisStore, valkey: redis.Redis, round_trips: Callable[[Callable[[], Any]], int]
) -> None:
    store.advertise(ad())
    store.advertise(ad())
    valkey.delete(f"{PREFIX}-worker-descriptor:ml:w1", KEYS.class_body("c1"))

    assert round_trips(lambda: store.advertise(ad())) == 2
    assert valkey.exists(f"{PREFIX}-worker-descriptor:ml:w1", KEYS.class_body("c1")) == 2
    assert round_trips(lambda: store.advertise(ad())) == 1


def test_coming_back_to_a_token_costs_one_round_trip(
    store: RedisStore, round_trips: Callable[[Callable[[], Any]], int]
) -> None:
    """What was withdrawn is known to be gone: nothing is renewed in vain first."""
    store.advertise(ad("w1", "ml", "mail"))
    store.withdraw("w1", ["ml"])

    assert round_trips(lambda: store.advertise(ad("w1", "ml", "mail"))) == 1


def test_a_steady_look_is_one_command_that_writes_nothing(
    store: RedisStore, valkey: redis.Redis, round_trips: Callable[[Callable[[], Any]], int]
) -> None:
    tokens = [f"q{number}" for number in range(20)]
    for worker in range(10):
        store.advertise(ad(f"w{worker}", *tokens))
    seen = store.look(dict.fromkeys(tokens), None)
    known = {token: look.mark for token, look in seen.tokens.items()}
    changes = valkey.info("persistence")["rdb_changes_since_last_save"]

    with watching(valkey) as commands:
        trips = round_trips(lambda: store.look(known, seen.lanes_epoch))

    assert (trips, names(commands)) == (1, ["EVALSHA"])
    assert valkey.info("persistence")["rdb_changes_since_last_save"] == changes


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("withdraw", lambda store: store.withdraw("w1", ["ml", "mail"])),
        ("register a lane", lambda store: store.register_lane(lane())),
        ("retire a lane", lambda store: store.retire_lane("ml.need.abc", quiet_ms=0)),
        ("block with a lane", lambda store: store.block(need(), messages("m1", "m2"), lane=lane())),
        ("release", lambda store: store.release({"n1": ["m1"], "n2": ["m2"]})),
        ("announce", lambda store: store.announce_control_plane("cp", "{}", broker_id="b")),
        ("read class bodies", lambda store: store.class_bodies(["c1", "c2"])),
        ("ask for claims", lambda store: store.unclaimed(["a", "b"])),
        ("tell the time", lambda store: store.now_ms()),
        ("find a message", lambda store: store.blocked_message("m1")),
    ],
)
def test_each_of_these_is_one_round_trip(
    store: RedisStore,
    round_trips: Callable[[Callable[[], Any]], int],
    what: str,
    call: Callable[[RedisStore], Any],
) -> None:
    store.advertise(ad("w1", "ml", "mail"))
    call(store)

    assert round_trips(lambda: call(store)) == 1, what


def test_a_server_that_lost_its_scripts_gets_them_again_at_once(
    store: RedisStore, valkey: redis.Redis, round_trips: Callable[[Callable[[], Any]], int]
) -> None:
    store.advertise(ad())
    store.block(need(), messages("m1"), lane=lane())
    valkey.script_flush()

    assert round_trips(lambda: store.advertise(ad())) == 2
    assert round_trips(lambda: store.advertise(ad())) == 1
    assert round_trips(lambda: store.block(need(), messages("m2"), lane=lane())) == 2, (
        "two scripts, one more trip"
    )
    assert [found.messages for found in store.blocked_needs()] == [2]


def test_listing_costs_a_few_round_trips_however_large_the_fleet(
    store: RedisStore, round_trips: Callable[[Callable[[], Any]], int]
) -> None:
    for worker in range(30):
        store.advertise(ad(f"w{worker}", "ml", "mail"))
    store.workers()

    assert round_trips(store.workers) == 2


def server_ms(client: redis.Redis, call: Callable[[], Any]) -> float:
    """The processor time (ms) of the server's main thread: no busy neighbour adds to it."""

    def spent() -> float:
        cpu = client.info("cpu")
        return float(cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"]) * 1_000

    before = spent()
    call()
    return spent() - before


def test_looks_and_beats_hold_the_server_for_a_moment_only(store: RedisStore, valkey: redis.Redis) -> None:
    """The scripts take some 40 and 90 µs; the bounds include reading the commands and writing replies."""
    for worker in range(20):
        store.advertise(ad(f"w{worker}", broker_id=f"b{worker}"))
    mark = look_at(store).mark

    looks = server_ms(valkey, lambda: [store.look({"ml": mark}, None) for _ in range(200)])
    beats = server_ms(valkey, lambda: [store.advertise(ad("w1", broker_id="b1")) for _ in range(200)])

    assert looks / 200 < 0.4
    assert beats / 200 < 0.8


def test_a_thousand_workers_are_listed_quickly(open_store: StoreFactory, valkey: redis.Redis) -> None:
    """Measured 30 ms on an idle machine, nearly all of it our own: so our own time is what is bounded."""
    store = open_store(valkey)
    descriptor = '{"padding":"' + "x" * 1_500 + '"}'
    for worker in range(1_000):
        store.advertise(ad(f"w{worker:04}", descriptor_json=descriptor))

    def seconds() -> float:
        start = time.process_time()
        assert len(store.workers()) == 1_000
        return time.process_time() - start

    assert min(seconds() for _ in range(5)) < 0.15


def test_no_call_on_a_hundred_thousand_blocked_messages_holds_the_server_for_long(
    store: RedisStore, valkey: redis.Redis
) -> None:
    """Field-notes behaviour 20: no command may take 10 ms; a hundred messages take about one."""
    valkey.config_resetstat()

    def block() -> None:
        for group in range(10):
            need_id = f"n{group}"
            ids = [f"{need_id}-{number}" for number in range(10_000)]
            store.block(need(need_id), messages(*ids, need_id=need_id), lane=None)

    blocking_ms = server_ms(valkey, block)
    calls = valkey.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert calls >= 1_000
    assert blocking_ms / calls < 5

    assert server_ms(valkey, store.blocked_needs) < 10
    assert sum(found.messages for found in store.blocked_needs()) == 100_000
    assert server_ms(valkey, lambda: store.blocked_messages("n5", limit=1_000)) < 10
    page = store.blocked_messages("n5", limit=1_000)
    assert (
        server_ms(valkey, lambda: store.release({"n5": [found.message_id for found in page.messages]})) < 50
    )
