"""Routing tokens: the name under which a queue is advertised, and the tenant that it belongs to.

A token never holds ``:``, which separates the parts of a registry key. A namespace other than the
default is a suffix, ``ml@davi-local``; what follows a token's last ``@`` is its partition.
"""

from __future__ import annotations

__all__ = [
    "DEFAULT_PARTITION",
    "is_default_namespace",
    "partition_of_token",
    "sanitize_queue_token",
    "tenant_group",
]

#: The partition of a token without a suffix, and the namespace that adds none.
DEFAULT_PARTITION = "default"


def is_default_namespace(namespace: str | None) -> bool:
    """Whether `namespace` stands for no tenant at all: unset, empty or ``default``."""
    return namespace is None or namespace in ("", DEFAULT_PARTITION)


def sanitize_queue_token(name: str) -> str:
    """`name` as a token: each ``:`` becomes ``-``."""
    return name.replace(":", "-")


def tenant_group(group: str, namespace: str | None = None) -> str:
    """The queue that serves `group` for the tenant `namespace`."""
    return group if is_default_namespace(namespace) else f"{group}@{namespace}"


def partition_of_token(token: str) -> str:
    """The partition that a token belongs to: what follows its last ``@``, else ``default``."""
    _, found, partition = token.rpartition("@")
    return partition if found else DEFAULT_PARTITION
