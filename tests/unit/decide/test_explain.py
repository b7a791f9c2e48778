"""Per candidate: yes, or the exact noes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.decide.candidate import Candidate
from dramatiq_handshake.decide.explain import LackKind, explain, judge
from dramatiq_handshake.decide.need import Need
from tests.unit.decide.strategies import candidates, capable_of, needs

NEED = Need("ml", "train", version="2", requires=frozenset({"gpu", "saga"}))


def test_every_lack_is_named_with_what_is_wanted():
    """Not a bare boolean, and not only the first."""
    worker = Candidate(
        id="w", capabilities=frozenset({"saga"}), protocol=(2, 3), announced={"train": frozenset("1")}
    )
    verdict = judge(NEED, worker)
    assert [(lack.kind, lack.wanted) for lack in verdict.lacks] == [
        (LackKind.PROTOCOL, "1"),
        (LackKind.CAPABILITY, "gpu"),
        (LackKind.VERSION, "2"),
    ]
    assert verdict.as_text() == (
        "worker w speaks wire protocol 2 to 3, not 1 and "
        "lacks gpu and announces version 1 of actor 'train', not 2"
    )


def test_an_actor_that_is_not_announced_is_one_lack_and_not_also_a_version():
    """The version is no question before the actor is."""
    verdict = judge(NEED, Candidate(id="w", capabilities=NEED.requires))
    assert [lack.kind for lack in verdict.lacks] == [LackKind.ACTOR]


def test_who_lacks_nothing_can_run_it():
    """And says so."""
    verdict = judge(NEED, capable_of(NEED))
    assert verdict.can_run
    assert verdict.as_text() == "worker new can run it"


def test_another_sdk_or_broker_is_never_dispatched_to():
    """Even where everything else would do."""
    worker = Candidate(id="w", announced=None, broker="b", foreign=True)
    kinds = [lack.kind for lack in judge(Need("ml", "train"), worker, broker="a").lacks]
    assert kinds == [LackKind.SDK, LackKind.BROKER]
    assert judge(Need("ml", "train"), Candidate(id="w", announced=None, broker=""), broker="a").can_run


@given(needs, st.lists(candidates, max_size=5))
def test_the_nearest_comes_first_and_other_sdks_last(need, fleet):
    """Whoever lacks least is the one to mend."""
    verdicts = explain(need, fleet, broker="here")
    assert {id(one.candidate) for one in verdicts} == {id(one) for one in fleet}
    elsewhere = [any(lack.kind in (LackKind.SDK, LackKind.BROKER) for lack in one.lacks) for one in verdicts]
    assert elsewhere == sorted(elsewhere)
    ours = [len(one.lacks) for one, away in zip(verdicts, elsewhere, strict=True) if not away]
    assert ours == sorted(ours)


@given(needs, st.permutations([Candidate(id=name) for name in "abcd"]))
def test_the_order_of_the_fleet_does_not_matter(need, fleet):
    """Two processes that look at one fleet give one explanation."""
    assert explain(need, fleet) == explain(need, sorted(fleet, key=lambda one: one.id))
