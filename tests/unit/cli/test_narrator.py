"""Who tells the demo: claims are counted, marked, and named again at the end."""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text

from dramatiq_handshake.cli.demo.narrator import Narrator


def narrator(width: int = 60, encoding: str = "utf-8") -> tuple[Narrator, io.TextIOWrapper]:
    """A narrator, and where it prints."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    return Narrator(Console(file=stream, width=width, color_system=None)), stream


def printed(stream: io.TextIOWrapper) -> str:
    """What was printed so far."""
    stream.flush()
    stream.seek(0)
    return stream.read()


def test_a_claim_that_does_not_hold_is_told_as_what_was_found() -> None:
    tell, stream = narrator()
    tell.chapter("One")
    assert tell.check(True, "it ran", "it did not run")
    assert not tell.check(False, "it resumed", "it did not resume")
    tell.chapter("Two")
    assert not tell.check(False, "nothing else to say")
    tell.verdict(1.5)
    assert [claim.text for claim in tell.failures] == ["it did not resume", "nothing else to say"]
    text = printed(stream)
    assert "   ✓ it ran\n   ✗ it did not resume\n" in text
    _, _, closing = text.partition("Not all of it happened: 2 of 3 claims did not hold")
    assert "1. One\n   ✗ it did not resume\n2. Two\n   ✗ nothing else to say\n" in closing


def test_where_everything_held_the_story_says_so() -> None:
    tell, stream = narrator()
    tell.chapter("One")
    tell.check(True, "it ran")
    tell.verdict(1.54)
    assert "All of it happened: 1 claims held, in 1.5 s." in printed(stream)
    assert not tell.failures


def test_lines_fit_the_screen_and_end_without_spaces() -> None:
    tell, stream = narrator(width=40)
    tell.title("A title that is longer than the screen is wide", "And a text that is that as well, really.")
    tell.chapter("A chapter whose title is as long as that, too")
    tell.code("$ SOME_VARIABLE=value command that is rather long --option value")
    tell.check(True, "a claim that needs more than one line of this narrow screen")
    lines = printed(stream).splitlines()
    assert max(map(len, lines)) <= 40
    assert [line for line in lines if line != line.rstrip()] == []
    # Continued lines stand below the text, not below the mark.
    assert any(line.startswith("     ") and "screen" in line for line in lines)


def test_without_unicode_the_marks_are_words() -> None:
    tell, stream = narrator(encoding="ascii")
    tell.chapter("One")
    tell.check(True, "it ran")
    tell.check(False, "it resumed")
    text = printed(stream)
    assert "ok: it ran" in text
    assert "FAILED: it resumed" in text
    assert "?" not in text


def test_names_are_no_markup() -> None:
    tell, stream = narrator()
    tell.say("[bold]not markup[/bold]")
    tell.show(Text("[red]neither[/red]"))
    assert "[bold]not markup[/bold]" in printed(stream)
    assert "[red]neither[/red]" in printed(stream)
