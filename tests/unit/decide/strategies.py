"""Hypothesis strategies for needs, candidates and fleets; few names, so that they meet."""

from __future__ import annotations

from hypothesis import strategies as st

from dramatiq_handshake.decide.candidate import Candidate
from dramatiq_handshake.decide.need import Need
from dramatiq_handshake.decide.plan import FleetSnapshot

capabilities = st.frozensets(st.sampled_from(["gpu", "saga", "signals"]))
actors = st.sampled_from(["train", "evaluate", "load"])
versions = st.sampled_from(["1", "2"])
majors = st.tuples(st.integers(0, 2), st.integers(0, 3))

candidates = st.builds(
    Candidate,
    id=st.text("abcdef", min_size=1, max_size=3),
    capabilities=capabilities,
    protocol=majors,
    announced=st.one_of(
        st.none(), st.dictionaries(actors, st.none() | st.frozensets(versions, min_size=1), max_size=3)
    ),
    steps=st.frozensets(actors, max_size=2),
    broker=st.sampled_from(["", "here", "elsewhere"]),
    foreign=st.booleans(),
    legacy=st.booleans(),
)
needs = st.builds(
    Need,
    queue=st.just("ml"),
    actor=st.none() | actors,
    version=st.none() | versions,
    requires=capabilities,
    protocol=st.integers(1, 2),
)
fleets = st.builds(
    FleetSnapshot,
    token=st.just("ml"),
    candidates=st.lists(candidates, max_size=4).map(tuple),
    served_lately=st.booleans(),
    plain_consumers=st.booleans(),
    broker=st.none() | st.just("here"),
)


def capable_of(need: Need) -> Candidate:
    """Somebody who can run exactly this need."""
    announced = {} if need.actor is None else {need.actor: None}
    return Candidate(
        id="new",
        capabilities=need.requires,
        protocol=(need.protocol, need.protocol),
        announced=announced,
        broker="here",
    )
