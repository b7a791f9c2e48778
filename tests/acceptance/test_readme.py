"""Every block of the README is executed, in its order, as a reader would.

How a block is executed depends on its language:

- ``python``: its first line is a comment with a file name; the block is written there.
- ``sh``: each line is a command. ``make`` verbs must exist in the Makefile (a dry run), ``pip install`` must
  name this distribution and extras that it has, ``python FILE`` and ``dramatiq-handshake …`` are run to
  their end, ``dramatiq MODULE`` is started as a real worker that goes on running.
- ``text``: what the last command printed; ``…`` stands for anything. A finished command must have printed
  exactly this, a worker must come to print each line.

A block that fits none of this fails the test, so nothing in the README goes unexecuted.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template

import pytest
import redis

from tests.support.workers import ROOT, ChildProcess, WorkerProcess, clean_environment

README = ROOT / "README.md"
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# ([a-z_]+\.py)\b.*")
ASSIGNMENT = re.compile(r"[A-Z_]+=.*")
COMMAND_S = 30


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text and the line it begins at."""

    language: str
    text: str
    line: int


def blocks_of(markdown: str) -> list[Block]:
    """The fenced blocks of a document, in order."""
    return [
        Block(match[1].strip(), match[2], markdown[: match.start()].count("\n") + 1)
        for match in BLOCK.finditer(markdown)
    ]


def matches(wanted: str, printed: str) -> bool:
    """Whether `printed` is what a text block shows, with ``…`` for anything within a line."""
    pattern = re.escape(wanted.strip()).replace("…", ".*")
    return re.fullmatch(pattern, printed.strip()) is not None


