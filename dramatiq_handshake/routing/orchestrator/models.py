"""Tasks, runs, and what happens to them: frozen values that go to JSON and back.

``run.model_dump_json()`` and ``RunSnapshot.model_validate_json(text)`` keep a run somewhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Strict

from dramatiq_handshake.routing.orchestrator.errors import UnknownTask

__all__ = [
    "EventKind",
    "RunEvent",
    "RunSnapshot",
    "RunStatus",
    "Task",
    "TaskError",
    "TaskSnapshot",
    "TaskStatus",
]

Id = Annotated[str, Field(min_length=1)]


class _Value(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


class Task(_Value):
    """What a run is made of.

    Attributes:
        task_id: Its name within the run.
        task_type: What a worker must be able to run.
        params: What its handler is given.
        depends_on: The tasks that must succeed first; their outputs are handed to its handler.
        max_attempts: How often it is begun before it has failed.
        retry_delay_ms: How long to wait after a failed attempt.
    """

    task_id: Id
    task_type: Id
    params: Any = None
    depends_on: Annotated[tuple[Id, ...], Strict(False)] = ()
    max_attempts: Annotated[int, Field(ge=1)] = 1
    retry_delay_ms: Annotated[int, Field(ge=0)] = 0


class TaskStatus(StrEnum):
    """Where a task is."""

    PENDING = "pending"
    """It waits: for what it depends on, for a worker, or for its next attempt."""
    RUNNING = "running"
    """An attempt was given to a worker."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """Its last attempt failed."""
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    """Something that it depends on did not succeed."""


class RunStatus(StrEnum):
    """Where a run is. It ends when all of its tasks have."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    """All tasks did."""
    FAILED = "failed"
    """At least one task did."""
    CANCELLED = "cancelled"
    """No task failed, and at least one was cancelled."""


class TaskError(_Value):
    """Why an attempt failed: the error's class, message and, where a handler raised it, stack."""

    name: str
    message: str
    stack: str = ""


class TaskSnapshot(_Value):
    """A task of a run at one moment.

    Attributes:
        task: The task.
        status: Where it is.
        attempt: The last attempt that was begun, from 1; 0 before.
        failures: How many attempts failed. An interrupted one is begun again and is no failure.
        due_at: When the next attempt may begin (ms since the epoch).
        cancel_requested: Whether it is not to be begun again.
        output: What its handler returned.
        error: Why the last failed attempt failed.
        worker_id: Who ran the attempt that succeeded.
    """

    task: Task
    status: TaskStatus = TaskStatus.PENDING
    attempt: int = 0
    failures: int = 0
    due_at: int = 0
    cancel_requested: bool = False
    output: Any = None
    error: TaskError | None = None
    worker_id: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing happens to it any more."""
        return self.status not in (TaskStatus.PENDING, TaskStatus.RUNNING)


class RunSnapshot(_Value):
    """A run at one moment.

    Attributes:
        run_id: Its id.
        tasks: Its tasks, in the order in which they were given.
        status: Where it is.
        started_at: When it was started (ms since the epoch).
        ended_at: When it ended; ``None`` before.
    """

    run_id: Id
    tasks: Annotated[tuple[TaskSnapshot, ...], Strict(False)]
    status: RunStatus = RunStatus.RUNNING
    started_at: int
    ended_at: int | None = None

    @property
    def over(self) -> bool:
        """Whether nothing happens to it any more."""
        return self.status is not RunStatus.RUNNING

    @property
    def outputs(self) -> Mapping[str, Any]:
        """The outputs of the tasks that succeeded, by task id."""
        return {each.task.task_id: each.output for each in self.tasks if each.status is TaskStatus.SUCCEEDED}

    def task(self, task_id: str) -> TaskSnapshot:
        """One of its tasks.

        Raises:
            UnknownTask: The run has none of this id.
        """
        for each in self.tasks:
            if each.task.task_id == task_id:
                return each
        raise UnknownTask(self.run_id, task_id)


class EventKind(StrEnum):
    """What can happen to a run."""

    RUN_STARTED = "run.started"
    RUN_RECOVERED = "run.recovered"
    RUN_SUCCEEDED = "run.succeeded"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    TASK_STARTED = "task.started"
    TASK_SUCCEEDED = "task.succeeded"
    TASK_RETRIED = "task.retried"
    """An attempt failed, and there will be another."""
    TASK_INTERRUPTED = "task.interrupted"
    """It was running when its orchestrator went away, and will be begun again."""
    TASK_FAILED = "task.failed"
    TASK_CANCELLED = "task.cancelled"
    TASK_SKIPPED = "task.skipped"


class RunEvent(_Value):
    """Something that happened to a run.

    Attributes:
        run_id: The run.
        kind: What happened.
        at: When (ms since the epoch).
        task_id: The task that it happened to; ``""`` for the run itself.
        attempt: The attempt, from 1; 0 where none is meant.
        detail: Why, for people.
    """

    run_id: str
    kind: EventKind
    at: int
    task_id: str = ""
    attempt: int = 0
    detail: str = ""
