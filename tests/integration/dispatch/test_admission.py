"""The way out of a queue on a real server: taken, carried, held or returned; acknowledged at its origin."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import dramatiq
import dramatiq.worker
import pytest
import redis
from dramatiq.middleware import Middleware

from dramatiq_handshake.decide.need import Need, need_lane
from dramatiq_handshake.dispatch import admission_consumer
from tests.support.inprocess import App, Apps
from tests.support.poll import eventually
from tests.support.queues import Queues

GPU_LANE = "default.requires.gpu"
UNKNOWN_LANE = need_lane(Need("default", "unknown"))


def once_each(number: int) -> dict[int, int]:
    return dict.fromkeys(range(number), 1)


def put(app: App, actor: str, *args: Any) -> dramatiq.Message[Any]:
    """Put a message into the base queue as it would have been sent by a plain producer."""
    reference = str(uuid.uuid4())
    message = dramatiq.Message("default", actor, args, {}, {"redis_message_id": reference})
    app.broker.do_enqueue("default", reference, message.encode())
    return message


class Flaky:
    """Stands in for one of a RedisBroker's commands: fails some times, after the server has done its part."""

    def __init__(
        self, app: App, command: str, error: Exception, *, times: int, queue: str | None = None
    ) -> None:
        self._real: Callable[..., Any] = getattr(app.broker, f"do_{command}")
        self._error = error
        self._queue = queue
        self.left = times
        self.on_server = True
        setattr(app.broker, f"do_{command}", self)

    def __call__(self, queue: str, *args: Any) -> Any:
        if self.left and self._queue in (None, queue):
            if not self.on_server:
                self.left -= 1
                raise self._error
            answer = self._real(queue, *args)
            if answer != []:
                self.left -= 1
                raise self._error
            return answer
        return self._real(queue, *args)


# -- acknowledging ---------------------------------------------------------------------------------


def test_messages_through_a_lane_are_acknowledged_there(apps: Apps, queues: Queues) -> None:
    app = apps.redis(capabilities={"gpu"})
    train = app.actor(actor_name="train", requires=["gpu"])
    plain = app.actor(actor_name="plain")
    app.worker()
    for number in range(50):
        (train if number % 2 else plain).send(number)

    app.log.wait_for(50)
    queues.wait_empty()
    assert app.log.count() == once_each(50)


def test_a_dead_letter_of_a_lane_is_among_its_bases(apps: Apps, queues: Queues, valkey: redis.Redis) -> None:
    app = apps.redis(capabilities={"gpu"})

    def broken() -> None:
        raise RuntimeError("on purpose")

    actor = app.actor(broken, requires=["gpu"], max_retries=0)
    app.worker()
    sent = actor.send()

    eventually(lambda: queues.dead_letters() == {"default": 1}, state=queues.dead_letters)
    queues.wait_empty()
    (reference, body), *_ = valkey.hgetall("dramatiq:default.XQ.msgs").items()
    assert dramatiq.Message.decode(body).message_id == sent.message_id
    assert valkey.zscore("dramatiq:default.XQ", reference)


def test_a_retry_comes_back_through_the_lane(apps: Apps, queues: Queues) -> None:
    app = apps.redis(capabilities={"gpu"})

    def flaky() -> None:
        app.log(len(app.log.entries))
        if len(app.log.entries) < 3:
            raise RuntimeError("on purpose")

    app.actor(flaky, requires=["gpu"], max_retries=5, min_backoff=5, max_backoff=5).send()
    app.worker()

    assert app.log.wait_for(3) == [0, 1, 2]
    queues.wait_empty()
    assert queues.dead_letters() == {}


