"""What others may put into the registry, the queues and a message: it harms nobody but itself."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import redis

from dramatiq_handshake import HandshakeEngine
from tests.conftest import AppFactory
from tests.support.ledger import Ledger
from tests.support.queues import Queues
from tests.support.workers import Fleet

HUGE = 10_000_000

#: Bodies that are no message: not UTF-8, not JSON, JSON of the wrong shape, fields of the wrong type.
WELL_FORMED: dict[str, Any] = {
    "queue_name": "default",
    "actor_name": "greet",
    "args": ["Ada"],
    "kwargs": {},
    "options": {},
    "message_id": "planted",
    "message_timestamp": 0,
}
BODIES: dict[str, bytes] = {
    "random bytes": b"\xff\xfe\x00\x9f",
    "no JSON": b"{not json",
    "no object": b"[1, 2, 3]",
    "no field": b"{}",
    "too many fields": json.dumps(WELL_FORMED | {"color": "red"}).encode(),
    "options are null": json.dumps(WELL_FORMED | {"options": None}).encode(),
    "options are a list": json.dumps(WELL_FORMED | {"options": ["eta"]}).encode(),
    "the actor is a list": json.dumps(WELL_FORMED | {"actor_name": ["greet"]}).encode(),
    "the id is a list": json.dumps(WELL_FORMED | {"message_id": ["x"]}).encode(),
    "no redis id": json.dumps(WELL_FORMED).encode(),
    "the queue is a number": json.dumps(WELL_FORMED | {"queue_name": 7, "actor_name": "unheard of"}).encode(),
}

#: What may stand where our own note on a message stands.
JUNK: list[Any] = [
    "text",
    7,
    None,
    [],
    {"requires": "gpu"},
    {"requires": [1, None]},
    {"version": 7},
    {"protocol": "two"},
    {"protocol": True},
    {"blocked": "of course", "need": ["x"]},
    {"blocked": True, "need": {"a": 1}},
    {"unheard of": {"deeply": ["nested"]}},
]


def test_garbage_advertisements_disturb_neither_workers_nor_producers(
    fleet: Fleet,
    make_app: AppFactory,
    ledger: Ledger,
    queues: Queues,
    operator: HandshakeEngine,
    valkey: redis.Redis,
) -> None:
    """A descriptor of 10 MB, random beats, keys of the wrong type: skipped, told, and everything works."""
    for token in ("default", "ml"):
        valkey.set(f"dramatiq-worker-heartbeat:{token}:huge", os.urandom(64))
        valkey.set(f"dramatiq-worker-descriptor:{token}:huge", b'{"instanceId": "' + b"x" * HUGE + b'"}')
        valkey.set(f"dramatiq-worker-heartbeat:{token}:random", os.urandom(1024))
        valkey.set(f"dramatiq-worker-descriptor:{token}:random", os.urandom(1024))
        valkey.rpush(f"dramatiq-worker-heartbeat:{token}:list", "a", "b")
        valkey.hset(f"dramatiq-worker-descriptor:{token}:list", "a", "b")
    valkey.set("dramatiq-worker-heartbeat:", "without a name")
    valkey.set("dramatiq-control-plane:random", os.urandom(64))
    fleet.start("old", variant="old", wait=False)
    fleet.start("new", capabilities=["gpu"], wait=False)
    fleet.wait_ready()
    app = make_app()

    sent = [app[name].send(1).message_id for name in ("greet", "added_later", "train") for _ in range(5)]

    runs = ledger.wait_for_messages(sent)
    assert set(runs.values()) == {1}
    assert ledger.workers(actor="added_later") == {"new"}
    queues.wait_empty()
    assert queues.dead_letters() == {}
    seen = operator.fleet()
    assert len([worker for worker in seen if not worker.foreign]) == 2
    assert {found.source.rpartition(":")[2] for found in seen.invalid} >= {"huge", "random"}
    assert {entry.key for entry in operator.workflow_directory().workflows} >= {"greet", "train@2"}
    fleet.terminate_all()
    assert fleet.alarms == []
    assert not [worker for worker in fleet.workers if worker.said("registry.unavailable")]


@pytest.mark.parametrize("key", ["live", "lanes:default", "epoch:default", "blocked"])
def test_a_foreign_value_under_a_private_key_leaves_plain_dramatiq(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, valkey: redis.Redis, key: str
) -> None:
    """Another program writes where only the registry does: work goes on as without it, and it is told."""
    valkey.hset(f"{{dramatiq:handshake:1}}:{key}", "somebody", "else's")
    worker = fleet.start("worker", capabilities=["gpu"])
    app = make_app()

    sent = [app[name].send(1).message_id for name in ("greet", "train") for _ in range(3)]

    assert set(ledger.wait_for_messages(sent).values()) == {1}
    assert worker.alarms == []


def test_bodies_that_are_no_messages_go_to_the_dead_letters(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, valkey: redis.Redis
) -> None:
    """Whatever a producer put there: the worker lives, and runs what comes next."""
    worker = fleet.start("worker", capabilities=["gpu"], env={"dramatiq_restart_delay": "200"})
    for n, body in enumerate(BODIES.values()):
        for queue in ("default", "ml.requires.gpu"):
            valkey.hset(f"dramatiq:{queue}.msgs", f"planted-{n}", body)
            valkey.rpush(f"dramatiq:{queue}", f"planted-{n}")

    app = make_app()
    sent = [app[name].send("Ada").message_id for name in ("greet", "train")]

    ledger.wait_for_messages(sent)
    queues.wait_empty()
    assert queues.dead_letters() == {"default": len(BODIES), "ml": len(BODIES)}
    assert ledger.count() == 2
    assert "Restarting consumer" not in worker.text
    assert worker.returncode is None


def test_junk_in_the_place_of_our_note_is_ignored(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues
) -> None:
    """A message that carries nonsense under "handshake" runs as if it carried nothing; from any producer."""
    fleet.start("worker")
    sent = [
        app["greet"].send_with_options(args=(n,), handshake=junk).message_id
        for app in (make_app(), make_app(plugin=False))
        for n, junk in enumerate(JUNK)
    ]

    runs = ledger.wait_for_messages(sent)

    assert set(runs.values()) == {1}
    queues.wait_empty()
    assert queues.dead_letters() == {}
    assert fleet.alarms == []
