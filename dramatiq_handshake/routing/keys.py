"""The keys of a worker directory on Redis; `docs/keys.md` tells what each holds and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from dramatiq_handshake.storage.keys import RegistryKeys

__all__ = ["RoutingKeys"]


@dataclass(frozen=True, slots=True)
class RoutingKeys:
    """The keys of one deployment's directory: under the registry's root, and so with its hash tag.

    Attributes:
        prefix: Names the deployment.
    """

    prefix: str

    @property
    def writable(self) -> str:
        """Written only to see whether the server takes writes again; the registry's own."""
        return RegistryKeys(self.prefix).writable

    @property
    def all(self) -> tuple[str, ...]:
        """The KEYS of every script, in the order of ``lua/prelude_v1.lua``."""
        root = f"{RegistryKeys(self.prefix).root}:routing"
        names = ("workers", "beats", "unhealthy", "load", "jobs", "lapses", "turns")
        return tuple(f"{root}:{name}" for name in names)
