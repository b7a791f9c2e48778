"""Planning (design §4) and the place (§6), rule by rule and as properties."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given

from dramatiq_handshake.decide.candidate import Candidate, candidate_of, legacy_candidate
from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.need import Need, PlaceKind, need_place, requirement_place
from dramatiq_handshake.decide.plan import MAX_EXPLAINED, DispatchStatus, FleetSnapshot, plan_dispatch
from dramatiq_handshake.wire.descriptor import ProtocolSupport, WorkerDescriptor
from tests.unit.decide.strategies import capable_of, fleets, needs

CONTROL_PLANE = WorkerDescriptor(
    instance_id="cp", runtime="python", protocol=ProtocolSupport(version=1, range=(1, 1)), capabilities=()
)
ROUTABLE, LEGACY, BLOCKED = DispatchStatus.ROUTABLE, DispatchStatus.LEGACY, DispatchStatus.BLOCKED
BASE, REQUIREMENT, NEED = PlaceKind.BASE, PlaceKind.REQUIREMENT, PlaceKind.NEED

PLAIN = Need("ml", "train")
GPU = Need("ml", "train", requires=frozenset({"gpu"}))


def worker(*capabilities, actors=("train",), **fields):
    announced = actors if isinstance(actors, dict) or actors is None else dict.fromkeys(actors)
    return Candidate(
        id=fields.pop("id", "w"), capabilities=frozenset(capabilities), announced=announced, **fields
    )


def plan(need, *candidates, **fields):
    return plan_dispatch(need, FleetSnapshot("ml", candidates, **fields), CONTROL_PLANE)


@pytest.mark.parametrize(
    ("need", "candidates", "facts", "status", "place"),
    [
        pytest.param(PLAIN, [worker()], {}, ROUTABLE, BASE, id="everyone can"),
        pytest.param(
            PLAIN, [worker(), worker(actors=())], {}, ROUTABLE, NEED, id="somebody on the base can't"
        ),
        pytest.param(PLAIN, [worker(actors=())], {}, BLOCKED, NEED, id="nobody announces the actor"),
        pytest.param(PLAIN, [], {}, LEGACY, BASE, id="nobody live, never served"),
        pytest.param(PLAIN, [], {"served_lately": True}, BLOCKED, BASE, id="nobody live, served lately"),
        pytest.param(
            PLAIN,
            [],
            {"served_lately": True, "plain_consumers": True},
            LEGACY,
            BASE,
            id="rolled back to plain",
        ),
        pytest.param(
            PLAIN,
            [worker(actors=())],
            {"plain_consumers": True},
            LEGACY,
            BASE,
            id="a canary among plain workers",
        ),
        pytest.param(
            Need("ml", "train", version="2"),
            [worker(actors={"train": frozenset("1")})],
            {"plain_consumers": True},
            BLOCKED,
            NEED,
            id="a plugin worker announces the actor: plain ones don't excuse",
        ),
        pytest.param(
            Need("ml", "train", version="2"),
            [worker(actors=())],
            {"plain_consumers": True},
            BLOCKED,
            NEED,
            id="a stated version asks for something",
        ),
        pytest.param(
            PLAIN,
            [worker(protocol=(2, 2))],
            {"plain_consumers": True},
            BLOCKED,
            NEED,
            id="a plugin worker that announces it is the one to mend",
        ),
        pytest.param(GPU, [], {}, BLOCKED, REQUIREMENT, id="required, nobody live"),
        pytest.param(
            GPU, [], {"plain_consumers": True}, BLOCKED, REQUIREMENT, id="plain workers have no gpu"
        ),
        pytest.param(GPU, [worker()], {}, BLOCKED, REQUIREMENT, id="nobody consumes the requirement lane"),
        pytest.param(
            GPU, [worker("gpu"), worker()], {}, ROUTABLE, REQUIREMENT, id="the lane's consumers all can"
        ),
        pytest.param(GPU, [worker("gpu", actors=())], {}, BLOCKED, NEED, id="the lane's only consumer can't"),
        pytest.param(
            GPU,
            [worker("gpu"), worker("gpu", actors=())],
            {},
            ROUTABLE,
            NEED,
            id="one of its consumers can't",
        ),
        pytest.param(PLAIN, [worker(protocol=(2, 2))], {}, BLOCKED, NEED, id="another protocol"),
        pytest.param(PLAIN, [worker(foreign=True)], {}, LEGACY, BASE, id="another SDK is as if not there"),
        pytest.param(
            PLAIN,
            [worker(), worker(actors=(), foreign=True)],
            {},
            ROUTABLE,
            BASE,
            id="nor is it part of everyone",
        ),
        pytest.param(
            PLAIN,
            [worker(broker="here"), worker(actors=(), broker="there")],
            {"broker": "here"},
            ROUTABLE,
            BASE,
            id="nor is another broker's worker",
        ),
        pytest.param(
            PLAIN, [legacy_candidate("old")], {}, ROUTABLE, BASE, id="a legacy worker is assumed to run it"
        ),
        pytest.param(
            GPU, [legacy_candidate("old")], {}, BLOCKED, REQUIREMENT, id="it has the baseline, no gpu"
        ),
        pytest.param(
            Need("ml", "train", requires=frozenset({"saga"})),
            [legacy_candidate("old")],
            {},
            ROUTABLE,
            REQUIREMENT,
            id="it has the baseline's saga",
        ),
        pytest.param(
            Need("ml", "load", step=True),
            [worker(actors=(), steps=frozenset({"load"}))],
            {},
            ROUTABLE,
            BASE,
            id="a step's name is enough",
        ),
        pytest.param(
            Need("ml", None, requires=frozenset({"gpu"})),
            [worker("gpu", actors=())],
            {},
            ROUTABLE,
            REQUIREMENT,
            id="without an actor the capabilities alone",
        ),
    ],
)
def test_status_and_place(need, candidates, facts, status, place):
    """Each rule of design §4 and each row of §6's table of places."""
    made = plan(need, *candidates, **facts)
    assert (made.status, made.place.kind) == (status, place)
    expected = {NEED: need_place(need)}.get(place, requirement_place(need))
    assert made.place == expected


