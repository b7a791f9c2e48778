"""Users' own tests on StubBroker: with the middleware they run as they did without (field notes 31)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.errors import QueueJoinTimeout, QueueNotFound
from dramatiq.middleware import AsyncIO
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend

from dramatiq_handshake import CapabilityUnavailable, ProtocolIncompatible
from tests.support.inprocess import App, Apps
from tests.support.poll import eventually

JOIN_MS = 10_000

#: Whether the app has the middleware, and the options of its actor.
AS_BEFORE = {
    "plain-dramatiq": (False, {}),
    "with-us": (True, {}),
    "with-us-requires": (True, {"requires": ["gpu"], "version": "2"}),
}


@pytest.fixture(params=AS_BEFORE)
def as_before(request: pytest.FixtureRequest, apps: Apps) -> tuple[App, dict[str, Any]]:
    """Plain Dramatiq, which shows that the test is right; with us; with us and requirements."""
    plugin, options = AS_BEFORE[request.param]
    return apps.stub(plugin=plugin), options


# -- as without us ---------------------------------------------------------------------------------


def test_sent_before_the_worker_starts_joined_after(as_before: tuple[App, dict[str, Any]]) -> None:
    app, options = as_before
    record = app.actor(**options)
    for number in range(20):
        record.send(number)

    worker = app.worker()
    app.broker.join(record.queue_name, timeout=JOIN_MS)
    worker.join()

    assert sorted(app.log.entries) == list(range(20))


def test_sent_while_the_worker_runs(as_before: tuple[App, dict[str, Any]]) -> None:
    app, options = as_before
    record = app.actor(**options)
    app.worker()
    for number in range(20):
        record.send(number)
        app.broker.join(record.queue_name, timeout=JOIN_MS)
        assert app.log.entries[-1] == number


def test_retries_run_and_keep_their_count(as_before: tuple[App, dict[str, Any]]) -> None:
    app, options = as_before

    def flaky() -> None:
        app.log("ran")
        if len(app.log.entries) < 3:
            raise RuntimeError("fails twice, on purpose")

    actor = app.actor(flaky, max_retries=3, min_backoff=1, max_backoff=2, **options)
    actor.send()
    app.worker()
    app.broker.join(actor.queue_name, timeout=JOIN_MS)

    assert len(app.log.entries) == 3
    assert app.broker.dead_letters == []


def test_dead_letters_raise_their_exception_from_join(as_before: tuple[App, dict[str, Any]]) -> None:
    app, options = as_before

    def broken() -> None:
        raise ZeroDivisionError("on purpose")

    actor = app.actor(broken, max_retries=0, **options)
    app.worker()
    actor.send()
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        app.broker.join(actor.queue_name, timeout=JOIN_MS)

    app.broker.flush_all()
    actor.send()
    app.broker.join(actor.queue_name, timeout=JOIN_MS, fail_fast=False)
    eventually(lambda: len(app.broker.dead_letters_by_queue[actor.queue_name]) == 1)


def test_delays_are_waited_for(as_before: tuple[App, dict[str, Any]]) -> None:
    app, options = as_before
    record = app.actor(**options)
    app.worker()
    record.send_with_options(args=("late",), delay=100)
    record.send("early")
    app.broker.join(record.queue_name, timeout=JOIN_MS)

    assert app.log.entries == ["early", "late"]


def test_an_eta_in_the_options_is_waited_for(as_before: tuple[App, dict[str, Any]]) -> None:
    """A scheduler may put the eta there itself; stock consumers hold such a message until it is due."""
    app, options = as_before
    record = app.actor(**options)
    worker = app.worker()
    moment = dramatiq.common.current_millis()
    app.broker.enqueue(record.message("late").copy(options={"eta": moment + 200}))
    app.broker.join(record.queue_name, timeout=JOIN_MS)
    worker.join()

    assert app.log.entries == ["late"]
    assert dramatiq.common.current_millis() - moment >= 200


def test_pipelines_and_groups_come_together(as_before: tuple[App, dict[str, Any]]) -> None:
    app, options = as_before
    backend = StubBackend()
    app.broker.add_middleware(Results(backend=backend))

    def double(number: int) -> int:
        return number * 2

    def add(number: int, to: int) -> int:
        return number + to

    doubler = app.actor(double, store_results=True, **options)
    adder = app.actor(add, store_results=True, queue_name="other")
    app.worker()

    piped = dramatiq.pipeline([doubler.message(1), adder.message(10), doubler.message()], broker=app.broker)
    piped.run()
    grouped = dramatiq.group([doubler.message(number) for number in range(5)], broker=app.broker).run()

    assert backend.get_result(piped.messages[-1], block=True, timeout=JOIN_MS) == 24
    answers = [backend.get_result(one, block=True, timeout=JOIN_MS) for one in grouped.children]
    assert answers == [0, 2, 4, 6, 8]


def test_results_are_found_under_the_message_that_send_returned(
    as_before: tuple[App, dict[str, Any]],
) -> None:
    app, options = as_before
    backend = StubBackend()
    app.broker.add_middleware(Results(backend=backend))
    actor = app.actor(lambda: 42, actor_name="answer", store_results=True, **options)
    message = actor.send()
    app.worker()

    assert message.queue_name == "default"
    assert message.get_result(backend=backend, block=True, timeout=JOIN_MS) == 42


def test_several_workers_one_after_another_on_one_broker(as_before: tuple[App, dict[str, Any]]) -> None:
    app, options = as_before
    record = app.actor(**options)
    for number in range(4):
        record.send(f"{number} before")
        worker = app.worker()
        record.send(f"{number} while")
        app.broker.join(record.queue_name, timeout=JOIN_MS)
        app.stop(worker)
        assert app.log.count() == {
            f"{n} {when}": 1 for n in range(number + 1) for when in ("before", "while")
        }


def test_an_actor_declared_while_the_worker_runs_is_served(as_before: tuple[App, dict[str, Any]]) -> None:
    app, options = as_before
    app.worker()
    late = app.actor(queue_name="late", **options)
    late.send("late")
    app.broker.join("late", timeout=JOIN_MS)

    assert app.log.entries == ["late"]


def test_flush_all_empties_queues_and_lanes(as_before: tuple[App, dict[str, Any]]) -> None:
    app, options = as_before
    record = app.actor(**options)
    record.send("dropped")
    record.send_with_options(args=("dropped",), delay=60_000)
    app.broker.flush_all()

    record.send("kept")
    app.worker()
    app.broker.join(record.queue_name, timeout=JOIN_MS)
    assert app.log.entries == ["kept"]


def test_join_times_out_without_a_worker_and_knows_its_queues(as_before: tuple[App, dict[str, Any]]) -> None:
    app, options = as_before
    record = app.actor(**options)
    record.send()
    with pytest.raises(QueueJoinTimeout):
        app.broker.join(record.queue_name, timeout=100)
    with pytest.raises(QueueNotFound):
        app.broker.join("unheard-of", timeout=100)


def test_a_send_to_a_queue_that_nobody_declared_is_refused(as_before: tuple[App, dict[str, Any]]) -> None:
    app, options = as_before
    app.actor(**options)
    stray = dramatiq.Message("unheard-of", "record", (1,), {}, {})
    with pytest.raises(QueueNotFound):
        app.broker.enqueue(stray)
    with pytest.raises(QueueNotFound):
        app.broker.enqueue(stray, delay=100)
    assert "unheard-of" not in app.broker.queues


def test_async_actors_run(as_before: tuple[App, dict[str, Any]]) -> None:
    app, options = as_before
    app.broker.add_middleware(AsyncIO())

    async def coroutine(entry: str) -> None:
        app.log(entry)

    actor = app.actor(coroutine, **options)
    app.worker()
    actor.send("ran")
    app.broker.join(actor.queue_name, timeout=JOIN_MS)
    assert app.log.entries == ["ran"]


def test_work_that_begets_work_is_joined_to_the_end(as_before: tuple[App, dict[str, Any]]) -> None:
    """From base to lane and back, each message is put before its parent is done."""
    app, options = as_before

    def odd(number: int) -> None:
        app.log(number)
        if number:
            even_actor.send(number - 1)

    def even(number: int) -> None:
        app.log(number)
        if number:
            odd_actor.send(number - 1)

    odd_actor = app.actor(odd, **options)
    even_actor = app.actor(even)
    app.worker()
    for round_ in range(1, 21):
        odd_actor.send(9)
        app.broker.join(odd_actor.queue_name, timeout=JOIN_MS)
        assert len(app.log.entries) == round_ * 10


def test_a_failure_of_the_last_message_in_a_lane_is_never_missed(
    apps: Apps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails just after Dramatiq's own join has looked for dead letters; ours raises all the same."""
    may_fail = threading.Event()
    stock_join = StubBroker.join

    def join_just_before_it_fails(self: StubBroker, queue_name: str, **options: Any) -> None:
        stock_join(self, queue_name, **options)
        may_fail.set()
        eventually(lambda: self.dead_letters_by_queue["default"])

    monkeypatch.setattr(StubBroker, "join", join_just_before_it_fails)
    app = apps.stub()

    def broken() -> None:
        may_fail.wait(5)
        raise ZeroDivisionError("on purpose")

    actor = app.actor(broken, max_retries=0, requires=["gpu"])
    app.worker(threads=1)
    actor.send()
    with pytest.raises(ZeroDivisionError):
        app.broker.join("default", timeout=JOIN_MS)
    assert not app.broker.queues["default.requires.gpu"].unfinished_tasks


