"""What an actor requires, its worker has, with processes of one settings module (field notes 14, 30, 33)."""

from __future__ import annotations

from dramatiq_handshake import HandshakeEngine
from tests.conftest import AppFactory
from tests.support.ledger import Ledger
from tests.support.monitor import CommandLog
from tests.support.poll import eventually
from tests.support.queues import Queues
from tests.support.workers import Fleet


def test_a_required_gpu_is_required_of_the_only_worker_alive(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, operator: HandshakeEngine
) -> None:
    """A worker without a GPU runs what it can of the queue; what requires a GPU waits for one."""
    cpu = fleet.start("cpu", extras=["tidy"])
    app = make_app(extras=["tidy"])

    trained = app["train"].send("digits")
    tidied = [app["tidy"].send(n).message_id for n in range(10)]

    ledger.wait_for_messages(tidied)
    (blocked,) = operator.blocked()
    assert (blocked.message_id, blocked.missing) == (trained.message_id, ("gpu",))
    assert blocked.reason == "blocked: no compatible worker (requires gpu)"
    assert queues.waiting() == {blocked.place: 1}

    fleet.start("gpu", capabilities=["gpu"])

    (ran,) = ledger.wait_for(1, actor="train")
    assert (ran.worker, ran.message_id, ran.queue) == ("gpu", trained.message_id, "ml")
    queues.wait_empty()
    assert ledger.count(actor="train") == 1
    assert ledger.workers(actor="tidy") == {"cpu"}
    assert queues.dead_letters() == {}
    assert cpu.alarms == []


def test_of_one_settings_module_only_the_gpu_process_claims_the_gpu(
    fleet: Fleet, ledger: Ledger, queues: Queues, operator: HandshakeEngine
) -> None:
    """Web, CPU and GPU processes import the same module; the environment alone tells them apart."""
    fleet.start("cpu", wait=False)
    fleet.start("gpu", capabilities=["gpu"], wait=False)
    fleet.wait_ready()
    web = fleet.run("web", "from tests.support.apps.fleet import application; application['train'].send(1)")
    assert web.wait() == 0, web.text

    (ran,) = ledger.wait_for(1, actor="train")

    assert ran.worker == "gpu"
    seen = operator.fleet()
    with_gpu = [worker.instance_id for worker in seen if "gpu" in worker.capabilities]
    assert len(seen) == 2
    assert [f"-{ran.pid}-" in instance for instance in with_gpu] == [True]
    assert not any(f"-{web.pid}-" in worker.instance_id for worker in seen), "who only sends is no worker"
    assert [f"-{web.pid}-" in plane.instance_id for plane in seen.control_planes] == [True]
    queues.wait_empty()


def test_a_gpu_worker_without_the_actor_carries_its_messages_away_once(
    fleet: Fleet, make_app: AppFactory, ledger: Ledger, queues: Queues, valkey_url: str
) -> None:
    """It consumes the lane of all GPU work; what it doesn't know moves once, and never returns there."""
    new = fleet.start("new gpu", capabilities=["gpu"], extras=["infer"])
    app = make_app(extras=["infer"])
    before = app["infer"].send("before the rollback")
    ledger.wait_for_messages([before.message_id])
    new.request_stop()
    assert new.wait() == 0

    with CommandLog(valkey_url) as log:
        sent = [app["infer"].send(n).message_id for n in range(10)]
        (lane,) = queues.waiting()
        old = fleet.start("old gpu", capabilities=["gpu"])
        eventually(lambda: queues.depth(lane) == 0, what="the GPU lane is empty")
        # The old worker goes on to serve it: what follows comes by it as well.
        trained = [app["train"].send(n).message_id for n in range(10)]
        ledger.wait_for_messages(trained)
        fleet.start("new gpu again", capabilities=["gpu"], extras=["infer"])
        runs = ledger.wait_for_messages([*sent, *trained])
        queues.wait_empty()

    assert set(runs.values()) == {1}
    assert ledger.workers(actor="infer") == {"new gpu", "new gpu again"}
    assert log.count("rpush", f"dramatiq:{lane} ") == 20, "each was brought to the GPU lane once"
    assert log.count("rpush", "dramatiq:ml.need.") == 10, "each moved once, to the lane of its need"
    assert log.count("rpush", "dramatiq:") == 30, "and nowhere else"
    assert queues.dead_letters() == {}
    assert old.alarms == []
