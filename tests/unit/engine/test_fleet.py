"""The fleet view: one row per worker, negotiated against this control plane."""

from __future__ import annotations

import json

import pytest

from dramatiq_handshake.decide.events import Code, Diagnostic
from dramatiq_handshake.decide.negotiate import Outcome
from dramatiq_handshake.engine import AnnouncedActor, FleetReport, HandshakeEngine
from dramatiq_handshake.storage import MemoryStore
from dramatiq_handshake.storage.base import ControlPlaneRecord, WorkerRecord, WorkerState
from dramatiq_handshake.wire.descriptor import V1_BASELINE
from tests.support.advertising import Clock, RecordStore, advertise, announced, our_descriptor


def fleet_of(store: MemoryStore, **options: object) -> FleetReport:
    """The fleet as an engine on this store sees it."""
    return HandshakeEngine(store=store, **options).fleet()  # type: ignore[arg-type]  # by name


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(now_ms=clock)


def test_a_worker_on_three_tokens_is_one_row_with_all_that_it_says(store: MemoryStore, clock: Clock) -> None:
    descriptor = our_descriptor(
        "py-1",
        announced("train", "2", requires=("gpu",), origin="vision"),
        announced("train", "1"),
        announced("sum", group="cpu"),
        capabilities=["saga", "gpu"],
        steps=["clean"],
        started_at=clock.now_ms - 60_000,
    )
    advertise(store, descriptor, "ml", "cpu", "audio", threads=4, in_flight=3)
    clock.advance(7_000)
    (worker,) = fleet_of(store)
    assert worker.model_dump() == {
        "instance_id": "py-1",
        "outcome": Outcome.COMPATIBLE,
        "code": None,
        "reason": "",
        "protocol": 1,
        "protocol_range": (1, 1),
        "capabilities": ("gpu", "saga"),
        "sdk": "dramatiq-handshake",
        "sdk_version": "0.1.0",
        "runtime": "python",
        "namespace": None,
        "started_at_ms": clock.now_ms - 67_000,
        "uptime_ms": 67_000,
        "tokens": ("audio", "cpu", "ml"),
        "shared": ("gpu", "saga"),
        "missing": (),
        "actors": (
            AnnouncedActor(name="sum", queue="cpu").model_dump(),
            AnnouncedActor(name="train", version="1", queue="ml").model_dump(),
            AnnouncedActor(
                name="train", version="2", queue="ml", requires=("gpu",), origin="vision"
            ).model_dump(),
            AnnouncedActor(name="clean", step=True).model_dump(),
        ),
        "state": "up",
        "threads": 4,
        "in_flight": 3,
        "last_beat_age_ms": 7_000,
        "partition": "default",
        "legacy": False,
        "foreign": False,
        "broker": "broker-1",
    }
    assert [actor.key for actor in worker.actors] == ["sum", "train@1", "train@2", "clean"]


def test_the_three_outcomes_against_the_demands_of_this_process(store: MemoryStore) -> None:
    advertise(store, our_descriptor("able", capabilities=["gpu", "saga"]))
    advertise(store, our_descriptor("less", capabilities=["saga"]))
    advertise(store, our_descriptor("newer", protocol=(2, 3), capabilities=["gpu"]))
    fleet = fleet_of(store, demands=lambda: ["gpu"])
    able, less, newer = fleet
    assert (able.outcome, able.code, able.missing, able.protocol) == (Outcome.COMPATIBLE, None, (), 1)
    assert (less.outcome, less.code) == (Outcome.DEGRADED, Code.CAPABILITY_UNAVAILABLE)
    assert (less.missing, less.shared, less.protocol) == (("gpu",), ("saga",), 1)
    assert "gpu" in less.reason
    assert (newer.outcome, newer.code) == (Outcome.INCOMPATIBLE, Code.PROTOCOL_INCOMPATIBLE)
    assert (newer.protocol, newer.protocol_range) == (None, (2, 3))
    assert newer.reason == "speaks wire protocol 2 to 3, this control plane 1"
    assert fleet.outcomes == {Outcome.COMPATIBLE: 1, Outcome.DEGRADED: 1, Outcome.INCOMPATIBLE: 1}
    assert str(fleet) == "3 worker(s) live: 1 compatible, 1 degraded, 1 incompatible; 0 control plane(s)."


