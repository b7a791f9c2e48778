"""`HandshakeEngine` itself: its arguments, its manners, and a registry that is away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError

import pytest

from dramatiq_handshake import release
from dramatiq_handshake.decide.events import Diagnostic
from dramatiq_handshake.engine import HandshakeEngine, core
from dramatiq_handshake.errors import ConfigurationError, RegistryUnavailable
from dramatiq_handshake.storage import MemoryStore
from dramatiq_handshake.storage.base import BlockedNeed, ControlPlaneRecord, WorkerRecord
from tests.support.advertising import RecordStore, advertise, our_descriptor


class Away(MemoryStore):
    """A registry that does not answer."""

    def scan_advertisements(self) -> tuple[WorkerRecord, ...]:
        raise RegistryUnavailable("no answer")

    workers = scan_advertisements

    def control_planes(self) -> tuple[ControlPlaneRecord, ...]:
        raise RegistryUnavailable("no answer")

    def blocked_needs(self) -> tuple[BlockedNeed, ...]:
        raise RegistryUnavailable("no answer")


@pytest.mark.parametrize(
    "ask",
    [
        HandshakeEngine.workflow_directory,
        HandshakeEngine.announced_workflows,
        HandshakeEngine.fleet,
        HandshakeEngine.blocked,
    ],
)
def test_a_registry_that_is_away_is_an_error_and_never_empty(
    ask: Callable[[HandshakeEngine], object],
) -> None:
    with pytest.raises(RegistryUnavailable):
        ask(HandshakeEngine(store=Away()))


def test_without_a_registry_every_answer_says_unsupported() -> None:
    with HandshakeEngine() as engine:
        directory, fleet, blocked = engine.workflow_directory(), engine.fleet(), engine.blocked()
    assert (directory.supported, fleet.supported, blocked.supported) == (False, False, False)
    assert directory.detail == fleet.detail
    assert (list(fleet), list(blocked), blocked.summary) == ([], [], "There is no fleet registry to ask.")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ({"url": "redis://localhost", "store": MemoryStore()}, "leave one out"),
        ({"url": "localhost:6379"}, "redis://"),
        ({"prefix": ""}, "non-empty"),
        ({"prefix": None}, "non-empty"),
        ({"namespace": "a:b"}, "without ':'"),
        ({"namespace": 5}, "tenant's name"),
        ({"heartbeat_ttl_ms": 0}, "milliseconds"),
        ({"heartbeat_ttl_ms": True}, "milliseconds"),
        ({"heartbeat_ttl_ms": "35"}, "milliseconds"),
    ],
)
def test_a_wrong_argument_is_refused_at_once_with_what_to_do(arguments: dict[str, object], hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint):
        HandshakeEngine(**arguments)  # type: ignore[arg-type]  # what the test is about


def test_a_store_that_was_handed_in_stays_open() -> None:
    class Closing(MemoryStore):
        closed = False

        def close(self) -> None:
            self.closed = True

    store = Closing()
    with HandshakeEngine(store=store) as engine:
        engine.fleet()
    assert not store.closed


def test_asking_announces_nothing() -> None:
    """Spec: an engine beside a worker announces nothing of its own; a reader is seen by nobody."""
    store = MemoryStore()
    engine = HandshakeEngine(store=store)
    engine.workflow_directory()
    engine.fleet()
    engine.blocked()
    assert (store.scan_advertisements(), store.control_planes()) == ((), ())


def test_a_source_tree_that_nobody_installed_still_has_an_observer(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(release, "version", not_installed)
    monkeypatch.setattr(core, "own_release", release.own_release.__wrapped__)
    descriptor = core.observer_descriptor.__wrapped__()
    assert descriptor.sdk is not None
    assert (descriptor.sdk.name, descriptor.sdk.version) == ("dramatiq-handshake", "0")


def test_findings_are_logged_where_nobody_subscribed(caplog: pytest.LogCaptureFixture) -> None:
    store = RecordStore(WorkerRecord("ml", "bad", b"{", None, False))
    HandshakeEngine(store=store).fleet()
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "dramatiq_handshake.engine")
    assert record.getMessage().startswith("descriptor.invalid: advertisement ml:bad skipped")


def test_a_subscriber_that_fails_does_not_cost_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: Diagnostic) -> None:
        raise RuntimeError("not my day")

    store = MemoryStore()
    advertise(store, our_descriptor("py-1"))
    advertise(store, "{", instance="bad")
    fleet = HandshakeEngine(store=store, on_diagnostic=broken).fleet()
    assert [worker.instance_id for worker in fleet] == ["bad", "py-1"]
    assert "not my day" in caplog.text
