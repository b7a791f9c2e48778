"""What a lease says when the directory can't be reached, is forked, or was taken over."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection

import pytest

from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.routing import DuplicateWorker, UnknownWorker
from dramatiq_handshake.routing.lease import Lease
from tests.support.poll import eventually
from tests.support.threads import our_threads


class Book:
    """A registration that writes down what it is told, and fails while told to."""

    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []
        self.failure: Exception | None = None

    def _note(self, *what: object) -> None:
        if self.failure is not None:
            raise self.failure
        self.said.append(what)

    def beat(self, timestamp: int | None, running: Collection[str], ended: Collection[str]) -> None:
        self._note("beat", sorted(running), sorted(ended))

    def begin(self, job_id: str, running: Collection[str], ended: Collection[str]) -> None:
        self._note("begin", job_id, sorted(running), sorted(ended))

    def finish(self, job_id: str) -> None:
        self._note("finish", job_id)

    def leave(self) -> None:
        self._note("leave")


AWAY = RegistryUnavailable("it is away")


def test_every_step_states_what_else_runs() -> None:
    book = Book()
    lease = Lease("w", book, None)
    lease.begin("a")
    lease.begin("b")
    lease.heartbeat()
    lease.finish("a")
    lease.begin("c")

    assert book.said == [
        ("begin", "a", [], []),
        ("begin", "b", ["a"], []),
        ("beat", ["a", "b"], []),
        ("finish", "a"),
        ("begin", "c", ["b"], []),
    ]


@pytest.mark.parametrize("next_step", ["beat", "begin"])
def test_an_end_that_nobody_heard_is_told_by_the_next_step(next_step: str) -> None:
    """And by one more, where that fails as well; then no more."""
    book = Book()
    lease = Lease("w", book, None)
    lease.begin("a")
    book.failure = AWAY
    lease.finish("a")
    with pytest.raises(RegistryUnavailable):
        lease.heartbeat()
    book.failure = None
    if next_step == "beat":
        lease.heartbeat()
    else:
        lease.begin("b")
    lease.heartbeat()

    assert book.said[1][-1] == ["a"]
    assert book.said[2][-1] == []


def test_a_job_whose_begin_failed_does_not_run() -> None:
    book = Book()
    lease = Lease("w", book, None)
    book.failure = AWAY
    with pytest.raises(RegistryUnavailable), lease.running("a"):
        raise AssertionError("it must not run")
    book.failure = None
    lease.heartbeat()

    assert book.said == [("beat", [], ["a"])], "should only the answer have been lost, it ends"


def test_a_job_whose_begin_failed_may_begin_later() -> None:
    book = Book()
    lease = Lease("w", book, None)
    book.failure = AWAY
    with pytest.raises(RegistryUnavailable):
        lease.begin("a")
    book.failure = None
    lease.begin("a")
    lease.heartbeat()

    assert book.said == [("begin", "a", [], []), ("beat", ["a"], [])]


def test_stopping_where_the_directory_is_away_warns_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    book = Book()
    lease = Lease("w", book, None)
    book.failure = AWAY
    lease.stop()
    book.failure = None
    lease.stop()

    assert "could not leave its directory and goes stale: it is away" in caplog.text
    assert book.said == []
    with pytest.raises(UnknownWorker):
        lease.heartbeat()


def test_its_beat_survives_an_outage_and_ends_with_the_lease() -> None:
    book = Book()
    book.failure = AWAY
    before = our_threads()
    lease = Lease("w", book, 1)
    (thread,) = our_threads() - before
    book.failure = RuntimeError("and worse")
    book.failure = None
    eventually(lambda: len(book.said) > 2)
    lease.stop()

    assert not thread.is_alive()
    assert book.said[-1] == ("leave",)


def test_its_beat_ends_where_another_took_over(caplog: pytest.LogCaptureFixture) -> None:
    """Said once, as an error: two processes think that they are this worker."""
    book = Book()
    book.failure = DuplicateWorker("w")
    before = our_threads()
    lease = Lease("w", book, 1)
    eventually(lambda: not our_threads() - before)

    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "'w' was silent for so long that another registration took over its id" in caplog.text
    book.failure = None
    lease.stop()


def test_a_forked_child_is_not_the_worker() -> None:
    """It neither beats nor leaves for its parent."""
    book = Book()
    lease = Lease("w", book, None)
    lease.begin("a")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        lease.stop()
        lease.finish("a")
        os.write(writer, repr(book.said).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        assert told.read() == repr(book.said)
    os.waitpid(pid, 0)

    lease.stop()
    assert book.said == [("begin", "a", [], []), ("leave",)]
