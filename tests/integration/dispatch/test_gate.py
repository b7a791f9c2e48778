"""The way into a queue: what a send costs, carries, raises and survives."""

from __future__ import annotations

import threading
from typing import Any

import dramatiq
import pytest
from dramatiq.middleware import AsyncIO, Middleware, MiddlewareError

from dramatiq_handshake import CapabilityUnavailable, DeclarationError, RegistryUnavailable
from dramatiq_handshake.dispatch import view as view_module
from dramatiq_handshake.dispatch.gate import is_own_send
from tests.support.dispatching import WatchedStore, worker_up
from tests.support.inprocess import App, Apps
from tests.support.poll import eventually

JOIN_MS = 10_000
GPU_LANE = "default.requires.gpu"


class Hooks(Middleware):
    """Another plugin's hooks: they note what they see, add a request id, and may refuse."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, Any]] = []
        self.refuse: Exception | None = None
        self.fail_after: Exception | None = None

    def before_enqueue(
        self, broker: dramatiq.Broker, message: dramatiq.Message[Any], delay: int | None
    ) -> None:
        self.seen.append(("before", message.queue_name, message.message_id, delay))
        message.options["request_id"] = "r-1"
        if self.refuse is not None:
            raise self.refuse

    def after_enqueue(
        self, broker: dramatiq.Broker, message: dramatiq.Message[Any], delay: int | None
    ) -> None:
        self.seen.append(("after", message.queue_name, message.message_id, delay))
        if self.fail_after is not None:
            raise self.fail_after


def bodies(app: App, queue: str = "default") -> list[dramatiq.Message[Any]]:
    """What a queue or lane of a StubBroker holds."""
    known = app.broker.queues.get(queue)
    return [] if known is None else [dramatiq.Message.decode(body) for body in list(known.queue)]


def a_worker_lives(app: App, *actors: str, **about: Any) -> None:
    """Somebody else on this broker is live with these actors."""
    about.setdefault("broker", app.binding.identity.fingerprint())
    worker_up(app.binding.store, *actors, queue="default", **about)


def blocked_ids(app: App) -> list[str]:
    return [entry.message_id for entry in app.handshake.engine.blocked()]


@pytest.fixture
def app(apps: Apps) -> App:
    """Nobody lives who has the GPU that `train` requires; `plain` asks nothing."""
    return with_actors(apps.stub(Hooks(), capabilities=()))


def with_actors(app: App) -> App:
    app.actor(actor_name="plain")
    app.actor(actor_name="train", requires=["gpu"], version="2")
    return app


def hooks_of(app: App) -> Hooks:
    (hooks,) = [one for one in app.broker.middleware if isinstance(one, Hooks)]
    return hooks


def send(app: App, name: str, *args: Any, **options: Any) -> dramatiq.Message[Any]:
    message: dramatiq.Message[Any] = app.broker.actors[name].send_with_options(args=args, **options)
    return message


# -- what it costs and carries ---------------------------------------------------------------------


def test_a_steady_send_asks_the_registry_nothing(
    watched_stores: list[WatchedStore], apps: Apps, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = with_actors(apps.stub())
    monkeypatch.setattr(view_module, "RENEW_AFTER_S", 3600.0)
    a_worker_lives(app, "plain", "train", capabilities=["gpu"])
    (store,) = watched_stores
    send(app, "plain")
    send(app, "train")
    asked = sum(store.calls.values())

    for _ in range(500):
        send(app, "plain")
        send(app, "train")

    # The lane is registered once in five seconds; everything else is remembered.
    assert sum(store.calls.values()) - asked <= 1
    assert len(bodies(app)) + len(bodies(app, GPU_LANE)) == 1002


def test_a_message_that_needs_nothing_is_what_it_would_be_without_us(apps: Apps) -> None:
    plain, ours = apps.stub(Hooks(), plugin=False), apps.stub(Hooks())
    for app in (plain, ours):
        app.actor(actor_name="plain")
        send(app, "plain", 1)
        send(app, "plain", 2, delay=60_000)

    for queue in ("default", "default.DQ"):
        (stock,), (message,) = bodies(plain, queue), bodies(ours, queue)
        assert message.options.keys() == stock.options.keys()
        assert message.queue_name == stock.queue_name


def test_what_a_message_needs_rides_on_it(apps: Apps) -> None:
    app = with_actors(apps.stub(protocol=(1, 2)))

    send(app, "plain")
    send(app, "train", delay=60_000)

    assert bodies(app)[0].options["handshake"] == {"protocol": 2}
    (delayed,) = bodies(app, "default.DQ")
    assert delayed.options["handshake"] == {"requires": ["gpu"], "version": "2", "protocol": 2}


@pytest.mark.parametrize(
    "options",
    [
        {"requires": ["gpu"]},
        {"version": "3"},
        {"handshake": {"requires": ["gpu"]}},
        {"handshake": {"protocol": 2}},
    ],
    ids=str,
)
def test_what_a_single_message_asks_is_not_overlooked(app: App, options: dict[str, Any]) -> None:
    """Though its actor is known to ask nothing, and everybody live can run it."""
    a_worker_lives(app, "plain", version="2")
    send(app, "plain")
    sent = app.broker.enqueue(app.broker.actors["plain"].message().copy(options=options))

    assert len(bodies(app)) == 1
    assert blocked_ids(app) == [sent.message_id]


def test_send_returns_the_message_as_its_sender_knows_it(app: App) -> None:
    message = app.broker.actors["train"].message(7)
    sent = app.broker.enqueue(message)

    assert (sent.queue_name, sent.message_id, sent.args) == ("default", message.message_id, (7,))
    assert "handshake" not in message.options, "the sender's own copy is left alone"
    assert app.broker.actors["train"].send().queue_name == "default"


def test_a_delayed_message_waits_in_the_delay_queue_and_is_placed_when_due(apps: Apps) -> None:
    app = with_actors(apps.stub(Hooks(), capabilities={"gpu"}))
    sent = send(app, "train", "trained", delay=150)
    assert sent.queue_name == "default.DQ"
    assert [message.message_id for message in bodies(app, "default.DQ")] == [sent.message_id]
    assert hooks_of(app).seen == [(when, "default.DQ", sent.message_id, 150) for when in ("before", "after")]

    app.worker()
    app.broker.join("default", timeout=JOIN_MS)

    assert app.log.entries == ["trained"]
    assert GPU_LANE in app.broker.queues, "it came through its lane"
    assert hooks_of(app).seen[2:] == [
        (when, "default", sent.message_id, None) for when in ("before", "after")
    ]


def test_a_delayed_message_that_nobody_can_run_when_it_falls_due_is_kept(apps: Apps) -> None:
    app = with_actors(apps.stub(capabilities=()))
    worker = app.worker()
    sent = send(app, "train", "trained", delay=300)

    eventually(lambda: worker.consumers.thread("default.DQ").delay_queue.qsize() == 1)
    assert GPU_LANE not in app.broker.queues, "it is held, by whomever, until it is due"
    eventually(lambda: blocked_ids(app) == [sent.message_id])
    assert app.broker.dead_letters == []
    app.handshake.add_capability("gpu")
    app.broker.join("default", timeout=JOIN_MS)
    assert app.log.entries == ["trained"]


def test_a_message_with_an_eta_of_its_own_waits_in_its_base_queue(app: App) -> None:
    """A lane has no delay queue, and one that holds a far-off eta could not be closed."""
    message = app.broker.actors["train"].message()
    app.broker.enqueue(message.copy(options={"eta": dramatiq.common.current_millis() + 60_000}))

    (waiting,) = bodies(app)
    assert waiting.options["handshake"] == {"requires": ["gpu"], "version": "2"}
    assert bodies(app, GPU_LANE) == []


# -- hooks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lives", ["nobody", "somebody-incapable", "somebody-capable"])
def test_hooks_run_once_with_the_message_as_its_sender_knows_it(app: App, lives: str) -> None:
    """Field notes 32: blocked or not, and what they write is in the body."""
    if lives != "nobody":
        a_worker_lives(app, "train", "plain", capabilities=["gpu"] if "-capable" in lives else [])
    sent = send(app, "train")

    assert hooks_of(app).seen == [(when, "default", sent.message_id, None) for when in ("before", "after")]
    (message,) = bodies(app, GPU_LANE)
    assert message.options["request_id"] == "r-1"
    assert message.queue_name == "default"
    assert blocked_ids(app) == ([] if lives == "somebody-capable" else [sent.message_id])


@pytest.mark.parametrize("actor", ["plain", "train"])
@pytest.mark.parametrize("delay", [None, 60_000])
def test_a_hook_that_refuses_does_so_as_in_stock(app: App, actor: str, delay: int | None) -> None:
    """It raises out of the send, once; nothing is enqueued, and nothing is left behind."""
    a_worker_lives(app, "another")
    hooks = hooks_of(app)
    hooks.refuse = MiddlewareError("over quota")

    with pytest.raises(MiddlewareError, match="over quota"):
        send(app, actor, delay=delay)

    assert [when for when, *_ in hooks.seen] == ["before"]
    assert not any(queue.unfinished_tasks for queue in app.broker.queues.values())
    assert blocked_ids(app) == []


@pytest.mark.parametrize("actor", ["plain", "train"])
def test_any_other_failure_of_a_hook_costs_nothing_as_in_stock(app: App, actor: str) -> None:
    hooks = hooks_of(app)
    hooks.refuse = hooks.fail_after = RuntimeError("their mistake")

    send(app, actor)

    assert [when for when, *_ in hooks.seen] == ["before", "after"]
    assert len(bodies(app) + bodies(app, GPU_LANE)) == 1


# -- on_blocked="raise" ----------------------------------------------------------------------------


@pytest.fixture
def raising(apps: Apps) -> App:
    return with_actors(apps.stub(Hooks(), AsyncIO(), capabilities=(), on_blocked="raise"))


def test_a_producers_own_send_raises_where_it_asked_for_that(raising: App) -> None:
    with pytest.raises(CapabilityUnavailable) as refused:
        send(raising, "train")

    assert refused.value.reason == "blocked: no compatible worker (requires gpu)"
    assert refused.value.code == "capability.unavailable"
    assert bodies(raising, GPU_LANE) == []
    assert hooks_of(raising).seen == []
    assert blocked_ids(raising) == []
    send(raising, "plain")
    assert len(bodies(raising)) == 1


def test_a_delayed_send_does_not_raise_for_who_is_not_there_yet(raising: App) -> None:
    send(raising, "train", delay=60_000)
    assert len(bodies(raising, "default.DQ")) == 1


def test_an_actors_nested_send_never_raises(raising: App) -> None:
    def nest() -> None:
        send(raising, "train", "nested")
        raising.log("sent")

    raising.actor(nest, max_retries=0)
    raising.worker()
    send(raising, "nest")

    raising.log.wait_for(1)
    assert raising.log.entries == ["sent"]
    eventually(lambda: len(blocked_ids(raising)) == 1)


def test_an_async_actors_nested_send_never_raises(raising: App) -> None:
    async def nest() -> None:
        send(raising, "train", "nested")
        raising.log("sent")

    raising.actor(nest, max_retries=0)
    raising.worker()
    send(raising, "nest")

    raising.log.wait_for(1)
    assert raising.log.entries == ["sent"]
    eventually(lambda: len(blocked_ids(raising)) == 1)


def test_what_dramatiq_enqueues_itself_never_raises(raising: App) -> None:
    """A retry, a pipeline's next step and a delayed message falling due are kept: raising would lose them."""

    def unplug() -> None:
        raising.handshake.remove_capability("gpu")
        raising.log("unplugged")
        raise RuntimeError("fails, so that it is retried")

    def first() -> None:
        raising.log("first")

    raising.handshake.add_capability("gpu")
    raising.actor(unplug, requires=["gpu"], max_retries=3, min_backoff=1, max_backoff=1)
    raising.actor(first)
    raising.worker()
    raising.log.entries.clear()

    retried = send(raising, "unplug")
    raising.log.wait_for(1)
    eventually(lambda: blocked_ids(raising) == [retried.message_id], what="the retry is kept")
    step = raising.broker.actors["train"].message("second")
    dramatiq.pipeline([raising.broker.actors["first"].message(), step], broker=raising.broker).run()
    delayed = send(raising, "train", "delayed", delay=20)

    kept = {retried.message_id, step.message_id, delayed.message_id}
    eventually(lambda: set(blocked_ids(raising)) == kept, state=lambda: blocked_ids(raising))
    assert raising.broker.dead_letters == []


