"""`join` and `flush` know the lanes beside a queue, on both brokers."""

from __future__ import annotations

import threading

import pytest
from dramatiq.errors import QueueJoinTimeout

from dramatiq_handshake import CapabilityUnavailable
from tests.support.inprocess import App, Apps

GPU_LANE = "default.requires.gpu"


def gpu_app(apps: Apps, kind: str, *, capabilities: set[str], **handshake: object) -> App:
    """An app whose one actor requires a GPU."""
    app: App = getattr(apps, kind)(capabilities=capabilities, **handshake)
    app.actor(actor_name="train", requires=["gpu"])
    return app


def blocked(app: App) -> int:
    """How many messages the index holds."""
    return sum(need.messages for need in app.binding.store.blocked_needs())


@pytest.mark.parametrize("kind", ["stub", "redis"])
def test_join_waits_for_what_runs_in_a_lane(apps: Apps, kind: str) -> None:
    """The base queue is empty all the while."""
    gate, app = threading.Event(), getattr(apps, kind)(capabilities={"gpu"})

    def train() -> None:
        gate.wait(10)
        app.log("ran")

    app.actor(train, requires=["gpu"]).send()
    app.worker()
    joined = threading.Thread(target=app.broker.join, args=("default",), kwargs={"timeout": 10_000})
    joined.start()
    with pytest.raises(QueueJoinTimeout):
        app.broker.join("default", timeout=200)
    assert joined.is_alive()

    gate.set()
    joined.join(10)
    assert not joined.is_alive()
    assert app.log.entries == ["ran"]


@pytest.mark.parametrize("kind", ["stub", "redis"])
@pytest.mark.parametrize("flush", ["flush", "flush_all"])
def test_flush_drops_what_waits_in_lanes_and_its_entries(apps: Apps, kind: str, flush: str) -> None:
    """Nothing is left that could run, or be shown as blocked, in the next test."""
    app = gpu_app(apps, kind, capabilities=set())
    for number in range(3):
        app.broker.actors["train"].send(number)
    assert (app.binding.identity.depths([GPU_LANE]), blocked(app)) == ([3], 3)

    if flush == "flush":
        app.broker.flush("default")
    else:
        app.broker.flush_all()
    assert (app.binding.identity.depths([GPU_LANE]), blocked(app)) == ([0], 0)


def test_flush_also_forgets_what_the_index_only_counts(apps: Apps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the cap there are no ids to clear."""
    app = gpu_app(apps, "stub", capabilities=set())
    monkeypatch.setattr(app.binding.store._blocked, "_listed_max", 2)
    for number in range(5):
        app.broker.actors["train"].send(number)
    assert blocked(app) == 5

    app.broker.flush("default")
    assert blocked(app) == 0


def test_flush_leaves_other_queues_entries(apps: Apps) -> None:
    app = gpu_app(apps, "stub", capabilities=set())
    app.actor(actor_name="elsewhere", queue_name="other", requires=["gpu"]).send()
    app.broker.actors["train"].send()

    app.broker.flush("default")
    assert [need.queue for need in app.binding.store.blocked_needs()] == ["other"]


def test_who_only_observes_refuses_nothing(apps: Apps) -> None:
    """`mode="observe"` reports; `on_blocked="raise"` counts from `enforce` on."""
    app = gpu_app(apps, "stub", capabilities=set(), mode="observe", on_blocked="raise")
    app.broker.actors["train"].send()
    enforcing = gpu_app(apps, "stub", capabilities=set(), on_blocked="raise")
    with pytest.raises(CapabilityUnavailable):
        enforcing.broker.actors["train"].send()
