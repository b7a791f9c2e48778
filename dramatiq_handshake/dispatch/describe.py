"""What a process says of itself: the descriptors of a worker and of a control plane."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from dramatiq_handshake.release import own_release
from dramatiq_handshake.wire.descriptor import (
    SDK_NAME,
    ProtocolSupport,
    Sdk,
    WorkerDescriptor,
    WorkflowRegistration,
)
from dramatiq_handshake.wire.tokens import partition_of_token

if TYPE_CHECKING:
    from dramatiq import Broker

    from dramatiq_handshake.dispatch.options import ActorProfile

__all__ = ["SDK", "control_plane_descriptor", "new_instance_id", "worker_descriptor"]


SDK = Sdk(name=SDK_NAME, version=own_release())


def new_instance_id() -> str:
    """A name for this boot of this process; a restart is another instance. No part holds a ``:``."""
    host = socket.gethostname().replace(":", "-") or "localhost"
    return f"py-{host}-{os.getpid()}-{secrets.token_hex(4)}"


def worker_descriptor(
    broker: Broker,
    *,
    instance_id: str,
    profiles: Mapping[str, ActorProfile],
    capabilities: frozenset[str],
    queues: Callable[[str], bool],
    protocol: tuple[int, int],
    namespace: str | None,
    started_at: int,
) -> WorkerDescriptor:
    """Describe a worker by what it can run, and nothing else (spec: announce only what you can run).

    Args:
        profiles: The declared actors' options.
        capabilities: What the worker can do.
        queues: Whether it consumes a base queue.
        protocol: The lowest and highest major it speaks.
        started_at: When it booted, ms since the epoch.
    """
    runnable = [
        (actor, profiles[name])
        for name, actor in sorted(broker.actors.items())
        if name in profiles and queues(actor.queue_name) and profiles[name].requires <= capabilities
    ]
    workflows = [(actor, profile) for actor, profile in runnable if not profile.step]
    registrations = [
        WorkflowRegistration(
            name=actor.actor_name,
            version=stated,
            group=actor.queue_name,
            requires=tuple(sorted(profile.requires)) or None,
            origin=profile.origin,
        )
        for actor, profile in workflows
        for stated in _stated_versions(profile)
    ]
    return WorkerDescriptor(
        instance_id=instance_id,
        runtime="python",
        sdk=SDK,
        protocol=ProtocolSupport(version=protocol[1], range=protocol),
        capabilities=tuple(sorted(capabilities)),
        workflows=tuple(actor.actor_name for actor, _ in workflows),
        steps=tuple(actor.actor_name for actor, profile in runnable if profile.step),
        registrations=tuple(registrations),
        partition=None if namespace is None else partition_of_token(f"q@{namespace}"),
        namespace=namespace,
        started_at=started_at,
    )


def _stated_versions(profile: ActorProfile) -> Iterable[str | None]:
    stated = profile.accepts if profile.version is None else profile.accepts | {profile.version}
    return sorted(stated) or [None]


def control_plane_descriptor(
    *,
    instance_id: str,
    capabilities: frozenset[str],
    protocol: tuple[int, int],
    namespace: str | None,
    started_at: int,
) -> WorkerDescriptor:
    """Describe a process that enqueues: what its actors demand, and no workflows, steps or registrations."""
    return WorkerDescriptor(
        instance_id=instance_id,
        runtime="python",
        sdk=SDK,
        protocol=ProtocolSupport(version=protocol[1], range=protocol),
        capabilities=tuple(sorted(capabilities)),
        workflows=(),
        steps=(),
        partition=None if namespace is None else partition_of_token(f"q@{namespace}"),
        namespace=namespace,
        started_at=started_at,
    )
