"""Handler registries, and what a handler is given."""

from __future__ import annotations

import pickle

import pytest

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing import (
    CancelSignal,
    HandlerRegistry,
    Job,
    JobCancelled,
    JobContext,
    JobLog,
    TaskTypeRefused,
)


def nothing(context: JobContext) -> None:
    """A handler."""


def test_types_are_those_registered_in_their_order() -> None:
    """`types()` is what the directory is given."""
    handlers = HandlerRegistry({"train": nothing})
    handlers.register("evaluate", nothing)

    @handlers.handler("deploy")
    def deploy(context: JobContext) -> None: ...

    assert handlers.types() == ("train", "evaluate", "deploy") == tuple(handlers)
    assert handlers.get("deploy") is deploy
    assert handlers.get("unknown") is None
    assert "train" in handlers
    assert "unknown" not in handlers
    assert len(handlers) == 3
    assert "train" in repr(handlers)


@pytest.mark.parametrize(
    ("task_type", "handler", "complaint"),
    [
        ("", nothing, "not empty"),
        (7, nothing, "not empty"),
        ("train", "nothing", "a function that takes a JobContext; got 'nothing'"),
        ("taken", nothing, "'taken' has a handler already"),
    ],
)
def test_what_is_no_handler_is_refused(task_type: object, handler: object, complaint: str) -> None:
    """Configuration errors name what was expected and what came."""
    handlers = HandlerRegistry({"taken": nothing})
    with pytest.raises(ConfigurationError, match=complaint):
        handlers.register(task_type, handler)  # type: ignore[arg-type]  # the mistake under test
    assert handlers.types() == ("taken",)


def test_a_context_has_the_job_its_log_and_its_signal() -> None:
    """Params, outputs and attempt are the job's; a log line names the job."""
    lines: list[JobLog] = []
    signal = CancelSignal()
    job = Job("j", "r", "t", "train", attempt=3, params={"n": 1}, outputs={"before": 2})
    context = JobContext(job, "worker-1", signal, lines.append)

    context.log("hello", level="debug", message="a field may have any name")
    context.raise_if_cancelled()
    signal.cancel("enough")
    with pytest.raises(JobCancelled, match="enough"):
        context.raise_if_cancelled()

    assert (context.params, context.outputs, context.attempt) == ({"n": 1}, {"before": 2}, 3)
    assert lines == [JobLog("j", "debug", "hello", {"message": "a field may have any name"})]


def test_a_refusal_survives_pickle_and_names_what_the_worker_runs() -> None:
    """It crosses processes, and says what to do."""
    refusal = pickle.loads(pickle.dumps(TaskTypeRefused("worker-1", "train", ["evaluate"])))
    assert isinstance(refusal, TaskTypeRefused)
    assert "'worker-1' refused task type 'train'" in str(refusal)
    assert "handlers.types()" in str(refusal)
    assert "'evaluate'" in str(refusal)
