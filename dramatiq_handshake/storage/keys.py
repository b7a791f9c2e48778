"""Every private key of the registry, in one place. `docs/keys.md` tells what each holds and for how long.

The contract's own keys (`wire.keys`) belong to all SDKs; these belong to us alone. They carry a version,
so that a release with another layout can run beside this one, and share one hash tag, so that a script
may touch them together.
"""

from __future__ import annotations

from dataclasses import dataclass

from dramatiq_handshake.storage.base import LANES
from dramatiq_handshake.wire.keys import glob_escape

__all__ = ["LAYOUT", "RegistryKeys"]

#: The version of the layout; a release that changes what a key holds takes the next one.
LAYOUT = 1


@dataclass(frozen=True, slots=True)
class RegistryKeys:
    """The private keys of one deployment.

    Attributes:
        prefix: Names the deployment (design §2).
    """

    prefix: str

    @property
    def root(self) -> str:
        """What every private key begins with: the hash tag."""
        return f"{{{self.prefix}:handshake:{LAYOUT}}}"

    @property
    def live(self) -> str:
        """Live ``<token>:<instance>`` by the end of their lease."""
        return f"{self.root}:live"

    @property
    def placed(self) -> str:
        """The class and broker of each ``<token>:<instance>``."""
        return f"{self.root}:placed"

    @property
    def claims(self) -> str:
        """Dramatiq broker ids of processes with the plugin, by the end of their claim."""
        return f"{self.root}:claims"

    def instance(self, instance_id: str) -> str:
        """What is known of a worker process beyond its lease."""
        return f"{self.root}:instance:{instance_id}"

    def class_body(self, class_id: str) -> str:
        """The routing-relevant content of a class."""
        return f"{self.root}:class:{class_id}"

    def epoch(self, token: str) -> str:
        """The epoch of a token's classes."""
        return f"{self.root}:epoch:{token}"

    @property
    def lanes_epoch(self) -> str:
        """The epoch of the set of open lanes."""
        return self.epoch(LANES)

    def classes(self, token: str) -> str:
        """The classes on a token by the longest lease of their workers."""
        return f"{self.root}:classes:{token}"

    def members(self, token: str) -> str:
        """The instances that are up on a token by the end of their lease."""
        return f"{self.root}:members:{token}"

    def served(self, token: str) -> str:
        """There for as long as a token counts as served lately."""
        return f"{self.root}:served:{token}"

    def lanes(self, base: str) -> str:
        """The open lanes beside a base queue."""
        return f"{self.root}:lanes:{base}"

    @property
    def blocked(self) -> str:
        """Needs with blocked messages by when the oldest was blocked."""
        return f"{self.root}:blocked"

    @property
    def blocked_messages(self) -> str:
        """The listed blocked messages of all needs."""
        return f"{self.root}:blocked-messages"

    def blocked_need(self, need_id: str) -> str:
        """A need with blocked messages, and its counts."""
        return f"{self.root}:blocked-need:{need_id}"

    def blocked_listed(self, need_id: str) -> str:
        """The listed messages of a need in the order in which they were blocked."""
        return f"{self.root}:blocked-listed:{need_id}"

    @property
    def writable(self) -> str:
        """Written only to see whether the server takes writes again."""
        return f"{self.root}:writable"

    @property
    def advertisements_pattern(self) -> str:
        """The SCAN pattern of the contract's heartbeats and descriptors together: one pass for both."""
        return f"{glob_escape(self.prefix)}-worker-*"