def test_a_control_plane_of_another_major_changes_the_outcome(store: MemoryStore) -> None:
    advertise(store, our_descriptor("both", protocol=(1, 2)))
    (worker,) = fleet_of(store, control_plane=lambda: our_descriptor("cp", protocol=(2, 2)))
    assert (worker.outcome, worker.protocol) == (Outcome.COMPATIBLE, 2)


def test_who_only_beats_is_legacy_and_as_compatible_as_the_v1_baseline() -> None:
    store = RecordStore(WorkerRecord("processing", "old-1", None, b"1767225600", False, remaining_ms=30_000))
    (worker,) = fleet_of(store)
    assert (worker.legacy, worker.foreign, worker.outcome) == (True, True, Outcome.COMPATIBLE)
    assert (worker.capabilities, worker.actors) == (tuple(sorted(V1_BASELINE)), ())
    assert (worker.state, worker.threads, worker.runtime, worker.uptime_ms) == (None, None, None, None)
    assert (worker.sdk, worker.sdk_version, worker.last_beat_age_ms) == ("unknown", "0", 5_000)
    (worker,) = fleet_of(store, demands=lambda: ["gpu"])
    assert (worker.outcome, worker.missing) == (Outcome.DEGRADED, ("gpu",))


def test_an_unreadable_descriptor_is_a_row_that_says_so_and_harms_no_other() -> None:
    good = our_descriptor("py-1").to_json().encode()
    store = RecordStore(
        WorkerRecord("ml", "bad", b'{"instanceId": 5}', b"{}", False),
        WorkerRecord("ml", "py-1", good, b"{}", True),
    )
    fleet = fleet_of(store)
    bad, fine = fleet
    assert (bad.outcome, bad.code, bad.legacy) == (Outcome.INCOMPATIBLE, Code.DESCRIPTOR_INVALID, False)
    assert "instanceId" in bad.reason
    assert fine.outcome is Outcome.COMPATIBLE
    assert [invalid.source for invalid in fleet.invalid] == ["ml:bad"]
    assert "1 advertisement(s) could not be read" in fleet.detail


def test_the_freshest_beat_speaks_for_a_worker_that_is_re_advertising() -> None:
    old, new = our_descriptor("py-1"), our_descriptor("py-1", capabilities=["gpu"])
    store = RecordStore(
        WorkerRecord(
            "a", "py-1", new.to_json().encode(), b'{"status": "draining"}', True, remaining_ms=35_000
        ),
        WorkerRecord("b", "py-1", old.to_json().encode(), b'{"status": "up"}', True, remaining_ms=25_000),
    )
    (worker,) = fleet_of(store)
    assert (worker.capabilities, worker.state, worker.last_beat_age_ms) == (("gpu",), "draining", 0)


@pytest.mark.parametrize("hours_off", [-1, 1])
def test_ages_owe_nothing_to_a_workers_clock(hours_off: int) -> None:
    """A host an hour off still beat five seconds ago, and no uptime is negative."""
    clock = Clock()
    theirs = clock.now_ms + hours_off * 3_600_000
    descriptor = our_descriptor("py-1", started_at=theirs).to_json().encode()
    beat = json.dumps({"ts": theirs, "status": "up"}).encode()
    record = WorkerRecord("ml", "py-1", descriptor, beat, True, remaining_ms=30_000)
    (worker,) = fleet_of(RecordStore(record, clock=clock))
    assert worker.last_beat_age_ms == 5_000
    assert worker.uptime_ms is not None
    assert worker.uptime_ms >= 0


def test_without_a_lease_the_beat_itself_tells_its_age() -> None:
    clock = Clock()
    beat = str(clock.now_ms - 2_000).encode()
    known, unknown = (
        WorkerRecord("ml", "known", None, beat, False),
        WorkerRecord("ml", "unknown", None, b"\xff", False),
    )
    fleet = fleet_of(RecordStore(known, unknown, clock=clock))
    assert [worker.last_beat_age_ms for worker in fleet] == [2_000, None]