@pytest.mark.parametrize(
    "error",
    [redis.TimeoutError("slow"), redis.ConnectionError("away"), redis.ReadOnlyError("failover")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("queue", ["default", GPU_LANE])
def test_an_acknowledgement_that_got_lost_is_made_again(
    apps: Apps, queues: Queues, error: Exception, queue: str
) -> None:
    """Dramatiq gives up on all errors but one, and the message would run again after a restart."""
    app = apps.redis(capabilities={"gpu"})
    actor = app.actor(requires=["gpu"] if queue == GPU_LANE else None)
    ack = Flaky(app, "ack", error, times=2, queue=queue)
    ack.on_server = False
    app.worker()
    actor.send("ran")

    queues.wait_empty()
    assert app.log.entries == ["ran"]
    assert ack.left == 0
    assert app.binding.agents[0].admission.deliveries.count() == 0


# -- carrying --------------------------------------------------------------------------------------


def test_carrying_keeps_the_id_and_the_body(apps: Apps, queues: Queues, valkey: redis.Redis) -> None:
    """A plain producer's message for an actor that only a later release has."""
    plain, old = apps.redis(plugin=False), apps.redis()
    unknown = plain.actor(actor_name="unknown")
    old.actor(actor_name="known")
    sent = unknown.send("the very same", nested={"a": [1, None]})
    (reference,) = valkey.lrange("dramatiq:default", 0, -1)
    old.worker()

    eventually(lambda: queues.unfinished() == {UNKNOWN_LANE: 1}, state=queues.unfinished)
    carried = dramatiq.Message.decode(valkey.hget(f"dramatiq:{UNKNOWN_LANE}.msgs", reference))
    assert carried.options.pop("handshake")["blocked"]
    assert carried == sent
    assert queues.unacknowledged() == 0
    assert queues.dead_letters() == {}
    (entry,) = old.handshake.engine.blocked()
    assert entry.message_id == sent.message_id

    new = apps.redis()
    new.actor(lambda *args, **kwargs: new.log((args, kwargs)), actor_name="unknown")
    new.worker()
    assert new.log.wait_for(1) == [(("the very same",), {"nested": {"a": [1, None]}})]
    queues.wait_empty()
    eventually(lambda: not old.handshake.engine.blocked().messages)


def test_carrying_goes_on_for_many_times_the_prefetch(apps: Apps, queues: Queues) -> None:
    """Each message carried away gives its place in the prefetch back."""
    old, new = apps.redis(), apps.redis()
    old.actor(actor_name="known")
    new.actor(actor_name="known")
    new.actor(actor_name="unknown")
    worker = old.worker(threads=1)
    number = 10 * worker.queue_prefetch
    for entry in range(number):
        put(old, "unknown", entry)

    eventually(lambda: queues.unfinished() == {UNKNOWN_LANE: number}, state=queues.unfinished)
    new.worker()
    new.log.wait_for(number)
    queues.wait_empty()
    assert new.log.count() == once_each(number)
    assert queues.dead_letters() == {}


def test_what_can_not_be_carried_now_is_held_and_tried_again(
    apps: Apps, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_consumer, "HOLD_S", 0.02)
    old = apps.redis()
    old.actor(actor_name="known")
    heard: list[str] = []
    old.handshake.on("carry.failed", lambda diagnostic: heard.append(diagnostic.reason))
    carrier = old.binding._carrier
    real, failures = carrier.carry, [redis.TimeoutError("slow"), RuntimeError("our mistake"), OSError("net")]

    def carry(*args: Any) -> None:
        if failures:
            raise failures.pop()
        real(*args)

    carrier.carry = carry
    worker = old.worker()
    consumer = worker.consumers.thread("default").consumer
    sent = put(old, "unknown")
    eventually(lambda: queues.unfinished() == {UNKNOWN_LANE: 1}, state=queues.unfinished)

    assert worker.consumers.thread("default").consumer is consumer, "it never raised"
    assert len(heard) == 3
    assert "held here and tried again" in heard[0]
    assert [entry.message_id for entry in old.handshake.engine.blocked()] == [sent.message_id]


def test_a_message_taken_after_a_failed_carry_leaves_no_blocked_entry(
    apps: Apps, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_consumer, "HOLD_S", 0.02)
    app = apps.redis()
    app.actor(actor_name="known")
    failed = threading.Event()

    def carry(*_: Any) -> None:
        failed.set()
        raise redis.TimeoutError("slow")

    app.binding._carrier.carry = carry
    app.worker()
    put(app, "unknown", "taken at last")
    assert failed.wait(10)
    app.actor(actor_name="unknown")

    assert app.log.wait_for(1) == ["taken at last"]
    queues.wait_empty()
    assert app.handshake.engine.blocked().messages == ()


def test_bodies_that_are_no_messages_are_dead_lettered(
    apps: Apps, queues: Queues, valkey: redis.Redis
) -> None:
    app = apps.redis(capabilities={"gpu"})
    record = app.actor()
    train = app.actor(actor_name="train", requires=["gpu"])
    good = dramatiq.Message("default", "record", (1,), {}, {}).asdict()
    junk = [
        b"no message at all",
        b'{"queue_name": "default"}',
        dramatiq.get_encoder().encode(good | {"options": None}),
        dramatiq.get_encoder().encode(good | {"actor_name": ["record"]}),
    ]
    for number in range(20):
        for queue in ("default", GPU_LANE):
            app.broker.do_enqueue(queue, f"{queue}-{number}", junk[number % len(junk)])
    app.worker(threads=1)
    record.send("still served")
    train.send("still served")

    app.log.wait_for(2)
    eventually(lambda: queues.dead_letters() == {"default": 40}, state=queues.dead_letters)
    queues.wait_empty()


# -- nothing fetched is forgotten ------------------------------------------------------------------

ERRORS = [
    redis.ConnectionError("away"),
    redis.TimeoutError("slow"),
    redis.ReadOnlyError("failover"),
    RuntimeError("whatever else"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("queue", ["default", "default.DQ", GPU_LANE])
def test_an_error_while_fetching_strands_nothing(
    apps: Apps, queues: Queues, error: Exception, queue: str
) -> None:
    """The server handed the messages out, and the reply got lost: Dramatiq would never see them again."""
    app = apps.redis(capabilities={"gpu"})
    actor = app.actor(requires=["gpu"] if queue == GPU_LANE else None)
    for number in range(40):
        actor.send_with_options(args=(number,), delay=100 if queue == "default.DQ" else None)
    fetch = Flaky(app, "fetch", error, times=3, queue=queue)
    app.worker()

    app.log.wait_for(40)
    queues.wait_empty()
    assert app.log.count() == once_each(40)
    assert fetch.left == 0


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("own_eta", [False, True], ids=["delay-queue", "eta-in-the-base"])
def test_an_error_strands_no_message_that_waits_until_it_is_due(
    apps: Apps, queues: Queues, error: Exception, own_eta: bool
) -> None:
    """Dramatiq drops the delay queue that it keeps in memory when its connection fails."""
    app = apps.redis()
    actor = app.actor()
    worker = app.worker(threads=11)  # a prefetch of 22, so that the consumer goes on fetching
    eta = dramatiq.common.current_millis() + 600
    for number in range(20):
        if own_eta:
            app.broker.enqueue(actor.message(number).copy(options={"eta": eta}))
        else:
            actor.send_with_options(args=(number,), delay=600)
    queue = "default" if own_eta else "default.DQ"
    eventually(
        lambda: worker.consumers.thread(queue).delay_queue.qsize() == 20, what="the worker holds them all"
    )
    fetch = Flaky(app, "fetch", error, times=1, queue=queue)
    fetch.on_server = False

    app.log.wait_for(20)
    queues.wait_empty()
    assert app.log.count() == once_each(20)
    assert fetch.left == 0


@pytest.mark.parametrize("error", ERRORS[:3], ids=lambda error: type(error).__name__)
def test_a_consumer_survives_that_its_messages_can_not_be_returned(
    apps: Apps, queues: Queues, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebuilt consumer returns its delayed messages first; an error there ended its thread for good."""
    app = apps.redis()
    actor = app.actor()
    worker = app.worker()
    actor.send_with_options(args=("due",), delay=600)
    thread = worker.consumers.thread("default.DQ")
    eventually(lambda: thread.delay_queue.qsize() == 1)
    requeue = Flaky(app, "requeue", error, times=1, queue="default.DQ")
    requeue.on_server = False
    fetch = Flaky(app, "fetch", RuntimeError("rebuild it"), times=1, queue="default.DQ")
    fetch.on_server = False

    assert app.log.wait_for(1) == ["due"]
    assert (requeue.left, fetch.left) == (0, 0)
    assert thread.is_alive()
    queues.wait_empty()


def test_what_runs_while_its_consumer_is_rebuilt_runs_once(apps: Apps, queues: Queues) -> None:
    app = apps.redis()
    running, may_finish = threading.Semaphore(0), threading.Event()

    def slow(number: int) -> None:
        running.release()
        may_finish.wait(10)
        app.log(number)

    actor = app.actor(slow)
    for number in range(10):
        actor.send(number)
    worker = app.worker(threads=2)
    for _ in range(2):
        assert running.acquire(timeout=10)
    before = worker.consumers.thread("default").consumer
    Flaky(app, "fetch", redis.TimeoutError("slow"), times=1, queue="default").on_server = False
    before.inner.prefetch = 100  # so that it fetches again while the first ones run
    eventually(lambda: worker.consumers.thread("default").consumer is not before, what="it is rebuilt")
    may_finish.set()

    app.log.wait_for(10)
    queues.wait_empty()
    assert app.log.count() == once_each(10)


@pytest.mark.parametrize("requires", [None, ["gpu"]], ids=["base", "lane"])
def test_a_worker_that_stops_returns_what_it_has_not_run(
    apps: Apps, queues: Queues, requires: list[str] | None
) -> None:
    first, second = (apps.redis(capabilities={"gpu"}) for _ in range(2))
    running, may_finish = threading.Event(), threading.Event()

    def slow(number: int) -> None:
        running.set()
        may_finish.wait(10)
        first.log(number)

    actor = first.actor(slow, requires=requires)
    second.actor(first.log, actor_name="slow", requires=requires)
    for number in range(30):
        actor.send(number)
    worker = first.worker(threads=1)
    assert running.wait(10)
    eventually(lambda: worker.work_queue.qsize() >= 1, what="some are prefetched")
    threading.Timer(0.1, may_finish.set).start()
    first.stop(worker)

    assert queues.unacknowledged() == 0
    assert sum(queues.unfinished().values()) == 30 - len(first.log.entries)
    second.worker()
    first.log.wait_for(30)
    queues.wait_empty()
    assert first.log.count() == once_each(30)


# -- shares ----------------------------------------------------------------------------------------


def test_lanes_share_what_one_queue_may_prefetch(apps: Apps, queues: Queues) -> None:
    app = apps.redis(capabilities={"a", "b"})
    may_finish = threading.Event()

    def slow(entry: Any) -> None:
        may_finish.wait(10)
        app.log(entry)

    a, b = (app.actor(slow, actor_name=f"slow_{name}", requires=[name]) for name in "ab")
    worker = app.worker(threads=2)
    app.wait_for_lanes(worker, "default.requires.a", "default.requires.b")
    deliveries = app.binding.agents[0].admission.deliveries
    for number in range(20):
        a.send(number)
    eventually(lambda: deliveries.count() == worker.queue_prefetch, what="lane a has all that lanes may have")

    for number in range(20, 30):
        b.send(number)
    consumer = worker.consumers.thread("default.requires.b").consumer
    rounds = consumer.came_round_at
    eventually(lambda: consumer.came_round_at > rounds + 0.3, what="lane b has come round many times")
    assert queues.depth("default.requires.b") == 10

    may_finish.set()
    app.log.wait_for(30)
    assert app.log.count() == once_each(30)


def test_busy_base_queues_do_not_starve_a_lane(apps: Apps) -> None:
    """Three queues with a backlog keep the work queue full; the lane gets its turn all the same."""
    app = apps.redis(capabilities={"gpu"})
    hurry, ran = threading.Event(), []

    def base(number: int) -> None:
        hurry.wait(0.01)
        ran.append(number)

    actors = [app.actor(base, actor_name=f"base_{name}", queue_name=name) for name in "abc"]
    train = app.actor(actor_name="train", requires=["gpu"])
    for number in range(300):
        for actor in actors:
            actor.send(number)
    worker = app.worker(threads=2)
    eventually(lambda: worker.work_queue.qsize() >= 2 * 2, what="the work queue is full")
    for number in range(10):
        train.send(number)

    app.log.wait_for(10)
    backlog = 900 - len(ran)
    hurry.set()
    assert backlog > 300, "the lane did not have to wait for the end of the backlog"
    assert app.log.count() == once_each(10)


# -- among plain workers ---------------------------------------------------------------------------


def test_a_canary_among_plain_workers_returns_what_only_they_know(
    apps: Apps, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field notes 37 in small: their work keeps flowing, and nothing of it is dead-lettered."""
    monkeypatch.setattr(admission_consumer, "PLAIN_HOLD_S", 0.05)
    canary, plain = apps.redis(), apps.redis(plugin=False)
    canary.actor(actor_name="known")
    for name in ("known", "only_plain"):
        plain.actor(actor_name=name)
    canary.worker()
    plain.worker()

    for number in range(60):
        plain.broker.actors["only_plain"].send(number)
        canary.broker.actors["known"].send(number)

    eventually(
        lambda: len(plain.log.entries) + len(canary.log.entries) == 120,
        state=lambda: (len(plain.log.entries), len(canary.log.entries), queues.unfinished()),
    )
    queues.wait_empty()
    assert queues.dead_letters() == {}
    assert (plain.log.count() + canary.log.count()) == dict.fromkeys(range(60), 2)
    assert canary.handshake.engine.blocked().messages == ()


def test_without_plain_workers_an_unknown_actor_is_carried_at_once(apps: Apps, queues: Queues) -> None:
    """A web process that enqueued a moment ago may pass for a worker, but for a few seconds only."""
    web, worker_app = apps.redis(), apps.redis()
    unknown = web.actor(actor_name="unknown")
    worker_app.actor(actor_name="known")
    worker_app.worker()
    unknown.send("blocked")

    eventually(lambda: queues.unfinished() == {UNKNOWN_LANE: 1}, state=queues.unfinished)
    assert queues.dead_letters() == {}


# -- hooks of others -------------------------------------------------------------------------------


def test_other_plugins_see_no_carrying(apps: Apps, queues: Queues) -> None:
    """Neither an enqueue nor an acknowledgement: a metric would take it for a retry."""

    class Watches(Middleware):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def before_enqueue(self, broker: Any, message: Any, delay: Any) -> None:
            self.seen.append("enqueue")

        def after_ack(self, broker: Any, message: Any) -> None:
            self.seen.append(f"ack {message.queue_name}")

        def after_nack(self, broker: Any, message: Any) -> None:
            self.seen.append("nack")

    watches = Watches()
    old, new = apps.redis(watches), apps.redis(watches)
    old.actor(actor_name="known")
    new.actor(actor_name="unknown")
    old.worker()
    put(old, "unknown", "carried")
    eventually(lambda: queues.unfinished() == {UNKNOWN_LANE: 1}, state=queues.unfinished)
    assert watches.seen == []

    new.worker()
    new.log.wait_for(1)
    queues.wait_empty()
    eventually(lambda: watches.seen == ["ack default"])
