"""The pure choice: who of the fit workers comes first."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.routing.policy import TURN, Candidate, Order, Policy, Turns, choose, fit, why_not

NOW, TIMEOUT_MS = 1_000_000, 30_000

loads = st.lists(st.integers(0, 5), min_size=1, max_size=12)


def workers(counts: list[int]) -> list[Candidate]:
    return [Candidate(f"w{n}", active, NOW) for n, active in enumerate(counts)]


@given(loads)
def test_least_active_is_the_first_of_those_with_the_fewest_jobs(counts: list[int]) -> None:
    chosen = choose(workers(counts), Policy(), Turns())
    assert chosen == f"w{counts.index(min(counts))}"


@pytest.mark.parametrize("order", Order)
def test_of_nobody_nobody_is_chosen(order: Order) -> None:
    assert choose([], Policy(order), Turns()) is None


@given(loads, st.integers(1, 40))
def test_in_turn_every_stretch_is_fair_whatever_the_load(counts: list[int], rounds: int) -> None:
    turns, everyone = Turns(), workers(counts)
    chosen = [choose(everyone, Policy(Order.IN_TURN), turns) for _ in range(rounds)]

    assert chosen == [f"w{n % len(counts)}" for n in range(rounds)]


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), min_size=1), st.integers(1, 3))
def test_weights_are_shares(weights: dict[str, int], rounds: int) -> None:
    """Over whole rounds exactly, give or take what a stride is rounded by."""
    policy = Policy(Order.IN_TURN, weights=weights)
    turns, everyone = Turns(), [Candidate(name, 0, NOW) for name in sorted(weights)]
    chosen = Counter(choose(everyone, policy, turns) for _ in range(rounds * sum(weights.values())))

    assert all(abs(chosen[name] - rounds * weight) <= 1 for name, weight in weights.items())


@given(st.sets(st.text(max_size=5), min_size=2, max_size=8), st.text(max_size=5))
def test_without_its_worker_a_key_moves_and_no_other_does(names: set[str], key: str) -> None:
    """Rendezvous hashing: who leaves changes only what it had; the order of the workers is no matter."""
    policy = Policy(Order.STICKY, key=key)
    everyone = [Candidate(name, 0, NOW) for name in sorted(names)]
    first = choose(everyone, policy, Turns())
    assert choose(reversed(everyone), policy, Turns()) == first

    for gone in names:
        rest = [each for each in everyone if each.worker_id != gone]
        assert (choose(rest, policy, Turns()) == first) == (gone != first)


@given(
    st.builds(
        Candidate,
        st.just("w"),
        st.integers(0, 3),
        st.integers(NOW - 2 * TIMEOUT_MS, NOW),
        st.none() | st.just("hot"),
    ),
    st.builds(
        Policy,
        max_concurrency=st.none() | st.integers(1, 3),
        weights=st.sampled_from([{}, {"w": 0}, {"w": 2}, {"other": 0}]),
    ),
)
def test_who_is_not_fit_has_a_reason(candidate: Candidate, policy: Policy) -> None:
    """One of four, the gravest first."""
    if fit(candidate, policy, NOW, TIMEOUT_MS):
        assert candidate.unhealthy_reason is None
        assert NOW - candidate.last_heartbeat_at <= TIMEOUT_MS
        assert policy.max_concurrency is None or candidate.active_jobs < policy.max_concurrency
        assert policy.weights.get("w") != 0
        return
    reason = why_not(candidate, policy, NOW, TIMEOUT_MS)
    if candidate.unhealthy_reason:
        assert reason == "is unhealthy: hot"
    elif NOW - candidate.last_heartbeat_at > TIMEOUT_MS:
        assert reason.startswith("is stale: its last heartbeat was ")
    elif policy.weights.get("w") == 0:
        assert reason == "has the weight 0"
    else:
        assert reason == f"is busy: it has {candidate.active_jobs} of at most {policy.max_concurrency} jobs"


def test_silence_is_measured_to_the_millisecond() -> None:
    at_the_limit = Candidate("w", 0, NOW - TIMEOUT_MS)
    beyond = Candidate("w", 0, NOW - TIMEOUT_MS - 1)
    assert fit(at_the_limit, Policy(), NOW, TIMEOUT_MS)
    assert not fit(beyond, Policy(), NOW, TIMEOUT_MS)


@pytest.mark.parametrize(
    ("weight", "stride"), [(1, TURN), (2, TURN // 2), (0.5, 2 * TURN), (0, None), (TURN * 10, 1)]
)
def test_a_stride_is_the_inverse_of_the_weight(weight: float, stride: int | None) -> None:
    assert Policy(weights={"w": weight}).stride("w") == stride
    assert Policy().stride("w") == TURN
