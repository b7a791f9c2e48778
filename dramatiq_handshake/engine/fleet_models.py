"""What `HandshakeEngine.fleet` answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from dramatiq_handshake.decide.directory import InvalidAdvertisement
from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.negotiate import Outcome
from dramatiq_handshake.engine.report import Report

__all__ = ["AnnouncedActor", "ControlPlaneReport", "FleetReport", "WorkerReport"]


class AnnouncedActor(Report):
    """One actor, in one version, that a worker says it can run.

    Attributes:
        name: The actor's name.
        version: The version; `None` is unstated, which matches any.
        queue: The base queue that it consumes for it; `None` is unstated.
        requires: The capabilities that the actor demands; `None` is unstated.
        origin: The package that declared it; `None` is unstated.
        step: Whether it is a step: reached from other actors only, and announced by name alone.
    """

    name: str
    version: str | None = None
    queue: str | None = None
    requires: tuple[str, ...] | None = None
    origin: str | None = None
    step: bool = False

    @property
    def key(self) -> str:
        """``name@version``, or the name where no version is stated."""
        return self.name if self.version is None else f"{self.name}@{self.version}"


class _Peer(Report):
    """What every process that advertises itself says.

    Attributes:
        instance_id: Unique per boot.
        outcome: How it gets along with this control plane (design §3).
        code: The diagnostic code behind an outcome that is not compatible.
        reason: That in a sentence; empty where compatible.
        protocol: The wire-protocol major that both speak; `None` without a common one.
        protocol_range: The lowest and highest major it speaks.
        capabilities: What it advertises, sorted; the v1 baseline where it states nothing.
        sdk: The library it runs; ``unknown`` where unstated.
        sdk_version: Its version; ``0`` where unstated.
        runtime: ``python`` or ``node``; `None` where unstated.
        namespace: The tenant it serves; `None` is none.
        started_at_ms: When it started, by its own clock; `None` where unstated.
        uptime_ms: For how long it has been running; `None` where unstated.
    """

    instance_id: str
    outcome: Outcome
    code: Code | None = None
    reason: str = ""
    protocol: int | float | None = None
    protocol_range: tuple[int | float, int | float] = (1, 1)
    capabilities: tuple[str, ...] = ()
    sdk: str = "unknown"
    sdk_version: str = "0"
    runtime: str | None = None
    namespace: str | None = None
    started_at_ms: int | None = None
    uptime_ms: int | None = None


class WorkerReport(_Peer):
    """One live worker process, negotiated against this control plane.

    Attributes:
        tokens: The queues it consumes, as advertised, sorted; one row however many they are.
        shared: The capabilities that it has and this control plane's actors may use, sorted.
        missing: The capabilities that this control plane's actors demand and it lacks, sorted.
        actors: What it announces, steps last.
        state: The status word of its heartbeat, e.g. ``up`` or ``draining``; `None` where unstated.
        threads: How many worker threads it has; `None` where unstated.
        in_flight: How many messages it holds; `None` where unstated.
        last_beat_age_ms: How long ago it beat, by the server's clock; `None` where unknown.
        partition: The partition it consumes.
        legacy: Whether it predates the handshake: it only beats, or states no protocol. It counts as
            protocol v1 with the baseline capabilities, and as compatible as those are.
        foreign: Whether another SDK runs it, by no index entry of ours: listed, never dispatched to.
        broker: The fingerprint of the broker it consumes from; ``""`` where unknown.
    """

    tokens: tuple[str, ...]
    shared: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    actors: tuple[AnnouncedActor, ...] = ()
    state: str | None = None
    threads: int | None = None
    in_flight: int | None = None
    last_beat_age_ms: int | None = None
    partition: str = "default"
    legacy: bool = False
    foreign: bool = False
    broker: str = ""


class ControlPlaneReport(_Peer):
    """One live process that enqueues; its capabilities are what its actors demand."""


class FleetReport(Report):
    """Every live worker and control plane; iterating gives the workers.

    Attributes:
        supported: Whether there is a registry to ask; `False` means that, and only that.
        workers: By instance id.
        control_planes: By instance id.
        invalid: The advertisements that could not be read.
        other_namespaces: How many workers live in namespaces that this engine does not see.
        other_brokers: How many workers of another broker share this registry and prefix.
        detail: The answer in a sentence for people; it says why the list is empty if it is.
    """

    supported: bool = True
    workers: tuple[WorkerReport, ...] = ()
    control_planes: tuple[ControlPlaneReport, ...] = ()
    invalid: tuple[InvalidAdvertisement, ...] = ()
    other_namespaces: int = 0
    other_brokers: int = 0
    detail: str = ""

    def __iter__(self) -> Iterator[WorkerReport]:  # type: ignore[override] # a fleet is a fleet of workers
        return iter(self.workers)

    def __len__(self) -> int:
        return len(self.workers)

    def __bool__(self) -> bool:
        # Without this, an empty fleet would be false because of its length: a report is never "nothing".
        return True

    @property
    def outcomes(self) -> Mapping[Outcome, int]:
        """How many workers are in each of the three states."""
        counts = Counter(worker.outcome for worker in self.workers)
        return {outcome: counts[outcome] for outcome in Outcome}

    def __str__(self) -> str:
        return self.detail
