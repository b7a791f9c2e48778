"""A fleet as dispatch sees it: classes of workers, and a store that can be watched, paused and lost."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dramatiq_handshake.decide.classes import class_of
from dramatiq_handshake.dispatch.view import FleetView
from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.storage import FleetStore
from dramatiq_handshake.storage.base import Advertisement, WorkerState
from dramatiq_handshake.wire.etag import descriptor_etag
from tests.support.advertising import announced, our_descriptor

__all__ = ["Hands", "WatchedStore", "view_of", "worker_up"]

PATIENCE_S = 10.0


class Hands:
    """The hands of one clock, in seconds and in milliseconds, moved by the test."""

    def __init__(self) -> None:
        self.ms_now = 1_767_225_600_000

    def s(self) -> float:
        return self.ms_now / 1000

    def ms(self) -> int:
        return self.ms_now

    def advance(self, seconds: float) -> None:
        self.ms_now += round(seconds * 1000)


class WatchedStore:
    """A `FleetStore` that counts its calls, can be away, and stops callers where a test says so."""

    def __init__(self, store: FleetStore) -> None:
        self.store = store
        self.calls: Counter[str] = Counter()
        #: While true, every call fails as if the server did not answer.
        self.away = False
        self._barriers: defaultdict[str, list[_Barrier]] = defaultdict(list)
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.store, name)
        if not callable(attribute) or name == "close" or name.startswith("on_"):
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                self.calls[name] += 1
            if self.away:
                raise RegistryUnavailable("the test says that the registry is away")
            self._pass(f"before {name}")
            answer = attribute(*args, **kwargs)
            self._pass(f"after {name}")
            return answer

        return call

    @contextmanager
    def paused(self, point: str) -> Iterator[_Barrier]:
        """Stop whoever comes to ``before <method>`` or ``after <method>`` until the block ends."""
        barrier = _Barrier()
        self._barriers[point].append(barrier)
        try:
            yield barrier
        finally:
            self._barriers[point].remove(barrier)
            barrier.open()

    def _pass(self, point: str) -> None:
        for barrier in list(self._barriers[point]):
            barrier.stop_here(point)


class _Barrier:
    """Where callers wait, and where a test waits for callers."""

    def __init__(self) -> None:
        self._arrived = threading.Event()
        self._opened = threading.Event()

    def stop_here(self, point: str) -> None:
        self._arrived.set()
        if not self._opened.wait(PATIENCE_S):
            raise AssertionError(f"nobody let the caller at {point!r} go on")

    def wait_for_caller(self) -> None:
        """Wait until somebody stands here."""
        assert self._arrived.wait(PATIENCE_S), "nobody came to the pause point"

    def open(self) -> None:
        """Let everybody go on."""
        self._opened.set()


def worker_up(
    store: FleetStore,
    *actors: str,
    queue: str = "ml",
    instance: str = "py-1",
    version: str | None = None,
    capabilities: Iterable[str] = (),
    broker: str = "here",
    protocol: tuple[int, int] = (1, 1),
    state: WorkerState = WorkerState.UP,
) -> str:
    """One beat of a worker of ours with these actors. Returns its class id."""
    descriptor = our_descriptor(
        instance,
        *(announced(actor, version, group=queue) for actor in actors),
        capabilities=sorted(capabilities),
        protocol=protocol,
    )
    class_id, body = class_of(descriptor, broker)
    store.advertise(
        Advertisement(
            instance_id=instance,
            tokens=(queue,),
            descriptor_json=descriptor.to_json(),
            etag=descriptor_etag(descriptor),
            class_id=class_id,
            class_body=body,
            state=state,
            broker=broker,
        )
    )
    return class_id


def view_of(
    store: Any,
    hands: Hands,
    *,
    broker: Callable[[], str] = lambda: "here",
    recovery_s: float = 10.0,
    before_look: Callable[[], None] = lambda: None,
) -> FleetView:
    """A process's view of a store, by the test's clock."""
    return FleetView(
        store,
        control_plane=lambda: our_descriptor("cp-1"),
        broker=broker,
        recovery_s=recovery_s,
        before_look=before_look,
        clock=hands.s,
    )
