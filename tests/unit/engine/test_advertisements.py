"""Reading what the registry holds: total, and once per text."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.decide.directory import InvalidAdvertisement
from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.engine.advertisements import AdvertisementReader
from dramatiq_handshake.engine.scope import Scope
from dramatiq_handshake.storage.base import ControlPlaneRecord, WorkerRecord
from dramatiq_handshake.wire.descriptor import MAX_DESCRIPTOR_BYTES, WorkerDescriptor, parse_descriptor
from tests.support.advertising import our_descriptor


class CountingParser:
    """`parse_descriptor`, and what it was asked for."""

    def __init__(self) -> None:
        self.parsed: list[bytes] = []

    def __call__(self, raw: object) -> WorkerDescriptor:
        assert isinstance(raw, bytes)
        self.parsed.append(raw)
        return parse_descriptor(raw)


def record(
    instance: str = "py-1", token: str = "ml", descriptor: bytes | None = None, **more: object
) -> WorkerRecord:
    """A record as a store would give it."""
    if descriptor is None:
        descriptor = our_descriptor(instance).to_json().encode()
    return WorkerRecord(token, instance, descriptor, None, True, **more)  # type: ignore[arg-type]  # by name


def test_an_unchanged_descriptor_is_never_parsed_twice() -> None:
    parser = CountingParser()
    reader = AdvertisementReader(parser)
    for _ in range(3):
        read = reader.read([record("py-1"), record("py-2")])
        assert [worker.descriptor for worker in read.workers] == [
            our_descriptor("py-1"),
            our_descriptor("py-2"),
        ]
    assert len(parser.parsed) == 2


def test_one_worker_on_many_tokens_is_parsed_once() -> None:
    parser = CountingParser()
    AdvertisementReader(parser).read([record(token=token) for token in "abc"])
    assert len(parser.parsed) == 1


def test_a_changed_descriptor_is_parsed_again() -> None:
    reader = AdvertisementReader()
    reader.read([record()])
    changed = our_descriptor(capabilities=["gpu"])
    (worker,) = reader.read([record(descriptor=changed.to_json().encode())]).workers
    assert worker.descriptor == changed


def test_readers_of_all_and_readers_of_the_index_do_not_drive_out_each_other() -> None:
    parser = CountingParser()
    reader = AdvertisementReader(parser)
    everybody, ours = [record("py-1"), record("node-1")], [record("py-1")]
    for _ in range(4):
        reader.read(everybody)
        reader.read(ours)
    assert len(parser.parsed) == 2


def test_what_is_gone_is_forgotten() -> None:
    """Two readings later nothing of a worker is kept: a reader grows with the fleet, not with time."""
    parser = CountingParser()
    reader = AdvertisementReader(parser)
    for records in ([record("py-1")], [], [], [record("py-1")]):
        reader.read(records)
    assert len(parser.parsed) == 2


def test_a_bad_text_is_reported_once_however_often_and_wherever_it_is_read() -> None:
    reader = AdvertisementReader()
    bad = [record("bad", token, b'{"instanceId": "bad", "runtime": 5}') for token in ("ml", "cpu")]
    first, second = reader.read([*bad, record("py-1")]), reader.read([*bad, record("py-1")])
    (finding,) = first.fresh
    assert finding.code is Code.DESCRIPTOR_INVALID
    assert finding.attributes == {
        "token": "ml",
        "instance": "bad",
        "field": "runtime",
        "expected": "'node' or 'python'",
        "got": "the number 5",
    }
    assert second.fresh == ()
    for read in (first, second):
        (invalid,) = read.invalid_within(Scope())
        assert (invalid.source, invalid.field) == ("ml:bad", "runtime")
        assert read.workers[2].descriptor == our_descriptor()


def test_a_bad_text_that_changes_is_reported_again() -> None:
    reader = AdvertisementReader()
    assert reader.read([record("bad", descriptor=b"{")]).fresh
    assert reader.read([record("bad", descriptor=b"[]")]).fresh


def test_the_same_bad_text_of_two_workers_is_two_findings() -> None:
    read = AdvertisementReader().read([record("one", descriptor=b"{"), record("two", descriptor=b"{")])
    assert [finding.attributes["instance"] for finding in read.fresh] == ["one", "two"]


def test_a_descriptor_of_ten_megabytes_is_refused_by_its_size() -> None:
    huge = b'{"instanceId": "' + b"x" * (10 * 1024 * 1024) + b'"}'
    (worker,) = AdvertisementReader().read([record("huge", descriptor=huge)]).workers
    assert isinstance(worker.reading, InvalidAdvertisement)
    assert str(MAX_DESCRIPTOR_BYTES) in worker.reading.expected


def test_another_type_of_value_is_named() -> None:
    odd = WorkerRecord("ml", "odd", None, None, False, descriptor_kind="list")
    (worker,) = AdvertisementReader().read([odd]).workers
    assert isinstance(worker.reading, InvalidAdvertisement)
    assert (worker.reading.expected, worker.reading.got) == ("a text", "a value of the server's type 'list'")


def test_hostile_names_do_not_reach_a_log_line_as_they_are() -> None:
    hostile = "\x1b[31m\n" + "x" * 1_000_000
    (finding,) = AdvertisementReader().read([record(hostile, descriptor=b"{")]).fresh
    assert finding.reason.isprintable()
    assert len(finding.reason) < 1_000


@given(st.lists(st.tuples(st.binary(max_size=60), st.one_of(st.none(), st.binary(max_size=60))), max_size=6))
def test_no_bytes_break_the_reader(values: Iterable[tuple[bytes, bytes | None]]) -> None:
    """Each record is read, whatever it and its neighbours hold."""
    records = [
        WorkerRecord("ml", f"w{number}", descriptor, heartbeat, False)
        for number, (descriptor, heartbeat) in enumerate(values)
    ]
    good = record("py-1")
    planes = [ControlPlaneRecord(worker.instance_id, worker.descriptor_json or b"") for worker in records]
    read = AdvertisementReader().read([*records, good], planes)
    assert read.workers[-1].descriptor == our_descriptor()
    assert len(read.workers) == len(records) + 1
    assert len(read.control_planes) == len(planes)
