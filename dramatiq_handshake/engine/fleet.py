"""Assembling the fleet view from what the registry held. Pure: no I/O, no clock."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from typing import Any

from dramatiq_handshake.decide.announced import registrations_of
from dramatiq_handshake.decide.directory import InvalidAdvertisement
from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.negotiate import (
    MajorRange,
    Outcome,
    capabilities_of,
    negotiate_in_fleet,
    protocol_range_of,
    range_text,
    ranges_overlap,
)
from dramatiq_handshake.engine.advertisements import Advertised, ReadWorker
from dramatiq_handshake.engine.fleet_models import (
    AnnouncedActor,
    ControlPlaneReport,
    FleetReport,
    WorkerReport,
)
from dramatiq_handshake.engine.scope import Scope
from dramatiq_handshake.wire.descriptor import UNKNOWN_SDK, WorkerDescriptor, WorkflowRegistration
from dramatiq_handshake.wire.ecmascript import sorted_unique
from dramatiq_handshake.wire.heartbeat import Heartbeat
from dramatiq_handshake.wire.tokens import partition_of_token

__all__ = ["assemble_fleet", "other_brokers_text"]

_NO_BEAT = Heartbeat()


def assemble_fleet(
    advertised: Advertised,
    *,
    scope: Scope,
    control_plane: WorkerDescriptor,
    demands: Collection[str],
    now_ms: int,
    ttl_ms: int,
    other_brokers: int = 0,
) -> FleetReport:
    """The fleet as this control plane sees it.

    Args:
        advertised: What the registry held, without the workers of another broker.
        scope: What may be seen of it.
        control_plane: Who looks: workers are negotiated against it.
        demands: The capabilities that its own actors require.
        now_ms: The server's time.
        ttl_ms: How long an advertisement lives without a beat.
        other_brokers: How many workers of another broker were left out.
    """
    by_instance: defaultdict[str, list[ReadWorker]] = defaultdict(list)
    for read in advertised.workers:
        by_instance[read.record.instance_id].append(read)
    workers: list[WorkerReport] = []
    actors = _Actors()
    hidden = 0
    for instance in sorted_unique(by_instance):
        places = by_instance[instance]
        # One instance id may stand for different workers in different tenants: another SDK numbers them.
        seen = [place for place in places if _is_seen(place, scope)]
        if seen:
            workers.append(_Row(seen, now_ms, ttl_ms).report(control_plane, demands, actors))
        else:
            hidden += 1
    planes = tuple(
        _control_plane(read.instance_id, read.reading, control_plane, now_ms)
        for read in advertised.control_planes
        if isinstance(read.reading, WorkerDescriptor) and scope.sees_namespace(read.reading.namespace)
    )
    fleet = FleetReport(
        workers=tuple(workers),
        control_planes=planes,
        invalid=advertised.invalid_within(scope),
        other_namespaces=hidden,
        other_brokers=other_brokers,
    )
    return fleet.model_copy(update={"detail": _detail(fleet, scope)})


def _is_seen(place: ReadWorker, scope: Scope) -> bool:
    if place.descriptor is not None:
        return scope.sees_namespace(place.descriptor.namespace)
    return scope.sees_queue(place.record.token)


class _Row:
    """What is known of one worker, gathered from each token that it consumes."""

    def __init__(self, places: Sequence[ReadWorker], now_ms: int, ttl_ms: int) -> None:
        self._now_ms = now_ms
        self._ttl_ms = ttl_ms
        # While a worker re-advertises, its tokens differ for a moment: the freshest beat speaks for it.
        freshest = sorted(places, key=_freshness, reverse=True)
        self._beat = next((place for place in freshest if place.heartbeat is not None), freshest[0])
        self._described = next((place for place in freshest if place.descriptor is not None), None)
        self._tokens = tuple(sorted_unique(place.record.token for place in places))
        self._places = freshest

    def report(
        self, control_plane: WorkerDescriptor, demands: Collection[str], actors: _Actors
    ) -> WorkerReport:
        fields = self._beat_fields()
        descriptor = self._described.descriptor if self._described is not None else None
        if descriptor is not None:
            return WorkerReport(
                **fields,
                **_negotiated(control_plane, descriptor, demands),
                **_stated(descriptor, self._now_ms),
                actors=actors.of(descriptor),
                partition=descriptor.partition or partition_of_token(self._tokens[0]),
                legacy=descriptor.is_legacy,
            )
        invalid = next(
            (place.reading for place in self._places if isinstance(place.reading, InvalidAdvertisement)), None
        )
        partition = partition_of_token(self._tokens[0])
        if invalid is not None:
            return WorkerReport(
                **fields,
                outcome=Outcome.INCOMPATIBLE,
                code=invalid.code,
                reason=invalid.reason,
                partition=partition,
            )
        silent = WorkerDescriptor.model_construct(instance_id=self._beat.record.instance_id, runtime="python")
        return WorkerReport(
            **fields, **_negotiated(control_plane, silent, demands), partition=partition, legacy=True
        )

    def _beat_fields(self) -> dict[str, Any]:
        record, beat = self._beat.record, self._beat.heartbeat or _NO_BEAT
        return {
            "instance_id": record.instance_id,
            "tokens": self._tokens,
            "state": beat.state,
            "threads": beat.threads,
            "in_flight": beat.in_flight,
            "last_beat_age_ms": self._beat_age_ms(beat),
            "foreign": not any(place.record.indexed for place in self._places),
            "broker": next((place.record.broker for place in self._places if place.record.broker), ""),
        }

    def _beat_age_ms(self, beat: Heartbeat) -> int | None:
        remaining_ms = self._beat.record.remaining_ms
        if remaining_ms is not None:
            return max(0, self._ttl_ms - remaining_ms)
        # A key without an expiry: the worker's own clock is all there is.
        return _age_ms(beat.last_beat_at, self._now_ms)


def _freshness(place: ReadWorker) -> tuple[int, str]:
    remaining_ms = place.record.remaining_ms
    return (-1 if remaining_ms is None else remaining_ms, place.record.token)


def _negotiated(
    control_plane: WorkerDescriptor, worker: WorkerDescriptor, demands: Collection[str]
) -> dict[str, Any]:
    session = negotiate_in_fleet(control_plane, worker, demands)
    reason = ""
    if session.outcome is Outcome.INCOMPATIBLE:
        reason = _no_common_major(session.remote_range, session.local_range)
    elif session.missing_on_remote:
        reason = f"lacks {', '.join(session.missing_on_remote)}, which actors of this control plane require"
    return {
        "outcome": session.outcome,
        "code": session.code,
        "reason": reason,
        "protocol": session.session_protocol,
        "protocol_range": session.remote_range,
        "capabilities": tuple(sorted_unique(capabilities_of(worker))),
        "shared": session.shared,
        "missing": session.missing_on_remote,
    }


def _no_common_major(theirs: MajorRange, ours: MajorRange) -> str:
    return f"speaks wire protocol {range_text(theirs)}, this control plane {range_text(ours)}"


def _stated(descriptor: WorkerDescriptor, now_ms: int) -> dict[str, Any]:
    sdk = descriptor.sdk or UNKNOWN_SDK
    started_at = descriptor.started_at
    return {
        "sdk": sdk.name,
        "sdk_version": sdk.version,
        "runtime": descriptor.runtime,
        "namespace": descriptor.namespace,
        "started_at_ms": _whole(started_at),
        "uptime_ms": _age_ms(started_at, now_ms),
    }


def _whole(ms: float | None) -> int | None:
    """A moment that a peer stated, where it is one: 0 is how the contract says "unknown"."""
    return int(ms) if ms and math.isfinite(ms) else None


def _age_ms(ms: float | None, now_ms: int) -> int | None:
    moment = _whole(ms)
    return None if moment is None else max(0, now_ms - moment)


class _Actors:
    """The actors that a fleet announces, each held once: ten thousand workers share a handful of releases."""

    def __init__(self) -> None:
        self._known: dict[Hashable, AnnouncedActor] = {}

    def of(self, descriptor: WorkerDescriptor) -> tuple[AnnouncedActor, ...]:
        workflows = sorted(registrations_of(descriptor), key=lambda one: (one.name, one.version or ""))
        return (
            *(self._announced(one) for one in workflows),
            *(self._step(name) for name in sorted_unique(descriptor.steps or ())),
        )

    def _announced(self, one: WorkflowRegistration) -> AnnouncedActor:
        key = (one.name, one.version, one.group, one.requires, one.origin)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = AnnouncedActor(
                name=one.name,
                version=one.version,
                queue=one.group,
                requires=None if one.requires is None else tuple(sorted_unique(one.requires)),
                origin=one.origin,
            )
        return known

    def _step(self, name: str) -> AnnouncedActor:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = AnnouncedActor(name=name, step=True)
        return known


def _control_plane(
    instance_id: str, descriptor: WorkerDescriptor, looking: WorkerDescriptor, now_ms: int
) -> ControlPlaneReport:
    # Control planes never dispatch to each other: only their majors have to get along.
    theirs, ours = protocol_range_of(descriptor), protocol_range_of(looking)
    common = ranges_overlap(theirs, ours)
    return ControlPlaneReport(
        instance_id=instance_id,
        outcome=Outcome.COMPATIBLE if common else Outcome.INCOMPATIBLE,
        code=None if common else Code.PROTOCOL_INCOMPATIBLE,
        reason="" if common else _no_common_major(theirs, ours),
        protocol=min(theirs[1], ours[1]) if common else None,
        protocol_range=theirs,
        capabilities=tuple(sorted_unique(capabilities_of(descriptor))),
        **_stated(descriptor, now_ms),
    )


def other_brokers_text(workers: int) -> str:
    """Why an answer may hold fewer workers than the registry does."""
    return f"{workers} worker(s) of another broker share this registry and prefix; they are not listed."


def _detail(fleet: FleetReport, scope: Scope) -> str:
    sentences = [_count_text(fleet)]
    if fleet.other_namespaces:
        sentences.append(
            f"{fleet.other_namespaces} worker(s) live in other namespaces; "
            f"this engine sees {scope.namespace!r}."
        )
    if fleet.other_brokers:
        sentences.append(other_brokers_text(fleet.other_brokers))
    if fleet.invalid:
        sentences.append(f"{len(fleet.invalid)} advertisement(s) could not be read (descriptor.invalid).")
    return " ".join(sentences)


def _count_text(fleet: FleetReport) -> str:
    if not fleet.workers:
        return "No worker is live here."
    counts = [f"{number} {outcome.value}" for outcome, number in fleet.outcomes.items() if number]
    return (
        f"{len(fleet.workers)} worker(s) live: {', '.join(counts)}; "
        f"{len(fleet.control_planes)} control plane(s)."
    )
