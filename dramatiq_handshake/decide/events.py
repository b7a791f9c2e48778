"""Diagnostics: what this library has to say, as frozen values that everything else subscribes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["Code", "Diagnostic"]


class Code(StrEnum):
    """The closed set of diagnostic codes: the same word in errors, events, metrics, commands and alerts."""

    CAPABILITY_UNAVAILABLE = "capability.unavailable"
    PROTOCOL_INCOMPATIBLE = "protocol.incompatible"
    CAPABILITY_RESTORED = "capability.restored"
    MESSAGE_CARRIED = "message.carried"
    CARRY_FAILED = "carry.failed"
    ACTORS_DIFFER = "actors.differ"
    DESCRIPTOR_INVALID = "descriptor.invalid"
    REGISTRY_UNAVAILABLE = "registry.unavailable"
    REGISTRY_RESTORED = "registry.restored"
    WORKER_STALLED = "worker.stalled"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that happened.

    Attributes:
        code: Which kind of thing.
        reason: A sentence for people.
        attributes: Scalars and lists of text, named as in telemetry.md without the common prefix.
    """

    code: Code
    reason: str
    attributes: Mapping[str, object] = field(default_factory=dict)
