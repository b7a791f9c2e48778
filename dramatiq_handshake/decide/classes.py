"""Classes of workers: equal routing-relevant content, equal class.

Planning and the registry's traffic cost classes, not workers: a fleet of any size is a handful of them.
What is unique to a worker (its id, when it started) stays out. The body is a wire document: another
release reads it, so its format has a version and is never edited in place.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from dramatiq_handshake.decide.candidate import Candidate, candidate_of, legacy_candidate
from dramatiq_handshake.errors import DescriptorInvalid
from dramatiq_handshake.wire.descriptor import MAX_DESCRIPTOR_BYTES, WorkerDescriptor, parse_descriptor
from dramatiq_handshake.wire.ecmascript import loads, stringify

__all__ = ["CLASS_FORMAT", "class_of", "read_class"]

#: The version of a class body's format. A reader takes a body of another version for a legacy worker.
CLASS_FORMAT: Final = 1

#: A class is read back as a descriptor; nobody in particular is its instance.
_NOBODY: Final = ""


def class_of(descriptor: WorkerDescriptor, broker: str) -> tuple[str, str]:
    """Name the class that a worker belongs to.

    Args:
        descriptor: What the worker advertises.
        broker: The fingerprint of the broker that it consumes from.

    Returns:
        The class id (16 hex digits, a function of the body) and the body, JSON text.
    """
    canonical = descriptor.canonical()
    content: dict[str, Any] = {
        "class": CLASS_FORMAT,
        "broker": broker,
        "runtime": canonical["runtime"],
        "sdk": None if descriptor.sdk is None else {"name": descriptor.sdk.name},
        "protocol": None if descriptor.protocol is None else list(descriptor.protocol.range),
        "capabilities": None if descriptor.capabilities is None else canonical["capabilities"],
        "workflows": None if descriptor.workflows is None else canonical["workflows"],
        "steps": None if descriptor.steps is None else canonical["steps"],
        "registrations": _registrations(canonical.get("registrations")),
        "partition": descriptor.partition,
        "namespace": descriptor.namespace,
    }
    body = stringify({name: value for name, value in content.items() if value is not None})
    return hashlib.blake2b(body.encode(), digest_size=8).hexdigest(), body


def _registrations(entries: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """What counts for routing of each registration: not its origin."""
    if entries is None:
        return None
    routing = ({name: entry[name] for name in ("name", "version", "group", "requires")} for entry in entries)
    unique = {stringify(entry): entry for entry in routing}
    return [
        {key: value for key, value in unique[text].items() if value is not None} for text in sorted(unique)
    ]


def read_class(class_id: str, body: str | None) -> Candidate:
    """Read a class back. Never raises.

    A body that is gone, unreadable or of a later format is a live worker that nothing is known of:
    legacy v1, assumed compatible (design §4).
    """
    if body is None or len(body) > MAX_DESCRIPTOR_BYTES:
        return legacy_candidate(class_id)
    try:
        content = loads(body)
        if not isinstance(content, dict) or content.pop("class", None) != CLASS_FORMAT:
            return legacy_candidate(class_id)
        broker = content.pop("broker", "")
        sdk = content.get("sdk")
        if isinstance(sdk, dict):
            content["sdk"] = {"version": _NOBODY, **sdk}
        if "protocol" in content:
            content["protocol"] = {"version": 1, "range": content["protocol"]}
        descriptor = parse_descriptor({"instanceId": _NOBODY, **content})
    except (ValueError, RecursionError, DescriptorInvalid):
        return legacy_candidate(class_id)
    return candidate_of(descriptor, id=class_id, broker=broker if isinstance(broker, str) else "")
