r"""The contract's keys in Redis or Valkey, written and read back.

=========================================  ===============================================  =====
key (``P`` is the prefix)                  value                                            life
=========================================  ===============================================  =====
``P-worker-heartbeat:<token>:<instance>``  `wire.heartbeat`                                 35 s
``P-worker-descriptor:<token>:<instance>`` `wire.descriptor`                                35 s
``P-control-plane:<instance>``             the control plane's descriptor                   35 s
=========================================  ===============================================  =====

A token holds no ``:``, so the first ``:`` after the family ends it; an instance id may hold any text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dramatiq_handshake.wire.tokens import sanitize_queue_token

__all__ = ["ContractKeys", "glob_escape"]

_HEARTBEAT = "-worker-heartbeat:"
_DESCRIPTOR = "-worker-descriptor:"
_CONTROL_PLANE = "-control-plane:"

_glob_special = re.compile(r"([*?\[\]\\^])")


def glob_escape(text: str) -> str:
    """`text` as a SCAN pattern that matches only itself."""
    return _glob_special.sub(r"\\\1", text)


@dataclass(frozen=True, slots=True)
class ContractKeys:
    """The keys of one deployment.

    Attributes:
        prefix: Names the deployment (design §2); other SDKs may fold a namespace into it.
    """

    prefix: str

    def heartbeat(self, token: str, instance: str) -> str:
        """The key whose existence says that `instance` lives and consumes `token`."""
        return f"{self.prefix}{_HEARTBEAT}{sanitize_queue_token(token)}:{instance}"

    def descriptor(self, token: str, instance: str) -> str:
        """The key of the descriptor that `instance` advertises for `token`."""
        return f"{self.prefix}{_DESCRIPTOR}{sanitize_queue_token(token)}:{instance}"

    def control_plane(self, instance: str) -> str:
        """The key of a control plane's own descriptor."""
        return f"{self.prefix}{_CONTROL_PLANE}{instance}"

    @property
    def heartbeats_pattern(self) -> str:
        """The SCAN pattern of every heartbeat."""
        return f"{glob_escape(self.prefix)}{_HEARTBEAT}*"

    @property
    def descriptors_pattern(self) -> str:
        """The SCAN pattern of every worker's descriptor."""
        return f"{glob_escape(self.prefix)}{_DESCRIPTOR}*"

    @property
    def control_planes_pattern(self) -> str:
        """The SCAN pattern of every control plane's descriptor."""
        return f"{glob_escape(self.prefix)}{_CONTROL_PLANE}*"

    def parse_heartbeat(self, key: str | bytes) -> tuple[str, str] | None:
        """The ``(token, instance)`` of a heartbeat key; ``None`` where it is none of this deployment."""
        return self._token_and_instance(key, _HEARTBEAT)

    def parse_descriptor(self, key: str | bytes) -> tuple[str, str] | None:
        """The ``(token, instance)`` of a descriptor key; ``None`` where it is none of this deployment."""
        return self._token_and_instance(key, _DESCRIPTOR)

    def parse_control_plane(self, key: str | bytes) -> str | None:
        """The instance of a control plane's key; ``None`` where it is none of this deployment."""
        return self._rest(key, _CONTROL_PLANE) or None

    def _token_and_instance(self, key: str | bytes, family: str) -> tuple[str, str] | None:
        token, found, instance = self._rest(key, family).partition(":")
        return (token, instance) if found and token and instance else None

    def _rest(self, key: str | bytes, family: str) -> str:
        if isinstance(key, bytes):
            try:
                key = key.decode()
            except UnicodeDecodeError:
                return ""
        head = self.prefix + family
        return key[len(head) :] if key.startswith(head) else ""
