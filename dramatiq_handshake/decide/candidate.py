"""A class of workers, or one worker, reduced to what counts for dispatch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from dramatiq_handshake.decide.negotiate import MajorRange, capabilities_of, protocol_range_of
from dramatiq_handshake.wire.descriptor import SDK_NAME, V1_BASELINE, WorkerDescriptor

__all__ = ["Candidate", "candidate_of", "legacy_candidate"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Someone who may run a message: a class of equal workers, or a single one.

    Attributes:
        id: The class id, or the instance id.
        capabilities: What it advertises.
        protocol: The lowest and highest major it speaks.
        announced: Per actor the versions that it states; `None` where it states none, which matches
            any. The whole is `None` for a legacy worker that says nothing about its actors.
        steps: The names of its steps; for a step its name is enough.
        broker: The fingerprint of the broker that it consumes from; ``""`` where unknown.
        foreign: Whether another SDK runs it: listed, never dispatched to.
        legacy: Whether it predates the handshake: v1 with the baseline, assumed compatible.
        descriptor: What it was read from, whole, to be shown to people; a class's names no instance.
    """

    id: str
    capabilities: frozenset[str] = frozenset(V1_BASELINE)
    protocol: MajorRange = (1, 1)
    announced: Mapping[str, frozenset[str] | None] | None = field(default_factory=dict, hash=False)
    steps: frozenset[str] = frozenset()
    broker: str = ""
    foreign: bool = False
    legacy: bool = False
    descriptor: WorkerDescriptor | None = field(default=None, compare=False, repr=False)

    def announces(self, actor: str) -> bool:
        """Whether it says that it can run an actor of this name, in whatever version."""
        return self.announced is None or actor in self.announced or actor in self.steps

    def stated_versions(self, actor: str) -> frozenset[str] | None:
        """The versions that it states for an actor; `None` is silence, which matches any."""
        return None if self.announced is None else self.announced.get(actor)

    def runs_version(self, actor: str, version: str | None) -> bool:
        """Whether one of the versions that it states for an announced actor is the one asked for."""
        stated = self.stated_versions(actor)
        return version is None or stated is None or version in stated


def candidate_of(descriptor: WorkerDescriptor, *, id: str | None = None, broker: str = "") -> Candidate:  # noqa: A002 - the field's name
    """The candidate that a descriptor describes.

    Args:
        descriptor: The worker's, or its class's.
        id: Names it; the instance id by default.
        broker: The fingerprint of the broker that it consumes from.
    """
    sdk = descriptor.sdk
    return Candidate(
        id=descriptor.instance_id if id is None else id,
        capabilities=capabilities_of(descriptor),
        protocol=protocol_range_of(descriptor),
        announced=_announced(descriptor),
        steps=frozenset(descriptor.steps or ()),
        broker=broker,
        foreign=sdk is not None and sdk.name != SDK_NAME,
        legacy=descriptor.is_legacy,
        descriptor=descriptor,
    )


def legacy_candidate(id: str) -> Candidate:  # noqa: A002 - the field's name
    """Who beats without a readable descriptor: legacy v1, assumed compatible (design §4)."""
    return Candidate(id=id, announced=None, legacy=True)


def _announced(descriptor: WorkerDescriptor) -> Mapping[str, frozenset[str] | None] | None:
    lists = (descriptor.workflows, descriptor.steps, descriptor.registrations)
    if descriptor.is_legacy and all(stated is None for stated in lists):
        return None
    announced: dict[str, frozenset[str] | None] = {}
    for registration in descriptor.registrations or ():
        known = announced.get(registration.name, frozenset())
        # Silence in one registration matches any version, whatever the others state.
        if known is None or registration.version is None:
            announced[registration.name] = None
        else:
            announced[registration.name] = known | {registration.version}
    for name in descriptor.workflows or ():
        announced.setdefault(name, None)
    return MappingProxyType(announced)
