"""Needs and the names of lanes: a function of the need alone, readable where they can be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.decide.need import (
    MAX_LANE_NAME,
    Need,
    Place,
    PlaceKind,
    base_of,
    check_queue_name,
    is_lane,
    need_lane,
    need_place,
    requirement_lane,
    requirement_place,
)
from dramatiq_handshake.errors import ConfigurationError
from tests.unit.wire.strategies import texts

NEED = Need("ml", "train", version="2", requires=frozenset({"gpu", "saga"}))
bases = st.text("abcxyz-_@", min_size=1, max_size=8)


def test_the_derivations_are_pinned():
    """Two releases share them: another name for the same need would strand its messages."""
    assert NEED.id == "68cdff640da38d7c"
    assert need_lane(NEED) == "ml.need.68cdff640da38d7c"
    assert requirement_lane("ml", NEED.requires) == "ml.requires.gpu.saga"
    assert requirement_lane("ml", frozenset({"gpu.big"})) == "ml.requires._310c41b233a3c5b5"


@pytest.mark.parametrize(
    "change",
    [{"queue": "x"}, {"actor": None}, {"version": None}, {"requires": frozenset()}, {"protocol": 2}],
    ids=str,
)
def test_every_part_of_a_need_makes_another_lane(change):
    """Whoever consumes a need lane can run exactly that need."""
    assert replace(NEED, **change).id != NEED.id


def test_a_step_is_the_same_need():
    """How an actor is announced changes nothing in what the message asks for."""
    assert replace(NEED, step=True) == NEED
    assert replace(NEED, step=True).id == NEED.id


@given(
    st.sets(texts, min_size=1, max_size=3).map(frozenset),
    st.sets(texts, min_size=1, max_size=3).map(frozenset),
)
def test_two_sets_of_requirements_never_share_a_lane(one, other):
    """Not even where a name holds what joins them."""
    assert (requirement_lane("ml", one) == requirement_lane("ml", other)) == (one == other)


def test_a_lane_that_would_be_too_long_or_odd_is_a_hash():
    """Brokers limit names; the hash is of the sorted names, so every process derives it."""
    long = requirement_lane("ml", frozenset({"a" * MAX_LANE_NAME}))
    odd = requirement_lane("ml", frozenset({"GPU"}))
    assert all(name.startswith("ml.requires._") and len(name) <= MAX_LANE_NAME for name in (long, odd))


@given(
    bases, st.builds(Need, queue=bases, actor=st.none() | texts, requires=st.frozensets(texts, max_size=2))
)
def test_a_lane_tells_its_base(base, need):
    """Results, dead letters and policies are the base's."""
    need = replace(need, queue=base)
    for place in (need_place(need), requirement_place(need)):
        assert is_lane(place.queue) == (place.kind is not PlaceKind.BASE)
        assert base_of(place.queue) == base
    assert base_of(f"{base}.DQ") == base


def test_a_need_without_requirements_stands_in_its_base():
    """The requirement lane is only for those that require."""
    assert requirement_place(Need("ml", "train")) == Place(PlaceKind.BASE, "ml")
    assert requirement_place(NEED).kind is PlaceKind.REQUIREMENT


@pytest.mark.parametrize("queue", ["a:b", "ml.requires.gpu", "ml.need.1", "ml.DQ", "ml.XQ"])
def test_a_queue_that_would_be_read_as_something_else_is_refused(queue):
    """With the reason and what to do."""
    with pytest.raises(ConfigurationError, match="rename the queue"):
        check_queue_name(queue)


@given(bases)
def test_an_ordinary_queue_is_not(queue):
    """Neither a lane nor refused."""
    check_queue_name(queue)
    assert not is_lane(queue)
    assert base_of(queue) == queue
