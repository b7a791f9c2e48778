"""The directory: two tiers of evidence, every claim kept, and why it is empty if it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dramatiq_handshake.decide.directory import (
    DisagreementAxis,
    Evidence,
    FoundDescriptor,
    LiveToken,
    PlainConsumers,
    announced,
    build_directory,
)
from dramatiq_handshake.wire.descriptor import WorkerDescriptor, parse_descriptor
from tests.unit.wire.strategies import json_values, names, raw_descriptors

beats = st.fixed_dictionaries(
    {"group": st.sampled_from(["a", "b", "a@t", "b@t", "saga@u"]), "instanceId": names}
)


def worker(instance="py-1", *registrations, sdk="durable-worker", **fields):
    return {
        "instanceId": instance,
        "runtime": "python",
        "sdk": {"name": sdk, "version": "1"},
        "protocol": {"version": 1, "range": [1, 1]},
        "registrations": list(registrations),
        **fields,
    }


def keys(directory, evidence=None):
    return [one.key for one in directory.workflows if evidence in (None, one.evidence)]


def test_an_entry_folds_what_all_workers_announce_of_one_version():
    """The example of the specification."""
    pipeline = {
        "name": "pipeline",
        "version": "2",
        "group": "pipeline",
        "requires": ["saga"],
        "origin": "flip",
    }
    (entry,) = build_directory([worker("py-2", pipeline), worker("py-1", pipeline)]).workflows
    assert entry.to_wire() == {
        "evidence": "declared",
        "key": "pipeline@2",
        "name": "pipeline",
        "version": "2",
        "groups": ["pipeline"],
        "origins": ["flip"],
        "requires": [["saga"]],
        "runtimes": ["python"],
        "instances": ["py-1", "py-2"],
        "disagreements": [],
    }


@pytest.mark.parametrize(
    ("field", "axis", "claims", "values"),
    [
        ("group", DisagreementAxis.GROUP, ["b", "a"], ("a", "b")),
        ("origin", DisagreementAxis.ORIGIN, ["b", "a"], ("a", "b")),
        ("requires", DisagreementAxis.REQUIRES, [["b", "a"], []], ("", "a,b")),
    ],
)
def test_different_claims_are_all_kept_and_none_is_picked(field, axis, claims, values):
    """Each of them is something a human has to resolve."""
    workers = [worker(f"py-{n}", {"name": "w", field: claim}) for n, claim in enumerate(claims)]
    directory = build_directory(workers)
    (entry,) = directory.workflows
    assert [(one.axis, one.values) for one in entry.disagreements] == [(axis, values)]
    assert "disagree on w" in directory.detail


def test_silence_is_no_claim():
    """Who states no origin doesn't disagree with who does; demands in another order don't either."""
    workers = [
        worker("py-1", {"name": "w", "origin": "o", "requires": ["a", "b"]}),
        worker("py-2", {"name": "w", "requires": ["b", "a", "a"]}),
        worker("py-3", {"name": "w"}),
    ]
    (entry,) = build_directory(workers).workflows
    assert (entry.disagreements, entry.requires, len(entry.instances)) == ((), (("a", "b"),), 3)


def test_a_queue_that_somebody_serves_without_a_word_is_observed():
    """The weaker tier: it states nothing that it can't know."""
    directory = build_directory([], [{"group": "processing", "instanceId": "py-1"}])
    (entry,) = directory.workflows
    assert (entry.evidence, entry.groups, entry.instances) == (Evidence.OBSERVED, ("processing",), ("py-1",))
    assert (entry.version, entry.origins, entry.requires, entry.runtimes) == (None, (), (), ())
    assert "can't be called by name" in directory.detail


def test_a_descriptor_explains_its_tokens():
    """Its workflows' names, the groups it states for them, and its steps are no second entry."""
    descriptor = worker(
        "py-1", {"name": "train", "group": "ml"}, workflows=["a:b"], steps=["load", "x:y"], partition="t"
    )
    tokens = ["train", "ml", "a-b", "load", "load@t", "x-y", "other"]
    directory = build_directory([descriptor], [LiveToken(token, "py-9") for token in tokens])
    assert keys(directory, Evidence.OBSERVED) == ["other"]
    assert "load" not in keys(directory)


def test_a_worker_of_this_library_is_never_a_mere_observation():
    """It announces all that it runs, so a queue of steps only is not somebody unknown."""
    ours = worker("py-1", sdk="dramatiq-handshake", steps=["load"])
    theirs = worker("py-2", steps=["load"])
    live = [LiveToken("steps", "py-1"), LiveToken("other", "py-2")]
    assert keys(build_directory([ours, theirs], live)) == ["other"]


def test_plain_dramatiq_workers_are_evidence_too():
    """A callee need not change to be findable (design §8); what is declared wins here as well."""
    plain = [
        PlainConsumers("default", ("id-1", "id-2"), 2),
        PlainConsumers("ml", consumers=3),
        PlainConsumers("q@t"),
    ]
    declared = worker("py-1", {"name": "train", "group": "ml"})
    directory = build_directory([declared], [LiveToken("default", "py-9")], namespace="default", plain=plain)
    observed = [one for one in directory.workflows if one.evidence is Evidence.OBSERVED]
    assert [(one.key, one.instances, one.plain_consumers) for one in observed] == [
        ("default", ("id-1", "id-2", "py-9"), 2)
    ]


