"""SIGTERM in the middle of the work: nothing is lost, nothing runs twice, and the fleet knows at once."""

from __future__ import annotations

from pathlib import Path

from dramatiq_handshake import HandshakeEngine
from tests.conftest import AppFactory
from tests.support.ledger import Ledger
from tests.support.poll import eventually
from tests.support.queues import Queues
from tests.support.workers import Fleet

EACH = 30


def test_every_message_runs_once_across_a_restart_under_load(
    fleet: Fleet,
    make_app: AppFactory,
    ledger: Ledger,
    queues: Queues,
    operator: HandshakeEngine,
    tmp_path: Path,
) -> None:
    """Running, prefetched and waiting work in a base queue, a GPU lane, a need's lane, and a delayed one.

    While it drains, the worker says so and takes nothing more; when it has gone, so has its advertisement.
    """
    gate = tmp_path / "gate"
    # It consumes ml without a GPU and without the actor `tidy`: so that one has a need's lane.
    fleet.start("old", queues=["ml"], wait=False)
    leaving = fleet.start(
        "leaving",
        capabilities=["gpu"],
        extras=["tidy"],
        env={"dramatiq_queue_prefetch": "16"},
        shutdown_timeout_ms=20_000,
        wait=False,
    )
    fleet.wait_ready()
    app = make_app(extras=["tidy"])
    running = [app["hold"].send(str(gate)).message_id for _ in range(2)]
    ledger.wait_for(2, event="started", actor="hold")
    waiting = [app["tidy"].send("opens the lane").message_id]
    (need_lane,) = (queue for queue in queues.unfinished() if queue.startswith("ml.need."))
    leaving.wait_output(f"Serving lane {need_lane!r}")
    # All that a lane holds is there when it looks: so it prefetches more than it can hand out.
    leaving.pause()
    waiting += [app[name].send(n).message_id for n in range(EACH) for name in ("train", "tidy")]
    leaving.resume()
    eventually(lambda: queues.unacknowledged() > len(running) + 10, state=queues.unacknowledged)
    waiting += [app["greet"].send(n).message_id for n in range(EACH)]
    app["greet"].send_with_options(args=("much later",), delay=600_000)
    eventually(lambda: not queues.depth("default.DQ"), what="the delayed message is in its hands")

    leaving.request_stop()

    eventually(
        lambda: sorted(str(worker.state) for worker in operator.fleet()) == ["draining", "up"],
        what="the leaving worker is shown as draining",
        state=operator.fleet,
    )
    assert ledger.count() == 0, "what runs is given its time, and nothing else begins"
    gate.touch()
    assert leaving.wait() == 0
    assert [worker.state for worker in operator.fleet()] == ["up"]
    assert set(ledger.runs()) == set(running), "and ends in it"
    assert queues.unacknowledged() == 0, "all that was prefetched went back"
    assert sum(queues.waiting().values()) == len(waiting) + 1

    fleet.start("next", capabilities=["gpu"], extras=["tidy"])

    runs = ledger.wait_for_messages([*running, *waiting])
    eventually(lambda: list(queues.unfinished()) == ["default.DQ"], state=queues.unfinished)
    assert set(runs.values()) == {1}
    assert set(runs) == {*running, *waiting}
    assert ledger.workers() == {"leaving", "next"}
    assert queues.dead_letters() == {}
    assert fleet.alarms == []