# -- what the broker's users can't have without us -------------------------------------------------


def test_a_required_capability_is_required_even_of_the_only_worker(apps: Apps) -> None:
    """Field notes 14: blocked, and join says why instead of waiting for ever."""
    app = apps.stub(capabilities={"saga"})
    train = app.actor(actor_name="train", requires=["gpu"])
    app.worker()
    message = train.send("training")

    with pytest.raises(CapabilityUnavailable, match=r"no compatible worker \(requires gpu\)"):
        app.broker.join(train.queue_name, timeout=JOIN_MS)

    assert app.log.entries == []
    assert app.broker.dead_letters == []
    assert [entry.message_id for entry in app.handshake.engine.blocked()] == [message.message_id]


def test_an_added_capability_resumes_what_was_blocked(apps: Apps) -> None:
    app = apps.stub(capabilities=())
    train = app.actor(actor_name="train", requires=["gpu"])
    app.worker()
    for number in range(5):
        train.send(number)
    with pytest.raises(CapabilityUnavailable):
        app.broker.join(train.queue_name, timeout=JOIN_MS)

    app.handshake.add_capability("gpu")
    app.broker.join(train.queue_name, timeout=JOIN_MS)

    assert app.log.count() == dict.fromkeys(range(5), 1)
    eventually(lambda: not app.handshake.engine.blocked().messages, what="the blocked index is clear")


