"""A capability vanishes after a message was sent and before it runs to its end (field note 2).

What raises out of an enqueue that Dramatiq makes itself destroys the message: so here it is a retry, a
pipeline's next step and a delayed message falling due that nobody live can run.
"""

from __future__ import annotations

import dramatiq

from dramatiq_handshake import HandshakeEngine
from tests.conftest import AppFactory
from tests.support.ledger import Ledger
from tests.support.poll import eventually
from tests.support.queues import Queues
from tests.support.workers import Fleet

#: Longer than it takes to stop the worker that holds the message.
DELAY_MS = 4_000


def test_a_retry_that_lost_its_gpu_is_kept_for_the_next_one(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, operator: HandshakeEngine
) -> None:
    """The worker loses its GPU in the first attempt: the only retry is blocked, not used up and not lost."""
    losing = fleet.start("losing", capabilities=["gpu"], extras=["unplug"])
    message = make_app(extras=["unplug"])["unplug"].send(1, fails=True)

    ledger.wait_for(1, event="failed", actor="unplug")
    (blocked,) = eventually(lambda: operator.blocked().messages, what="the retry is shown as blocked")
    assert (blocked.message_id, blocked.missing) == (message.message_id, ("gpu",))
    assert eventually(queues.waiting) == {blocked.place: 1}

    fleet.start("gpu", capabilities=["gpu"], extras=["unplug"])

    (ran,) = ledger.wait_for(1, actor="unplug")
    assert (ran.worker, ran.message_id, ran.retries, ran.queue) == ("gpu", message.message_id, 1, "ml")
    queues.wait_empty()
    assert ledger.count(event="failed") == 1
    assert ledger.count(event="ran") == 1
    assert queues.dead_letters() == {}
    assert not [line for line in losing.alarms if "on purpose" not in line and "unplug" not in line]


def test_a_pipelines_next_step_is_kept_and_its_result_is_found(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, operator: HandshakeEngine
) -> None:
    """The first step takes the GPU away: the producer finds the last step's result under its own message."""
    losing = fleet.start("losing", capabilities=["gpu"], extras=["unplug"])
    app = make_app(extras=["unplug"])
    steps = dramatiq.pipeline([app["unplug"].message(7), app["embed"].message()], broker=app.broker)

    steps.run()

    ledger.wait_for(1, actor="unplug")
    (blocked,) = eventually(lambda: operator.blocked().messages, what="the next step is shown as blocked")
    assert (blocked.actor, blocked.message_id) == ("embed", steps.messages[-1].message_id)
    assert eventually(queues.waiting) == {blocked.place: 1}

    fleet.start("gpu", capabilities=["gpu"])

    assert steps.get_result(block=True, timeout=15_000) == 107
    assert [entry.worker for entry in ledger.entries()] == ["losing", "gpu"]
    queues.wait_empty()
    assert queues.dead_letters() == {}
    assert losing.alarms == []


def test_a_delayed_message_that_falls_due_without_a_gpu_is_kept(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, operator: HandshakeEngine
) -> None:
    """Sent while a GPU lived, due when only CPUs do: it changes hands twice and runs once."""
    first = fleet.start("first gpu", capabilities=["gpu"])
    message = make_app()["train"].send_with_options(args=("later",), delay=DELAY_MS)
    eventually(lambda: queues.depth("ml.DQ") == 0, what="the first worker holds the message until it is due")
    cpu = fleet.start("cpu", wait=False)
    first.request_stop()
    assert first.wait() == 0
    cpu.wait_ready()

    (blocked,) = eventually(lambda: operator.blocked().messages, what="the due message is shown as blocked")
    assert blocked.message_id == message.message_id
    assert eventually(queues.waiting) == {blocked.place: 1}

    fleet.start("second gpu", capabilities=["gpu"])

    (ran,) = ledger.wait_for(1)
    assert (ran.worker, ran.message_id, ran.queue) == ("second gpu", message.message_id, "ml")
    assert ran.wall_ms >= message.message_timestamp + DELAY_MS
    queues.wait_empty()
    assert ledger.count() == 1
    assert queues.dead_letters() == {}
    assert fleet.alarms == []
