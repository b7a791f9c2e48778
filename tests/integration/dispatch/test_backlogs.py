"""The depths of a real broker's queues, as `blocked()` sees them through the middleware."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from dramatiq import Broker

from dramatiq_handshake import get_engine
from dramatiq_handshake.dispatch.carriers import ObservedBroker
from dramatiq_handshake.errors import RegistryUnavailable
from tests.support.inprocess import App, Apps
from tests.support.poll import eventually

GPU_LANE = "default.requires.gpu"
FAR_OFF_MS = 60_000


@pytest.fixture(params=["stub", "redis"])
def app(request: pytest.FixtureRequest, apps: Apps) -> App:
    """An app whose process can do everything its actors ask for."""
    made: App = getattr(apps, request.param)(capabilities={"gpu"})
    made.actor(actor_name="greet")
    made.actor(actor_name="train", requires=["gpu"])
    return made


def send(app: App, actor: str, entry: Any, **options: Any) -> None:
    app.broker.actors[actor].send_with_options(args=(entry,), **options)


def left(app: App) -> dict[str, int]:
    """How many messages are unlisted, by place."""
    return {backlog.place: backlog.messages for backlog in get_engine(app.broker).blocked().unlisted}


def test_what_a_fresh_view_sent_to_a_worker_that_has_left_shows_until_the_next_one_takes_it(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view is young enough for "routable", so nobody lists what nobody will take."""
    # Another process's view: it does not hear that the worker leaves.
    monkeypatch.setattr(app.binding._view, "doubt", lambda: None)
    worker = app.worker()
    send(app, "greet", "g1")
    send(app, "train", "t1")
    app.log.wait_for(2)
    app.stop(worker)

    send(app, "greet", "g2")
    send(app, "train", "t2")
    send(app, "train", "later", delay=FAR_OFF_MS)

    report = get_engine(app.broker).blocked()
    assert left(app) == {"default": 1, GPU_LANE: 1}
    assert [backlog.reason for backlog in report.unlisted] == [
        "1 message(s) in 'default', which no live worker consumes",
        f"1 message(s) in '{GPU_LANE}', and no live worker on queue 'default' has gpu",
    ]
    assert report.total == 0, "nobody found them blocked"

    app.worker()
    app.log.wait_for(4)
    eventually(lambda: not left(app), what="nothing is left over", state=lambda: left(app))


def test_what_a_process_sends_after_its_own_worker_left_is_listed_as_blocked(app: App) -> None:
    """It knows that the worker is gone, however young its view is."""
    worker = app.worker()
    send(app, "greet", "g1")
    app.log.wait_for(1)
    app.stop(worker)

    send(app, "greet", "g2")
    assert [message.actor for message in get_engine(app.broker).blocked()] == ["greet"]


def test_what_runs_or_waits_for_its_turn_is_no_backlog(app: App) -> None:
    app.worker(threads=1)
    for number in range(20):
        send(app, "greet", number)
        assert left(app) == {}
    app.log.wait_for(20)


def test_what_is_listed_as_blocked_is_not_told_twice(app: App) -> None:
    worker = app.worker()
    send(app, "greet", "g1")
    app.log.wait_for(1)
    app.stop(worker)
    app.binding._view.doubt()

    send(app, "greet", "g2")
    report = get_engine(app.broker).blocked()

    assert (report.total, report.needs[0].place, report.unlisted) == (1, "default", ())


def test_a_broker_that_is_away_is_an_error_and_not_an_absence(apps: Apps, own_valkey: Any) -> None:
    app = apps.redis(url=own_valkey.url, capabilities=())
    app.actor(actor_name="greet")
    identity = app.binding.identity
    assert identity.depths(identity.queues()) == [0]
    own_valkey.stop()
    with pytest.raises(RegistryUnavailable, match="what its queues hold"):
        identity.depths(identity.queues())


def test_a_question_about_depths_is_one_round_trip_that_takes_nothing(
    apps: Apps, valkey: redis.Redis
) -> None:
    app = apps.redis(capabilities=())
    app.actor(actor_name="greet")
    app.actor(actor_name="mail", queue_name="mail")
    send(app, "greet", "kept")
    identity = app.binding.identity
    assert identity.queues() == ["default", "mail"]

    valkey.config_resetstat()
    assert identity.depths(["default", "mail", GPU_LANE]) == [1, 0, 0]
    calls = {name: stats["calls"] for name, stats in valkey.info("commandstats").items()}

    assert calls.pop("cmdstat_hlen") == 3
    assert set(calls) <= {"cmdstat_config|resetstat", "cmdstat_info"}


def test_a_broker_that_nothing_is_carried_on_has_no_depths_to_tell() -> None:
    observed = ObservedBroker(Broker())
    assert (list(observed.queues()), observed.depths([])) == ([], [])
