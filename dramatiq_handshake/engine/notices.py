"""What a look at the fleet finds that nobody was told of yet."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from dramatiq_handshake.decide.events import Code, Diagnostic
from dramatiq_handshake.decide.negotiate import range_text
from dramatiq_handshake.engine.advertisements import Advertised
from dramatiq_handshake.engine.fleet_models import ControlPlaneReport, FleetReport, WorkerReport
from dramatiq_handshake.wire.descriptor import WorkerDescriptor

__all__ = ["Notices"]


class Notices:
    """Remembers which classes of incompatible peers were reported, as long as they are there.

    A mismatch of majors is a red flag whether or not a message is affected (design §3). It is raised once
    per class of peers, and again where the class went and came back.
    """

    def __init__(self) -> None:
        self._known: frozenset[Hashable] = frozenset()

    def of(
        self, fleet: FleetReport, advertised: Advertised, control_plane: WorkerDescriptor
    ) -> tuple[Diagnostic, ...]:
        """The diagnostics that this view of the fleet adds to the former one."""
        descriptors = {
            read.record.instance_id: read.descriptor
            for read in advertised.workers
            if read.descriptor is not None
        }
        descriptors |= {
            read.instance_id: read.reading
            for read in advertised.control_planes
            if isinstance(read.reading, WorkerDescriptor)
        }
        peers: Sequence[tuple[str, WorkerReport | ControlPlaneReport]] = [
            *(("worker", worker) for worker in fleet.workers),
            *(("control plane", plane) for plane in fleet.control_planes),
        ]
        found: dict[Hashable, Diagnostic] = {}
        for kind, peer in peers:
            key = (kind, peer.protocol_range, peer.sdk, peer.sdk_version)
            if peer.code is Code.PROTOCOL_INCOMPATIBLE and key not in found:
                found[key] = _incompatible(kind, peer, descriptors[peer.instance_id], control_plane)
        fresh = tuple(diagnostic for key, diagnostic in found.items() if key not in self._known)
        self._known = frozenset(found)
        return fresh


def _incompatible(
    kind: str,
    peer: WorkerReport | ControlPlaneReport,
    descriptor: WorkerDescriptor,
    control_plane: WorkerDescriptor,
) -> Diagnostic:
    ours = control_plane.normalised()
    assert ours.protocol is not None
    return Diagnostic(
        Code.PROTOCOL_INCOMPATIBLE,
        f"{kind} {peer.instance_id} {peer.reason}: it is never handed a message",
        {
            "instance": peer.instance_id,
            "protocol.local": range_text(ours.protocol.range),
            "protocol.remote": range_text(peer.protocol_range),
            "control_plane.descriptor": control_plane.to_json(),
            "nearest.descriptor": descriptor.to_json(),
        },
    )
