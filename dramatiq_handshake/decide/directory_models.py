"""What the directory answers: frozen values, and their JSON as the contract writes it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from dramatiq_handshake.decide.events import Code

__all__ = [
    "Disagreement",
    "DisagreementAxis",
    "Evidence",
    "InvalidAdvertisement",
    "OtherPartition",
    "WorkflowDirectory",
    "WorkflowEntry",
]


class _Value(BaseModel):
    """Frozen; built at first use, since most processes never ask the directory."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Evidence(StrEnum):
    """What an entry rests on."""

    DECLARED = "declared"
    OBSERVED = "observed"


class DisagreementAxis(StrEnum):
    """What live workers may claim differently of one workflow."""

    GROUP = "group"
    ORIGIN = "origin"
    REQUIRES = "requires"


class Disagreement(_Value):
    """More than one claim on an axis; which of them holds is for a human to say.

    Attributes:
        axis: What they differ in.
        values: Every distinct claim, sorted; demands are joined by commas.
    """

    axis: DisagreementAxis
    values: tuple[str, ...]


class WorkflowEntry(_Value):
    """One workflow, or one queue that somebody serves without saying what.

    Attributes:
        evidence: *Declared*: a live worker said "I can run this". *Observed*: somebody consumes a queue
            of this name, no more; calling it by name is an error (design §8).
        key: ``name@version``, or the name where no version is stated.
        name: The workflow's name; of an observed entry, the queue's.
        version: The version; `None` is unstated.
        groups: Every queue that workers consume for it.
        origins: Every package that is said to have declared it.
        requires: Every distinct set of demands; a stated "none" is an empty one.
        runtimes: The runtimes of those who announce it.
        instances: The workers that announce it, or that consume the queue.
        disagreements: The axes on which their claims differ.
        plain_consumers: How many plain Dramatiq workers consume the queue of an observed entry.
    """

    evidence: Evidence
    key: str
    name: str
    version: str | None = None
    groups: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    requires: tuple[tuple[str, ...], ...] = ()
    runtimes: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    plain_consumers: int = 0

    def to_wire(self) -> dict[str, Any]:
        """The entry as the contract writes it; an unstated version is left out."""
        stated = {} if self.version is None else {"version": self.version}
        return {
            "evidence": self.evidence.value,
            "key": self.key,
            "name": self.name,
            **stated,
            "groups": list(self.groups),
            "origins": list(self.origins),
            "requires": [list(demands) for demands in self.requires],
            "runtimes": list(self.runtimes),
            "instances": list(self.instances),
            "disagreements": [
                {"axis": one.axis.value, "values": list(one.values)} for one in self.disagreements
            ],
        }


class OtherPartition(_Value):
    """Workers that live on a partition which this engine does not route to.

    Attributes:
        partition: Its name.
        groups: The tokens consumed there, sorted.
        instances: The workers that consume them, sorted.
    """

    partition: str
    groups: tuple[str, ...]
    instances: tuple[str, ...]

    def to_wire(self) -> dict[str, Any]:
        """The partition as the contract writes it."""
        return {
            "partition": self.partition,
            "groups": list(self.groups),
            "instances": list(self.instances),
        }


class InvalidAdvertisement(_Value):
    """An advertisement that could not be read; it was skipped and the others are unharmed.

    Attributes:
        source: Where it was found, e.g. ``ml:py-host-1``; or its place in the list, ``descriptors[3]``.
        field: The path of the offending field; ``""`` is the whole.
        expected: What the contract wants there.
        got: What came.
    """

    source: str
    field: str
    expected: str
    got: str

    @property
    def code(self) -> Code:
        """Always ``descriptor.invalid``."""
        return Code.DESCRIPTOR_INVALID

    @property
    def reason(self) -> str:
        """The finding in a sentence."""
        where = self.field or "the whole value"
        return f"advertisement {self.source} skipped: {where}: expected {self.expected}, got {self.got}"


class WorkflowDirectory(_Value):
    """What this deployment can run, and why the answer is empty if it is.

    Attributes:
        supported: Whether there is a registry to ask; `False` means that, and only that.
        workflows: The entries by key, declared before observed.
        other_partitions: Who is live where this engine does not route to.
        detail: The answer in a sentence for people.
        invalid: The advertisements that could not be read.
    """

    supported: bool
    workflows: tuple[WorkflowEntry, ...] = ()
    other_partitions: tuple[OtherPartition, ...] = ()
    detail: str = ""
    invalid: tuple[InvalidAdvertisement, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """The directory as the contract writes it, without the prose."""
        return {
            "supported": self.supported,
            "workflows": [entry.to_wire() for entry in self.workflows],
            "otherPartitions": [partition.to_wire() for partition in self.other_partitions],
        }
