"""What reaches an adapter, what comes back, and what a broken adapter is reported as."""

from __future__ import annotations

import json
import sys

import pytest

from conformance.peers.process import AdapterFailed, Answer, Request, converse
from conformance.peers.rows import Row
from tests.unit.conformance_peers.planted import parrot_command, row

ODD = r'{"numbers":[1.0,1E3,-0,9007199254740993,1e400],"texts":["\ud800","\u2028",""],"result":null}'


def test_a_row_reaches_the_peer_as_the_text_that_stands_in_the_file() -> None:
    """No number is respelled, no surrogate replaced, no line broken at U+2028."""
    odd = Row("hash.jsonl", 1, "hash", ODD, json.loads(ODD), None)
    said = converse(parrot_command(echoes=True), [Request(odd), Request(odd, without="texts")])
    assert [answer.value for answer in said.answers] == [
        f'{{"id":0,"call":"hash","row":{ODD}}}\n',
        f'{{"id":1,"call":"hash","without":"texts","row":{ODD}}}\n',
    ]


def test_answers_and_exceptions_come_back_in_the_order_of_the_questions() -> None:
    rows = [row("hash", "a"), row("hash", peer_raises="ValueError"), row("hash", peer_says={"n": 5})]
    said = converse(parrot_command(names=["hash"]), [Request(question) for question in rows])
    assert said.answers == (
        Answer("a"),
        Answer(raised="ValueError", message="as planted"),
        Answer({"n": 5.0}),
    )
    assert (said.version, said.names) == ("1.0", ("hash",))


def test_text_beyond_ascii_is_split_at_line_feeds_alone() -> None:
    """Node leaves U+2028 as UTF-8 in its output; it ends no line."""
    output = '{"version":"1","names":[]}\n{"id":0,"answer":"a\u2028b"}\n'.encode()
    says = f"import sys; sys.stdout.buffer.write({output!r})"
    assert converse([sys.executable, "-c", says], [Request(row())]).answers == (Answer("a\u2028b"),)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (parrot_command(dies="out of memory"), "exit code 1\nout of memory"),
        ([sys.executable, "-c", "print('hello')"], "expected a greeting and 1 answers"),
        ([sys.executable, "-c", ""], "expected a greeting and 1 answers"),
        (["/nowhere/node", "adapter"], "No such file"),
    ],
)
def test_a_broken_adapter_is_reported_with_its_last_words(command: list[str], words: str) -> None:
    with pytest.raises(AdapterFailed, match=words):
        converse(command, [Request(row())])


def test_a_question_left_without_an_answer_is_reported() -> None:
    with pytest.raises(AdapterFailed, match="expected a greeting and 2 answers"):
        converse(parrot_command(), [Request(row()), Request(row(peer_is_silent=True))])
