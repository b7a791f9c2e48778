"""The server of broker and registry goes away under a working fleet, and comes back (field notes 6, 36)."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
from dramatiq.brokers.redis import RedisBroker
from redis.backoff import NoBackoff
from redis.retry import Retry

from dramatiq_handshake import HandshakeEngine
from tests.conftest import AppFactory
from tests.support.ledger import Ledger
from tests.support.poll import eventually
from tests.support.queues import Queues
from tests.support.valkey import OwnValkey
from tests.support.workers import Fleet

#: So short that an advertisement does not outlive the outage: what is seen afterwards is new.
SHORT_LEASE = {"heartbeat_interval_ms": 300, "heartbeat_ttl_ms": 1000}
DELAY_MS = 6_000
EACH = 20


def test_a_live_worker_loses_nothing_when_its_server_restarts(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, own_valkey: OwnValkey, tmp_path: Path
) -> None:
    """What ran, was prefetched or was held until due is finished exactly once, and the outage is told once.

    The rebuilt consumers of plain Dramatiq forget all that they had fetched.
    """
    gate = tmp_path / "gate"
    queues = Queues(own_valkey.client)
    worker = fleet.start(
        "steady",
        capabilities=["gpu"],
        handshake=SHORT_LEASE,
        broker_url=own_valkey.url,
        env={"dramatiq_restart_delay": "200"},
    )
    app = make_app(own_valkey.url)
    running = [app["hold"].send(str(gate)).message_id for _ in range(2)]
    ledger.wait_for(2, event="started", actor="hold")
    waiting = [app[name].send(n).message_id for n in range(EACH) for name in ("greet", "train")]
    delayed = [app["greet"].send_with_options(args=(n,), delay=DELAY_MS).message_id for n in range(EACH)]
    eventually(lambda: not queues.depth("default.DQ"), what="the worker holds all that is delayed")
    eventually(lambda: queues.unacknowledged() > EACH + 2, what="it has prefetched beyond what runs")
    assert ledger.count() == 0

    own_valkey.stop()
    worker.wait_output("registry.unavailable")
    impatient = RedisBroker(client=_impatient_client(own_valkey))
    with pytest.raises(redis.ConnectionError):
        make_app(own_valkey.url, broker=impatient)["greet"].send("nobody can take this")
    own_valkey.start()

    with HandshakeEngine(own_valkey.url) as engine:
        eventually(lambda: engine.fleet().workers, what="the worker is advertised again")
    gate.touch()
    sent = [*running, *waiting, *delayed]
    runs = ledger.wait_for_messages(sent, 30)
    queues.wait_empty()
    assert set(runs) == set(sent)
    assert {message: n for message, n in runs.items() if n != 1} == {}
    assert queues.dead_letters() == {}
    assert len(worker.said("registry.unavailable")) == 1
    assert len(worker.said("registry.restored")) == 1


def _impatient_client(server: OwnValkey) -> redis.Redis:
    """As redis-py would without its retries, which take seconds before they give up."""
    return redis.Redis(port=server.port, retry=Retry(NoBackoff(), 0))
