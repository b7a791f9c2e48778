"""What a descriptor says for dispatch: whom it announces, in which versions."""

from __future__ import annotations

import pytest

from dramatiq_handshake.decide.candidate import candidate_of, legacy_candidate
from dramatiq_handshake.wire.descriptor import V1_BASELINE, parse_descriptor

MODERN = {
    "instanceId": "py-1",
    "runtime": "python",
    "sdk": {"name": "dramatiq-handshake", "version": "0.1.0"},
    "protocol": {"version": 1, "range": [1, 1]},
    "capabilities": ["gpu"],
}


def candidate(**fields):
    return candidate_of(parse_descriptor({**MODERN, **fields}))


def test_several_registrations_of_a_name_are_several_versions():
    """`accepts=` announces more than one (design §4)."""
    several = candidate(registrations=[{"name": "train", "version": "1"}, {"name": "train", "version": "2"}])
    assert several.announced == {"train": {"1", "2"}}
    assert several.runs_version("train", "1")
    assert not several.runs_version("train", "3")
    assert several.runs_version("train", None)


@pytest.mark.parametrize("versions", [["1", None], [None, "1"], [None]])
def test_silence_in_one_registration_matches_any_version(versions):
    """In whatever order it comes."""
    entries = [
        {"name": "train"} if version is None else {"name": "train", "version": version}
        for version in versions
    ]
    assert candidate(registrations=entries).runs_version("train", "9")


def test_a_bare_name_is_an_announcement_without_a_version():
    """Unless a registration of the same name says more."""
    assert candidate(workflows=["train"]).announced == {"train": None}
    covered = candidate(workflows=["train"], registrations=[{"name": "train", "version": "1"}])
    assert covered.announced == {"train": {"1"}}


def test_a_step_counts_by_its_name():
    """It has no versions and no registration."""
    with_step = candidate(steps=["load"])
    assert with_step.announces("load")
    assert with_step.runs_version("load", "7")
    assert not with_step.announces("train")


def test_a_modern_worker_announces_nothing_it_does_not_state():
    """Only a legacy worker that states no actors at all is taken to run any."""
    assert not candidate().announces("train")
    legacy = candidate_of(parse_descriptor({"instanceId": "old", "runtime": "python"}))
    assert legacy.legacy
    assert legacy.announces("train")
    assert legacy.capabilities == frozenset(V1_BASELINE)
    stating = candidate_of(parse_descriptor({"instanceId": "old", "runtime": "python", "workflows": ["w"]}))
    assert not stating.announces("train")


def test_who_beats_without_a_descriptor_is_legacy_and_runs_anything_of_version_one():
    """Assumed compatible (design §4)."""
    silent = legacy_candidate("py-1")
    assert silent.announces("train")
    assert silent.runs_version("train", "2")
    assert (silent.protocol, silent.foreign) == ((1, 1), False)


@pytest.mark.parametrize(
    ("sdk", "foreign"),
    [({"name": "durable-worker", "version": "1"}, True), (MODERN["sdk"], False), (None, False)],
)
def test_another_sdks_worker_is_foreign(sdk, foreign):
    """One that states no SDK is legacy, not foreign."""
    assert candidate(sdk=sdk).foreign is foreign
