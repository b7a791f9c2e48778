"""The map from the specification to the tests is complete, in order, and names only tests that exist."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAP = Path(__file__).with_name("map.toml")
PROOFS = ("tests", "later", "not_applicable")
IDENTIFIER = re.compile(r"([HR])-(\d{3})")
LATER = re.compile(r"issue [3-8]")
#: A reason of two words explains nothing.
SHORTEST_REASON = 20


def faults(requirements: list[dict[str, Any]]) -> list[str]:
    """What is wrong with these requirements, one sentence each."""
    found = [fault for requirement in requirements for fault in _faults_of(requirement)]
    return found + _faults_of_order([str(requirement.get("id")) for requirement in requirements])


def _faults_of(requirement: dict[str, Any]) -> list[str]:
    name = requirement.get("id", "a requirement without id")
    found = []
    if not str(requirement.get("says", "")).strip():
        found.append(f"{name}: says nothing")
    unknown = requirement.keys() - {"id", "says", "note", *PROOFS}
    found += [f"{name}: unknown field {field!r}" for field in sorted(unknown)]
    given = [proof for proof in PROOFS if proof in requirement]
    if len(given) != 1:
        found.append(f"{name}: expected exactly one of {', '.join(PROOFS)}; got {given or 'none'}")
    if "tests" in requirement:
        tests = requirement["tests"]
        found += [] if tests else [f"{name}: an empty list proves nothing"]
        found += [f"{name}: no test has the id {test!r}" for test in tests if not _exists(test)]
        found += [f"{name}: names {test!r} twice" for test in {t for t in tests if tests.count(t) > 1}]
    if "later" in requirement and not LATER.fullmatch(requirement["later"]):
        found.append(f"{name}: later is {requirement['later']!r}, expected an issue like 'issue 8'")
    reason = requirement.get("not_applicable")
    if reason is not None and len(reason.strip()) < SHORTEST_REASON:
        found.append(f"{name}: not applicable, but the reason is missing or too short: {reason!r}")
    return found


def _faults_of_order(identifiers: list[str]) -> list[str]:
    parsed = [IDENTIFIER.fullmatch(each) for each in identifiers]
    found = [
        f"{each!r} is no id like 'H-001'" for each, ok in zip(identifiers, parsed, strict=True) if not ok
    ]
    numbered = [(match[1], int(match[2])) for match in parsed if match]
    pages = [page for page, _ in groupby(page for page, _ in numbered)]
    if pages != sorted(set(pages)):
        found.append(f"expected all of one page before the next; got {pages}")
    for page, rows in groupby(numbered, key=lambda row: row[0]):
        found += [
            f"{page}-{number:03} stands where {page}-{expected:03} belongs: number without gaps or repeats"
            for expected, (_, number) in enumerate(rows, 1)
            if number != expected
        ]
    return found


def _exists(test: str) -> bool:
    path, *names = test.split("::")
    return bool(names) and "::".join(names) in _tests_in(path)


@cache
def _tests_in(path: str) -> frozenset[str]:
    """The tests that pytest collects from a file, read from its syntax tree."""
    file = ROOT / path
    if not (path.startswith("tests/") and file.name.startswith("test_") and file.is_file()):
        return frozenset()
    names = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            names |= {f"{node.name}::{each.name}" for each in node.body if _is_test(each)}
        elif _is_test(node):
            names.add(node.name)
    return frozenset(names)


def _is_test(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")


def test_every_requirement_is_proved_deferred_or_excused() -> None:
    """The map has no gaps, no repeats, no ids of tests that are gone, no empty reasons."""
    requirements = tomllib.loads(MAP.read_text())["requirement"]
    assert len(requirements) > 100
    assert faults(requirements) == []


GOOD = {
    "id": "H-001",
    "says": "Something",
    "tests": ["tests/spec/test_map.py::test_every_requirement_is_proved_deferred_or_excused"],
}


def test_a_good_requirement_has_no_faults() -> None:
    """The examples below differ from this one in what they are refused for."""
    assert faults([GOOD]) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"says": " "}, "says nothing"),
        ({"tests": []}, "proves nothing"),
        ({"tests": ["tests/spec/test_map.py::test_gone"]}, "no test has the id"),
        ({"tests": ["tests/spec/test_gone.py::test_gone"]}, "no test has the id"),
        ({"tests": ["tests/spec/test_map.py"]}, "no test has the id"),
        ({"tests": ["tests/spec/test_map.py::faults"]}, "no test has the id"),
        ({"tests": GOOD["tests"] * 2}, "twice"),
        ({"later": "issue 8"}, "exactly one of"),
        ({"tests": None, "later": "some day"}, "expected an issue"),
        ({"tests": None, "not_applicable": "no"}, "too short"),
        ({"tests": None}, "exactly one of"),
        ({"id": "H-2"}, "is no id"),
        ({"id": "H-002"}, "stands where H-001 belongs"),
        ({"prooves": "x"}, "unknown field"),
    ],
)
def test_a_faulty_requirement_is_refused(change: dict[str, Any], complaint: str) -> None:
    """Each kind of fault is named."""
    requirement = {key: value for key, value in (GOOD | change).items() if value is not None}
    assert [fault for fault in faults([requirement]) if complaint in fault]


@pytest.mark.parametrize(
    ("identifiers", "complaint"),
    [
        (["H-001", "H-001"], "stands where H-002 belongs"),
        (["H-001", "H-003"], "stands where H-002 belongs"),
        (["R-001", "H-001"], "before the next"),
        (["H-001", "R-001", "H-002"], "before the next"),
    ],
)
def test_gaps_and_repeats_are_refused(identifiers: list[str], complaint: str) -> None:
    """Requirements are numbered page by page, in order."""
    assert [fault for fault in faults([GOOD | {"id": each} for each in identifiers]) if complaint in fault]
