"""Advertisements as the registry holds them, read once.

The registry's records are raw bytes that anybody may have written. Here they become descriptors and
heartbeats, or a finding that says what is wrong with them; a fleet that did not change since the last
reading is not parsed again (design §13).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dramatiq_handshake.decide.directory import InvalidAdvertisement
from dramatiq_handshake.decide.events import Code, Diagnostic
from dramatiq_handshake.engine.scope import Scope
from dramatiq_handshake.errors import DescriptorInvalid
from dramatiq_handshake.storage.base import ControlPlaneRecord, WorkerRecord
from dramatiq_handshake.storage.forking import renew_after_fork
from dramatiq_handshake.wire.descriptor import MAX_DESCRIPTOR_BYTES, WorkerDescriptor, parse_descriptor
from dramatiq_handshake.wire.heartbeat import Heartbeat, read_heartbeat

__all__ = ["Advertised", "AdvertisementReader", "ReadControlPlane", "ReadWorker", "Reading"]

#: A descriptor, or what is wrong with it.
Reading = WorkerDescriptor | InvalidAdvertisement

#: How many characters of a token and instance a finding shows.
SHOWN_PLACE = 200

_Key = tuple[str, bytes]
#: Where a control plane's advertisement was found, in place of a token.
_CONTROL_PLANE = "control-plane"


@dataclass(frozen=True, slots=True)
class ReadWorker:
    """One ``(token, instance)`` of the registry, read.

    Attributes:
        record: As the registry holds it.
        heartbeat: What its beat says; `None` where there is no heartbeat key.
        reading: Its descriptor, or why that can't be read; `None` where there is none.
    """

    record: WorkerRecord
    heartbeat: Heartbeat | None
    reading: Reading | None

    @property
    def descriptor(self) -> WorkerDescriptor | None:
        """Its descriptor, where there is a readable one."""
        return self.reading if isinstance(self.reading, WorkerDescriptor) else None


@dataclass(frozen=True, slots=True)
class ReadControlPlane:
    """One control plane of the registry, read."""

    instance_id: str
    reading: Reading


@dataclass(frozen=True, slots=True)
class Advertised:
    """Everything that one look at the registry found.

    Attributes:
        workers: In the registry's order.
        control_planes: In the registry's order.
        fresh: A diagnostic for each text that can't be read, where former readings did not find it.
    """

    workers: tuple[ReadWorker, ...]
    control_planes: tuple[ReadControlPlane, ...]
    fresh: tuple[Diagnostic, ...]

    def invalid_within(self, scope: Scope) -> tuple[InvalidAdvertisement, ...]:
        """What can't be read: once per instance and text, however many tokens repeat it.

        An unreadable descriptor tells no tenant; its token does, and a control plane has none.
        """
        found: dict[int, InvalidAdvertisement] = {}
        for worker in self.workers:
            if isinstance(worker.reading, InvalidAdvertisement) and scope.sees_queue(worker.record.token):
                found[id(worker.reading)] = worker.reading
        for plane in self.control_planes:
            if isinstance(plane.reading, InvalidAdvertisement) and scope.namespace is None:
                found[id(plane.reading)] = plane.reading
        return tuple(found.values())


class AdvertisementReader:
    """Reads records, and remembers what the last two readings gave. Safe to use from several threads.

    Two, so that callers who look at all advertisements and callers who look at the index alone don't
    drive out each other's.

    Args:
        parse: Reads one descriptor; only tests give another.
    """

    def __init__(self, parse: Callable[[object], WorkerDescriptor] = parse_descriptor) -> None:
        self._parse = parse
        self._lock = threading.Lock()
        self._last: dict[_Key, Reading] = {}
        self._before: dict[_Key, Reading] = {}
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Start with a free lock."""
        self._lock = threading.Lock()

    def read(
        self, workers: Sequence[WorkerRecord], control_planes: Iterable[ControlPlaneRecord] = ()
    ) -> Advertised:
        """Read records; raises nothing, whatever they hold."""
        with self._lock:
            known = {**self._before, **self._last}
        turn = _Turn(self._parse, known)
        read_workers = tuple(
            ReadWorker(
                record,
                None if record.heartbeat is None else read_heartbeat(record.heartbeat),
                turn.read_worker(record),
            )
            for record in workers
        )
        read_planes = tuple(
            ReadControlPlane(
                record.instance_id, turn.read(record.instance_id, _CONTROL_PLANE, record.descriptor_json)
            )
            for record in control_planes
        )
        with self._lock:
            self._before, self._last = self._last, turn.seen
        return Advertised(read_workers, read_planes, tuple(turn.fresh))


class _Turn:
    """One reading: what it saw, and what of that was new."""

    def __init__(self, parse: Callable[[object], WorkerDescriptor], known: dict[_Key, Reading]) -> None:
        self._parse = parse
        self._known = known
        self.seen: dict[_Key, Reading] = {}
        self.fresh: list[Diagnostic] = []

    def read_worker(self, record: WorkerRecord) -> Reading | None:
        kind = record.descriptor_kind
        if kind:
            return self._once(record.instance_id, record.token, kind.encode(), lambda: _refuse(kind))
        if record.descriptor_json is None:
            return None
        return self.read(record.instance_id, record.token, record.descriptor_json)

    def read(self, instance: str, token: str, raw: bytes) -> Reading:
        return self._once(instance, token, _digest(raw), lambda: self._parse(raw))

    def _once(
        self, instance: str, token: str, content: bytes, parse: Callable[[], WorkerDescriptor]
    ) -> Reading:
        key = (instance, content)
        reading = self.seen.get(key) or self._known.get(key)
        if reading is None:
            try:
                reading = parse()
            except DescriptorInvalid as error:
                reading = InvalidAdvertisement(
                    source=_shown(f"{token}:{instance}"),
                    field=error.field,
                    expected=error.expected,
                    got=error.got,
                )
                self.fresh.append(_diagnostic(reading, instance, token))
        self.seen[key] = reading
        return reading


def _refuse(kind: str) -> WorkerDescriptor:
    raise DescriptorInvalid("", "a text", f"a value of the server's type {kind!r}")


def _digest(raw: bytes) -> bytes:
    # What is too large is refused by its length alone: hashing 10 MB would cost more than the answer.
    if len(raw) > MAX_DESCRIPTOR_BYTES:
        return b"%d bytes" % len(raw)
    return hashlib.blake2b(raw, digest_size=16).digest()


def _shown(place: str) -> str:
    """Where an advertisement stood, safe for a log line: a hostile name may hold anything."""
    if place.isprintable() and len(place) <= SHOWN_PLACE:
        return place
    return ascii(place[:SHOWN_PLACE])[1:-1]


def _diagnostic(invalid: InvalidAdvertisement, instance: str, token: str) -> Diagnostic:
    return Diagnostic(
        Code.DESCRIPTOR_INVALID,
        invalid.reason,
        {
            "token": token,
            "instance": instance,
            "field": invalid.field,
            "expected": invalid.expected,
            "got": invalid.got,
        },
    )