def test_removing_one_capability_leaves_the_others(apps: Apps) -> None:
    """Nobody stated anything, so the worker can do what its actors require, but for what was taken away."""
    app = apps.stub()
    train = app.actor(actor_name="train", requires=["gpu"])
    refund = app.actor(actor_name="refund", requires=["saga"])
    app.worker()

    app.handshake.remove_capability("gpu")
    refund.send("refunded")
    app.broker.join(refund.queue_name, timeout=JOIN_MS)
    assert app.log.entries == ["refunded"]
    train.send("trained")
    with pytest.raises(CapabilityUnavailable, match="requires gpu"):
        app.broker.join(train.queue_name, timeout=JOIN_MS)

    app.handshake.add_capability("gpu")
    app.broker.join(train.queue_name, timeout=JOIN_MS)
    assert app.log.entries == ["refunded", "trained"]


def test_a_lane_closes_with_work_in_hand_and_nothing_runs_twice(apps: Apps) -> None:
    """What runs finishes; what was prefetched returns to the lane and runs when the capability is back."""
    app = apps.stub(capabilities={"gpu"})
    running, may_finish = threading.Semaphore(0), threading.Event()

    def train(number: int) -> None:
        running.release()
        assert may_finish.wait(10)
        app.log(number)

    actor = app.actor(train, requires=["gpu"])
    worker = app.worker(threads=2)
    app.wait_for_lanes(worker, "default.requires.gpu")
    for number in range(12):
        actor.send(number)
    for _ in range(2):
        assert running.acquire(timeout=10)

    app.handshake.remove_capability("gpu")
    eventually(lambda: worker.work_queue.qsize() == 0, what="the prefetched messages left the work queue")
    may_finish.set()
    app.wait_for_lanes(worker)
    assert len(app.log.entries) == 2
    assert app.broker.queues["default.requires.gpu"].qsize() == 10
    with pytest.raises(CapabilityUnavailable):
        app.broker.join("default", timeout=JOIN_MS)

    app.handshake.add_capability("gpu")
    app.broker.join("default", timeout=JOIN_MS)
    assert app.log.count() == dict.fromkeys(range(12), 1)


def test_join_waits_for_what_runs_in_a_lane_that_is_closing(apps: Apps) -> None:
    """Nobody serves the lane any more, but its only message is still running."""
    app = apps.stub(capabilities={"gpu"})
    running, may_finish = threading.Event(), threading.Event()

    def train() -> None:
        running.set()
        may_finish.wait(10)
        app.log("trained")

    actor = app.actor(train, requires=["gpu"])
    app.worker()
    actor.send()
    assert running.wait(10)
    app.handshake.remove_capability("gpu")
    threading.Timer(0.2, may_finish.set).start()

    app.broker.join("default", timeout=JOIN_MS)

    assert app.log.entries == ["trained"]


