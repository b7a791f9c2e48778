"""The project keeps its own rules: what CONTRIBUTING.md promises of code and tests, read from the files."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST_MODULE = 400
#: A file of tests is a list of cases that are read one by one.
LONGEST_TESTS = 600
#: A name of so many words tells what a test proves; a shorter one needs a docstring.
WORDS_OF_A_SENTENCE = 3
SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:\s*no cover|pyright:\s*ignore)\b(.*)")
CODES = re.compile(r"^(:?\s*[A-Z]+[0-9]+(\s*,\s*[A-Z]+[0-9]+)*|\[[a-z-]+(\s*,\s*[a-z-]+)*\])?")
SKIPS = {"skip", "skipif", "xfail", "importorskip"}


def _tracked(*patterns: str) -> list[Path]:
    """Files that are, or are about to be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *patterns],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return sorted(path for path in paths if path.is_file())


def _named(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def _comments(path: Path) -> Iterator[tuple[int, str]]:
    with path.open("rb") as source:
        for token in tokenize.tokenize(io.BytesIO(source.read()).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def test_modules_stay_small() -> None:
    """No module grows past 400 lines, no file of tests past 600: split it by subject."""
    sizes = {path: len(path.read_text().splitlines()) for path in _tracked("*.py", "*.lua")}
    assert len(sizes) > 20
    long = [
        _named(path, size)
        for path, size in sizes.items()
        if size > (LONGEST_TESTS if path.name.startswith("test_") else LONGEST_MODULE)
    ]
    assert not long, "too long:\n" + "\n".join(long)


def test_every_suppression_has_its_reason_beside_it() -> None:
    """A noqa or type: ignore names what it suppresses, and says why on the same line or the one above."""
    bare = []
    for path in _tracked("*.py"):
        comments = dict(_comments(path))
        for line, text in comments.items():
            found = SUPPRESSION.search(text)
            if found is None:
                continue
            before = text[: found.start()].strip("# ")
            after = CODES.sub("", found[2]).strip(" -:#()")
            if not (before or after or comments.get(line - 1)):
                bare.append(_named(path, line))
    assert not bare, "without a reason:\n" + "\n".join(bare)


def test_tests_wait_for_conditions_and_skip_nothing() -> None:
    """No test sleeps, is skipped or is expected to fail."""
    offences = []
    for path in _tracked("tests/**/test_*.py", "tests/test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            if name == "time.sleep" or (name.startswith("pytest.") and name.rpartition(".")[2] in SKIPS):
                offences.append(f"{_named(path, getattr(node, 'lineno', 0))} {name}")
    assert not offences, "sleeping or left out:\n" + "\n".join(offences)


def test_every_test_says_what_it_proves() -> None:
    """A test has a docstring, or a name that is a sentence."""
    silent = []
    for path in _tracked("tests/**/test_*.py", "tests/test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                words = len(node.name.split("_")) - 1
                if not ast.get_docstring(node) and words < WORDS_OF_A_SENTENCE:
                    silent.append(_named(path, node.lineno))
    assert not silent, "neither docstring nor sentence:\n" + "\n".join(silent)


def test_lock_files_name_no_registry() -> None:
    """Any mirror of a registry serves: what is locked is name, version and hash."""
    locks = _tracked("*.lock", "*requirements*.txt", "*package-lock.json")
    assert len(locks) > 1
    named = re.compile(r'"resolved"|--(extra-)?index-url|--find-links| @ |\.whl|\.tgz')
    assert [path.name for path in locks if named.search(path.read_text())] == []


def test_help_lists_every_verb() -> None:
    """`make help` tells all verbs but itself and `clean`."""
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony
    listed = set(re.findall(r'echo "make (\w+)', text))
    assert listed == set(phony[1].split()) - {"help", "clean"}


@pytest.mark.parametrize("verb", ["test", "lint", "conformance"])
def test_ci_calls_the_makefile(verb: str) -> None:
    """CI runs the same verbs as people."""
    assert re.search(rf"^make {verb}\b", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
