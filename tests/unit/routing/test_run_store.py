"""Where runs are kept: within bounds, and told of."""

from __future__ import annotations

import pytest

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing import (
    EventKind,
    InMemoryOrchestratorStore,
    RunEvent,
    RunSnapshot,
    RunStatus,
)


def run(run_id: str, status: RunStatus = RunStatus.RUNNING) -> RunSnapshot:
    return RunSnapshot(run_id=run_id, tasks=(), status=status, started_at=0)


def event(run_id: str, at: int = 0) -> RunEvent:
    return RunEvent(run_id=run_id, kind=EventKind.RUN_STARTED, at=at)


def test_the_newest_snapshot_and_all_events_are_kept() -> None:
    """A run that is over is finished."""
    store = InMemoryOrchestratorStore()
    store.save(run("a"), [event("a", 1)])
    store.save(run("b"), [event("b", 2)])
    store.save(run("a", RunStatus.FAILED), [event("a", 3), event("a", 4)])
    assert store.get("a") == run("a", RunStatus.FAILED)
    assert store.get("unknown") is None
    assert store.unfinished() == (run("b"),)
    assert [each.at for each in store.events("a")] == [1, 3, 4]
    assert store.events("unknown") == ()


def test_runs_that_are_over_are_dropped_in_the_order_of_their_end() -> None:
    """Those that are not over never are."""
    store = InMemoryOrchestratorStore(max_runs=2)
    for number in range(5):
        store.save(run(f"live-{number}"), [])
    for number in range(4):
        store.save(run(f"over-{number}", RunStatus.SUCCEEDED), [event(f"over-{number}")])
    store.save(run("over-3", RunStatus.SUCCEEDED), [])
    assert len(store.unfinished()) == 5
    assert [number for number in range(4) if store.get(f"over-{number}")] == [2, 3]
    assert store.events("over-1") == ()


def test_a_run_with_many_events_keeps_the_newest() -> None:
    """A task that is retried for ever does not fill the memory."""
    store = InMemoryOrchestratorStore(max_events=3)
    for at in range(10):
        store.save(run("a"), [event("a", at)])
    assert [each.at for each in store.events("a")] == [7, 8, 9]


def test_a_listener_hears_every_event_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    """In their order, after the snapshot was kept."""
    heard: list[tuple[int, bool]] = []

    def listen(each: RunEvent) -> None:
        heard.append((each.at, store.get(each.run_id) is not None))
        raise RuntimeError("the listener is broken")

    store = InMemoryOrchestratorStore(on_event=listen)
    store.save(run("a"), [event("a", 1), event("a", 2)])
    assert heard == [(1, True), (2, True)]
    assert "the listener failed at run.started" in caplog.text


@pytest.mark.parametrize("bound", [0, -1, True, "10"])
@pytest.mark.parametrize("name", ["max_runs", "max_events"])
def test_bounds_are_positive_numbers(name: str, bound: object) -> None:
    """Anything else is a configuration error."""
    with pytest.raises(ConfigurationError, match=name):
        InMemoryOrchestratorStore(**{name: bound})  # type: ignore[arg-type]  # the mistake under test
