"""What each vector file asks, answered by this library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.kit.compare import first_difference, in_our_order
from conformance.kit.malformed import check_malformed
from conformance.kit.rows import Row, RowError
from dramatiq_handshake.decide.capability_plan import plan_capabilities
from dramatiq_handshake.decide.directory import announced, build_directory
from dramatiq_handshake.decide.negotiate import negotiate
from dramatiq_handshake.wire.descriptor import parse_descriptor
from dramatiq_handshake.wire.etag import descriptor_etag
from dramatiq_handshake.wire.heartbeat import read_heartbeat
from dramatiq_handshake.wire.tokens import partition_of_token, sanitize_queue_token, tenant_group

__all__ = ["check_row"]

_TOKEN_FUNCTIONS: dict[str, Callable[..., str]] = {
    "partitionOfToken": partition_of_token,
    "sanitizeQueueToken": sanitize_queue_token,
    "tenantGroup": tenant_group,
}
_AXES = frozenset({"keys", "requires", "partitions"})


def check_row(file: str, row: Row) -> str | None:
    """Answer a row.

    Args:
        file: The name of its file, one of `rows.FIELDS`.
        row: The row.

    Returns:
        The first difference from the right answer, in words; None where there is none.
    """
    try:
        if file == "malformed.jsonl":
            return check_malformed(row.value)
        got = _ANSWERS[file](row.value)
        axes = _axes(row.value)
    except Exception as error:  # noqa: BLE001 - whatever a row makes the library raise is that row's failure
        return f"expected an answer, got {type(error).__name__}: {str(error)[:200]}"
    return first_difference(in_our_order(row.expected, axes), in_our_order(got, axes))


def _axes(row: dict[str, Any]) -> frozenset[str]:
    axes = frozenset(row["localeAxes"]) if row.get("localeSensitive") else frozenset[str]()
    if not axes <= _AXES:
        raise RowError(f"expected localeAxes of {', '.join(sorted(_AXES))}")
    return axes


def _hash(row: dict[str, Any]) -> str:
    return descriptor_etag(parse_descriptor(row["descriptor"]))


def _negotiate(row: dict[str, Any]) -> dict[str, Any]:
    return negotiate(
        parse_descriptor(row["local"]), parse_descriptor(row["remote"]), row["required"]
    ).to_wire()


def _plan(row: dict[str, Any]) -> dict[str, Any]:
    workers = [parse_descriptor(worker) for worker in row["workers"]]
    control_plane = parse_descriptor(row["control_plane"])
    return plan_capabilities(row["requires"], workers, control_plane, row["token"]).to_wire()


def _announced(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry.to_wire() for entry in announced(map(parse_descriptor, row["descriptors"]))]


def _directory(row: dict[str, Any]) -> dict[str, Any]:
    directory = build_directory(
        row["descriptors"], row["heartbeats"], namespace=row["namespace"], supported=row["supported"]
    )
    if directory.invalid:
        raise RowError(directory.invalid[0].reason)
    return directory.to_wire()


def _token(row: dict[str, Any]) -> str:
    return _TOKEN_FUNCTIONS[row["fn"]](*row["args"])


def _heartbeat(row: dict[str, Any]) -> dict[str, Any]:
    """As the reference reads it: our `state` and `load` are not part of the comparison."""
    heartbeat = read_heartbeat(row["raw"])
    stated = {"status": heartbeat.status, "descriptorHash": heartbeat.descriptor_hash}
    return {
        "lastBeatAt": heartbeat.last_beat_at,
        **{name: value for name, value in stated.items() if value is not None},
    }


_ANSWERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "announced.jsonl": _announced,
    "directory.jsonl": _directory,
    "hash.jsonl": _hash,
    "heartbeat.jsonl": _heartbeat,
    "negotiate.jsonl": _negotiate,
    "plan.jsonl": _plan,
    "tokens.jsonl": _token,
}
