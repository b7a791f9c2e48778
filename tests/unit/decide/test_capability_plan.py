"""The contract's plan over workers of any SDK, and its agreement with ours."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dramatiq_handshake.decide.candidate import candidate_of
from dramatiq_handshake.decide.capability_plan import plan_capabilities
from dramatiq_handshake.decide.need import Need
from dramatiq_handshake.decide.plan import DispatchStatus, FleetSnapshot, plan_dispatch
from dramatiq_handshake.wire.descriptor import ProtocolSupport, WorkerDescriptor
from tests.unit.wire.strategies import descriptors, names

CONTROL_PLANE = WorkerDescriptor(
    instance_id="cp", runtime="python", protocol=ProtocolSupport(version=1, range=(1, 1)), capabilities=()
)
fleets = st.lists(descriptors, min_size=1, max_size=4)


@settings(max_examples=40)
@given(st.lists(names, max_size=4), fleets)
def test_it_agrees_with_the_plan_that_dispatching_makes(requires, workers):
    """A need without an actor asks for the capabilities alone: same verdict, code and delta."""
    contract = plan_capabilities(requires, workers, CONTROL_PLANE, "ml")
    candidates = tuple(
        replace(candidate_of(worker), id=str(index), foreign=False) for index, worker in enumerate(workers)
    )
    ours = plan_dispatch(
        Need("ml", requires=frozenset(requires)), FleetSnapshot("ml", candidates), CONTROL_PLANE
    )
    assert (ours.status is DispatchStatus.ROUTABLE) == (contract.code is None)
    assert ours.code == contract.code
    assert set(ours.missing_capabilities) == set(contract.missing_capabilities)
    assert sorted(ours.worker_ranges) == sorted(contract.worker_ranges)
    assert len(ours.workers) == len(contract.workers)


@settings(max_examples=40)
@given(st.lists(names, max_size=4), fleets)
def test_the_requirements_keep_the_order_in_which_they_were_first_named(requires, workers):
    """And so does what is missing of them."""
    plan = plan_capabilities(requires, workers, CONTROL_PLANE, "ml")
    assert plan.requires == tuple(dict.fromkeys(requires))
    assert [name for name in plan.requires if name in plan.missing_capabilities] == list(
        plan.missing_capabilities
    )


def test_the_reason_is_the_contracts_copy():
    """The one prose that is fixed."""
    worker = WorkerDescriptor(instance_id="w", runtime="node", capabilities=())
    assert plan_capabilities(["saga", "signals"], [worker], CONTROL_PLANE, "ml").reason == (
        "blocked: no compatible worker (requires saga, signals)"
    )
