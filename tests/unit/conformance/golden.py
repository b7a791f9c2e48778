"""The values behind ``conformance/fixtures``, and where those are."""

from __future__ import annotations

import json
from pathlib import Path

from dramatiq_handshake.decide.negotiate import Negotiation, negotiate
from dramatiq_handshake.wire.descriptor import (
    ProtocolSupport,
    Sdk,
    WorkerDescriptor,
    WorkflowRegistration,
    parse_descriptor,
)
from dramatiq_handshake.wire.ecmascript import stringify

CONFORMANCE = Path(__file__).parents[3] / "conformance"
FIXTURES = CONFORMANCE / "fixtures"
VECTORS = CONFORMANCE / "vectors"

WORKER = WorkerDescriptor(
    instance_id="py-gpu-1-4711-9f3a1c",
    runtime="python",
    sdk=Sdk(name="dramatiq-handshake", version="0.1.0"),
    protocol=ProtocolSupport(version=1, range=(1, 1)),
    capabilities=("retries", "gpu", "results"),
    workflows=("train", "evaluate"),
    steps=("load-batch",),
    started_at=1752710400123,
)
ANNOUNCING_WORKER = WorkerDescriptor(
    instance_id="py-gpu-2-4712-07be55",
    runtime="python",
    sdk=Sdk(name="dramatiq-handshake", version="0.1.0"),
    protocol=ProtocolSupport(version=1, range=(1, 2)),
    capabilities=(),
    workflows=("train", "évaluer \U0001f680", "évaluer \ufb01"),
    steps=(),
    registrations=(
        WorkflowRegistration(
            name="train", version="2", group="ml@davi-local", requires=("saga", "gpu"), origin="vision"
        ),
        WorkflowRegistration(name="train", version="1", group="ml@davi-local", requires=()),
        WorkflowRegistration(name="évaluer \U0001f680", group="ml@davi-local"),
        WorkflowRegistration(name="évaluer \ufb01"),
    ),
    partition="davi-local",
    namespace="davi-local",
    started_at=1752710400456,
)
CONTROL_PLANE = WorkerDescriptor(
    instance_id="py-web-1-99-c0ffee",
    runtime="python",
    sdk=Sdk(name="dramatiq-handshake", version="0.1.0"),
    protocol=ProtocolSupport(version=1, range=(1, 1)),
    capabilities=("gpu", "results", "retries"),
    workflows=(),
    steps=(),
    started_at=1752710399000,
)
FUTURE_CONTROL_PLANE = CONTROL_PLANE.model_copy(update={"protocol": ProtocolSupport(version=3, range=(3, 4))})

DESCRIPTORS = {"descriptor.json": WORKER, "descriptor-with-registrations.json": ANNOUNCING_WORKER}
NEGOTIATIONS = {
    "negotiation-compatible.json": (CONTROL_PLANE, WORKER, None),
    "negotiation-degraded.json": (CONTROL_PLANE, ANNOUNCING_WORKER, ("saga", "gpu")),
    "negotiation-incompatible.json": (FUTURE_CONTROL_PLANE, WORKER, None),
}
HEARTBEAT = {
    "ts_ms": 1752710410123,
    "state": "up",
    "threads": 8,
    "in_flight": 3,
}


def negotiation_text(name: str) -> str:
    """A negotiation fixture as this library produces it: the two sides as published, and the result."""
    local, remote, required = NEGOTIATIONS[name]
    sides = [json.loads(side.to_json()) for side in (local, remote)]
    return stringify(
        {
            "local": sides[0],
            "remote": sides[1],
            "required": required,
            "result": negotiated(name).to_wire(),
        }
    )


def negotiated(name: str) -> Negotiation:
    """What the two sides of a fixture agree on, each as the other reads it."""
    local, remote, required = NEGOTIATIONS[name]
    one, other = (parse_descriptor(side.to_json()) for side in (local, remote))
    return negotiate(one, other, required)


def manifest() -> list[dict[str, str]]:
    """The fixtures as listed beside them."""
    entries: list[dict[str, str]] = json.loads((FIXTURES / "manifest.json").read_text("ascii"))["fixtures"]
    return entries
