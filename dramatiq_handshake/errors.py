"""The errors this library raises: one root, then whose fault it was.

`ConfigurationError` is ours to fix (an option, a name, a constructor argument), `WireError` is a
peer's (its data is not what the contract says), `RegistryUnavailable` is the network's, and
`Undeliverable` reports a refusal that the caller asked to hear about.
"""

from __future__ import annotations

__all__ = [
    "CapabilityUnavailable",
    "ConfigurationError",
    "DescriptorInvalid",
    "HandshakeError",
    "HeartbeatInvalid",
    "ProtocolIncompatible",
    "RegistryUnavailable",
    "Undeliverable",
    "WireError",
]


class HandshakeError(Exception):
    """Everything that dramatiq-handshake raises derives from this."""


class ConfigurationError(HandshakeError):
    """An option, a name or an argument is not what it must be."""


class WireError(HandshakeError):
    """A peer's data does not follow the wire contract.

    Args:
        field: The path of the offending field, e.g. ``registrations[2].name``; ``""`` is the whole.
        expected: What the contract wants there.
        got: What came, as short text.
    """

    def __init__(self, field: str, expected: str, got: str) -> None:
        super().__init__(f"{field or 'the whole value'}: expected {expected}, got {got}")
        self.field = field
        self.expected = expected
        self.got = got

    def __reduce__(self) -> tuple[type[WireError], tuple[str, str, str]]:
        return type(self), (self.field, self.expected, self.got)


class DescriptorInvalid(WireError):
    """A worker's or control plane's advertisement can't be read; it is skipped and reported."""


class HeartbeatInvalid(WireError):
    """A heartbeat entry handed to the directory has no readable token or instance."""


class RegistryUnavailable(HandshakeError):
    """The fleet registry did not answer in time, refused, or answered an error.

    Engine calls raise it instead of answering "empty"; dispatching falls back to plain Dramatiq.
    """


class Undeliverable(HandshakeError):
    """No live worker can run a message, and the caller asked to be told instead of having it kept.

    Args:
        reason: The human sentence, also found in logs and in ``engine.blocked()``.
        code: The diagnostic code, e.g. ``capability.unavailable``.
    """

    code = "capability.unavailable"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class CapabilityUnavailable(Undeliverable):
    """No live worker announces the actor and version with every required capability."""


class ProtocolIncompatible(Undeliverable):
    """Capable workers live, but none speaks a protocol major in common with this control plane."""

    code = "protocol.incompatible"