def test_whose_thread_it_is_decides_whether_a_send_may_raise() -> None:
    answers: dict[str, bool] = {}

    class OfTheApplication(threading.Thread):
        """Like a web server's."""

        def run(self) -> None:
            answers["application"] = is_own_send()

    class OfDramatiq(dramatiq.worker.WorkerThread):
        """A project's own subclass is Dramatiq's all the same."""

        def __init__(self) -> None:
            threading.Thread.__init__(self)

        def run(self) -> None:
            answers["dramatiq"] = is_own_send()

    for thread in (OfTheApplication(), OfDramatiq()):
        thread.start()
        thread.join()

    assert answers == {"application": True, "dramatiq": False}
    assert is_own_send()


def test_wrong_options_raise_in_an_own_send_and_nowhere_else(raising: App) -> None:
    with pytest.raises(DeclarationError, match=r"message to 'plain', requires: expected a list"):
        send(raising, "plain", requires="gpu")
    assert bodies(raising) == []

    def nest() -> None:
        send(raising, "plain", "nested", requires="gpu")

    raising.actor(nest, max_retries=0)
    raising.worker()
    send(raising, "nest")
    raising.broker.join("default", timeout=JOIN_MS)
    assert raising.log.entries == ["nested"]


# -- without the registry --------------------------------------------------------------------------


