"""This process as a control plane: what it says of itself while it enqueues."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dramatiq_handshake.dispatch.describe import control_plane_descriptor, new_instance_id

if TYPE_CHECKING:
    from dramatiq_handshake.dispatch.options import ActorProfile
    from dramatiq_handshake.storage.base import FleetStore
    from dramatiq_handshake.wire.descriptor import WorkerDescriptor

__all__ = ["ControlPlane"]


class ControlPlane:
    """Advertises a process that enqueues, with the view's own look; an idle one's key expires.

    Args:
        profiles: The declared actors' options: what they require is what this process demands.
        claim: The id under which the broker knows this process.
        interval_ms: How old the key may grow before it is renewed.
    """

    def __init__(
        self,
        store: FleetStore,
        *,
        profiles: Mapping[str, ActorProfile],
        protocol: tuple[int, int],
        namespace: str | None,
        claim: Callable[[], str | None],
        interval_ms: int,
    ) -> None:
        self._store = store
        self._profiles = profiles
        self._protocol = protocol
        self._namespace = namespace
        self._claim = claim
        self._interval_s = interval_ms / 1000
        self._touched = False
        self.reset_after_fork()

    def reset_after_fork(self) -> None:
        """Another process is another control plane."""
        self._instance_id = new_instance_id()
        self._started_at = int(time.time() * 1000)
        self._announced_at = float("-inf")
        self._built: tuple[frozenset[str], WorkerDescriptor] | None = None

    def touch(self) -> None:
        """This process enqueues, so it is a control plane."""
        self._touched = True

    def demands(self) -> frozenset[str]:
        """Everything that the declared actors require."""
        return frozenset[str]().union(*(profile.requires for profile in list(self._profiles.values())))

    def descriptor(self) -> WorkerDescriptor:
        """What this process says of itself."""
        demands = self.demands()
        if self._built is None or self._built[0] != demands:
            descriptor = control_plane_descriptor(
                instance_id=self._instance_id,
                capabilities=demands,
                protocol=self._protocol,
                namespace=self._namespace,
                started_at=self._started_at,
            )
            self._built = demands, descriptor
        return self._built[1]

    def announce_if_due(self) -> None:
        """Renew the key if this process has enqueued since, and the key is an interval old.

        Raises:
            RegistryUnavailable: The registry does not answer.
        """
        now = time.monotonic()
        if not self._touched or now - self._announced_at < self._interval_s:
            return
        self._store.announce_control_plane(
            self._instance_id, self.descriptor().to_json(), broker_id=self._claim()
        )
        self._announced_at = now
        self._touched = False
