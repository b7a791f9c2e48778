"""A worker's consumers: snapshots for Dramatiq's loops, and a poster that leads to each message's origin."""

from __future__ import annotations

from typing import Any

import dramatiq
import pytest
from dramatiq.broker import MessageProxy
from dramatiq.brokers.stub import StubBroker

from dramatiq_handshake.dispatch.consumers import Consumers, origin_of, remember_origin
from dramatiq_handshake.dispatch.deliveries import Deliveries


class Thread:
    """As much of a consumer thread as the poster needs."""

    def __init__(self) -> None:
        self.posted: list[MessageProxy] = []
        self.requeued: list[MessageProxy] = []
        self.logger = dramatiq.get_logger("tests.consumers")

    def post_process_message(self, message: MessageProxy) -> None:
        self.posted.append(message)

    def requeue_messages(self, messages: list[MessageProxy]) -> None:
        self.requeued += messages


class Origin:
    """As much of a delivering consumer as the poster needs."""

    def __init__(self, queue_name: str) -> None:
        self.queue_name = queue_name
        self.done: list[tuple[str, MessageProxy]] = []

    def ack(self, message: MessageProxy) -> None:
        self.done.append(("ack", message))

    def nack(self, message: MessageProxy) -> None:
        self.done.append(("nack", message))

    def requeue(self, messages: list[MessageProxy]) -> None:
        self.done += [("requeue", message) for message in messages]


def delivered(origin: Any = None, **options: Any) -> MessageProxy:
    message = MessageProxy(dramatiq.Message("ml", "train", (), {}, options))
    if origin is not None:
        remember_origin(message, origin)
    return message


@pytest.fixture
def consumers() -> Consumers:
    return Consumers(StubBroker())


def test_lanes_come_and_go_while_dramatiq_iterates(consumers: Consumers) -> None:
    for name in "abc":
        consumers[name] = Thread()  # type: ignore[assignment]  # an imitation
    for iterate in (consumers.values, consumers.items, consumers.__iter__):
        for number, _ in enumerate(iterate()):
            consumers.pop("b", None)
            consumers[f"d{number}"] = Thread()  # type: ignore[assignment]  # an imitation
    assert "b" not in consumers
    assert consumers.thread("b") is None


def test_a_message_is_acknowledged_where_it_was_delivered(consumers: Consumers) -> None:
    """Though it names another queue, and that one has no consumer here."""
    lane = Origin("ml.requires.gpu")
    fine, broken = delivered(lane), delivered(lane)
    broken.fail()

    consumers["ml"].post_process_message(fine)
    consumers["ml"].post_process_message(broken)

    assert lane.done == [("ack", fine), ("nack", broken)]


def test_messages_return_each_to_its_origin(consumers: Consumers) -> None:
    base, lane = Origin("ml"), Origin("ml.requires.gpu")
    messages = [delivered(base), delivered(lane), delivered(base)]

    consumers["ml"].requeue_messages(messages)

    assert [message for _, message in base.done] == [messages[0], messages[2]]
    assert [message for _, message in lane.done] == [messages[1]]


def test_a_message_that_did_not_pass_admission_goes_through_its_own_queue(consumers: Consumers) -> None:
    thread = Thread()
    consumers["ml"] = thread  # type: ignore[assignment]  # an imitation
    message = delivered()
    assert origin_of(message) is None

    consumers["ml"].post_process_message(message)
    consumers["ml"].requeue_messages([message])

    assert thread.posted == [message]
    assert thread.requeued == [message]


def test_deliveries_are_told_apart_though_a_message_came_twice() -> None:
    deliveries = Deliveries()
    first, again = delivered(), MessageProxy(delivered()._message)
    deliveries.add("ml", first)
    deliveries.add("ml", again)
    deliveries.add("ml.requires.gpu", delivered())
    assert (deliveries.count(), deliveries.count(lanes_only=True)) == (3, 1)

    deliveries.discard("ml", first)
    deliveries.discard("ml", first)
    deliveries.discard("nowhere", first)
    assert deliveries.of("ml") == [again]


def test_only_what_waits_until_it_is_due_is_forgotten_with_a_delay_queue() -> None:
    deliveries = Deliveries()
    running, waiting = delivered(eta=None), delivered(eta=123)
    deliveries.add("ml.DQ", running)
    deliveries.add("ml.DQ", waiting)
    deliveries.forget_delayed("ml.DQ")
    assert deliveries.of("ml.DQ") == [running]
