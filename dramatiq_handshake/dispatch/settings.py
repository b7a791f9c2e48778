"""The plugin's settings, read from constructor arguments and the environment, and checked once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from dramatiq_handshake.dispatch.errors import DeclarationError
from dramatiq_handshake.storage.base import HEARTBEAT_INTERVAL_MS, HEARTBEAT_TTL_MS
from dramatiq_handshake.wire.tokens import is_default_namespace

__all__ = ["Mode", "OnBlocked", "OnRegistryError", "Settings"]

MODE_VARIABLE = "DRAMATIQ_HANDSHAKE_MODE"
NAMESPACE_VARIABLE = "DRAMATIQ_HANDSHAKE_NAMESPACE"
URL_VARIABLE = "DRAMATIQ_HANDSHAKE_URL"
PREFIX_VARIABLE = "DRAMATIQ_HANDSHAKE_PREFIX"
#: A lease must survive two lost beats (field notes 26).
MIN_BEATS_PER_TTL = 3
DEFAULT_REGISTRY_TIMEOUT_MS = 500


class Mode(StrEnum):
    """How much the plugin does: everything; advertise, plan and report; nothing."""

    ENFORCE = "enforce"
    OBSERVE = "observe"
    OFF = "off"


class OnBlocked(StrEnum):
    """What a producer's own send of a blocked message does."""

    KEEP = "keep"
    RAISE = "raise"


class OnRegistryError(StrEnum):
    """What a producer's own send does while the registry is away."""

    ENQUEUE = "enqueue"
    RAISE = "raise"


_Choice = TypeVar("_Choice", bound=StrEnum)


def _choice(kind: type[_Choice], value: object, name: str) -> _Choice:
    try:
        return kind(str(value))
    except ValueError:
        allowed = ", ".join(repr(member.value) for member in kind)
        raise DeclarationError(
            f"HandshakeMiddleware, {name}: expected one of {allowed}, got {value!r}"
        ) from None


def _text(value: object, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value or ":" in value or value != value.strip():
        raise DeclarationError(
            f"HandshakeMiddleware, {name}: expected a text without ':' or outer spaces, got {value!r}"
        )
    return value


def _positive(value: object, name: str) -> int:
    if type(value) is not int or value <= 0:
        raise DeclarationError(
            f"HandshakeMiddleware, {name}: expected a positive number of milliseconds, got {value!r}"
        )
    return value


@dataclass(frozen=True, slots=True)
class Settings:
    """What one `HandshakeMiddleware` was asked to do; durations in milliseconds."""

    mode: Mode
    url: str | None
    prefix: str | None
    namespace: str | None
    protocol: tuple[int, int]
    on_blocked: OnBlocked
    on_registry_error: OnRegistryError
    registry_timeout_ms: int
    heartbeat_interval_ms: int
    heartbeat_ttl_ms: int

    @classmethod
    def read(
        cls,
        *,
        mode: str | None = None,
        url: str | None = None,
        prefix: str | None = None,
        namespace: str | None = None,
        protocol: tuple[int, int] = (1, 1),
        on_blocked: str = OnBlocked.KEEP,
        on_registry_error: str = OnRegistryError.ENQUEUE,
        registry_timeout_ms: int = DEFAULT_REGISTRY_TIMEOUT_MS,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        heartbeat_ttl_ms: int = HEARTBEAT_TTL_MS,
    ) -> Settings:
        """Check the arguments, filled in from the environment; its mode wins over the argument.

        Raises:
            DeclarationError: One of them is not what it must be.
        """
        namespace = _text(namespace or os.environ.get(NAMESPACE_VARIABLE) or None, "namespace")
        interval = _positive(heartbeat_interval_ms, "heartbeat_interval_ms")
        ttl = _positive(heartbeat_ttl_ms, "heartbeat_ttl_ms")
        if ttl < MIN_BEATS_PER_TTL * interval:
            raise DeclarationError(
                f"HandshakeMiddleware, heartbeat_ttl_ms: expected at least {MIN_BEATS_PER_TTL} times "
                f"heartbeat_interval_ms = {MIN_BEATS_PER_TTL * interval}, got {ttl}; "
                "a shorter lease lapses when a beat or two are late"
            )
        return cls(
            mode=_choice(Mode, os.environ.get(MODE_VARIABLE) or mode or Mode.ENFORCE, "mode"),
            url=url or os.environ.get(URL_VARIABLE) or None,
            prefix=_text(prefix or os.environ.get(PREFIX_VARIABLE) or None, "prefix"),
            namespace=None if is_default_namespace(namespace) else namespace,
            protocol=_majors(protocol),
            on_blocked=_choice(OnBlocked, on_blocked, "on_blocked"),
            on_registry_error=_choice(OnRegistryError, on_registry_error, "on_registry_error"),
            registry_timeout_ms=_positive(registry_timeout_ms, "registry_timeout_ms"),
            heartbeat_interval_ms=interval,
            heartbeat_ttl_ms=ttl,
        )


def _majors(value: object) -> tuple[int, int]:
    if (
        isinstance(value, (tuple, list))
        and len(value) == 2
        and all(type(major) is int and major > 0 for major in value)
        and value[0] <= value[1]
    ):
        return value[0], value[1]
    raise DeclarationError(
        f"HandshakeMiddleware, protocol: expected the lowest and highest major such as (1, 2), got {value!r}"
    )
