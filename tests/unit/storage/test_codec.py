"""The registry's own values: what another release wrote is read as far as it can be."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.storage.base import BlockedMessage, BlockedNeed, OpenLane
from dramatiq_handshake.storage.codec import (
    dump_lane,
    dump_message,
    dump_need,
    load_lane,
    load_message,
    load_need,
)

texts = st.text(st.characters(), max_size=20)
optional = st.none() | texts
requires = st.lists(texts, max_size=3).map(tuple)
lanes = st.builds(OpenLane, texts, texts, texts, requires, optional, optional, st.integers(1, 99))
needs = st.builds(
    BlockedNeed,
    texts,
    texts,
    optional,
    optional,
    requires,
    st.integers(1, 99),
    texts,
    texts,
    texts,
    texts,
    texts,
)


@given(lanes)
def test_a_lane_comes_back_as_it_was_written(lane: OpenLane) -> None:
    assert load_lane(b"1767225600000\n" + dump_lane(lane).encode()) == lane


@given(needs, st.integers(0, 10**9), st.integers(0, 2**45))
def test_a_need_comes_back_with_the_counts_that_the_store_kept(
    need: BlockedNeed, messages: int, since_ms: int
) -> None:
    spec = dump_need(replace(need, messages=7, since_ms=7)).encode()

    assert load_need(spec, messages=messages, since_ms=since_ms) == replace(
        need, messages=messages, since_ms=since_ms
    )


@given(texts, texts, texts, texts, st.integers(0, 2**45))
def test_a_message_comes_back_with_the_time_that_the_store_kept(
    message_id: str, need_id: str, ref: str, trace: str, since_ms: int
) -> None:
    message = BlockedMessage(message_id, need_id, broker_ref=ref, since_ms=since_ms, traceparent=trace)
    value = f"{since_ms}\n{dump_message(message, need_id)}".encode()

    assert load_message(message_id, value) == message


@given(lanes)
def test_equal_lanes_give_equal_text_without_a_line_break(lane: OpenLane) -> None:
    """The script compares texts to tell a renewed lane from a changed one."""
    assert dump_lane(lane) == dump_lane(replace(lane))
    assert "\n" not in dump_lane(lane)


def test_fields_of_a_newer_release_are_passed_over() -> None:
    written = json.loads(dump_lane(OpenLane("ml.need.a", "ml", "need"))) | {"invented_later": [1]}

    assert load_lane(b"1\n" + json.dumps(written).encode()) == OpenLane("ml.need.a", "ml", "need")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"1",
        b"1\n",
        b"1\n[]",
        b"1\nnull",
        b'1\n{"name":"x"}',
        b"1\n{",
        b"\xff\n\xff",
        b'1\n{"requires":1}',
    ],
)
def test_what_cannot_be_read_is_left_out(value: bytes) -> None:
    assert load_lane(value) is None
    assert load_message("m1", value) is None
    assert load_need(value, messages=1, since_ms=1) is None
    assert load_need(None, messages=1, since_ms=1) is None
    assert load_message("m1", None) is None