@pytest.mark.parametrize(
    ("version", "stated", "can"),
    [
        ("2", {"train": frozenset("2")}, True),
        ("2", {"train": frozenset("12")}, True),
        ("2", {"train": frozenset("1")}, False),
        ("2", {"train": None}, True),
        (None, {"train": frozenset("1")}, True),
    ],
)
def test_one_of_the_stated_versions_must_be_the_one_asked_for(version, stated, can):
    """Silence on either side matches anything."""
    made = plan(Need("ml", "train", version=version), worker(actors=stated))
    assert (made.status is ROUTABLE) is can


@pytest.mark.parametrize(
    ("need", "candidates", "reason"),
    [
        (
            Need("ml", "train", requires=frozenset({"signals", "saga"})),
            [worker()],
            "blocked: no compatible worker (requires saga, signals)",
        ),
        (GPU, [], "blocked: no compatible worker (requires gpu)"),
        (PLAIN, [], "blocked: no live worker consumes queue 'ml'"),
        (PLAIN, [worker(actors=())], "blocked: no live worker on queue 'ml' announces actor 'train'"),
        (
            GPU,
            [worker("gpu", actors=())],
            "blocked: no live worker on queue 'ml' announces actor 'train' (requires gpu)",
        ),
        (
            Need("ml", "train", version="3"),
            [worker(actors={"train": frozenset("1")}), worker(actors={"train": frozenset("2")})],
            "blocked: no live worker on queue 'ml' announces version 3 of actor 'train' (announced: 1, 2)",
        ),
        (
            PLAIN,
            [worker(protocol=(2, 3)), worker(protocol=(2, 2)), worker(actors=())],
            (
                "blocked: no live worker on queue 'ml' that could run it speaks wire protocol 1 "
                "(spoken: 2, 2 to 3)"
            ),
        ),
    ],
)
def test_the_reason_names_the_obstacle(need, candidates, reason):
    """The contract's copy where capabilities are missing; else what stands in the way."""
    assert plan(need, *candidates, served_lately=True).reason == reason


def test_somebody_capable_but_nobody_compatible_is_the_protocols_fault():
    """Else it is a capability's, and what is missing from *every* worker is told."""
    made = plan(GPU, worker("gpu", protocol=(2, 3)), worker())
    assert (made.code, made.worker_ranges) == (Code.PROTOCOL_INCOMPATIBLE, ((2, 3),))
    assert made.missing_capabilities == ()
    other_version = Need("ml", "train", version="2")
    made = plan(other_version, worker(actors={"train": frozenset("1")}))
    assert (made.code, made.worker_ranges) == (Code.CAPABILITY_UNAVAILABLE, ())
    need = replace(GPU, requires=frozenset({"gpu", "saga", "signals"}))
    made = plan(need, worker("gpu"), worker("saga"), worker("signals", foreign=True))
    assert (made.code, made.missing_capabilities) == (Code.CAPABILITY_UNAVAILABLE, ("signals",))


def test_a_fleet_that_covers_the_requirements_only_jointly_lacks_none_of_them():
    """Blocked all the same: nobody has them all."""
    made = plan(replace(GPU, requires=frozenset({"gpu", "saga"})), worker("gpu"), worker("saga"))
    assert (made.status, made.missing_capabilities) == (BLOCKED, ())


