"""What a directory and a router are given, checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterable

from dramatiq_handshake.errors import ConfigurationError

__all__ = ["checked_duration", "checked_id", "checked_limit", "checked_types"]


def checked_id(worker_id: str) -> str:
    """A worker's id.

    Raises:
        ConfigurationError: It is no text, or empty.
    """
    if not isinstance(worker_id, str) or not worker_id:
        raise ConfigurationError(f"a worker's id: expected a text that is not empty, got {worker_id!r}")
    return worker_id


def checked_types(task_types: Iterable[str]) -> frozenset[str]:
    """The task types of a worker.

    Raises:
        ConfigurationError: They are no collection of texts.
    """
    if isinstance(task_types, str | bytes) or not isinstance(task_types, Iterable):
        raise ConfigurationError(f"task types: expected a collection, as in ['train'], got {task_types!r}")
    types = list(task_types)
    if wrong := [each for each in types if not isinstance(each, str) or not each or "\n" in each]:
        raise ConfigurationError(f"task types: expected texts of one line, not empty, got {wrong[0]!r}")
    return frozenset(types)


def checked_duration(name: str, value: int) -> int:
    """A duration in ms.

    Raises:
        ConfigurationError: It is not a positive whole number.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(
            f"{name}: expected a whole number of milliseconds, at least 1, got {value!r}"
        )
    return value


def checked_limit(value: int | None) -> int | None:
    """How many jobs a worker may have at once.

    Raises:
        ConfigurationError: It is neither ``None`` nor a positive whole number.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ConfigurationError(
            f"max_concurrency: expected a whole number, at least 1, or None for no limit, got {value!r}"
        )
    return value
