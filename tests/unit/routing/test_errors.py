"""The errors of routing: in words for people, and across processes."""

from __future__ import annotations

import pickle

import pytest

from dramatiq_handshake import HandshakeError
from dramatiq_handshake.routing import (
    DuplicateJob,
    DuplicateWorker,
    EndpointMissing,
    JobCancelled,
    JobFailed,
    NoHealthyWorker,
    ReservationLapsed,
    RoutingError,
    UnknownWorker,
    WorkerLost,
    WorkersBusy,
)

EXAMPLES = [
    (
        NoHealthyWorker("train", {"a": "is stale", "b": "does not run it"}),
        (
            "no healthy worker for task type 'train': 'a' is stale; 'b' does not run it "
            "(register a worker for it, or wait for a heartbeat)"
        ),
    ),
    (
        WorkersBusy("train", {"a": "is busy"}),
        (
            "every worker for task type 'train' is busy: 'a' is busy "
            "(ask again when a job has ended, or raise max_concurrency)"
        ),
    ),
    (
        UnknownWorker("a", ["b", "c"]),
        "unknown worker 'a': it was never registered or has left (registered: 'b', 'c')",
    ),
    (UnknownWorker("a"), "unknown worker 'a': it was never registered or has left (registered: none)"),
    (
        DuplicateWorker("a"),
        (
            "worker 'a' is registered already: give each worker an id of its own, "
            "or stop the other's lease first"
        ),
    ),
    (
        DuplicateJob("j", "a"),
        "job 'j' is under way already on worker 'a': give each attempt a job id of its own",
    ),
    (DuplicateJob("j"), "job 'j' is under way already: give each attempt a job id of its own"),
    (
        ReservationLapsed("j", "a"),
        "job 'j' has no place on worker 'a' (any more): select a worker again",
    ),
    (
        EndpointMissing("a", ["b"]),
        (
            "no endpoint for worker 'a': give the gateway one, or register it in another directory "
            "(endpoints: 'b')"
        ),
    ),
    (WorkerLost("a", "exit code -9"), "worker 'a' was lost: exit code -9"),
    (JobFailed("j", "ValueError", "no", "Traceback…"), "job 'j' failed: ValueError: no"),
    (JobCancelled("j", "not needed"), "job 'j' was cancelled: not needed"),
    (JobCancelled("j"), "job 'j' was cancelled"),
]


@pytest.mark.parametrize(("error", "said"), EXAMPLES, ids=lambda each: type(each).__name__)
def test_an_error_says_what_happened_and_what_to_do(error: RoutingError, said: str) -> None:
    assert str(error) == said
    assert isinstance(error, HandshakeError)


@pytest.mark.parametrize("error", [error for error, _ in EXAMPLES], ids=lambda each: type(each).__name__)
def test_an_error_crosses_processes_whole(error: RoutingError) -> None:
    back = pickle.loads(pickle.dumps(error))

    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)


def test_a_message_names_twenty_workers_and_counts_the_rest() -> None:
    refused = NoHealthyWorker("train", {f"w{n}": "is stale" for n in range(25)})

    assert "'w19' is stale; and 5 more (" in str(refused)
    assert len(refused.reasons) == 25
