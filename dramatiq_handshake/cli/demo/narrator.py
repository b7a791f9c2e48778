"""Who tells the story on the screen, and keeps count of the claims that held."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

__all__ = ["Claim", "Narrator"]

_INDENT = "   "
#: Lines longer than this are hard to read, however wide the terminal is.
_READABLE_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that the story claims.

    Attributes:
        chapter: Where it belongs.
        held: Whether it happened.
        text: What was found.
    """

    chapter: str
    held: bool
    text: str


class Narrator:
    """Prints chapters, tables and checked claims.

    Args:
        console: Where to.
    """

    def __init__(self, console: Console) -> None:
        self.claims: list[Claim] = []
        self._console = console
        self._chapter = ""
        self._chapters = 0
        unicode = console.encoding.lower().startswith("utf")
        self._marks = {True: "✓" if unicode else "ok:", False: "✗" if unicode else "FAILED:"}

    @property
    def failures(self) -> list[Claim]:
        """The claims that did not hold."""
        return [claim for claim in self.claims if not claim.held]

    def title(self, title: str, text: str) -> None:
        """Open the story."""
        self._paragraph(title, style="bold")
        self._paragraph(text)

    def chapter(self, title: str) -> None:
        """Begin a chapter."""
        self._chapters += 1
        self._chapter = f"{self._chapters}. {title}"
        self._console.print()
        self._paragraph(self._chapter, style="bold cyan")

    def say(self, text: str) -> None:
        """Tell something."""
        self._paragraph(text, _INDENT)

    def code(self, line: str) -> None:
        """Show what one would type."""
        self._paragraph(line, _INDENT, hanging="    ", style="bold")

    def show(self, picture: RenderableType) -> None:
        """Show a table."""
        self._console.print()
        self._console.print(Padding(picture, (0, 0, 0, len(_INDENT)), expand=False))
        self._console.print()

    def check(self, held: bool, text: str, otherwise: str = "") -> bool:
        """State a claim, with what was found.

        Args:
            held: Whether it happened.
            text: The claim.
            otherwise: What was found instead, where it did not happen.

        Returns:
            `held`.
        """
        claim = Claim(self._chapter, held, text if held or not otherwise else otherwise)
        self.claims.append(claim)
        self._claim(claim, _INDENT)
        return held

    def verdict(self, took_s: float) -> None:
        """Close the story: what held, and what did not."""
        self._console.print()
        claims = len(self.claims)
        if not self.failures:
            happened = f"All of it happened: {claims} claims held, in {took_s:.1f} s."
            self._paragraph(happened, style="bold green")
            self._paragraph("Ask a fleet of your own: dramatiq-handshake fleet --url redis://HOST:6379/0")
            return
        steps = {claim.chapter: None for claim in self.failures}
        self._paragraph(
            f"Not all of it happened: {len(self.failures)} of {claims} claims did not hold, in these steps:",
            style="bold red",
        )
        for step in steps:
            self._paragraph(step, style="bold")
            for claim in self.failures:
                if claim.chapter == step:
                    self._claim(claim, _INDENT)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Show on a terminal that something takes its time."""
        if not self._console.is_terminal:
            yield
            return
        with self._console.status(Text(text)):
            yield

    def _claim(self, claim: Claim, indent: str) -> None:
        mark = self._marks[claim.held]
        hanging = " " * (len(mark) + 1)
        lines = self._wrapped(f"{mark} {claim.text}", indent, hanging)
        text = Text(lines, style="" if claim.held else "red")
        text.stylize("green" if claim.held else "bold", len(indent), len(indent) + len(mark))
        self._console.print(text)

    def _paragraph(self, text: str, indent: str = "", *, hanging: str = "", style: str = "") -> None:
        if text:
            self._console.print(Text(self._wrapped(text, indent, hanging), style=style))

    def _wrapped(self, text: str, indent: str, hanging: str) -> str:
        """Wrapped here, since rich would fill each line with spaces up to the margin."""
        return textwrap.fill(
            text,
            min(self._console.width, _READABLE_WIDTH),
            initial_indent=indent,
            subsequent_indent=indent + hanging,
            break_on_hyphens=False,
        )