class Reader:
    """Does what the README says, in a folder of its own.

    Args:
        directory: Where the reader works.
        redis_url: The server that stands for the reader's own.
    """

    def __init__(self, directory: Path, redis_url: str) -> None:
        self.directory = directory
        self.environment = {"REDIS_URL": redis_url}
        self.children: list[ChildProcess] = []
        self._printed: str | ChildProcess | None = None

    def follow(self, block: Block) -> None:
        """Execute one block; `AssertionError` where it can't be or does not do what it says."""
        actions = {"python": self._write, "sh": self._run, "text": self._compare}
        action = actions.get(block.language)
        assert action is not None, (
            f"README line {block.line}: a {block.language or 'plain'!r} block is not executed; "
            f"expected one of {sorted(actions)}"
        )
        action(block)

    def close(self) -> None:
        """Leave no process behind."""
        for child in self.children:
            child.request_stop()
        for child in self.children:
            try:
                child.wait()
            finally:
                child.kill9()

    def _write(self, block: Block) -> None:
        named = FILE_NAME.fullmatch(block.text.partition("\n")[0])
        assert named, f"README line {block.line}: the first line of a python block names its file: # app.py"
        (self.directory / named[1]).write_text(block.text)

    def _run(self, block: Block) -> None:
        for line in block.text.splitlines():
            words = shlex.split(line, comments=True)
            environment = dict(self.environment)
            while words and ASSIGNMENT.fullmatch(words[0]):
                name, _, value = words.pop(0).partition("=")
                environment[name] = value
            if words:
                self._command(words, environment, f"README line {block.line}: {line}")

    def _command(self, words: list[str], environment: dict[str, str], where: str) -> None:
        match words:
            case ["make", verb]:
                check_make(verb, where)
            case ["pip", "install", requirement]:
                check_install(requirement, where)
            case ["dramatiq", module]:
                label = f"reader-{len(self.children) + 1}"
                output = self.directory / f"{label}.log"
                worker = WorkerProcess(label, module, output, environment=environment, cwd=self.directory)
                self.children.append(worker)
                self._printed = worker.wait_ready()
            case ["python", script]:
                self._printed = self._finish([script], environment, where)
            case ["dramatiq-handshake", *arguments]:
                self._printed = self._finish(["-m", "dramatiq_handshake", *arguments], environment, where)
            case _:
                raise AssertionError(f"{where}: this kind of command is not executed")

    def _finish(self, arguments: list[str], environment: dict[str, str], where: str) -> str:
        """Run Python to its end, with warnings as errors, and return what it printed."""
        expanded = [Template(argument).substitute(environment) for argument in arguments]
        done = subprocess.run(
            [sys.executable, "-W", "error", *expanded],
            cwd=self.directory,
            env=clean_environment(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert done.returncode == 0, f"{where}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _compare(self, block: Block) -> None:
        where = f"README line {block.line}"
        if isinstance(self._printed, ChildProcess):
            for line in block.text.splitlines():
                self._printed.wait_output(line)
        else:
            assert self._printed is not None, f"{where}: nothing was run whose output this could be"
            assert matches(block.text, self._printed), (
                f"{where}: expected\n{block.text}\ngot\n{self._printed}"
            )


def check_make(verb: str, where: str) -> None:
    """A verb the README names must be one that the Makefile has, and its help lists."""
    dry = ["make", "--dry-run", "--no-print-directory", verb]
    done = subprocess.run(
        dry, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{where}: {done.stderr}"


def check_install(requirement: str, where: str) -> None:
    """What the README installs must be this distribution, with extras that it has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name, _, extras = requirement.rstrip("]").partition("[")
    assert name == project["name"], f"{where}: expected {project['name']!r}"
    unknown = set(filter(None, extras.split(","))) - project["optional-dependencies"].keys()
    assert not unknown, f"{where}: no extra named {sorted(unknown)}"


@pytest.fixture
def reader(tmp_path: Path, valkey: redis.Redis, valkey_url: str) -> Iterator[Reader]:
    """Somebody who follows the README, with an empty server of their own."""
    person = Reader(tmp_path, valkey_url)
    yield person
    person.close()


@pytest.mark.timeout(120)
def test_every_block_of_the_readme_does_what_it_says(reader: Reader) -> None:
    """Following the README from top to bottom works, and prints what it shows."""
    blocks = blocks_of(README.read_text())
    assert {block.language for block in blocks} >= {"python", "sh", "text"}
    for block in blocks:
        reader.follow(block)


def test_the_readme_sets_up_with_two_commands() -> None:
    """The set-up commands are `make demo` and `make test`, and no others."""
    commands = [
        line
        for block in blocks_of(README.read_text())
        if block.language == "sh"
        for line in block.text.splitlines()
        if line.startswith("make ")
    ]
    assert [" ".join(shlex.split(line, comments=True)) for line in commands] == ["make demo", "make test"]


def test_links_of_the_readme_lead_somewhere() -> None:
    """Every link to a file of this repository names one that exists."""
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", README.read_text())
    local = [target for target in targets if "://" not in target]
    assert local
    assert [target for target in local if not (ROOT / target).exists()] == []


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        (Block("ruby", "puts 1\n", 1), "not executed"),
        (Block("", "anything\n", 1), "not executed"),
        (Block("python", "print(1)\n", 1), "names its file"),
        (Block("sh", "curl example\n", 1), "not executed"),
        (Block("sh", "make no-such-verb\n", 1), "no-such-verb"),
        (Block("sh", "pip install 'dramatiq-handshake[nothing]'\n", 1), "no extra named"),
        (Block("sh", "pip install other\n", 1), "dramatiq-handshake"),
        (Block("text", "output\n", 1), "nothing was run"),
    ],
)
def test_a_block_that_is_not_executed_is_noticed(reader: Reader, block: Block, complaint: str) -> None:
    """The reader refuses what it can't follow instead of passing over it."""
    with pytest.raises(AssertionError, match=complaint):
        reader.follow(block)


def test_a_script_that_prints_something_else_is_noticed(reader: Reader) -> None:
    """Shown output is compared with the real one; an ellipsis stands for anything in a line."""
    reader.follow(Block("python", "# hello.py\nprint('hello 41')\n", 1))
    reader.follow(Block("sh", "python hello.py\n", 1))
    reader.follow(Block("text", "hello …\n", 1))
    with pytest.raises(AssertionError, match=r"expected\s+hello 42"):
        reader.follow(Block("text", "hello 42\n", 1))


def test_a_script_that_fails_is_noticed(reader: Reader) -> None:
    """A script's exit code and its error are the test's."""
    reader.follow(Block("python", "# broken.py\nraise SystemExit('broken')\n", 1))
    with pytest.raises(AssertionError, match=r"exit code 1\s+broken"):
        reader.follow(Block("sh", "python broken.py\n", 1))


def test_blocks_are_found_with_their_line() -> None:
    """The parser keeps language, text and line of every block."""
    found = blocks_of("Title\n\n```sh\nmake demo\n```\n\n```text\nx\n```\n")
    assert found == [Block("sh", "make demo\n", 3), Block("text", "x\n", 7)]
