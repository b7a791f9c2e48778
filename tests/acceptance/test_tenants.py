"""Two tenants on one server: same code, same queues, never each other's work (field note 18)."""

from __future__ import annotations

from dramatiq_handshake import HandshakeEngine, get_engine
from tests.conftest import AppFactory
from tests.support.ledger import Ledger
from tests.support.queues import Queues
from tests.support.workers import Fleet


def test_a_tenants_work_is_its_own_and_an_operator_sees_all(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, operator: HandshakeEngine
) -> None:
    """Queues, lanes, delays, results and the directory carry the tenant's name; its capacity is its own."""
    fleet.start("acme", namespace="acme", queues=["default", "ml"], wait=False)
    fleet.start("umbrella", namespace="umbrella", capabilities=["gpu"], wait=False)
    fleet.start("nobody's", capabilities=["gpu"], wait=False)
    fleet.wait_ready()
    app = make_app(namespace="acme")
    engine = get_engine(app.broker)

    greeted = app["greet"].send("Ada")
    delayed = app["greet"].send_with_options(args=("Bob",), delay=50)
    doubled = app["double"].send(21)
    trained = app["train"].send("digits")

    assert greeted.queue_name == "default@acme"
    assert doubled.get_result(block=True, timeout=15_000) == 42
    ledger.wait_for_messages([greeted.message_id, delayed.message_id])
    assert ledger.workers() == {"acme"}
    assert {entry.queue for entry in ledger.entries()} == {"default@acme"}
    (blocked,) = engine.blocked()
    assert (blocked.message_id, blocked.queue, blocked.missing) == (trained.message_id, "ml@acme", ("gpu",))
    assert queues.waiting() == {blocked.place: 1}
    assert blocked.place.startswith("ml@acme.requires.")

    directory = engine.workflow_directory()
    assert {group for entry in directory.workflows for group in entry.groups} == {"default@acme"}
    assert {other.partition for other in directory.other_partitions} == {"default", "umbrella"}
    assert [worker.namespace for worker in engine.fleet()] == ["acme"]
    everybody = operator.fleet()
    assert {worker.namespace for worker in everybody} == {"acme", "umbrella", None}
    assert {worker.partition for worker in everybody} == {"acme", "umbrella", "default"}
    assert get_engine(make_app(namespace="umbrella").broker).blocked().total == 0

    fleet.start("acme gpu", namespace="acme", capabilities=["gpu"])

    ledger.wait_for_messages([trained.message_id])
    assert ledger.workers(actor="train") == {"acme gpu"}
    queues.wait_empty()
    assert queues.dead_letters() == {}
    assert fleet.alarms == []
