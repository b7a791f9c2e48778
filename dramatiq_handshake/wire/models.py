"""The worker descriptor: what a process says it can do, as a frozen model and as JSON on the wire.

*Absent is not empty.* `None` here always means that the field is not there: no `protocol` is a legacy
worker, no `capabilities` is the v1 baseline, no `registrations` is a worker that does not announce,
whereas empty ones say "none". An absent field is never written as ``null``; a ``null`` that a peer
wrote is read as absent. Fields of a newer SDK that we don't know survive a round trip.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, FailFast, PlainValidator, Strict
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from dramatiq_handshake.wire.ecmascript import code_units, js_number, sorted_unique, stringify

__all__ = [
    "LEGACY_PROTOCOL",
    "PROTOCOL_VERSION",
    "SDK_NAME",
    "UNKNOWN_SDK",
    "V1_BASELINE",
    "ProtocolSupport",
    "Sdk",
    "WireModel",
    "WorkerDescriptor",
    "WorkflowRegistration",
]

#: The name under which workers of this library state themselves in `sdk`.
SDK_NAME: Final = "dramatiq-handshake"

#: The wire-protocol major that this release speaks.
PROTOCOL_VERSION: Final = 1

#: What a worker that states no `capabilities` can do: the features of protocol v1.
V1_BASELINE: Final = (
    "saga",
    "signals",
    "search-attributes",
    "priority",
    "entities",
    "child-workflows",
    "singleton",
    "schedules",
    "continue-as-new",
    "queries",
    "cancellation",
)


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise PydanticCustomError("number_type", "a number")
    return js_number(value)


class _StopAtFirst(FailFast):
    """Reports the first bad item only: a hostile list of half a million would cost as many errors."""

    def __hash__(self) -> int:  # `X | None` hashes what annotates X, and FailFast can't be hashed
        return hash(type(self))


#: A JSON number, held as ECMAScript reads it: a double, as `int` where it is integral.
Number = Annotated[int | float, PlainValidator(_number)]
Names = Annotated[tuple[str, ...], Strict(False), _StopAtFirst()]


class WireModel(BaseModel):
    """Frozen, camelCase on the wire, strict about types, keeping what it doesn't know."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        defer_build=True,
        extra="allow",
        frozen=True,
        populate_by_name=True,
        strict=True,
    )

    def to_wire(self, *, stated_nulls: bool = False) -> dict[str, Any]:
        """The JSON object as stated: the contract's field order, then the fields we don't know.

        Args:
            stated_nulls: Whether a ``null`` that a peer stated for a field is repeated. Negotiation
                results of the contract do so; what we publish never does.
        """
        stated = self.model_fields_set
        wire: dict[str, Any] = {}
        for name, info in type(self).model_fields.items():
            value = getattr(self, name)
            if value is None and not (stated_nulls and name in stated):
                continue
            wire[info.alias or name] = _plain(value, stated_nulls)
        wire.update(self.model_extra or {})
        return wire


def _plain(value: Any, stated_nulls: bool) -> Any:
    if isinstance(value, WireModel):
        return value.to_wire(stated_nulls=stated_nulls)
    if isinstance(value, tuple):
        return [_plain(item, stated_nulls) for item in value]
    return value


class Sdk(WireModel):
    """The library that a worker runs, e.g. ``dramatiq-handshake`` ``0.1.0``."""

    name: str
    version: str


class ProtocolSupport(WireModel):
    """The wire-protocol majors that a worker speaks.

    Attributes:
        version: The major it prefers.
        range: The lowest and the highest major it speaks, both included.
    """

    version: Number
    range: Annotated[tuple[Number, Number], Strict(False)]


class WorkflowRegistration(WireModel):
    """One workflow that a worker can execute itself; what it doesn't state stays unstated.

    Attributes:
        name: The workflow's name; here, the actor's.
        version: The version it runs; `None` is silence, which matches any.
        group: The queue that the worker consumes for it.
        requires: The capabilities that the workflow demands; `()` states "none".
        origin: The package that declared it.
    """

    name: str
    version: str | None = None
    group: str | None = None
    requires: Names | None = None
    origin: str | None = None

    def canonical(self) -> dict[str, Any]:
        """What counts for the ETag: every field, ``null`` where absent, sets sorted and unique."""
        return {
            "name": self.name,
            "version": self.version,
            "group": self.group,
            "requires": None if self.requires is None else sorted_unique(self.requires),
            "origin": self.origin,
        }


Registrations = Annotated[tuple[WorkflowRegistration, ...], Strict(False), _StopAtFirst()]