@pytest.mark.parametrize("state", list(WorkerState))
def test_the_state_is_the_word_of_the_beat(store: MemoryStore, state: WorkerState) -> None:
    advertise(store, our_descriptor(), state=state)
    assert [worker.state for worker in fleet_of(store)] == [state.value]


def test_another_lease_than_the_contracts_is_told_to_the_engine() -> None:
    clock = Clock()
    store = MemoryStore(now_ms=clock, ttl_ms=3_000)
    advertise(store, our_descriptor())
    clock.advance(1_000)
    assert [worker.last_beat_age_ms for worker in fleet_of(store, heartbeat_ttl_ms=3_000)] == [1_000]


def test_a_lapsed_worker_is_gone_without_anyone_writing(store: MemoryStore, clock: Clock) -> None:
    advertise(store, our_descriptor())
    clock.advance(35_000)
    fleet = fleet_of(store)
    assert list(fleet) == []
    assert fleet.detail == "No worker is live here."
    assert fleet


@pytest.mark.parametrize(
    ("namespace", "seen"),
    [
        (None, ["default-worker", "legacy-a", "legacy-none", "tenant-a", "tenant-b"]),
        ("a", ["legacy-a", "tenant-a"]),
        ("default", ["default-worker", "legacy-none"]),
        ("", ["default-worker", "legacy-none"]),
        ("nobody", []),
    ],
)
def test_a_namespaced_engine_sees_its_own_tenant_only(namespace: str | None, seen: list[str]) -> None:
    def ours(instance: str, token: str, tenant: str | None) -> WorkerRecord:
        descriptor = our_descriptor(instance, namespace=tenant).to_json().encode()
        return WorkerRecord(token, instance, descriptor, b"{}", True)

    planes = [
        ControlPlaneRecord(
            f"cp-{tenant}", our_descriptor(f"cp-{tenant}", namespace=tenant).to_json().encode()
        )
        for tenant in ("a", "b")
    ]
    store = RecordStore(
        ours("tenant-a", "ml@a", "a"),
        ours("tenant-b", "ml@b", "b"),
        ours("default-worker", "ml", None),
        WorkerRecord("ml@a", "legacy-a", None, b"{}", False),
        WorkerRecord("ml", "legacy-none", None, b"{}", False),
        WorkerRecord("ml@b", "bad-b", b"{", b"{}", False),
        planes=planes,
    )
    fleet = fleet_of(store, namespace=namespace)
    assert [worker.instance_id for worker in fleet if worker.instance_id != "bad-b"] == seen
    assert fleet.other_namespaces == (0 if namespace is None else 6 - len(seen))
    assert [plane.instance_id for plane in fleet.control_planes] == [
        f"cp-{tenant}" for tenant in ("a", "b") if namespace in (None, tenant)
    ]
    assert len(fleet.invalid) == (1 if namespace is None else 0)


def test_why_it_is_empty_names_the_other_namespaces_and_brokers(store: MemoryStore) -> None:
    advertise(store, our_descriptor("a", namespace="a"), "ml@a", broker="mine")
    advertise(store, our_descriptor("b"), broker="theirs")
    fleet = fleet_of(store, namespace="x", broker="mine")
    assert (len(fleet), fleet.other_namespaces, fleet.other_brokers) == (0, 1, 1)
    assert "1 worker(s) live in other namespaces; this engine sees 'x'." in fleet.detail
    assert "1 worker(s) of another broker share this registry and prefix" in fleet.detail