def test_a_namespace_sees_its_tenant_and_an_operator_everything():
    """And who is live elsewhere is told, instead of letting the caller conclude absence."""
    descriptors = [
        worker("py-1", {"name": "here"}),
        worker("py-2", {"name": "there"}, namespace="davi-local"),
    ]
    live = [LiveToken("q", "py-3"), LiveToken("q@davi-local", "py-4"), LiveToken("r@davi-local", "py-4")]
    assert keys(build_directory(descriptors, live)) == ["here", "q", "q@davi-local", "r@davi-local", "there"]
    directory = build_directory(descriptors, live, namespace="default")
    assert keys(directory) == ["here", "q"]
    (other,) = directory.other_partitions
    assert (other.partition, other.groups, other.instances) == (
        "davi-local",
        ("q@davi-local", "r@davi-local"),
        ("py-4",),
    )
    assert "davi-local" in directory.detail
    assert build_directory(descriptors, live).other_partitions == ()


@pytest.mark.parametrize(
    ("descriptors", "live", "supported", "says"),
    [
        ([], [], False, "no fleet registry"),
        ([], [], True, "No worker is live"),
        ([worker()], [], True, "announce no workflow"),
        ([], [LiveToken("q@davi-local", "py-1")], True, "other partitions (davi-local)"),
    ],
)
def test_an_empty_list_says_what_it_means(descriptors, live, supported, says):
    """Each of the honest meanings of nothing, told apart."""
    directory = build_directory(descriptors, live, namespace="default", supported=supported)
    assert directory.workflows == ()
    assert directory.supported is supported
    assert says in directory.detail


def test_what_can_not_be_read_is_skipped_reported_and_named():
    """One bad advertisement never costs the others their entry (design §8)."""
    bad = FoundDescriptor(b'{"instanceId":"x","runtime":"python","steps":[5]}', "ml:py-7")
    live = [{"group": "q"}, {"group": "q", "instanceId": "py-1"}]
    directory = build_directory([bad, worker("py-1", {"name": "w"}), "{"], live)
    assert keys(directory) == ["q", "w"]
    assert [(one.source, one.field) for one in directory.invalid] == [
        ("ml:py-7", "steps[0]"),
        ("descriptors[2]", ""),
        ("heartbeats[0]", "instanceId"),
    ]
    first = directory.invalid[0]
    assert first.code == "descriptor.invalid"
    assert first.reason == "advertisement ml:py-7 skipped: steps[0]: expected a text, got the number 5"
    assert "3 advertisement(s) could not be read" in directory.detail


@settings(max_examples=40)
@given(st.lists(raw_descriptors(), max_size=4), st.lists(beats, max_size=4), st.data())
def test_the_order_of_advertisements_does_not_matter(descriptors, live, data):
    """A scan returns them in any order; only the name of two that share a key is the first one's."""
    namespace = data.draw(st.sampled_from([None, "default", "t"]))
    one = build_directory(descriptors, live, namespace=namespace)
    other = build_directory(
        data.draw(st.permutations(descriptors)), data.draw(st.permutations(live)), namespace=namespace
    )

    def unnamed(directory):
        return [entry.model_copy(update={"name": "", "version": None}) for entry in directory.workflows]

    assert unnamed(one) == unnamed(other)
    assert one.other_partitions == other.other_partitions
    assert one.detail == other.detail


@settings(max_examples=40)
@given(st.lists(raw_descriptors(), max_size=3), st.one_of(json_values, st.binary()), st.integers(0, 3))
def test_nothing_that_stands_among_the_good_ones_harms_them(descriptors, junk, position):
    """Unless it is a worker itself, what is added leaves every entry as it was."""
    good = build_directory(descriptors)
    got = build_directory([*descriptors[:position], junk, *descriptors[position:]])
    assert len(got.invalid) == 1
    assert got.workflows == good.workflows


@settings(max_examples=40)
@given(st.lists(raw_descriptors(), max_size=3))
def test_descriptors_may_be_given_parsed_or_raw(descriptors):
    """A process that has them parsed doesn't parse them again."""
    parsed = [parse_descriptor(raw) for raw in descriptors]
    assert all(isinstance(one, WorkerDescriptor) for one in parsed)
    assert build_directory(parsed) == build_directory(descriptors)
    declared = [one for one in build_directory(parsed).workflows if one.evidence is Evidence.DECLARED]
    assert declared == list(announced(parsed))


def test_the_answer_dumps_to_json():
    """It is a model like every answer of the engine."""
    directory = build_directory([worker("py-1", {"name": "w", "version": "1"})], [LiveToken("q", "py-2")])
    assert [one["key"] for one in json.loads(directory.model_dump_json())["workflows"]] == ["q", "w@1"]


def test_what_an_earlier_reading_found_unreadable_is_reported_as_it_was():
    """A process that remembers by ETag doesn't read a bad descriptor again, nor forget it."""
    (found,) = build_directory(["{"]).invalid
    again = build_directory([FoundDescriptor(found, "ml:py-7"), worker("py-1", {"name": "w"})])
    assert again.invalid == (found,)
    assert keys(again) == ["w"]
