"""Web servers that fork after import, as gunicorn and uwsgi do (field note 24)."""

from __future__ import annotations

from collections import Counter

from dramatiq_handshake import HandshakeEngine
from tests.support.apps import forking
from tests.support.ledger import Ledger
from tests.support.queues import Queues
from tests.support.workers import Fleet

RUN = "import runpy; runpy.run_module('tests.support.apps.forking', run_name='__main__')"


def test_parent_and_forked_children_all_send_and_have_no_thread_of_ours(
    fleet: Fleet, ledger: Ledger, queues: Queues, operator: HandshakeEngine
) -> None:
    """With sends going on and every lock of ours held at the fork, each process plans, lists and sends."""
    fleet.start("cpu")

    web = fleet.run("web", RUN)

    assert web.wait(forking.PATIENCE_S + 10) == 0, web.text
    assert "threads: ['MainThread']" in web.text
    sent_by = ["parent before", "parent after", *(f"child {n}" for n in range(forking.CHILDREN))]
    assert operator.blocked().total == forking.SENDS * len(sent_by)
    assert queues.depth("ml.requires.gpu") == forking.SENDS * len(sent_by)
    planes = [plane.instance_id for plane in operator.fleet().control_planes]
    assert len(planes) == 1 + forking.CHILDREN, "each process is a control plane of its own"

    fleet.start("gpu", capabilities=["gpu"])

    queues.wait_empty()
    greeted = Counter(entry.data for entry in ledger.entries(actor="greet") if entry.data != "thread")
    assert greeted == dict.fromkeys(sent_by, forking.SENDS)
    assert Counter(entry.data for entry in ledger.entries(actor="train")) == greeted
    assert set(ledger.runs().values()) == {1}
