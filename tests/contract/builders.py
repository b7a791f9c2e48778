"""Values for the storage tests, with everything that a test doesn't care about filled in."""

from __future__ import annotations

from typing import Any

from dramatiq_handshake.storage.base import (
    Advertisement,
    BlockedMessage,
    BlockedNeed,
    FleetStore,
    OpenLane,
    TokenLook,
)

__all__ = ["ad", "classes_on", "lane", "look_at", "messages", "need"]


def ad(instance: str = "w1", *tokens: str, class_id: str = "c1", **changes: Any) -> Advertisement:
    """An advertisement whose descriptor, ETag and class body follow from the class id."""
    values: dict[str, Any] = {
        "instance_id": instance,
        "tokens": tokens or ("ml",),
        "descriptor_json": f'{{"instanceId":"{instance}","class":"{class_id}"}}',
        "etag": f"etag-{class_id}",
        "class_id": class_id,
        "class_body": f'{{"class":"{class_id}"}}',
        "broker": "broker-1",
    }
    return Advertisement(**(values | changes))


def lane(name: str = "ml.need.abc", base: str = "ml", **changes: Any) -> OpenLane:
    """An open need lane."""
    values: dict[str, Any] = {
        "name": name,
        "base": base,
        "kind": "need",
        "requires": ("gpu",),
        "actor": "train",
    }
    return OpenLane(**(values | changes))


def need(need_id: str = "n1", **changes: Any) -> BlockedNeed:
    """A blocked need as a caller hands it in: counts and times are the store's."""
    values: dict[str, Any] = {
        "need_id": need_id,
        "queue": "ml",
        "actor": "train",
        "version": "2",
        "requires": ("gpu", "saga"),
        "protocol": 1,
        "place": "ml.need.abc",
        "code": "capability.unavailable",
        "reason": "blocked: no compatible worker (requires gpu, saga)",
        "detail": '{"missing":["gpu"]}',
        "broker": "broker-1",
    }
    return BlockedNeed(**(values | changes))


def messages(*ids: str, need_id: str = "n1") -> list[BlockedMessage]:
    """Messages of one need, by their ids."""
    return [BlockedMessage(message_id, need_id, broker_ref=f"ref-{message_id}") for message_id in ids]


def look_at(store: FleetStore, token: str = "ml") -> TokenLook:
    """Everything that can be seen of a token, as somebody who knows nothing yet sees it."""
    return store.look({token: None}, None).tokens[token]


def classes_on(store: FleetStore, token: str = "ml") -> set[str]:
    """The ids of the classes that are live on a token."""
    return {presence.class_id for presence in look_at(store, token).classes}
