"""The descriptor's ETag: what a heartbeat carries so that an unchanged descriptor is never re-read.

A 64-bit FNV-1a over the canonical text's UTF-16 code units. For each unit it XORs the low byte, XORs
the high byte, and multiplies *once*, which is neither FNV over UTF-8 nor FNV over the bytes of UTF-16.
"""

from __future__ import annotations

from struct import iter_unpack
from typing import TYPE_CHECKING

from dramatiq_handshake.wire.ecmascript import stringify

if TYPE_CHECKING:
    from dramatiq_handshake.wire.models import WorkerDescriptor

__all__ = ["descriptor_etag", "fnv1a_64"]

_OFFSET_BASIS = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MASK = 0xFFFFFFFFFFFFFFFF


def fnv1a_64(text: str) -> str:
    """The hash of `text` as 16 lower-case hex digits."""
    units = text.encode("utf-16-le", "surrogatepass")
    digest = _OFFSET_BASIS
    for (unit,) in iter_unpack("<H", units):
        # XOR of the low byte and then of the high byte, both before the multiplication.
        digest = ((digest ^ (unit & 0xFF) ^ (unit >> 8)) * _PRIME) & _MASK
    return f"{digest:016x}"


def descriptor_etag(descriptor: WorkerDescriptor) -> str:
    """The ETag of a descriptor (wire contract, design §3): 16 lower-case hex digits.

    Equal for two descriptors that say the same, whatever the order of their sets; unknown fields do
    not count.
    """
    return fnv1a_64(stringify(descriptor.canonical()))
