"""The directory as the engine asks for it: scoped, complete, and clear about why it is empty."""

from __future__ import annotations

import json

import pytest

from dramatiq_handshake.decide.directory import Evidence, PlainConsumers, WorkflowDirectory
from dramatiq_handshake.decide.events import Code, Diagnostic
from dramatiq_handshake.engine import HandshakeEngine
from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.storage import MemoryStore
from dramatiq_handshake.storage.base import WorkerRecord
from tests.support.advertising import Clock, RecordStore, advertise, announced, our_descriptor


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(now_ms=clock)


def directory_of(store: MemoryStore, **options: object) -> WorkflowDirectory:
    """The directory as an engine on this store gives it."""
    return HandshakeEngine(store=store, **options).workflow_directory()  # type: ignore[arg-type]  # by name


def foreign(token: str, instance: str = "old-1") -> WorkerRecord:
    """A worker that only beats."""
    return WorkerRecord(token, instance, None, b"1767225600", False)


def test_what_a_worker_announces_is_declared_and_its_queue_is_not_listed_again(store: MemoryStore) -> None:
    advertise(
        store, our_descriptor("py-1", announced("train", "2", origin="vision"), steps=["clean"]), "ml", "cpu"
    )
    directory = directory_of(store)
    (train,) = directory.workflows
    assert (train.evidence, train.key, train.groups) == (Evidence.DECLARED, "train@2", ("ml",))
    assert (train.instances, train.origins, train.runtimes) == (("py-1",), ("vision",), ("python",))
    assert directory.supported
    assert directory.detail == "1 declared workflow(s)."


def test_two_workers_that_claim_differently_disagree(store: MemoryStore) -> None:
    advertise(store, our_descriptor("py-1", announced("pipeline", "2", group="pipeline")))
    advertise(store, our_descriptor("py-2", announced("pipeline", "2", group="pipeline-v2")))
    (entry,) = directory_of(store).workflows
    assert [(one.axis.value, one.values) for one in entry.disagreements] == [
        ("group", ("pipeline", "pipeline-v2"))
    ]


def test_a_workers_announcements_disappear_with_its_lease(store: MemoryStore, clock: Clock) -> None:
    advertise(store, our_descriptor("py-1", announced("train")))
    clock.advance(34_999)
    assert directory_of(store).workflows
    clock.advance(1)
    assert not directory_of(store).workflows


def test_a_worker_that_only_beats_is_observed_under_its_queues_name() -> None:
    directory = directory_of(RecordStore(foreign("processing")))
    (entry,) = directory.workflows
    assert (entry.evidence, entry.key, entry.version) == (Evidence.OBSERVED, "processing", None)
    assert (entry.groups, entry.instances) == (("processing",), ("old-1",))
    assert "can't be called by name" in directory.detail


def test_a_namespaced_engine_sees_its_tenant_and_names_other_partitions() -> None:
    def ours(instance: str, tenant: str | None, token: str) -> WorkerRecord:
        descriptor = our_descriptor(instance, announced("train", group=token), namespace=tenant)
        return WorkerRecord(token, instance, descriptor.to_json().encode(), b"{}", True)

    store = RecordStore(ours("a", "a", "ml@a"), ours("b", None, "ml"), foreign("processing@davi-local"))
    tenant = directory_of(store, namespace="a")
    assert [entry.groups for entry in tenant.workflows] == [("ml@a",)]
    assert [(one.partition, one.groups) for one in tenant.other_partitions] == [
        ("davi-local", ("processing@davi-local",)),
        ("default", ("ml",)),
    ]
    operator = directory_of(store)
    assert [entry.key for entry in operator.workflows] == ["processing@davi-local", "train"]
    assert operator.other_partitions == ()


def test_the_reasons_of_an_empty_list_are_told_apart(store: MemoryStore) -> None:
    unsupported = HandshakeEngine().workflow_directory()
    nothing_live = directory_of(MemoryStore())
    advertise(store, our_descriptor("py-1", steps=["clean"]))
    nothing_announced = directory_of(store)
    other_partition = directory_of(store, namespace="a")
    other_broker = directory_of(store, broker="broker-2")
    unreadable = directory_of(RecordStore(WorkerRecord("ml", "bad", b"{", None, False)))
    answers = [unsupported, nothing_live, nothing_announced, other_partition, other_broker, unreadable]
    assert [answer.workflows for answer in answers] == [()] * 6
    assert [answer.supported for answer in answers] == [False, *[True] * 5]
    assert len({answer.detail for answer in answers}) == 6
    assert [one.partition for one in other_partition.other_partitions] == ["default"]
    assert "1 worker(s) of another broker" in other_broker.detail
    assert len(unreadable.invalid) == 1


