"""The application's view: which workflows exist, who is live, what is blocked and why (design §8)."""

from __future__ import annotations

from dramatiq_handshake.engine.blocked_models import (
    BlockedMessageReport,
    BlockedNeedReport,
    BlockedReport,
    LackReport,
    NearestWorker,
    UnlistedBacklog,
)
from dramatiq_handshake.engine.fleet_models import (
    AnnouncedActor,
    ControlPlaneReport,
    FleetReport,
    WorkerReport,
)
from dramatiq_handshake.engine.sync import HandshakeEngine

__all__ = [
    "AnnouncedActor",
    "BlockedMessageReport",
    "BlockedNeedReport",
    "BlockedReport",
    "ControlPlaneReport",
    "FleetReport",
    "HandshakeEngine",
    "LackReport",
    "NearestWorker",
    "UnlistedBacklog",
    "WorkerReport",
]
