"""The directory when its server is away or crashes, when answers get lost, and over a fork."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import redis

from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.routing import DuplicateWorker, LeastActiveWorkerRouter
from dramatiq_handshake.routing.redis_calls import Calls
from tests.contract.directories import active_jobs, job
from tests.integration.routing.conftest import OpenImpatient
from tests.support.poll import eventually
from tests.support.valkey import OwnValkey


def test_what_a_server_lost_is_stated_again(valkey: redis.Redis, open_impatient: OpenImpatient) -> None:
    """By the worker's beat, which enters it again, and by the dispatcher's renewal."""
    directory = open_impatient(valkey)
    lease = directory.register("gpu-1", ["train", "evaluate"])
    directory.track_job_start("gpu-1", "sent")
    directory.track_job_start("gpu-1", "begun")
    lease.begin("begun")
    valkey.flushall()
    assert directory.list() == ()

    lease.heartbeat()
    assert active_jobs(directory) == {"gpu-1": 1}
    directory._dispatches.renew()
    (worker,) = directory.list()
    assert (worker.active_jobs, worker.task_types) == (2, {"train", "evaluate"})
    lease.finish("begun")
    directory.track_job_end("sent")
    assert active_jobs(directory) == {"gpu-1": 0}
    lease.stop()
    assert directory.list() == ()


def test_a_crash_of_the_server_changes_nothing(own_valkey: OwnValkey, open_impatient: OpenImpatient) -> None:
    """Killed and started again with its append-only file."""
    directory = open_impatient(own_valkey.client)
    lease = directory.register("gpu-1", ["train"])
    directory.register("gpu-2", ["train"])
    router = LeastActiveWorkerRouter(directory, max_concurrency=1)
    router.select(job("a"))
    lease.begin("a")
    before = directory.list()
    own_valkey.kill9()
    with pytest.raises(RegistryUnavailable, match="can't be reached"):
        directory.list()
    own_valkey.start()

    assert eventually(lambda: _answer(directory.list)) == before
    assert router.select(job("b")) == "gpu-2"
    lease.finish("a")
    assert active_jobs(directory) == {"gpu-1": 0, "gpu-2": 1}


def _answer(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except RegistryUnavailable:
        return None


def test_while_the_server_is_away_nothing_is_invented(
    own_valkey: OwnValkey, open_impatient: OpenImpatient
) -> None:
    """Questions raise; an end does not, since the job is over whatever the server says, and is told later."""
    directory = open_impatient(own_valkey.client)
    lease = directory.register("gpu-1", ["train"])
    for name in ("sent", "begun", "ended before it was tracked"):
        directory.track_job_start("gpu-1", name)
    lease.begin("begun")
    directory.track_job_end("ended before it was tracked")
    own_valkey.stop()

    for call in (
        directory.list,
        lambda: directory.list_capable("train"),
        lambda: LeastActiveWorkerRouter(directory).select(job()),
        lambda: directory.track_job_start("gpu-1", "new"),
        lambda: directory.get_worker_for_job("sent"),
        lambda: directory.heartbeat("gpu-1"),
        lambda: directory.register("gpu-2", ["train"]),
        lambda: lease.begin("new"),
        lease.heartbeat,
    ):
        with pytest.raises(RegistryUnavailable, match=r"the fleet registry at 127\.0\.0\.1"):
            call()
    lease.finish("begun")
    for name in ("sent", "begun", "unknown"):
        directory.track_job_end(name)
    own_valkey.start()

    eventually(lambda: _answer(lambda: active_jobs(directory)) == {"gpu-1": 2})
    lease.heartbeat()
    assert active_jobs(directory) == {"gpu-1": 1}
    directory._dispatches.renew()
    assert active_jobs(directory) == {"gpu-1": 0}


def test_a_slot_whose_begin_was_not_answered_is_given_back(
    valkey: redis.Redis, open_impatient: OpenImpatient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server did it, the worker did not hear of it and refused the job."""
    directory = open_impatient(valkey)
    lease = directory.register("gpu-1", ["train"])
    directory.track_job_start("gpu-1", "a")
    begin = lease._registration.begin

    def unanswered(*arguments: Any) -> None:
        begin(*arguments)
        raise RegistryUnavailable("the answer was lost")

    monkeypatch.setattr(lease._registration, "begin", unanswered)
    with pytest.raises(RegistryUnavailable):
        lease.begin("a")
    directory.track_job_end("a")
    assert active_jobs(directory) == {"gpu-1": 1}

    lease.heartbeat()
    assert active_jobs(directory) == {"gpu-1": 0}


def test_a_registration_that_was_not_answered_can_be_made_again(
    valkey: redis.Redis, open_impatient: OpenImpatient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not stand in its own way; another process, or a third attempt, is refused as ever."""
    directory, other = open_impatient(valkey), open_impatient(valkey)
    call = Calls.call

    def unanswered(calls: Calls, *arguments: Any) -> None:
        call(calls, *arguments)
        raise RegistryUnavailable("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(Calls, "call", unanswered)
        for _ in range(2):
            with pytest.raises(RegistryUnavailable):
                directory.register("gpu-1", ["train"])
    with pytest.raises(DuplicateWorker):
        other.register("gpu-1", ["train"])

    with directory.register("gpu-1", ["train"]) as lease:
        lease.heartbeat()
        with pytest.raises(DuplicateWorker):
            directory.register("gpu-1", ["train"])
        assert active_jobs(directory) == {"gpu-1": 0}
    assert directory.list() == ()


def test_a_forked_child_dispatches_for_itself_only(
    valkey: redis.Redis, open_impatient: OpenImpatient
) -> None:
    """It neither renews nor ends what its parent has under way, and has connections of its own."""
    directory = open_impatient(valkey)
    lease = directory.register("gpu-1", ["train"])
    directory.track_job_start("gpu-1", "parent's")
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            assert directory._dispatches._held == {}
            lease.stop()
            LeastActiveWorkerRouter(directory).select(job("child's"))
            directory.track_job_start("gpu-1", "child's")
            directory._dispatches.renew()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0

    assert active_jobs(directory) == {"gpu-1": 2}
    assert directory.get_worker_for_job("child's") == "gpu-1"
    directory.track_job_end("child's")
    directory.track_job_end("parent's")
    assert active_jobs(directory) == {"gpu-1": 0}
