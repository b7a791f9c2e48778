"""The directory: which workflows exist in this deployment, and why the list is empty if it is.

Two tiers of evidence (design §8, spec "What workflows exist in this deployment?"). *Declared* entries
are what live workers announce. *Observed* ones are queues that somebody consumes without a word: a
worker too old to announce, or plain Dramatiq. A descriptor always wins: a token that a worker's
announcements explain is never listed a second time, and one that it declares as a step never at all.

One unreadable advertisement never costs the others their entry: it is skipped, and reported in the
result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dramatiq_handshake.decide.announced import announced
from dramatiq_handshake.decide.directory_detail import detail_of
from dramatiq_handshake.decide.directory_models import (
    Disagreement,
    DisagreementAxis,
    Evidence,
    InvalidAdvertisement,
    OtherPartition,
    WorkflowDirectory,
    WorkflowEntry,
)
from dramatiq_handshake.errors import DescriptorInvalid, HeartbeatInvalid, WireError
from dramatiq_handshake.wire.descriptor import SDK_NAME, WorkerDescriptor, describe, parse_descriptor
from dramatiq_handshake.wire.ecmascript import code_units, sorted_unique
from dramatiq_handshake.wire.tokens import (
    DEFAULT_PARTITION,
    partition_of_token,
    sanitize_queue_token,
)

__all__ = [
    "Disagreement",
    "DisagreementAxis",
    "Evidence",
    "FoundDescriptor",
    "InvalidAdvertisement",
    "LiveToken",
    "OtherPartition",
    "PlainConsumers",
    "WorkflowDirectory",
    "WorkflowEntry",
    "announced",
    "build_directory",
]


@dataclass(frozen=True, slots=True)
class FoundDescriptor:
    """An advertisement as found, with the name of where it was found, for diagnostics."""

    raw: object
    source: str


@dataclass(frozen=True, slots=True)
class LiveToken:
    """A live heartbeat: `instance_id` consumes `token`."""

    token: str
    instance_id: str


@dataclass(frozen=True, slots=True)
class PlainConsumers:
    """Plain Dramatiq workers consume a queue (design §8).

    Attributes:
        queue: The base queue.
        instances: Their broker ids, where the broker tells them (Redis).
        consumers: How many they are.
    """

    queue: str
    instances: tuple[str, ...] = ()
    consumers: int = 1


def build_directory(
    descriptors: Iterable[object],
    heartbeats: Iterable[object] = (),
    *,
    namespace: str | None = None,
    supported: bool = True,
    plain: Iterable[PlainConsumers] = (),
) -> WorkflowDirectory:
    """Build the directory from what is live right now.

    Args:
        descriptors: Each a `WorkerDescriptor`, a `FoundDescriptor`, raw (see `parse_descriptor`), or the
            `InvalidAdvertisement` that an earlier reading of it gave.
        heartbeats: Each a `LiveToken`, or a raw object with ``group`` and ``instanceId``.
        namespace: The tenant that asks, ``default`` where it has no name; `None` is an operator, who
            sees every tenant.
        supported: Whether there is a registry to ask. If not, nothing else is looked at.
        plain: The plain Dramatiq workers seen, per queue.
    """
    if not supported:
        return WorkflowDirectory(supported=False, detail=detail_of(supported=False))
    invalid: list[InvalidAdvertisement] = []
    workers = list(_readable(descriptors, invalid))
    beats = list(_readable_heartbeats(heartbeats, invalid))
    ours = [worker for worker in workers if _is_of(worker, namespace)]
    declared = announced(ours)
    routed = [beat for beat in beats if _routes_to(beat.token, namespace)]
    others = [beat for beat in beats if not _routes_to(beat.token, namespace)]
    consumers = [one for one in plain if _routes_to(one.queue, namespace)]
    observed = _observed(routed, consumers, _explained(ours, declared), _announcers(ours))
    workflows = tuple(
        sorted((*declared, *observed), key=lambda one: (code_units(one.key), one.evidence.value))
    )
    other_partitions = _other_partitions(others)
    return WorkflowDirectory(
        supported=True,
        workflows=workflows,
        other_partitions=other_partitions,
        detail=detail_of(
            workflows=workflows,
            other_partitions=other_partitions,
            live=bool(workers or beats),
            invalid=len(invalid),
            namespace=namespace,
        ),
        invalid=tuple(invalid),
    )


def _readable(items: Iterable[object], invalid: list[InvalidAdvertisement]) -> Iterable[WorkerDescriptor]:
    for index, item in enumerate(items):
        source, raw = f"descriptors[{index}]", item
        if isinstance(item, FoundDescriptor):
            source, raw = item.source, item.raw
        if isinstance(raw, WorkerDescriptor):
            yield raw
            continue
        if isinstance(raw, InvalidAdvertisement):
            invalid.append(raw)
            continue
        try:
            yield parse_descriptor(raw)
        except DescriptorInvalid as error:
            invalid.append(_skipped(source, error))


def _readable_heartbeats(items: Iterable[object], invalid: list[InvalidAdvertisement]) -> Iterable[LiveToken]:
    for index, item in enumerate(items):
        try:
            beat = item if isinstance(item, LiveToken) else _live_token(item)
        except HeartbeatInvalid as error:
            invalid.append(_skipped(f"heartbeats[{index}]", error))
            continue
        if beat.token:  # nothing can be routed to a token without a name
            yield beat


def _live_token(item: object) -> LiveToken:
    if not isinstance(item, Mapping):
        raise HeartbeatInvalid("", "an object", describe(item))
    found: list[str] = []
    for name in ("group", "instanceId"):
        value = item.get(name)
        if not isinstance(value, str):
            raise HeartbeatInvalid(name, "a text", describe(value) if name in item else "nothing")
        found.append(value)
    return LiveToken(token=found[0], instance_id=found[1])


def _skipped(source: str, error: WireError) -> InvalidAdvertisement:
    return InvalidAdvertisement(source=source, field=error.field, expected=error.expected, got=error.got)


def _is_of(worker: WorkerDescriptor, namespace: str | None) -> bool:
    if namespace is None:
        return True
    return namespace == (DEFAULT_PARTITION if worker.namespace is None else worker.namespace)


def _routes_to(token: str, namespace: str | None) -> bool:
    return namespace is None or partition_of_token(token) == namespace


def _explained(workers: Iterable[WorkerDescriptor], declared: Iterable[WorkflowEntry]) -> set[str]:
    """The tokens that need no entry of their own: workflows, the groups stated for them, and steps."""
    tokens = {sanitize_queue_token(entry.name) for entry in declared}
    tokens.update(group for entry in declared for group in entry.groups)
    for worker in workers:
        for step in worker.steps or ():
            token = sanitize_queue_token(step)
            tokens.update((token, token if worker.partition is None else f"{token}@{worker.partition}"))
    return tokens


def _announcers(workers: Iterable[WorkerDescriptor]) -> set[str]:
    """Workers of this library announce all that they run, so their queues are never a mere observation."""
    return {
        worker.instance_id for worker in workers if worker.sdk is not None and worker.sdk.name == SDK_NAME
    }


def _observed(
    beats: Iterable[LiveToken], plain: Iterable[PlainConsumers], explained: set[str], announcers: set[str]
) -> Iterable[WorkflowEntry]:
    instances: dict[str, set[str]] = {}
    consumers: dict[str, int] = {}
    for beat in beats:
        if beat.token not in explained and beat.instance_id not in announcers:
            instances.setdefault(beat.token, set()).add(beat.instance_id)
    for seen in plain:
        if seen.queue not in explained:
            instances.setdefault(seen.queue, set()).update(seen.instances)
            consumers[seen.queue] = consumers.get(seen.queue, 0) + seen.consumers
    for token, who in instances.items():
        yield WorkflowEntry(
            evidence=Evidence.OBSERVED,
            key=token,
            name=token,
            groups=(token,),
            instances=tuple(sorted_unique(who)),
            plain_consumers=consumers.get(token, 0),
        )


def _other_partitions(beats: Iterable[LiveToken]) -> tuple[OtherPartition, ...]:
    tokens: dict[str, set[str]] = {}
    instances: dict[str, set[str]] = {}
    for beat in beats:
        partition = partition_of_token(beat.token)
        tokens.setdefault(partition, set()).add(beat.token)
        instances.setdefault(partition, set()).add(beat.instance_id)
    return tuple(
        OtherPartition(
            partition=partition,
            groups=tuple(sorted_unique(tokens[partition])),
            instances=tuple(sorted_unique(instances[partition])),
        )
        for partition in sorted_unique(tokens)
    )
