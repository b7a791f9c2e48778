"""The steps of a rollout: off, then observe, then enforce."""

from __future__ import annotations

import pytest
import redis

from dramatiq_handshake import Code, ConfigurationError, Diagnostic, HandshakeEngine, attach, get_engine
from tests.conftest import AppFactory
from tests.support.ledger import Ledger
from tests.support.queues import Queues
from tests.support.workers import Fleet


def test_observing_reports_and_carries_nothing(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, operator: HandshakeEngine
) -> None:
    """All travels as in plain Dramatiq, in base queues; the fleet shows, and what enforcing would block."""
    app = make_app(mode="observe")
    told: list[Diagnostic] = []
    attach(app.broker).on(Code.CAPABILITY_UNAVAILABLE, told.append)
    fleet.start("cpu", variant="old", mode="observe")

    trained = app["train"].send("nobody here has a GPU")
    greeted = app["greet"].send("Ada")

    (diagnostic,) = told
    assert diagnostic.attributes["missing"] == ["gpu"]
    assert ledger.wait_for_messages([trained.message_id, greeted.message_id])
    assert ledger.workers() == {"cpu"}, "Dramatiq gives it to whoever consumes the queue"
    (worker,) = operator.fleet()
    assert worker.tokens == ("default", "ml")
    assert "greet" in {entry.key for entry in operator.workflow_directory().workflows}

    app["added_later"].send("an actor that the worker lacks")

    queues.wait_empty()
    assert queues.dead_letters() == {"default": 1}, "which observing does not prevent"
    assert len(told) == 2


def test_switched_off_it_leaves_no_trace(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, valkey: redis.Redis
) -> None:
    """Plain Dramatiq, with actors whose options nobody has to take out."""
    fleet.start("cpu", mode="off")
    app = make_app(mode="off")

    sent = [app[name].send(1).message_id for name in ("greet", "train", "added_later")]
    delayed = app["train"].send_with_options(args=(2,), delay=50)

    assert set(ledger.wait_for_messages([*sent, delayed.message_id]).values()) == {1}
    queues.wait_empty()
    keys = {key.decode() for key in valkey.scan_iter(count=1000)}
    assert not [key for key in keys if "handshake" in key or key.startswith("dramatiq-worker")]
    assert not [key for key in keys if ".requires." in key or ".need." in key]
    with pytest.raises(ConfigurationError, match="the handshake is off"):
        get_engine(app.broker)
    assert fleet.alarms == []


def test_the_environment_decides_over_the_code(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, operator: HandshakeEngine
) -> None:
    """An operator can turn a deployed worker off; messages of an enforcing producer find it all the same."""
    fleet.start("switched off", mode="off", handshake={"mode": "enforce"})

    message = make_app()["greet"].send("Ada")

    ledger.wait_for_messages([message.message_id])
    assert not operator.fleet().workers
    assert not operator.blocked().needs
