"""What the documents must say, wherever somebody meets it first."""

from __future__ import annotations

from pathlib import Path

from dramatiq_handshake.routing import InMemoryWorkerGateway

GUIDE = Path(__file__).parents[3] / "docs" / "routing.md"


def test_the_in_memory_gateway_is_said_to_be_no_sandbox() -> None:
    """In the guide and where it is used: its handlers are trusted code."""
    for text in (GUIDE.read_text(encoding="utf-8"), InMemoryWorkerGateway.__doc__ or ""):
        assert "no sandbox" in text
