"""A fleet in the middle of a deploy: some workers know an actor, some don't (field notes 1, 9, 10)."""

from __future__ import annotations

from dramatiq_handshake import Code, Diagnostic, HandshakeEngine, attach
from tests.conftest import AppFactory
from tests.support.ledger import Ledger
from tests.support.poll import eventually
from tests.support.queues import Queues
from tests.support.workers import Fleet


def test_a_new_actor_waits_in_a_lane_of_its_own_until_a_new_worker_starts(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, operator: HandshakeEngine
) -> None:
    """Old workers only: blocked, explained, kept apart; the first new worker runs it exactly once."""
    fleet.start("old", variant="old")
    app = make_app()
    told: list[Diagnostic] = []
    attach(app.broker).on(Code.CAPABILITY_UNAVAILABLE, told.append)

    message = app["added_later"].send("release 2")

    assert message.queue_name == "default"
    (diagnostic,) = told
    assert diagnostic.attributes["actor"] == "added_later"
    assert "'added_later'" in diagnostic.reason
    assert "'added_later'" in str(diagnostic.attributes["nearest"])
    (blocked,) = operator.blocked()
    assert (blocked.message_id, blocked.actor, blocked.code) == (
        message.message_id,
        "added_later",
        "capability.unavailable",
    )
    assert blocked.place != "default"
    assert queues.waiting() == {blocked.place: 1}

    fleet.start("new")

    (ran,) = ledger.wait_for(1, actor="added_later")
    assert (ran.worker, ran.message_id, ran.retries) == ("new", message.message_id, 0)
    assert ran.queue == "default", "an actor sees the queue that its message was sent to, not the lane"
    eventually(lambda: not operator.blocked().needs, what="nothing is shown as blocked any more")
    queues.wait_empty()
    fleet.terminate_all()
    assert ledger.count(actor="added_later") == 1
    assert queues.dead_letters() == {}
    assert fleet.alarms == []


def test_with_half_the_workers_old_only_the_new_ones_run_a_new_actor(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues
) -> None:
    """1,000 messages on a shared queue, half of them from a producer without the plugin: none is lost.

    The latter are in the base queue, where old workers fetch their share of them.
    """
    wide = {"dramatiq_queue_prefetch": "64"}
    old = fleet.start("old", variant="old", threads=4, env=wide, wait=False)
    fleet.start("new", threads=4, env=wide, wait=False)
    fleet.wait_ready()
    plain, aware = make_app(plugin=False), make_app()

    sent = [app["added_later"].send(n).message_id for n in range(500) for app in (plain, aware)]

    runs = ledger.wait_for_messages(sent, 40)
    queues.wait_empty()
    assert set(runs.values()) == {1}
    assert len(runs) == 1000
    assert ledger.workers(actor="added_later") == {"new"}
    assert {entry.retries for entry in ledger.entries()} == {0}
    assert queues.dead_letters() == {}
    assert old.said("message.carried"), "the old worker had a share of the base queue"
    fleet.terminate_all()
    assert fleet.alarms == []


def test_after_a_rollback_messages_wait_without_using_up_retries(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, operator: HandshakeEngine
) -> None:
    """What the new release left behind, and what is sent meanwhile, runs as soon as its code is back."""
    new = fleet.start("new")
    app = make_app()
    first = app["added_later"].send("before")
    ledger.wait_for_messages([first.message_id])
    assert new.terminate() == 0
    left_behind = [app["added_later"].send(n).message_id for n in range(20)]
    assert queues.waiting() == {"default": 20}

    old = fleet.start("old", variant="old")

    eventually(lambda: queues.depth("default") == 0, what="the old worker has carried what it can't run")
    meanwhile = [app["added_later"].send(n).message_id for n in range(20)]
    eventually(lambda: operator.blocked().total == 40, state=operator.blocked)
    assert sum(queues.waiting().values()) == 40
    assert ledger.count(actor="added_later") == 1

    fleet.start("new again")

    runs = ledger.wait_for_messages([*left_behind, *meanwhile])
    queues.wait_empty()
    assert set(runs.values()) == {1}
    assert {entry.retries for entry in ledger.entries(actor="added_later")} == {0}
    assert ledger.workers(actor="added_later") == {"new", "new again"}
    assert queues.dead_letters() == {}
    eventually(lambda: not operator.blocked().needs, what="nothing is shown as blocked any more")
    assert old.alarms == []


def test_a_version_that_nobody_runs_waits_too(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues
) -> None:
    """The only worker announces version 2: older and newer ones are neither run nor dead-lettered there."""
    fleet.start("gpu", capabilities=["gpu"])
    app = make_app()

    for version in ("1", "3"):
        app["train"].send_with_options(args=(version,), version=version)
    same = app["train"].send("same")

    ledger.wait_for_messages([same.message_id])
    assert ledger.runs() == {same.message_id: 1}
    assert sorted(queues.waiting().values()) == [1, 1]
    assert queues.dead_letters() == {}
