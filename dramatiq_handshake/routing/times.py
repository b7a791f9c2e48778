"""The durations of a directory, and a worker's health at a moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing.arguments import checked_duration
from dramatiq_handshake.routing.base import Health

__all__ = ["FORGET_AFTER_MS", "Times"]

#: How long a silent worker is listed as stale before it is forgotten: long enough to be noticed, and a
#: fleet whose ids are new at every boot does not grow for ever.
FORGET_AFTER_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Times:
    """The durations of a directory (ms), checked.

    Attributes:
        heartbeat_timeout_ms: How long a worker may be silent before it is stale.
        reservation_ms: How long a slot waits for its job to be started.
        job_lease_ms: How long the slots of a silent holder are still counted.
        forget_after_ms: How long a silent worker is listed.
    """

    heartbeat_timeout_ms: int
    reservation_ms: int
    job_lease_ms: int
    forget_after_ms: int

    @classmethod
    def checked(
        cls, heartbeat_timeout_ms: int, reservation_ms: int, job_lease_ms: int | None, forget_after_ms: int
    ) -> Self:
        """Check them; a job's lease is twice the heartbeat timeout by default.

        Raises:
            ConfigurationError: One is no positive whole number, a job's lease is shorter than the
                heartbeat timeout (a suspended worker's jobs would be forgotten while it still counts as
                healthy), or a worker would be forgotten before it is stale.
        """
        timeout_ms = checked_duration("heartbeat_timeout_ms", heartbeat_timeout_ms)
        lease_ms = checked_duration("job_lease_ms", 2 * timeout_ms if job_lease_ms is None else job_lease_ms)
        for name, value in (("job_lease_ms", lease_ms), ("forget_after_ms", forget_after_ms)):
            if checked_duration(name, value) < timeout_ms:
                raise ConfigurationError(
                    f"{name}: expected at least heartbeat_timeout_ms ({timeout_ms}), got {value}"
                )
        return cls(timeout_ms, checked_duration("reservation_ms", reservation_ms), lease_ms, forget_after_ms)

    def silent(self, last_heartbeat_at: int, now: int) -> bool:
        """Whether the last heartbeat is older than the timeout."""
        return now - last_heartbeat_at > self.heartbeat_timeout_ms

    def health(self, unhealthy_reason: str | None, last_heartbeat_at: int, now: int) -> Health:
        """How a worker is; being marked unhealthy comes before silence."""
        if unhealthy_reason is not None:
            return Health.UNHEALTHY
        return Health.STALE if self.silent(last_heartbeat_at, now) else Health.HEALTHY
