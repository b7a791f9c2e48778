"""Outcomes for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from benchmarks.harness.figures import Figure, Outcome
from benchmarks.harness.pairs import Method

__all__ = ["as_document", "as_lines"]


def as_document(name: str, outcome: Outcome, method: Method, machine: dict[str, Any]) -> dict[str, Any]:
    """A benchmark's outcome as one JSON object: its figures by key, then what they rest on."""
    figures = outcome.figures
    return {
        "benchmark": name,
        **{figure.key: figure.value for figure in figures},
        "met": outcome.is_met,
        "bars": {figure.key: _bar_document(figure) for figure in figures if figure.bar is not None},
        "intervals": {figure.key: list(figure.interval) for figure in figures if figure.interval is not None},
        "samples": {figure.key: list(figure.samples) for figure in figures if figure.samples},
        "details": dict(outcome.details),
        "method": {**asdict(method), "trial": method.is_trial},
        "machine": machine,
    }


def _bar_document(figure: Figure) -> dict[str, Any]:
    assert figure.bar is not None
    return {"bar": str(figure.bar), "limit": figure.bar.limit, "met": figure.is_met, "clear": figure.is_clear}


def as_lines(name: str, outcome: Outcome) -> Iterator[str]:
    """A benchmark's outcome as lines of text."""
    yield f"{name}: {'every bar is met' if outcome.is_met else 'FALLS SHORT'}"
    for figure in outcome.figures:
        columns = (
            f"{figure.key:<18}",
            f"{_number(figure.value):>8}",
            f"{_interval(figure):<18}",
            f"{_verdict(figure):<18}",
        )
        yield f"  {'  '.join(columns)}  {figure.meaning}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _interval(figure: Figure) -> str:
    if figure.interval is None:
        return ""
    low, high = figure.interval
    return f"[{_number(low)} … {_number(high)}]"


def _verdict(figure: Figure) -> str:
    if figure.bar is None:
        return ""
    verdict = "ok" if figure.is_met else "MISSED"
    return f"{verdict}: {figure.bar}{'' if figure.is_clear else ', too close to call'}"
