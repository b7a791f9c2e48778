"""The demo's ledger: lines of several processes, never torn, never mixed up."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dramatiq_handshake.cli.demo.ledger import BOOTED, RAN, SENT, Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An empty ledger's file."""
    file = tmp_path / "ledger"
    file.touch()
    return file


def test_what_is_written_is_read_by_every_process(path: Path) -> None:
    worker, producer = Ledger(path, "gpu"), Ledger(path, "producer")
    producer.sent("train", "m-1", "mnist")
    worker.booted(queues=["ml"], capabilities=["gpu"], actors=["train"])
    worker.ran("train", "m-1", "mnist")
    (sent,), (booted,), (ran,) = (producer.entries(event) for event in (SENT, BOOTED, RAN))
    assert (sent.process, sent.actor, sent.message_id, sent.argument) == ("producer", "train", "m-1", "mnist")
    assert (booted.process, booted.queues, booted.capabilities) == ("gpu", ["ml"], ["gpu"])
    assert ran.process == "gpu"
    assert ran.ms_after(sent) >= ran.ms_after(booted) >= 0


def test_entries_are_picked_by_process_and_message(path: Path) -> None:
    ledgers = [Ledger(path, name) for name in ("a", "b")]
    for ledger in ledgers:
        for message in ("m-1", "m-2"):
            ledger.ran("greet", message, "")
    assert len(ledgers[0].entries(RAN)) == 4
    assert [entry.message_id for entry in ledgers[0].entries(RAN, process="b")] == ["m-1", "m-2"]
    assert [entry.process for entry in ledgers[0].entries(RAN, message_id="m-2")] == ["a", "b"]


def test_a_line_that_is_still_being_written_is_not_read(path: Path) -> None:
    ledger = Ledger(path, "a")
    ledger.ran("greet", "m-1", "")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])
    assert len(ledger.entries(RAN)) == 1


def test_lines_of_many_writers_stay_whole(path: Path) -> None:
    def write(name: str) -> None:
        for number in range(50):
            Ledger(path, name).ran("greet", f"{name}-{number}", "x" * 200)

    writers = [threading.Thread(target=write, args=(str(number),)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len({entry.message_id for entry in Ledger(path, "reader").entries(RAN)}) == 400
