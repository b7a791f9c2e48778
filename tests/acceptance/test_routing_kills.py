"""Many dispatchers share a directory; whoever is killed, no worker ever runs more than it may (issue 8)."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from dramatiq_handshake.routing import RedisWorkerDirectory
from tests.support.apps.routing import EVENTS, LIMIT, PREFIX, TODO, WORKERS
from tests.support.poll import eventually
from tests.support.valkey import OwnValkey
from tests.support.workers import ChildProcess

JOBS = 5_000
SEED = 20_260_101
RESTART_AT = 1_500


@pytest.mark.timeout(300)
def test_no_worker_exceeds_its_limit_whoever_is_killed(own_valkey: OwnValkey, tmp_path: Path) -> None:
    """8 dispatchers, 4 workers of 2 at once, 5,000 jobs; kills everywhere, and the server restarts once.

    The order of events is the server's own, so an overlap can't hide behind a clock.
    """
    folder = tmp_path / "sockets"
    folder.mkdir()
    fleet = ChildProcess(
        "the fleet",
        [
            sys.executable,
            "-m",
            "tests.support.apps.routing",
            own_valkey.url,
            str(SEED),
            str(JOBS),
            str(folder),
        ],
        tmp_path / "fleet.log",
    )
    try:
        eventually(
            lambda: own_valkey.client.exists(TODO) and own_valkey.client.zcard(TODO) < JOBS - RESTART_AT,
            120,
            state=lambda: fleet.text,
        )
        own_valkey.restart()
        assert fleet.wait(150) == 0, fleet.text
    finally:
        fleet.kill9()

    events = [json.loads(event.partition(b" ")[2]) for event in own_valkey.client.lrange(EVENTS, 0, -1)]
    assert most_at_once(events) == dict.fromkeys(WORKERS, LIMIT), "never above, and the limit was reached"
    assert {job.partition(".")[0] for what, _, job in events if what == "end"} == {
        str(number) for number in range(JOBS)
    }
    happened = Counter(what for what, _, _ in events)
    assert happened["died: chosen"] >= 5
    assert happened["died: sent"] >= 5
    killed = Counter(who for what, who, _ in events if what == "killed")
    assert sum(killed[worker] for worker in WORKERS) >= 4, killed
    directory = RedisWorkerDirectory(own_valkey.client, prefix=PREFIX)
    assert {each.worker_id: each.active_jobs for each in directory.list()} == dict.fromkeys(WORKERS, 0)
    directory.close()


def most_at_once(events: list[tuple[str, str, str]]) -> dict[str, int]:
    """The most jobs that ran at once on each worker; what is killed runs no more."""
    running: dict[str, set[str]] = {worker: set() for worker in WORKERS}
    most = dict.fromkeys(WORKERS, 0)
    for what, worker, job in events:
        if what == "start":
            running[worker].add(job)
            most[worker] = max(most[worker], len(running[worker]))
        elif what == "end":
            running[worker].discard(job)
        elif what == "killed" and worker in running:
            running[worker].clear()
    return most