def test_workers_of_another_broker_are_not_ours_and_other_sdks_are_listed(store: MemoryStore) -> None:
    """Two virtual hosts may share one registry and prefix (field notes 35)."""
    advertise(store, our_descriptor("mine"), broker="broker-1")
    advertise(store, our_descriptor("theirs"), broker="broker-2")
    records = (*store.scan_advertisements(), WorkerRecord("ml", "node-1", None, b"{}", False))
    shared = RecordStore(*records)
    assert [worker.instance_id for worker in fleet_of(shared, broker="broker-1")] == ["mine", "node-1"]
    assert [worker.instance_id for worker in fleet_of(shared, broker=lambda: "broker-2")] == [
        "node-1",
        "theirs",
    ]
    assert len(fleet_of(shared)) == 3


def test_control_planes_are_listed_and_compared_by_their_majors() -> None:
    planes = [
        ControlPlaneRecord("cp-1", our_descriptor("cp-1", capabilities=["gpu"]).to_json().encode()),
        ControlPlaneRecord("cp-2", our_descriptor("cp-2", protocol=(2, 2)).to_json().encode()),
        ControlPlaneRecord("cp-3", b"junk"),
    ]
    fleet = fleet_of(RecordStore(planes=planes))
    one, two = fleet.control_planes
    assert (one.outcome, one.protocol, one.capabilities) == (Outcome.COMPATIBLE, 1, ("gpu",))
    assert (two.outcome, two.protocol, two.code) == (Outcome.INCOMPATIBLE, None, Code.PROTOCOL_INCOMPATIBLE)
    assert [invalid.source for invalid in fleet.invalid] == ["control-plane:cp-3"]


def test_an_incompatible_class_is_a_red_flag_once_and_again_after_it_was_gone(
    store: MemoryStore, clock: Clock
) -> None:
    told: list[Diagnostic] = []
    engine = HandshakeEngine(store=store, on_diagnostic=told.append)
    for instance in ("new-1", "new-2"):
        advertise(store, our_descriptor(instance, protocol=(2, 2)))
    engine.fleet()
    engine.fleet()
    (flag,) = told
    assert flag.code is Code.PROTOCOL_INCOMPATIBLE
    assert (flag.attributes["protocol.local"], flag.attributes["protocol.remote"]) == ("1", "2")
    for side in ("control_plane.descriptor", "nearest.descriptor"):
        assert json.loads(str(flag.attributes[side]))["protocol"]["version"] in (1, 2)
    clock.advance(35_000)
    engine.fleet()
    advertise(store, our_descriptor("new-3", protocol=(2, 2)))
    engine.fleet()
    assert len(told) == 2


def test_hostile_numbers_in_a_descriptor_do_not_break_the_view() -> None:
    descriptor = (
        b'{"instanceId": "x", "runtime": "node", "startedAt": 1e400,'
        b' "protocol": {"version": 1, "range": [-1e400, 1e400]}}'
    )
    fleet = fleet_of(RecordStore(WorkerRecord("ml", "x", descriptor, b"1e400", False)))
    (worker,) = fleet
    assert (worker.uptime_ms, worker.started_at_ms, worker.last_beat_age_ms) == (None, None, None)
    assert json.loads(fleet.to_json())["workers"][0]["protocol_range"] == [None, None]


def test_the_json_of_a_fleet_keeps_its_field_names(store: MemoryStore) -> None:
    """Public: a field may be added, never renamed (engine.report)."""
    advertise(store, our_descriptor("py-1", announced("train")))
    store.announce_control_plane("cp", our_descriptor("cp").to_json())
    answer = json.loads(fleet_of(store).to_json())
    peer = {
        *("instance_id", "outcome", "code", "reason", "protocol", "protocol_range", "capabilities"),
        *("sdk", "sdk_version", "runtime", "namespace", "started_at_ms", "uptime_ms"),
    }
    assert set(answer) == {
        *("supported", "workers", "control_planes", "invalid"),
        *("other_namespaces", "other_brokers", "detail"),
    }
    assert set(answer["workers"][0]) == peer | {
        *("tokens", "shared", "missing", "actors", "state", "threads", "in_flight", "last_beat_age_ms"),
        *("partition", "legacy", "foreign", "broker"),
    }
    assert set(answer["control_planes"][0]) == peer
    assert set(answer["workers"][0]["actors"][0]) == {
        *("name", "version", "queue", "requires", "origin", "step"),
    }