def test_workers_of_another_broker_are_neither_declared_nor_observed(store: MemoryStore) -> None:
    advertise(store, our_descriptor("mine", announced("train", group="ml")), "ml", broker="broker-1")
    advertise(store, our_descriptor("theirs", announced("sum", group="cpu")), "cpu", broker="broker-2")
    assert [entry.key for entry in directory_of(store, broker="broker-1").workflows] == ["train"]
    assert [entry.key for entry in directory_of(store).workflows] == ["sum", "train"]


def test_one_malformed_descriptor_is_one_finding_and_costs_nobody_an_entry(store: MemoryStore) -> None:
    advertise(store, our_descriptor("py-1", announced("train")))
    good = directory_of(store)
    advertise(
        store, '{"instanceId": "bad", "runtime": "python", "workflows": [5]}', "ml", "cpu", instance="bad"
    )
    told: list[Diagnostic] = []
    engine = HandshakeEngine(store=store, on_diagnostic=told.append)
    for _ in range(2):
        directory = engine.workflow_directory()
        declared = [entry for entry in directory.workflows if entry.evidence is Evidence.DECLARED]
        assert declared == list(good.workflows)
        (invalid,) = directory.invalid
        assert (invalid.code, invalid.source, invalid.field) == (
            Code.DESCRIPTOR_INVALID,
            "cpu:bad",
            "workflows[0]",
        )
    (finding,) = told
    assert finding.attributes["instance"] == "bad"


def test_plain_dramatiq_workers_are_observed_unless_a_plugin_process_claimed_them(store: MemoryStore) -> None:
    store.announce_control_plane("cp", "{}", broker_id="claimed")
    seen = [
        PlainConsumers("mail", ("claimed", "plain-1", "plain-2")),
        PlainConsumers("ours", ("claimed",)),
        PlainConsumers("rabbit", consumers=3),
        PlainConsumers("nobody", consumers=0),
    ]
    directory = directory_of(store, evidence=lambda: seen)
    assert [(entry.key, entry.instances, entry.plain_consumers) for entry in directory.workflows] == [
        ("mail", ("plain-1", "plain-2"), 2),
        ("rabbit", (), 3),
    ]
    assert {entry.evidence for entry in directory.workflows} == {Evidence.OBSERVED}


def test_evidence_that_cannot_be_had_is_an_error_and_not_an_absence(store: MemoryStore) -> None:
    def unreachable() -> list[PlainConsumers]:
        raise RegistryUnavailable("the broker does not answer")

    with pytest.raises(RegistryUnavailable):
        directory_of(store, evidence=unreachable)


def test_announced_workflows_are_the_directorys(store: MemoryStore) -> None:
    advertise(store, our_descriptor("py-1", announced("train"), announced("sum", "3")))
    engine = HandshakeEngine(store=store)
    assert [entry.key for entry in engine.announced_workflows()] == ["sum@3", "train"]
    assert engine.announced_workflows() == engine.workflow_directory().workflows


def test_the_index_alone_leaves_out_other_sdks() -> None:
    ours = our_descriptor("py-1", announced("train")).to_json().encode()
    store = RecordStore(WorkerRecord("ml", "py-1", ours, b"{}", True), foreign("processing"))
    engine = HandshakeEngine(store=store)
    assert [entry.key for entry in engine.workflow_directory().workflows] == ["processing", "train"]
    assert [entry.key for entry in engine.workflow_directory(scan=False).workflows] == ["train"]
    assert [worker.instance_id for worker in engine.fleet(scan=False)] == ["py-1"]


def test_the_json_of_a_directory_keeps_its_field_names(store: MemoryStore) -> None:
    advertise(store, our_descriptor("py-1", announced("train")))
    answer = json.loads(directory_of(store).model_dump_json())
    assert set(answer) == {"supported", "workflows", "other_partitions", "detail", "invalid"}
    assert set(answer["workflows"][0]) == {
        *("evidence", "key", "name", "version", "groups", "origins", "requires", "runtimes", "instances"),
        *("disagreements", "plain_consumers"),
    }
