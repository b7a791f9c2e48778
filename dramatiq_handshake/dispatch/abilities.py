"""What this worker process can run, asked for every message it is about to take."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from dramatiq_handshake.decide.need import Need
from dramatiq_handshake.dispatch.options import ActorProfile

if TYPE_CHECKING:
    from dramatiq import Broker

__all__ = ["Abilities"]


class Abilities:
    """The worker's actors, capabilities and protocol majors.

    Args:
        broker: Whose declared actors can run.
        profiles: The declared actors' options.
        protocol: The lowest and highest major that this process speaks.
    """

    def __init__(
        self, broker: Broker, profiles: Mapping[str, ActorProfile], *, protocol: tuple[int, int]
    ) -> None:
        self._broker = broker
        self._profiles = profiles
        self._protocol = protocol
        # The capabilities, and the actors found free by these very ones: replaced together.
        self._known: tuple[frozenset[str], set[str]] = (frozenset(), set())

    @property
    def capabilities(self) -> frozenset[str]:
        """What the worker advertises now."""
        return self._known[0]

    @capabilities.setter
    def capabilities(self, names: frozenset[str]) -> None:
        self._known = (names, set())

    def runs_plain(self, actor: str) -> bool:
        """Whether a message for `actor` that carries nothing of ours can run here.

        Asked for every message: one set lookup once the actor is known to be free.
        """
        capabilities, free = self._known
        if actor in free:
            return actor in self._broker.actors
        profile = self._profiles.get(actor)
        if actor not in self._broker.actors or profile is None or not self._speaks(1):
            return False
        if profile.requires <= capabilities:
            free.add(actor)
            return True
        return False

    def runs(self, need: Need) -> bool:
        """Whether this worker has the actor, the version, the major and every capability."""
        if need.actor is None or need.actor not in self._broker.actors:
            return False
        profile = self._profiles.get(need.actor, ActorProfile())
        return (
            self.has(need.requires | profile.requires)
            and profile.runs(need.version)
            and self._speaks(need.protocol)
        )

    def has(self, requires: Collection[str]) -> bool:
        """Whether this worker advertises all of these capabilities."""
        return self.capabilities.issuperset(requires)

    def needs(self) -> Iterator[Need]:
        """Every need that a message for one of this worker's actors may have, and that it can run.

        A need lane's name derives from its need, so these are the lanes to look into when the registry
        was away while somebody filled one.
        """
        for name, actor in list(self._broker.actors.items()):
            profile = self._profiles.get(name, ActorProfile())
            stated = profile.accepts | ({profile.version} if profile.version else set())
            for version in (None, *sorted(stated)):
                for requires in {frozenset[str](), profile.requires}:
                    for major in range(self._protocol[0], self._protocol[1] + 1):
                        need = Need(actor.queue_name, name, version, requires, major)
                        if self.runs(need):
                            yield need

    def _speaks(self, major: int) -> bool:
        return self._protocol[0] <= major <= self._protocol[1]
