"""The registry fails while the broker is fine: work goes on as plain Dramatiq would do it (field note 6)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest

from dramatiq_handshake import HandshakeEngine, RegistryUnavailable, get_engine
from tests.conftest import AppFactory
from tests.support.ledger import Ledger
from tests.support.poll import eventually
from tests.support.queues import Queues
from tests.support.valkey import OwnValkey, free_port
from tests.support.workers import Fleet

SENDS = 200
#: What one exchange with the registry may take, as the plugin is told here, and what a busy machine adds.
TIMEOUT_MS = 300
SLACK_S = 10.0


def _dead(server: OwnValkey) -> None:
    server.stop()


def _silent(server: OwnValkey) -> None:
    server.pause()


def _read_only(server: OwnValkey) -> None:
    server.client.replicaof("127.0.0.1", free_port())


@pytest.mark.parametrize(
    ("fail", "explained"),
    [
        (_dead, "can't be reached"),
        (_silent, f"did not answer within {TIMEOUT_MS} ms"),
        (_read_only, "takes no writes: it is a replica"),
    ],
    ids=["dead", "silent", "read-only"],
)
def test_without_a_registry_work_goes_on_and_the_outage_is_told_once(
    fleet: Fleet,
    make_app: AppFactory,
    ledger: Ledger,
    queues: Queues,
    own_valkey: OwnValkey,
    caplog: pytest.LogCaptureFixture,
    fail: Callable[[OwnValkey], None],
    explained: str,
) -> None:
    """Producer and worker boot into the outage: sends wait for it once at most, and everything runs.

    What requires a GPU does so without the registry as well. When it is back, the worker is advertised.
    """
    fail(own_valkey)
    registry = {"url": own_valkey.url, "registry_timeout_ms": TIMEOUT_MS}
    worker = fleet.start("gpu", capabilities=["gpu"], handshake=registry)
    app = make_app(**registry)

    with caplog.at_level(logging.WARNING, logger="dramatiq_handshake"):
        began = time.monotonic()
        sent = [app[name].send(n).message_id for n in range(SENDS // 2) for name in ("greet", "train")]
        took_s = time.monotonic() - began

    assert took_s < TIMEOUT_MS / 1000 + SLACK_S, "200 sends wait for one timeout, not for 200"
    assert set(ledger.wait_for_messages(sent, 30).values()) == {1}
    queues.wait_empty()
    assert queues.dead_letters() == {}
    (warning,) = [record.message for record in caplog.records if "registry.unavailable" in record.message]
    assert explained in warning
    (line,) = worker.said("registry.unavailable")
    assert explained in line
    if fail is not _read_only:
        with pytest.raises(RegistryUnavailable):
            get_engine(app.broker).fleet()

    _heal(own_valkey, fail)

    with HandshakeEngine(own_valkey.url) as engine:
        eventually(lambda: engine.fleet().workers, 30, what="the worker is advertised")
    worker.wait_output("registry.restored")
    assert worker.alarms == []


def _heal(server: OwnValkey, failed: Callable[[OwnValkey], None]) -> None:
    if failed is _dead:
        server.start()
    elif failed is _silent:
        server.resume()
    else:
        server.client.replicaof("no", "one")
