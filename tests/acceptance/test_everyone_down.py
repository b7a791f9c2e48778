"""Nobody is there: a stop-then-start deploy, or the only worker killed (field notes 8, 27)."""

from __future__ import annotations

from pathlib import Path

from dramatiq_handshake import HandshakeEngine, get_engine
from tests.conftest import AppFactory
from tests.support.ledger import Ledger
from tests.support.monitor import CommandLog
from tests.support.poll import eventually
from tests.support.queues import Queues
from tests.support.workers import Fleet

#: A short lease, so that a crash shows soon; long enough to send something while it lasts.
SHORT_LEASE = {"heartbeat_interval_ms": 500, "heartbeat_ttl_ms": 2000}


def test_with_everyone_down_messages_wait_in_their_queue_and_show(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, valkey_url: str
) -> None:
    """An autoscaler sees the depth, blocked() says why, and whoever starts first takes them from there."""
    first = fleet.start("before")
    make_app()["greet"].send("before")
    ledger.wait_for(1)
    queues.wait_empty()
    assert first.terminate() == 0
    # The producer is deployed anew as well: one that goes on lists nothing while its view is fresh enough.
    app = make_app()
    engine = get_engine(app.broker)
    assert not engine.fleet().workers

    sent = [app["greet"].send(n).message_id for n in range(20)]

    assert queues.waiting() == {"default": 20}
    blocked = engine.blocked()
    assert {entry.message_id for entry in blocked} == set(sent)
    (need,) = blocked.needs
    assert (need.place, need.messages, need.code) == ("default", 20, "capability.unavailable")
    assert need.reason == "blocked: no live worker consumes queue 'default'"

    with CommandLog(valkey_url) as log:
        fleet.start("after")
        runs = ledger.wait_for_messages(sent)
        eventually(lambda: not engine.blocked().needs, what="nothing is shown as blocked any more")
    assert set(runs.values()) == {1}
    assert ledger.count(worker="after") == 20
    assert log.count("rpush") == 0, "nothing had to move them"
    assert fleet.alarms == []


def test_killing_the_only_worker_keeps_what_is_sent_and_shows_it_once_the_lease_has_lapsed(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, operator: HandshakeEngine
) -> None:
    """Silence looks like life for one TTL; then the fleet is empty, and what is sent shows as blocked."""
    victim = fleet.start("victim", handshake=SHORT_LEASE)
    app = make_app(**SHORT_LEASE)
    ledger.wait_for_messages([app["greet"].send("before").message_id])
    queues.wait_empty()
    victim.kill9()

    within = app["greet"].send("within the lease")
    assert queues.depth("default") == 1
    eventually(lambda: not operator.fleet().workers, 10, what="the lease lapses by itself")
    afterwards = app["greet"].send("after the lease")

    (blocked,) = operator.blocked()
    assert (blocked.message_id, blocked.place) == (afterwards.message_id, "default")
    assert queues.waiting() == {"default": 2}
    engine = get_engine(app.broker)
    assert unlisted(engine) == {"default": 1}, "the one that was sent within the lease shows as well"
    assert "1 further message(s) in 'default', which no live worker consumes" in str(engine.blocked())

    fleet.start("next", handshake=SHORT_LEASE)

    runs = ledger.wait_for_messages([within.message_id, afterwards.message_id])
    queues.wait_empty()
    assert set(runs.values()) == {1}
    eventually(lambda: not operator.blocked().needs, what="nothing is shown as blocked any more")
    assert unlisted(engine) == {}


def test_what_the_last_worker_leaves_behind_shows_to_a_producer_that_goes_on(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, tmp_path: Path
) -> None:
    """A long-lived producer's view says "routable" for a moment more, and what was queued nobody lists."""
    gate = tmp_path / "gate"
    last = fleet.start("last", threads=1)
    app = make_app()
    engine = get_engine(app.broker)
    app["hold"].send(str(gate))
    ledger.wait_for(1, event="started")
    queued = [app["greet"].send(n).message_id for n in range(3)]
    assert unlisted(engine) == {}, "a live worker has them before it"
    last.request_stop()
    eventually(
        lambda: [str(worker.state) for worker in engine.fleet()] == ["draining"],
        what="the last worker is shown as draining",
        state=engine.fleet,
    )
    gate.touch()
    assert last.wait() == 0

    first = app["greet"].send("the first after everybody left")

    kept = [*queued, first.message_id]
    report = engine.blocked()
    # On a slow machine the view is old by now, and the last one is listed.
    assert report.total + sum(backlog.messages for backlog in report.unlisted) == len(kept)
    assert report.total <= 1, "what the worker gave back is listed nowhere"
    assert {backlog.place for backlog in report.unlisted} == {"default"}
    assert queues.waiting() == {"default": len(kept)}

    fleet.start("next")

    runs = ledger.wait_for_messages(kept)
    assert set(runs.values()) == {1}
    eventually(lambda: str(engine.blocked()) == "Nothing is blocked.", what="nothing is shown any more")
    assert fleet.alarms == []


def unlisted(engine: HandshakeEngine) -> dict[str, int]:
    """How many messages are kept that nobody found to be blocked, by place."""
    return {backlog.place: backlog.messages for backlog in engine.blocked().unlisted}