def test_a_message_of_another_major_is_judged_by_its_own():
    """A worker judges the message, and so does the plan (design §3, both sides)."""
    need = Need("ml", "train", protocol=2)
    assert plan(need, worker(protocol=(1, 2))).status is ROUTABLE
    assert plan(need, worker(protocol=(1, 1))).code is Code.PROTOCOL_INCOMPATIBLE


def test_the_nearest_worker_and_the_whole_delta_are_part_of_a_blocked_plan():
    """Field-notes 4: whoever booted without the module is named with what it lacks."""
    made = plan(GPU, worker(actors=(), id="far"), worker("gpu", actors=(), id="near"))
    assert made.nearest is not None
    assert made.nearest.as_text() == "worker near does not announce actor 'train'"
    detail = json.loads(json.dumps(made.detail()))
    assert detail["code"] == "capability.unavailable"
    assert detail["controlPlane"] == CONTROL_PLANE.to_wire()
    assert [(one["id"], [lack["kind"] for lack in one["lacks"]]) for one in detail["workers"]] == [
        ("near", ["actor"]),
        ("far", ["capability", "actor"]),
    ]
    assert plan(GPU).nearest is None


def test_both_sides_descriptors_are_part_of_a_blocked_plan():
    """Whoever is woken sees what the nearest worker says of itself, not only what it lacks."""
    descriptor = WorkerDescriptor(instance_id="py-1", runtime="python", capabilities=("saga",), workflows=())
    detail = plan(GPU, candidate_of(descriptor)).detail()
    assert detail["nearest"] == descriptor.to_wire()
    assert detail["controlPlane"] == CONTROL_PLANE.to_wire()


def test_of_a_fleet_of_many_classes_the_nearest_are_explained_and_all_are_counted():
    """A blocked message's record must not grow with the fleet."""
    many = [worker(actors=(), id=f"far-{number}") for number in range(500)]
    detail = plan(GPU, *many, worker("gpu", actors=(), id="near")).detail()
    assert detail["workersLive"] == 501
    assert len(detail["workers"]) == MAX_EXPLAINED
    assert detail["workers"][0]["id"] == "near"


@given(needs, fleets)
def test_a_new_capable_worker_always_makes_a_need_routable(need, fleet):
    """Nothing that anybody else advertises can block what somebody live can run."""
    joined = replace(fleet, candidates=(*fleet.candidates, capable_of(need)))
    made = plan_dispatch(need, joined, CONTROL_PLANE)
    assert made.status is ROUTABLE
    assert capable_of(need) in made.workers


@given(needs, fleets, fleets)
def test_no_worker_that_joins_turns_routable_into_blocked(need, fleet, others):
    """Planning is monotonic."""
    before = plan_dispatch(need, fleet, CONTROL_PLANE)
    joined = replace(fleet, candidates=fleet.candidates + others.candidates)
    if before.status is ROUTABLE:
        assert plan_dispatch(need, joined, CONTROL_PLANE).status is ROUTABLE


@given(needs, fleets)
def test_every_consumer_of_the_place_can_run_the_need(need, fleet):
    """The invariant behind the lanes: whoever takes a message from its place can run it (design §6).

    The base is the exception where nobody live can be asked: legacy, which is plain Dramatiq's way.
    """
    made = plan_dispatch(need, fleet, CONTROL_PLANE)
    ours = [
        one for one in fleet.candidates if not one.foreign and fleet.broker in (None, one.broker or "here")
    ]
    if made.status is LEGACY or made.place.kind is NEED:
        return
    consumers = [one for one in ours if need.requires <= one.capabilities]
    assert set(map(id, consumers)) == set(map(id, made.workers))


@given(needs, fleets)
def test_a_blocked_plan_is_explained_and_any_other_is_not(need, fleet):
    """Code and reason come together; the verdicts cover the whole fleet."""
    made = plan_dispatch(need, fleet, CONTROL_PLANE)
    blocked = made.status is BLOCKED
    assert (made.code is not None, made.reason.startswith("blocked: "), made.workers == ()) == (
        blocked, blocked, made.status is not ROUTABLE,
    )  # fmt: skip
    assert len(made.verdicts) == len(fleet.candidates)
    json.dumps(made.detail())


@given(needs, fleets)
def test_the_order_of_the_fleet_does_not_change_the_plan(need, fleet):
    """Two processes that look at one fleet send to one place."""
    made = plan_dispatch(need, fleet, CONTROL_PLANE)
    turned = plan_dispatch(need, replace(fleet, candidates=fleet.candidates[::-1]), CONTROL_PLANE)
    assert (made.status, made.place, made.code, made.reason, made.missing_capabilities) == (
        turned.status, turned.place, turned.code, turned.reason, turned.missing_capabilities,
    )  # fmt: skip
