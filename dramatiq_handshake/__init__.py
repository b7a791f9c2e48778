"""dramatiq-handshake: workers that advertise, work that waits for the one who can.

>>> broker.add_middleware(HandshakeMiddleware())

turns it on; `get_engine()` answers what this deployment can run, who lives, and what is blocked.
"""

from dramatiq_handshake.decide.events import Code, Diagnostic
from dramatiq_handshake.dispatch.errors import DeclarationError, WorkerBootError
from dramatiq_handshake.engine import HandshakeEngine
from dramatiq_handshake.errors import (
    CapabilityUnavailable,
    ConfigurationError,
    DescriptorInvalid,
    HandshakeError,
    HeartbeatInvalid,
    ProtocolIncompatible,
    RegistryUnavailable,
    Undeliverable,
    WireError,
)
from dramatiq_handshake.plugin import HandshakeMiddleware, attach, get_engine

__all__ = [  # noqa: RUF022 - grouped by what they are for
    # The middleware
    "HandshakeMiddleware",
    "attach",
    # Asking the deployment
    "HandshakeEngine",
    "get_engine",
    # Diagnostics
    "Code",
    "Diagnostic",
    # Errors
    "CapabilityUnavailable",
    "ConfigurationError",
    "DeclarationError",
    "DescriptorInvalid",
    "HandshakeError",
    "HeartbeatInvalid",
    "ProtocolIncompatible",
    "RegistryUnavailable",
    "Undeliverable",
    "WireError",
    "WorkerBootError",
]
