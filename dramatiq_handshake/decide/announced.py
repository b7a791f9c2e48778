"""Folding announcements: every distinct claim is kept, none is picked, silence is no claim."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dramatiq_handshake.decide.directory_models import (
    Disagreement,
    DisagreementAxis,
    Evidence,
    WorkflowEntry,
)
from dramatiq_handshake.wire.descriptor import WorkerDescriptor, WorkflowRegistration
from dramatiq_handshake.wire.ecmascript import code_units, sorted_unique

__all__ = ["announced", "registrations_of"]


@dataclass(slots=True)
class _Claims:
    """What live workers say of one ``name@version``."""

    name: str
    version: str | None
    groups: set[str] = field(default_factory=set)
    origins: set[str] = field(default_factory=set)
    requires: set[tuple[str, ...]] = field(default_factory=set)
    runtimes: set[str] = field(default_factory=set)
    instances: set[str] = field(default_factory=set)

    def add(self, worker: WorkerDescriptor, registration: WorkflowRegistration) -> None:
        self.runtimes.add(worker.runtime)
        self.instances.add(worker.instance_id)
        if registration.group is not None:
            self.groups.add(registration.group)
        if registration.origin is not None:
            self.origins.add(registration.origin)
        if registration.requires is not None:
            self.requires.add(tuple(sorted_unique(registration.requires)))

    def entry(self, key: str) -> WorkflowEntry:
        groups, origins = sorted_unique(self.groups), sorted_unique(self.origins)
        requires = sorted(self.requires, key=_demands_order)
        claims = {
            DisagreementAxis.GROUP: groups,
            DisagreementAxis.ORIGIN: origins,
            DisagreementAxis.REQUIRES: [",".join(demands) for demands in requires],
        }
        return WorkflowEntry(
            evidence=Evidence.DECLARED,
            key=key,
            name=self.name,
            version=self.version,
            groups=tuple(groups),
            origins=tuple(origins),
            requires=tuple(requires),
            runtimes=tuple(sorted_unique(self.runtimes)),
            instances=tuple(sorted_unique(self.instances)),
            disagreements=tuple(
                Disagreement(axis=axis, values=tuple(values))
                for axis, values in claims.items()
                if len(values) > 1
            ),
        )


def _demands_order(demands: tuple[str, ...]) -> tuple[bytes, int]:
    return code_units(",".join(demands)), len(demands)


def registrations_of(worker: WorkerDescriptor) -> Iterable[WorkflowRegistration]:
    """What a worker announces: its registrations, then the bare names that none of them covers."""
    registrations = worker.registrations or ()
    yield from registrations
    covered = {registration.name for registration in registrations}
    for name in worker.workflows or ():
        if name not in covered:
            yield WorkflowRegistration.model_construct(name=name)


def announced(descriptors: Iterable[WorkerDescriptor]) -> tuple[WorkflowEntry, ...]:
    """Fold what live workers announce into one entry per ``name@version``, sorted by key.

    A name ``a@1`` without a version falls on the key of ``a`` in version ``1``; the first announcer
    names the entry.
    """
    claims: dict[str, _Claims] = {}
    for worker in descriptors:
        for one in registrations_of(worker):
            key = one.name if one.version is None else f"{one.name}@{one.version}"
            claims.setdefault(key, _Claims(one.name, one.version)).add(worker, one)
    return tuple(claims[key].entry(key) for key in sorted_unique(claims))