def test_without_the_registry_requirements_go_to_their_lane_and_the_rest_to_the_base(
    watched_stores: list[WatchedStore], apps: Apps
) -> None:
    app = with_actors(apps.stub(Hooks()))
    watched_stores[0].away = True

    send(app, "plain")
    train = send(app, "train")

    assert [message.actor_name for message in bodies(app)] == ["plain"]
    (message,) = bodies(app, GPU_LANE)
    assert message.message_id == train.message_id
    assert message.options["handshake"] == {"requires": ["gpu"], "version": "2"}, "nobody listed it"
    assert len(hooks_of(app).seen) == 4


def test_without_the_registry_an_own_send_raises_where_it_asked_for_that(
    watched_stores: list[WatchedStore], apps: Apps
) -> None:
    app = with_actors(apps.stub(capabilities={"gpu"}, on_registry_error="raise"))

    def nest() -> None:
        send(app, "plain", "nested")

    app.actor(nest, max_retries=0)
    app.worker()
    (store,) = watched_stores
    app.binding._view.doubt()
    store.away = True
    for name in ("plain", "train"):
        with pytest.raises(RegistryUnavailable, match="nothing was enqueued"):
            send(app, name)
    assert not any(queue.unfinished_tasks for queue in app.broker.queues.values())

    store.away = False
    send(app, "nest")
    app.log.wait_for(1)
    store.away = True
    app.binding._view.doubt()
    app.broker.queues["default"].put(app.broker.actors["nest"].message().encode())
    app.log.wait_for(2)
    assert app.log.entries == ["nested", "nested"]


