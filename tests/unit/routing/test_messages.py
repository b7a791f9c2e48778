"""Messages between gateway and worker: they arrive as they were sent, and garbage is told from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake.routing import Job, Unsendable
from dramatiq_handshake.routing.ports import messages
from dramatiq_handshake.routing.ports.messages import MessageInvalid, from_gateway, from_worker

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
ids = st.text(min_size=1)
jobs = st.builds(
    Job,
    job_id=ids,
    run_id=st.text(),
    task_id=st.text(),
    task_type=st.text(),
    attempt=st.integers(min_value=1),
    params=json_values,
    outputs=st.dictionaries(st.text(), json_values),
)

FROM_WORKER = [
    messages.WorkerReady(worker_id="w", task_types=("train",)),
    messages.WorkerHeartbeat(worker_id="w"),
    messages.JobStarted(job_id="j"),
    messages.JobLogged(job_id="j", level="info", message="hello", fields={"n": 1}),
    messages.JobSucceeded(job_id="j", output=[1]),
    messages.JobFailed(job_id="j", name="ValueError", message="no", stack="…"),
    messages.JobFailed(job_id="j", name="TaskTypeRefused", message="no", refused=True, types=("train",)),
    messages.JobCancelled(job_id="j", reason="enough"),
]
KINDS = sorted({message.type for message in FROM_WORKER} | {"job.assigned", "job.cancel"})


def carried(frame: dict[str, Any]) -> Any:
    """The frame at the other end of a process port."""
    return json.loads(json.dumps(frame))


@given(jobs)
def test_a_job_arrives_as_it_was_sent(job: Job) -> None:
    """Over a process port too, for what JSON can say."""
    message = from_gateway(carried(messages.JobAssigned.of(job).to_frame()))
    assert isinstance(message, messages.JobAssigned)
    assert message.job() == job


@pytest.mark.parametrize("message", FROM_WORKER, ids=lambda message: message.type)
def test_what_a_worker_says_arrives_as_it_was_sent(message: Any) -> None:
    """As objects between threads, as JSON between processes."""
    assert from_worker(message.to_frame()) == message
    assert from_worker(carried(message.to_frame())) == message


def test_between_threads_params_are_shared_and_not_copied() -> None:
    """What a queue carries is the object itself."""
    params = {"tensor": object()}
    message = from_gateway(messages.JobAssigned.of(Job("j", "r", "t", "train", params=params)).to_frame())
    assert isinstance(message, messages.JobAssigned)
    assert message.job().params is params


@given(
    st.one_of(
        anything,
        st.fixed_dictionaries(
            {"type": st.sampled_from(KINDS)},
            optional={
                "version": st.sampled_from([1, 2, "1"]),
                "job_id": anything,
                "worker_id": anything,
                "task_types": anything,
                "name": anything,
                "message": anything,
                "fields": anything,
                "params": anything,
                "outputs": anything,
            },
        ),
    )
)
def test_parsing_answers_a_message_or_says_what_is_wrong(frame: object) -> None:
    """Whatever comes, nothing but `MessageInvalid` is raised."""
    for parse in (from_gateway, from_worker):
        with suppress(MessageInvalid):
            assert parse(frame).type in KINDS


@pytest.mark.parametrize(
    ("parse", "frame", "complaint"),
    [
        (from_worker, b"\x00garbage", "an object with type and version"),
        (from_worker, None, "an object with type and version"),
        (from_worker, {}, "discriminator"),
        (from_worker, {"type": "job.exploded"}, "job.exploded"),
        (from_worker, {"type": "job.started"}, r"job\.started\.job_id: expected Field required"),
        (from_worker, {"type": "job.started", "job_id": ""}, "at least 1 character"),
        (from_worker, {"type": "job.started", "job_id": 7}, "valid string, got 7"),
        (
            from_worker,
            {"type": "job.started", "job_id": "j", "version": 2},
            "version.*Input should be 1, got 2",
        ),
        (from_worker, {"type": "worker.ready", "worker_id": "w", "task_types": "train"}, "valid tuple"),
        (from_worker, {"type": "job.cancel", "job_id": "j"}, "job.cancel"),
        (from_gateway, {"type": "job.started", "job_id": "j"}, "job.started"),
        (from_gateway, {"type": "job.cancel", "job_id": ["x" * 1_000]}, "…"),
    ],
)
def test_a_broken_message_says_what_is_wrong_with_it(
    parse: Callable[[object], object], frame: object, complaint: str
) -> None:
    """The report names the field, what was expected, and what came, within bounds."""
    with pytest.raises(MessageInvalid, match=complaint) as caught:
        parse(frame)
    assert len(str(caught.value)) < 500


def test_what_has_no_readable_text_is_reported_all_the_same() -> None:
    """A frame between threads may be any object."""

    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(MessageInvalid, match="a Hostile whose repr raises RuntimeError"):
        from_worker(Hostile())


def test_fields_of_a_later_release_are_passed_over() -> None:
    """A newer peer may say more."""
    frame = messages.JobCancel(job_id="j").to_frame() | {"urgency": "high"}
    assert from_gateway(frame) == messages.JobCancel(job_id="j")


def test_a_job_that_is_none_is_not_sent() -> None:
    """The dispatcher learns what is wrong with its job."""
    with pytest.raises(Unsendable, match=r"attempt: .* got 0"):
        messages.JobAssigned.of(Job("j", "r", "t", "train", attempt=0))
