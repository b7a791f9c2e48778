"""Bodies that decode and are no messages all the same: any producer may have put them into a queue.

Dramatiq takes any JSON object with the right names for a message. A field of the wrong type then raises
somewhere in the consumer's thread, which is rebuilt, fetches the same body again, and so on for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dramatiq import Message, MessageProxy

__all__ = ["flaw_of"]

_TEXTS = ("queue_name", "actor_name", "message_id")
_OBJECTS = ("options", "kwargs")


def flaw_of(message: Message[Any] | MessageProxy) -> str | None:
    """The first field whose type is not what Dramatiq itself writes, in half a sentence; ``None`` is none."""
    for names, kind, expected in ((_TEXTS, str, "a text"), (_OBJECTS, dict, "an object")):
        for name in names:
            value = getattr(message, name)
            if not isinstance(value, kind):
                return f"{name}: expected {expected}, got {value!r:.40}"
    return None
