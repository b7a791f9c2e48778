"""This process's view of the fleet, and the plans made from it.

A steady dispatch is a set lookup: which actors of a queue everyone on it can run is remembered until the
fleet changes. The view is renewed at most once a second, by one thread, and after the enqueue that found
it old; only where there is no usable view does an enqueue wait for one round trip.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dramatiq_handshake.decide.classes import read_class
from dramatiq_handshake.decide.need import Need, PlaceKind
from dramatiq_handshake.decide.plan import (
    Candidate,
    DispatchPlan,
    DispatchStatus,
    FleetSnapshot,
    plan_dispatch,
)
from dramatiq_handshake.errors import RegistryUnavailable
from dramatiq_handshake.storage.base import Look, Mark, OpenLane, TokenLook

if TYPE_CHECKING:
    from dramatiq_handshake.storage.base import FleetStore
    from dramatiq_handshake.wire.descriptor import WorkerDescriptor

__all__ = ["FleetView"]

#: The view is renewed when it is older than this; a blocked verdict is never given on an older one.
RENEW_AFTER_S = 1.0
#: A view of this age still says "routable"; beyond it an enqueue looks first.
USABLE_FOR_S = 5.0
#: A queue that nothing was sent to for this long is no longer looked at.
INTEREST_S = 600.0
#: How long an enqueue waits for another thread's look before it goes on without a view.
SINGLE_FLIGHT_WAIT_S = 1.0
#: How many class bodies are remembered; a fleet has a handful per release.
MAX_CLASSES = 10_000
#: How many needs' plans one queue remembers, so that ever new versions can't grow a producer.
MAX_PLANS = 10_000


@dataclass(slots=True)
class _Queue:
    """What is known of one queue's fleet; replaced whole when it changed, so its plans go with it."""

    snapshot: FleetSnapshot
    mark: Mark | None
    lapses_at: float
    used_at: float
    plans: dict[Need, DispatchPlan] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)


