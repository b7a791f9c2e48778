"""Locks that a fork can't leave held.

A web server forks after it has imported the application (gunicorn, uwsgi). A lock that another thread
held at that moment stays held for ever in the child, so whoever owns locks gets new ones there.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["ForkAware", "renew_after_fork"]


class ForkAware(Protocol):
    """Something with locks, or with knowledge that only the parent process may rely on."""

    def after_fork(self) -> None:
        """Called in the child, before anything else runs there."""
        ...


_owners: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def renew_after_fork(owner: ForkAware) -> None:
    """Have ``owner.after_fork`` called in every child process for as long as `owner` lives."""
    _owners.add(owner)


def _in_child() -> None:
    for owner in list(_owners):
        owner.after_fork()


os.register_at_fork(after_in_child=_in_child)
