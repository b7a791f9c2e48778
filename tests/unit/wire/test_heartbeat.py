"""The heartbeat's reader is total, and our own beat reads back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.wire.ecmascript import stringify
from dramatiq_handshake.wire.heartbeat import (
    MAX_HEARTBEAT_BYTES,
    Heartbeat,
    heartbeat_json,
    read_heartbeat,
)
from tests.unit.wire.strategies import json_values, texts

MS = 1752710410123


def test_our_beat_is_the_contracts_three_fields_and_a_load():
    """Other SDKs ignore ``load``; the rest is byte for byte theirs."""
    text = heartbeat_json(MS, "up", "0123456789abcdef", 8, 3)
    assert text == (
        f'{{"ts":{MS},"status":"up","descriptorHash":"0123456789abcdef","load":{{"threads":8,"inFlight":3}}}}'
    )


@given(
    st.integers(10**12, 10**14), st.sampled_from(["up", "draining", "quiescing", "stopped"]),
    texts, st.integers(0, 999), st.integers(0, 999),
)  # fmt: skip
def test_our_beat_reads_back(ts_ms, state, digest, threads, in_flight):
    """What we write is what we read."""
    assert read_heartbeat(heartbeat_json(ts_ms, state, digest, threads, in_flight)) == Heartbeat(
        last_beat_at=ts_ms, state=state, descriptor_hash=digest, threads=threads, in_flight=in_flight
    )


@pytest.mark.parametrize(
    ("raw", "last_beat_at"),
    [
        ("1752710410", 1752710410000),
        ("1752710410.5", 1752710410500),
        (b"1752710410123", MS),
        ("999999999999", 999999999999000),
        ("1000000000000", 1000000000000),
        ("\ufeff 1752710410123\u2028", MS),
        ("0x10", 16000),
        ("0b101", 5000),
        (".5", 500),
        ("5.", 5000),
        ("\x1c1752710410", 0),
        ("1_000", 0),
        ("\u0661", 0),
        ("inf", 0),
        ("1e400", 0),
        ("0x" + "f" * 400, 0),
        ("", 0),
        (None, 0),
    ],
)
def test_a_bare_number_is_read_by_javascripts_rules(raw, last_beat_at):
    """Seconds below 1e12, milliseconds above; what is no number there is none here."""
    assert read_heartbeat(raw) == Heartbeat(last_beat_at=last_beat_at)


@pytest.mark.parametrize("status", [{"phase": "up"}, [], [1]])
def test_a_status_that_is_no_word_is_kept_as_status(status):
    """As the reference does."""
    beat = read_heartbeat(json.dumps({"ts": MS, "status": status}))
    assert (beat.status, beat.state) == (status, None)


@pytest.mark.parametrize("load", [None, 5, "x", [], {"threads": "8", "inFlight": -1}, {"threads": True}])
def test_a_load_that_is_none_is_unknown(load):
    """Another SDK may use the name for something else."""
    beat = read_heartbeat(json.dumps({"ts": MS, "load": load}))
    assert (beat.threads, beat.in_flight) == (None, None)


@pytest.mark.parametrize("ts", ["true", "false", "null", '"1752710410123"', "[]", "{}", "1e400", "-0"])
def test_a_beat_time_that_is_no_finite_number_is_unknown(ts):
    """The key exists, so the worker lives; only when it beat is unknown."""
    assert read_heartbeat(f'{{"ts":{ts}}}').last_beat_at == 0


@given(st.one_of(st.binary(), texts, json_values.map(stringify)))
def test_reading_is_total(raw):
    """Whatever stands in the key is a heartbeat; nothing is raised."""
    assert isinstance(read_heartbeat(raw), Heartbeat)


@pytest.mark.parametrize(
    "raw", [b"\xff\xfe\x00", "[" * 60_000, "1" * 60_000 + "x", "9" * (MAX_HEARTBEAT_BYTES + 1)]
)
def test_hostile_values_cost_little_and_say_nothing(raw):
    """Undecodable, endlessly nested, slow to match, or larger than a beat can be."""
    assert read_heartbeat(raw) == Heartbeat()
