"""Which queues a worker consumes: what ``-Q`` names, with their lanes, and nothing that it only sends to."""

from __future__ import annotations

from dramatiq_handshake import HandshakeEngine
from tests.conftest import AppFactory
from tests.support.ledger import Ledger
from tests.support.poll import eventually
from tests.support.queues import Queues
from tests.support.workers import Fleet


def test_a_whitelisted_queue_brings_its_lanes_along_and_nothing_else(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, operator: HandshakeEngine
) -> None:
    """With ``-Q ml`` a worker runs what is in ml, its GPU lane and a need's lane, but no default work."""
    fleet.start("old", capabilities=["gpu"], queues=["ml"], wait=False)
    fleet.start("ml", capabilities=["gpu"], queues=["ml"], extras=["tidy", "infer"], wait=False)
    fleet.wait_ready()
    app = make_app(extras=["tidy", "infer"])

    greeting = app["greet"].send("Ada")
    delayed = app["greet"].send_with_options(args=("Bob",), delay=100)
    everywhere = [app[name].send(n).message_id for n in range(5) for name in ("train", "tidy", "infer")]
    later = app["train"].send_with_options(args=("later",), delay=100)

    runs = ledger.wait_for_messages([*everywhere, later.message_id])
    assert set(runs.values()) == {1}
    assert ledger.workers(actor="infer") == {"ml"}, "through the lane of a need that the old one lacks"
    assert {worker.tokens for worker in operator.fleet()} == {("ml",)}
    assert queues.waiting() == {"default": 1, "default.DQ": 1}

    fleet.start("all")

    ledger.wait_for_messages([greeting.message_id, delayed.message_id], worker="all")
    queues.wait_empty()
    assert ledger.workers(actor="greet") == {"all"}
    assert ("default", "ml") in {worker.tokens for worker in operator.fleet()}


def test_a_worker_does_not_consume_what_it_merely_sends_to(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, operator: HandshakeEngine
) -> None:
    """Work sent from within a worker, to a queue it doesn't declare or may not consume, is left to others."""
    worker = fleet.start("default only", queues=["default"], capabilities=["gpu"], extras=["relay"])
    relay = make_app(extras=["relay"])["relay"]

    relay.send("train", "ml", "digits")
    relay.send("greet", "elsewhere", "Ada")
    ledger.wait_for(2, actor="relay")
    # What it may run comes round after what it may not.
    ledger.wait_for_messages([relay.send("greet", "default", "Bob").message_id])
    ledger.wait_for(1, actor="greet")

    assert [entry.data for entry in ledger.entries(actor="greet")] == ["Bob"]
    assert ledger.count(actor="train") == 0
    waiting = queues.waiting()
    assert waiting.pop("elsewhere") == 1
    assert list(waiting.values()) == [1]
    assert [one.tokens for one in operator.fleet()] == [("default",)]
    assert worker.alarms == []

    fleet.start("ml", queues=["ml"], capabilities=["gpu"])

    (ran,) = ledger.wait_for(1, actor="train")
    assert (ran.worker, ran.queue) == ("ml", "ml")
    eventually(lambda: queues.waiting() == {"elsewhere": 1}, state=queues.waiting)