class FleetView:
    """Plans needs against the fleet as this process last saw it.

    Args:
        store: The registry.
        control_plane: This process's own descriptor.
        broker: The fingerprint of this process's broker; classes of another are not candidates.
        recovery_s: How long after an outage a "blocked" stays "unknown": one beat, in which every live
            worker advertises again.
        before_look: Called before each look; may raise `RegistryUnavailable`.
    """

    def __init__(
        self,
        store: FleetStore,
        *,
        control_plane: Callable[[], WorkerDescriptor],
        broker: Callable[[], str],
        recovery_s: float,
        before_look: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._control_plane = control_plane
        self._broker = broker
        self._recovery_s = recovery_s
        self._before_look = before_look
        self._clock = clock
        self._queues: dict[str, _Queue] = {}
        self._bodies: dict[str, Candidate] = {}
        self._looked_at = float("-inf")
        self._doubted_at = float("-inf")
        self._distrusted_until = float("-inf")
        self._lanes: tuple[OpenLane, ...] = ()
        self._lanes_epoch: str | None = None
        self._looking = threading.Lock()

    def reset_after_fork(self) -> None:
        """Forget what another process saw, and a lock that one of its threads may have held."""
        self._looking = threading.Lock()
        self._queues = {}
        self._looked_at = float("-inf")
        self._lanes_epoch = None

    def distrust_blocked(self) -> None:
        """The registry was away: everybody's lease may have lapsed, so an absence proves nothing yet."""
        self._distrusted_until = self._clock() + self._recovery_s
        self.doubt()

    def doubt(self) -> None:
        """The fleet is known to have changed: what was seen up to now is not planned by any more."""
        self._doubted_at = self._clock()
        self._looked_at = float("-inf")

    @property
    def lanes(self) -> tuple[OpenLane, ...]:
        """The open lanes beside the queues of interest, as last seen."""
        return self._lanes

    def is_free(self, queue: str, actor: str, now: float) -> bool:
        """Whether a message without needs for this actor goes to its base queue, by a usable view."""
        known = self._queues.get(queue)
        return (
            known is not None
            and actor in known.free
            and now - self._looked_at < USABLE_FOR_S
            and now < known.lapses_at
        )

    def is_due(self, now: float) -> bool:
        """Whether the view should be renewed after an enqueue."""
        return now - self._looked_at >= RENEW_AFTER_S

    def plan(self, need: Need, *, plain_workers: Callable[[], bool]) -> DispatchPlan | None:
        """The plan for a need, or ``None`` where the registry can't tell.

        Args:
            plain_workers: Asked only where the answer hangs on it: may a worker without this plugin
                consume the queue?
        """
        try:
            known = self._known(need.queue, older_than=USABLE_FOR_S)
            plan = self._planned(known, need, plain_workers)
            if plan.status is DispatchStatus.BLOCKED and self._age() > RENEW_AFTER_S:
                known = self._known(need.queue, older_than=RENEW_AFTER_S)
                plan = self._planned(known, need, plain_workers)
        except RegistryUnavailable:
            return None
        if plan.status is DispatchStatus.BLOCKED and self._clock() < self._distrusted_until:
            return None
        return plan

    def renew_if_due(self) -> None:
        """Renew a view older than a second, unless another thread is at it. Never raises."""
        if self._age() < RENEW_AFTER_S or not self._looking.acquire(blocking=False):
            return
        try:
            if self._age() >= RENEW_AFTER_S:
                self._look(())
        except RegistryUnavailable:
            pass  # the store has reported the outage; the view just ages
        finally:
            self._looking.release()

    def renew(self, queues: Iterable[str]) -> None:
        """Look now, these queues included.

        Raises:
            RegistryUnavailable: The registry does not answer.
        """
        with self._looking:
            self._look(tuple(queues))

    def _age(self) -> float:
        return self._clock() - self._looked_at

    def _known(self, queue: str, *, older_than: float) -> _Queue:
        known = self._usable(queue, older_than)
        if known is not None:
            return known
        if not self._looking.acquire(timeout=SINGLE_FLIGHT_WAIT_S):
            raise RegistryUnavailable(
                "another thread's look at the fleet takes too long; going on without a view"
            )
        try:
            # Whoever held the lock may have looked for us.
            known = self._usable(queue, older_than)
            if known is None:
                self._look((queue,))
                known = self._queues[queue]
            return known
        finally:
            self._looking.release()

    def _usable(self, queue: str, older_than: float) -> _Queue | None:
        known = self._queues.get(queue)
        now = self._clock()
        if known is None or now - self._looked_at > older_than or now >= known.lapses_at:
            return None
        known.used_at = now
        return known

    def _planned(self, known: _Queue, need: Need, plain_workers: Callable[[], bool]) -> DispatchPlan:
        plan = known.plans.get(need)
        if plan is not None:
            return plan
        plan = plan_dispatch(need, known.snapshot, self._control_plane())
        if plan.status is DispatchStatus.BLOCKED and not need.requires and plain_workers():
            # Not remembered: plain workers come and go without the registry knowing.
            return plan_dispatch(need, replace(known.snapshot, plain_consumers=True), self._control_plane())
        if len(known.plans) >= MAX_PLANS:
            known.plans.clear()
            known.free.clear()
        known.plans[need] = plan
        asks_nothing = need == Need(queue=need.queue, actor=need.actor)
        goes_to_base = plan.place.kind is PlaceKind.BASE and plan.status is not DispatchStatus.BLOCKED
        if asks_nothing and goes_to_base and need.actor is not None:
            known.free.add(need.actor)
        return plan

    def _look(self, queues: Iterable[str]) -> None:
        """One round trip; a second one only for classes never seen before. The caller holds the lock."""
        started = self._clock()
        self._before_look()
        for idle in [name for name, known in self._queues.items() if started - known.used_at > INTEREST_S]:
            del self._queues[idle]
        known: dict[str, Mark | None] = dict.fromkeys(queues)
        # The lanes beside a queue that was not asked for before are unknown under whatever epoch.
        lanes_epoch = self._lanes_epoch if known.keys() <= self._queues.keys() else None
        for name, queue in self._queues.items():
            # A class that nears the end of its lease is asked for anew: beats prolong it unseen.
            known[name] = queue.mark if started + 2 * USABLE_FOR_S < queue.lapses_at else None
        look = self._store.look(known, lanes_epoch)
        self._learn_bodies(look)
        for name, token in look.tokens.items():
            previous = self._queues.get(name)
            used_at = started if previous is None else previous.used_at
            self._queues[name] = self._queue_of(name, token, started, used_at)
        if look.lanes is not None:
            self._lanes = look.lanes
        self._lanes_epoch = look.lanes_epoch
        # A look that began before a doubt may have seen what was doubted.
        self._looked_at = started if started >= self._doubted_at else float("-inf")

    def _learn_bodies(self, look: Look) -> None:
        seen = {presence.class_id for token in look.tokens.values() for presence in token.classes}
        unknown = sorted(seen - self._bodies.keys())
        if not unknown:
            return
        if len(self._bodies) + len(unknown) > MAX_CLASSES:
            self._bodies = {}
            unknown = sorted(seen)
        bodies = self._store.class_bodies(unknown)
        # One that is gone is not remembered: its worker writes it again at the next beat.
        self._bodies |= {class_id: read_class(class_id, body) for class_id, body in bodies.items()}

    def _candidate(self, class_id: str) -> Candidate:
        return self._bodies.get(class_id) or read_class(class_id, None)

    def _queue_of(self, name: str, token: TokenLook, looked_at: float, used_at: float) -> _Queue:
        broker = self._broker()
        live = [(presence, self._candidate(presence.class_id)) for presence in token.classes]
        ours = [(presence, candidate) for presence, candidate in live if candidate.broker in ("", broker)]
        snapshot = FleetSnapshot(
            token=name,
            candidates=tuple(candidate for _, candidate in ours),
            served_lately=token.served_lately,
        )
        remaining_ms = min((presence.remaining_ms for presence, _ in ours), default=None)
        lapses_at = float("inf") if remaining_ms is None else looked_at + remaining_ms / 1000
        # A class whose body is missing must be read again, although it won't look changed.
        is_whole = all(presence.class_id in self._bodies for presence in token.classes)
        mark = token.mark if is_whole else None
        return _Queue(snapshot=snapshot, mark=mark, lapses_at=lapses_at, used_at=used_at)