#: What stands in for a legacy worker's `sdk` and `protocol`.
UNKNOWN_SDK: Final = Sdk.model_construct(name="unknown", version="0")
LEGACY_PROTOCOL: Final = ProtocolSupport.model_construct(version=1, range=(1, 1))


class WorkerDescriptor(WireModel):
    """Everything a worker advertises (wire contract, design §3); `None` is an absent field.

    Attributes:
        instance_id: Unique per boot.
        runtime: ``node`` or ``python``.
        sdk: The worker's library; absent is unknown.
        protocol: The majors it speaks; absent is a legacy worker, ``[1, 1]``.
        capabilities: The names it advertises; absent is `V1_BASELINE`, empty is none.
        workflows: The names of its workflows (its non-step actors).
        steps: The names of its steps.
        registrations: What it can execute, in detail; absent is "does not announce".
        partition: The partition it consumes.
        namespace: The tenant it serves.
        started_at: When it started, by its own clock (ms since the epoch).
    """

    instance_id: str
    runtime: Literal["node", "python"]
    sdk: Sdk | None = None
    protocol: ProtocolSupport | None = None
    capabilities: Names | None = None
    workflows: Names | None = None
    steps: Names | None = None
    registrations: Registrations | None = None
    partition: str | None = None
    namespace: str | None = None
    started_at: Number | None = None

    @property
    def is_legacy(self) -> bool:
        """Whether the worker predates the handshake: it states no protocol."""
        return self.protocol is None

    def normalised(self) -> WorkerDescriptor:
        """This descriptor with the contract's defaults for what is absent (design §3).

        `registrations`, `partition` and `namespace` have no default. Fields of the descriptor itself
        that we don't know are left out: both sides of a negotiation are compared by what we do know.
        """
        stated = self.model_fields_set & {"registrations", "partition", "namespace"}
        return WorkerDescriptor.model_construct(
            _fields_set={*_ALWAYS_STATED, *stated},
            instance_id=self.instance_id,
            runtime=self.runtime,
            sdk=self.sdk or UNKNOWN_SDK,
            protocol=self.protocol or LEGACY_PROTOCOL,
            capabilities=V1_BASELINE if self.capabilities is None else self.capabilities,
            workflows=self.workflows or (),
            steps=self.steps or (),
            registrations=self.registrations,
            partition=self.partition,
            namespace=self.namespace,
            started_at=0 if self.started_at is None else self.started_at,
        )

    def canonical(self) -> dict[str, Any]:
        """What counts for the ETag (design §3): defaults filled in, sets sorted and unique.

        `registrations` is there only where the worker announces; an absent `partition` or `namespace`
        is ``null``.
        """
        sdk, protocol = self.sdk or UNKNOWN_SDK, self.protocol or LEGACY_PROTOCOL
        canonical: dict[str, Any] = {
            "instanceId": self.instance_id,
            "runtime": self.runtime,
            "sdk": {"name": sdk.name, "version": sdk.version},
            "protocol": {"version": protocol.version, "range": protocol.range},
            "capabilities": sorted_unique(V1_BASELINE if self.capabilities is None else self.capabilities),
            "workflows": sorted_unique(self.workflows or ()),
            "steps": sorted_unique(self.steps or ()),
        }
        if self.registrations is not None:
            entries = {stringify(entry): entry for entry in (item.canonical() for item in self.registrations)}
            canonical["registrations"] = [entries[text] for text in sorted_unique(entries)]
        canonical["partition"] = self.partition
        canonical["namespace"] = self.namespace
        canonical["startedAt"] = 0 if self.started_at is None else self.started_at
        return canonical

    def to_json(self) -> str:
        """The descriptor as we publish it: the contract's field order, sets sorted and unique."""
        published: dict[str, Any] = {
            name: _sorted(getattr(self, name)) for name in ("capabilities", "workflows", "steps")
        }
        if self.registrations is not None:
            published["registrations"] = _sorted_registrations(self.registrations)
        return stringify(self.model_copy(update=published).to_wire())


_ALWAYS_STATED = frozenset(WorkerDescriptor.model_fields) - {"registrations", "partition", "namespace"}


def _sorted(names: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(sorted_unique(names))


def _sorted_registrations(items: Iterable[WorkflowRegistration]) -> tuple[WorkflowRegistration, ...]:
    entries = [item.model_copy(update={"requires": _sorted(item.requires)}) for item in items]
    # By the whole text, so that two entries which differ only in a field we don't know are both kept.
    unique = {stringify(entry.to_wire()): entry for entry in entries}
    return tuple(sorted(unique.values(), key=lambda entry: code_units(stringify(entry.canonical()))))