# -- faults of ours --------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [None, 60_000])
def test_a_fault_in_planning_lets_dramatiq_work_as_it_did(
    app: App, delay: int | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fault(*_: Any, **__: Any) -> Any:
        raise KeyError("our mistake")

    for name in ("need_of", "stamped"):
        monkeypatch.setattr(f"dramatiq_handshake.dispatch.gate.{name}", fault)

    sent = send(app, "train", delay=delay)

    (message,) = bodies(app, "default" if delay is None else "default.DQ")
    assert message.message_id == sent.message_id
    assert "Planning train() failed; enqueueing it as plain Dramatiq would." in caplog.messages
    assert [when for when, *_ in hooks_of(app).seen] == ["before", "after"]


def test_a_fault_in_the_registrys_reader_lets_dramatiq_work_as_it_did(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fault(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("our mistake")

    monkeypatch.setattr(view_module, "plan_dispatch", fault)
    send(app, "train")
    assert len(bodies(app)) == 1
    assert "ZeroDivisionError" in caplog.text


def test_a_fault_in_listing_costs_the_entry_and_not_the_message(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fault(*_: Any, **__: Any) -> None:
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")

    monkeypatch.setattr(app.binding.store, "block", fault)
    send(app, "train")

    (message,) = bodies(app, GPU_LANE)
    assert "blocked" not in message.options["handshake"]
    assert "kept all the same, unseen" in caplog.text


def test_a_fault_after_the_enqueue_is_not_told_to_the_sender(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    a_worker_lives(app, "plain")
    send(app, "plain")

    def fault(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("our mistake")

    monkeypatch.setattr(view_module, "RENEW_AFTER_S", 0.0)
    monkeypatch.setattr(app.binding.store, "look", fault)
    send(app, "plain")

    assert len(bodies(app)) == 2
    assert "ZeroDivisionError" in caplog.text


def test_a_broker_that_does_not_take_a_blocked_message_leaves_no_entry(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise ConnectionError("the broker is away")

    monkeypatch.setattr(app.binding.identity, "publish", fails)
    with pytest.raises(ConnectionError):
        send(app, "train")
    assert blocked_ids(app) == []


# -- other modes -----------------------------------------------------------------------------------


def test_observing_reports_and_carries_nothing(apps: Apps) -> None:
    app = with_actors(apps.stub(Hooks(), capabilities=(), mode="observe"))
    heard: list[str] = []
    app.handshake.on("capability.unavailable", lambda diagnostic: heard.append(diagnostic.reason))

    send(app, "train", "anybody runs it")
    app.worker()
    app.broker.join("default", timeout=JOIN_MS)

    assert app.log.entries == ["anybody runs it"]
    assert heard == ["blocked: no compatible worker (requires gpu)"]
    assert set(app.broker.queues) == {"default", "default.DQ"}


# -- on a server -----------------------------------------------------------------------------------


def test_one_message_enqueued_twice_is_two_in_redis(apps: Apps, queues: Any) -> None:
    app = with_actors(apps.redis(Hooks()))
    message = app.broker.actors["train"].message()
    references = {app.broker.enqueue(message).options["redis_message_id"] for _ in range(2)}

    assert len(references) == 2
    assert queues.unfinished() == {GPU_LANE: 2}
    assert blocked_ids(app) == [message.message_id]


def test_a_blocked_message_in_a_base_queue_is_an_ordinary_one(apps: Apps, valkey: Any, queues: Any) -> None:
    """A plain worker, or anybody after us, takes it from there as from stock Dramatiq."""
    ours, plain = with_actors(apps.redis(Hooks())), apps.redis(plugin=False)
    plain.actor(actor_name="plain")
    served_lately = with_actors(apps.redis())
    served_lately.stop(served_lately.worker())
    sent = send(ours, "plain", "ran")
    assert blocked_ids(ours) == [sent.message_id]
    assert queues.unfinished() == {"default": 1}

    plain.worker()

    assert plain.log.wait_for(1) == ["ran"]
    queues.wait_empty()