def test_a_message_for_an_actor_that_the_worker_lacks_is_blocked_and_not_dead_lettered(apps: Apps) -> None:
    app = apps.stub()
    app.actor(actor_name="known")
    app.worker()
    app.broker.enqueue(dramatiq.Message("default", "unknown", (), {}, {}))

    with pytest.raises(CapabilityUnavailable, match="announces actor 'unknown'"):
        app.broker.join("default", timeout=JOIN_MS)

    assert app.broker.dead_letters == []
    app.actor(actor_name="unknown")
    app.broker.join("default", timeout=JOIN_MS)
    assert app.log.entries == [None]


def test_a_message_that_a_worker_met_before_it_was_advertised_survives_its_stop(apps: Apps) -> None:
    """It is held for a moment, in case that a plain worker knows the actor; then the worker leaves."""
    app = apps.stub()
    app.actor(actor_name="known")
    app.broker.queues["default"].put(dramatiq.Message("default", "unknown", (), {}, {}).encode())
    worker = app.worker()
    eventually(lambda: app.broker.queues["default"].qsize() == 0, what="the message was fetched")
    app.stop(worker)

    app.actor(actor_name="unknown")
    app.worker()
    app.broker.join("default", timeout=JOIN_MS)
    assert app.log.entries == [None]


def test_another_version_is_blocked_and_says_so(apps: Apps) -> None:
    app = apps.stub()
    train = app.actor(actor_name="train", version="2")
    app.worker()
    train.send_with_options(args=(1,), version="3")

    with pytest.raises(CapabilityUnavailable, match=r"version 3 of actor 'train' \(announced: 2\)"):
        app.broker.join("default", timeout=JOIN_MS)


def test_another_protocol_is_blocked_and_says_so(apps: Apps) -> None:
    app = apps.stub(on_blocked="raise")
    train = app.actor(actor_name="train")
    app.worker()
    newer = train.message().copy(options={"handshake": {"protocol": 2}})
    with pytest.raises(ProtocolIncompatible, match=r"speaks wire protocol 2 \(spoken: 1\)"):
        app.broker.enqueue(newer)
    assert app.broker.queues["default"].unfinished_tasks == 0


def test_bodies_that_are_no_messages_leave_the_consumer_its_prefetch(apps: Apps) -> None:
    app = apps.stub()
    record = app.actor()
    app.worker(threads=1)
    for _ in range(20):
        app.broker.queues["default"].put(b"no message at all")
    record.send("still served")
    app.broker.join("default", timeout=JOIN_MS)
    assert app.log.entries == ["still served"]


@pytest.mark.parametrize("field", ["options", "actor_name"])
@pytest.mark.parametrize("junk", [None, 7, [], "text"])
def test_a_message_of_junk_harms_nobody_else(apps: Apps, field: str, junk: Any) -> None:
    """Stock Dramatiq rebuilds its consumer at such a body; ours goes on."""
    app = apps.stub()
    record = app.actor()
    worker = app.worker(threads=1)
    consumer = worker.consumers.thread("default").consumer
    body = dramatiq.Message("default", "record", (1,), {}, {}).asdict() | {field: junk}
    app.broker.queues["default"].put(dramatiq.get_encoder().encode(body))
    record.send("still served")
    eventually(lambda: "still served" in app.log.entries)
    assert worker.consumers.thread("default").consumer is consumer


def test_a_capability_source_that_fails_leaves_the_worker_as_it_was(
    apps: Apps, caplog: pytest.LogCaptureFixture
) -> None:
    """The callable may look at the very device that has just failed; the worker must not lapse for it."""
    answers: list[Callable[[], set[str]]] = [lambda: {"gpu"}]

    def source() -> set[str]:
        return answers[-1]()

    app = apps.stub(capabilities=source)
    train = app.actor(actor_name="train", requires=["gpu"])
    worker = app.worker()
    app.wait_for_lanes(worker, "default.requires.gpu")

    def fails() -> set[str]:
        raise OSError("nvidia-smi is gone")

    answers.append(fails)
    app.handshake.add_capability("saga")
    train.send("trained")
    app.broker.join("default", timeout=JOIN_MS)
    assert app.log.entries == ["trained"]
    assert "nvidia-smi is gone" in caplog.text
