"""Every program of the routing guide is run, in a folder of its own, and prints what the guide says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from tests.support.workers import ROOT, clean_environment

GUIDE = ROOT / "docs" / "routing.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# ([a-z_]+\.py)\n")
COMMAND_S = 100
#: What the guide promises of its adapter.
SHORT = 40


@dataclass(frozen=True)
class Program:
    """A program of the guide, and what it prints; ``None`` for one that others import."""

    name: str
    source: str
    printed: str | None


def programs() -> list[Program]:
    """All of them, in the guide's order."""
    blocks = [(match[1], match[2]) for match in BLOCK.finditer(GUIDE.read_text())]
    assert {language for language, _ in blocks} == {"python", "text"}
    found = []
    for (language, text), (next_language, printed) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if language == "python":
            name = FILE_NAME.match(text)
            assert name is not None, f"this block has no file name: {text[:60]}"
            found.append(Program(name[1], text, printed if next_language == "text" else None))
    return found


PROGRAMS = programs()

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize(
    "program", [each for each in PROGRAMS if each.printed is not None], ids=lambda program: program.name
)
def test_a_program_of_the_guide_prints_what_the_guide_says(
    program: Program, tmp_path: Path, valkey: redis.Redis, valkey_url: str
) -> None:
    """``…`` stands for anything within a line; warnings are errors."""
    for each in PROGRAMS:
        (tmp_path / each.name).write_text(each.source)
    done = subprocess.run(
        [sys.executable, "-W", "error", program.name],
        cwd=tmp_path,
        env=clean_environment({"REDIS_URL": valkey_url}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    wanted = re.escape((program.printed or "").strip()).replace("…", ".*")
    assert re.fullmatch(wanted, printed), printed


def test_the_guides_adapter_is_as_short_as_it_says() -> None:
    """The class of `commands.py`, without blank lines."""
    [source] = [each.source for each in PROGRAMS if each.name == "commands.py"]
    [adapter] = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    lines = source.splitlines()[adapter.lineno - 1 : adapter.end_lineno]
    assert len([line for line in lines if line.strip()]) <= SHORT


def test_the_guide_says_what_must_not_be_overlooked() -> None:
    """In memory is no sandbox; Dramatiq is nearly always the better choice; every message is listed."""
    text = GUIDE.read_text()
    assert "no sandbox" in text
    assert "## When to use Dramatiq instead\n\nNearly always." in text
    messages = (ROOT / "dramatiq_handshake" / "routing" / "ports" / "messages.py").read_text()
    kinds = set(re.findall(r'type: Literal\["([a-z.]+)"\]', messages))
    assert len(kinds) == 9
    assert {kind for kind in kinds if f"| `{kind}` |" in text} == kinds
