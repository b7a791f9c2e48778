"""The properties of a row that a known defect shows on: they hold just there."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.peers import traits
from tests.unit.conformance_peers.planted import row

#: By UTF-16 code unit the emoji comes first, by code point the private-use character does.
PRIVATE_USE, EMOJI = "\ue000", "\U0001f600"


def descriptor(**fields: Any) -> dict[str, Any]:
    return {"instanceId": "i", "runtime": "node"} | fields


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({"instanceId": "a\ud800"}, True),
        ({"steps": ["\udc00"]}, True),
        ({"sdk": {"name": "\ud800", "version": "1"}}, True),
        ({"registrations": [{"name": "n", "origin": "\ud800"}]}, True),
        ({"registrations": [{"name": "n", "note": "\ud800"}]}, False),
        ({"note": "\ud800"}, False),
        ({"instanceId": EMOJI, "capabilities": None}, False),
    ],
)
def test_a_lone_surrogate_counts_where_it_is_hashed(fields: dict[str, Any], holds: bool) -> None:
    assert traits.hashes_a_lone_surrogate(row(descriptor=descriptor(**fields))) is holds


@pytest.mark.parametrize(
    ("number", "holds"),
    [
        (1, False),
        (1.5, False),
        (9007199254740992, False),
        (1e21, False),
        (-0.0, False),
        (1.0, True),
        (1e20, True),
        (1e-7, True),
        (0.000001, True),
        (9007199254740993, True),
        (1152921504606846976, True),
        (10**400, True),
        (float("inf"), True),
    ],
)
def test_a_number_counts_where_python_spells_it_otherwise(number: float, holds: bool) -> None:
    assert (
        traits.hashes_a_number_python_spells_otherwise(row(descriptor=descriptor(startedAt=number))) is holds
    )
    band = descriptor(protocol={"version": 1, "range": [1, number or 1]})
    assert traits.hashes_a_number_python_spells_otherwise(row(descriptor=band)) is holds


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({"workflows": [PRIVATE_USE, EMOJI]}, True),
        ({"workflows": [EMOJI, PRIVATE_USE, EMOJI]}, True),
        ({"workflows": [PRIVATE_USE], "steps": [EMOJI]}, False),
        ({"capabilities": None, "workflows": ["b", "a"]}, False),
        ({"registrations": [{"name": "n", "requires": [EMOJI, PRIVATE_USE]}]}, True),
        ({"registrations": [{"name": PRIVATE_USE}, {"name": EMOJI}]}, True),
        ({"registrations": [{"name": "n", "requires": []}, {"name": "n"}]}, False),
    ],
)
def test_the_order_of_a_hashed_set_counts_where_the_two_sorts_differ(
    fields: dict[str, Any], holds: bool
) -> None:
    assert traits.orders_differ_in_hash(row(descriptor=descriptor(**fields))) is holds


@pytest.mark.parametrize(
    ("shared", "detail", "holds"),
    [
        ([EMOJI, PRIVATE_USE], {}, True),
        (["a", "b"], {"missingRequired": [EMOJI, PRIVATE_USE]}, True),
        (["a", "b"], {"localRange": [2, 1]}, False),
        ([], {}, False),
    ],
)
def test_the_order_of_a_session_counts_where_the_two_sorts_differ(
    shared: list[str], detail: dict[str, Any], holds: bool
) -> None:
    result = {"capabilities": {"shared": shared}, "reason": {"detail": detail}}
    assert traits.orders_differ_in_negotiation(row("negotiate", result)) is holds


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({}, False),
        ({"note": 1}, False),
        ({"sdk": {"name": "s", "version": "1"}, "registrations": [{"name": "n", "group": "g"}]}, False),
        ({"partition": None}, True),
        ({"namespace": None}, True),
        ({"sdk": {"name": "s", "version": "1", "note": 1}}, True),
        ({"protocol": {"version": 1, "range": [1, 1], "note": 1}}, True),
        ({"registrations": [{"name": "n", "note": 1}]}, True),
        ({"registrations": [{"name": "n", "group": None}]}, True),
    ],
)
def test_what_a_lossy_round_trip_drops(fields: dict[str, Any], holds: bool) -> None:
    """The reference too drops unknown fields at the top, so those do not count."""
    assert traits.drops_in_a_round_trip(row("negotiate", {}, local=descriptor(**fields))) is holds
