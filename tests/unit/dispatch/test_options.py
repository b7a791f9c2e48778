"""What messages carry of ours: read whatever a peer put there, written only where something is needed."""

from __future__ import annotations

import json
from typing import Any

import dramatiq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake import DeclarationError
from dramatiq_handshake.decide.need import Need
from dramatiq_handshake.dispatch.options import (
    MESSAGE_OPTION,
    ActorProfile,
    blocked_need_id,
    marked_as_blocked,
    need_of,
    stamped,
)

PLAIN = ActorProfile()
GPU = ActorProfile(requires=frozenset({"gpu"}), version="2")


def message(queue: str = "ml", **options: Any) -> dramatiq.Message[Any]:
    return dramatiq.Message(queue, "train", (), {}, options)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
junk = json_values | st.fixed_dictionaries(
    {},
    optional={
        "requires": json_values,
        "version": json_values,
        "protocol": json_values,
        "blocked": json_values,
        "traceparent": json_values,
    },
)


@given(junk)
def test_junk_under_our_option_is_ignored(value: Any) -> None:
    """Whatever is there: what can be read counts, the rest is what the actor declares, and nothing raises."""
    need = need_of(message(**{MESSAGE_OPTION: value}), GPU)

    carried = value if isinstance(value, dict) else {}
    names = carried.get("requires")
    is_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
    assert need.requires == (frozenset(names) if is_names else GPU.requires)
    assert need.version == (carried["version"] if isinstance(carried.get("version"), str) else "2")
    assert need.protocol == (carried["protocol"] if type(carried.get("protocol")) is int else 1)
    assert (need.queue, need.actor) == ("ml", "train")
    blocked_need_id(message(**{MESSAGE_OPTION: value}))


@given(junk)
def test_stamping_again_changes_nothing(value: Any) -> None:
    """What is written is read back as the same need by a process that never heard of the actor."""
    original = message(**{MESSAGE_OPTION: value})
    need = need_of(original, GPU)
    once = stamped(original, need)

    assert need_of(once, None) == need
    assert stamped(once, need) == once
    assert once.queue_name == "ml"


def test_a_message_that_needs_nothing_carries_nothing_of_ours() -> None:
    plain = message(retries=1)
    assert stamped(plain, need_of(plain, PLAIN)) is plain
    assert MESSAGE_OPTION not in plain.options


def test_what_is_needed_rides_on_the_message() -> None:
    sent = stamped(message(), need_of(message(), GPU, major=2))
    assert sent.options[MESSAGE_OPTION] == {"requires": ["gpu"], "version": "2", "protocol": 2}


def test_a_note_of_an_earlier_blocking_does_not_outlive_the_next_enqueue() -> None:
    blocked = marked_as_blocked(stamped(message(), need_of(message(), GPU)), "4f2a")
    assert blocked_need_id(blocked) == "4f2a"

    again = stamped(blocked, need_of(blocked, GPU))

    assert blocked_need_id(again) is None
    assert need_of(again, None) == need_of(blocked, None)


def test_marking_a_message_leaves_the_original_alone() -> None:
    original = stamped(message(), need_of(message(), GPU))
    marked_as_blocked(original, "4f2a")
    assert blocked_need_id(original) is None


def test_the_message_wins_over_its_options_and_those_over_the_declaration() -> None:
    declared = need_of(message(), GPU)
    asked = need_of(message(requires=["tpu"], version="3"), GPU)
    carried = need_of(
        message(requires=["tpu"], version="3", handshake={"requires": ["npu"], "version": "4"}), GPU
    )

    assert (declared.requires, declared.version) == ({"gpu"}, "2")
    assert (asked.requires, asked.version) == ({"tpu"}, "3")
    assert (carried.requires, carried.version) == ({"npu"}, "4")
    assert need_of(message(requires=None, version=None), GPU) == Need("ml", "train")


@pytest.mark.parametrize(
    "requires", [{"gpu", "saga"}, ("saga", "gpu"), ["gpu", "saga"], frozenset({"gpu", "saga"})]
)
def test_any_collection_given_with_a_send_can_be_encoded(requires: Any) -> None:
    """`send_with_options(requires={"gpu"})` must not fail in the JSON encoder."""
    original = message(requires=requires)
    sent = stamped(original, need_of(original, PLAIN))

    read = json.loads(sent.encode())["options"]
    assert read[MESSAGE_OPTION] == {"requires": ["gpu", "saga"]}
    assert read["requires"] == ["gpu", "saga"]


@pytest.mark.parametrize(
    "options",
    [{"requires": "gpu"}, {"requires": [1]}, {"requires": 0}, {"version": 2}, {"version": ""}],
    ids=str,
)
def test_a_wrong_option_given_with_a_send_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError, match=r"message to 'train', .*expected"):
        need_of(message(**options), PLAIN)


def test_a_delayed_message_needs_what_its_base_queue_needs() -> None:
    assert need_of(message("ml.DQ"), GPU).queue == "ml"
    assert need_of(message("ml"), ActorProfile(step=True)).step


@given(
    st.none() | st.sampled_from("123"),
    st.sets(st.sampled_from("123")),
    st.none() | st.sampled_from("123"),
)
def test_an_actor_runs_what_it_states_and_silence_matches_anything(
    version: str | None, accepts: set[str], asked: str | None
) -> None:
    profile = ActorProfile(version=version, accepts=frozenset(accepts))
    stated = accepts | ({version} if version else set())
    assert profile.runs(asked) == (asked is None or not stated or asked in stated)
