"""What a worker runs: handlers by task type, and what a handler is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dramatiq_handshake.errors import ConfigurationError
from dramatiq_handshake.routing.errors import NAMED_AT_MOST, JobCancelled, RoutingError
from dramatiq_handshake.routing.jobs import Job, JobLog
from dramatiq_handshake.routing.signals import CancelSignal

__all__ = ["Handler", "HandlerRegistry", "JobContext", "TaskTypeRefused"]


class TaskTypeRefused(RoutingError):
    """A worker was given a job of a type that it has no handler for.

    Whoever registered the worker said that it has one: the directory and the worker disagree.

    Args:
        worker_id: The worker.
        task_type: What it was asked to run.
        types: What it does run.
    """

    _arguments = ("worker_id", "task_type", "types")

    def __init__(self, worker_id: str, task_type: str, types: Iterable[str] = ()) -> None:
        self.worker_id = worker_id
        self.task_type = task_type
        self.types = tuple(types)
        named = ", ".join(map(repr, self.types[:NAMED_AT_MOST])) or "none"
        super().__init__(
            f"worker {worker_id!r} refused task type {task_type!r}, for which it has no handler: "
            f"register it with handlers.types() and nothing else (its types: {named})"
        )


@dataclass(frozen=True, slots=True)
class JobContext:
    """What a handler is given.

    Attributes:
        job: The job.
        worker_id: The worker that runs it.
        signal: Cancelled as soon as the job is not wanted any more. A plain handler looks at it; an async
            one is cancelled besides, as any task is, and meets `asyncio.CancelledError` where it awaits.
        on_log: Where `log` goes.
    """

    job: Job
    worker_id: str
    signal: CancelSignal
    on_log: Callable[[JobLog], None] = field(repr=False)

    @property
    def params(self) -> Any:
        """What the task was given."""
        return self.job.params

    @property
    def outputs(self) -> Mapping[str, Any]:
        """The outputs of the tasks that this one depends on, by task id."""
        return self.job.outputs

    @property
    def attempt(self) -> int:
        """Which attempt at the task this is, from 1."""
        return self.job.attempt

    def log(self, message: str, /, *, level: str = "info", **fields: Any) -> None:
        """Send a line to whoever dispatched the job.

        Args:
            message: The text.
            level: A name of the `logging` module, in lower case.
            fields: What else belongs to it; over a process port, JSON.
        """
        self.on_log(JobLog(self.job.job_id, level, message, fields))

    def raise_if_cancelled(self) -> None:
        """Leave the handler where the job is not wanted any more.

        Raises:
            JobCancelled: The signal is cancelled. Let it pass: it makes the job a cancelled one.
        """
        if self.signal.cancelled:
            raise JobCancelled(self.job.job_id, self.signal.reason)


#: A plain function runs in a thread of its own, an async one on the worker's event loop. What it returns
#: (or what the awaitable that it returns comes to) is the job's output.
Handler = Callable[[JobContext], Any]


class HandlerRegistry:
    """Handlers by task type, in the order in which they came.

    >>> handlers = HandlerRegistry()
    >>> @handlers.handler("resize")
    ... def resize(context):
    ...     return context.params["width"] // 2
    >>> handlers.types()
    ('resize',)

    Args:
        handlers: Some to begin with.
    """

    def __init__(self, handlers: Mapping[str, Handler] | None = None) -> None:
        self._handlers: dict[str, Handler] = {}
        for task_type, handler in (handlers or {}).items():
            self.register(task_type, handler)

    def __repr__(self) -> str:
        return f"<HandlerRegistry {list(self._handlers)}>"

    def __len__(self) -> int:
        return len(self._handlers)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._handlers))

    def __contains__(self, task_type: object) -> bool:
        return task_type in self._handlers

    def register(self, task_type: str, handler: Handler) -> None:
        """Add a handler.

        Raises:
            ConfigurationError: The type is not a text, is empty or has a handler, or the handler can't be
                called.
        """
        if not isinstance(task_type, str) or not task_type:
            raise ConfigurationError(f"expected a task type, a text that is not empty; got {task_type!r}")
        if not callable(handler):
            raise ConfigurationError(
                f"task type {task_type!r}: expected a function that takes a JobContext; got {handler!r}"
            )
        if task_type in self._handlers:
            raise ConfigurationError(
                f"task type {task_type!r} has a handler already ({self._handlers[task_type]!r}): "
                "give each type one, or make another registry"
            )
        self._handlers[task_type] = handler

    def handler(self, task_type: str) -> Callable[[Handler], Handler]:
        """Register the function that this decorates.

        Raises:
            ConfigurationError: As for `register`.
        """

        def decorate(handler: Handler) -> Handler:
            self.register(task_type, handler)
            return handler

        return decorate

    def types(self) -> tuple[str, ...]:
        """The task types, as `WorkerDirectory.register` takes them."""
        return tuple(self._handlers)

    def get(self, task_type: str) -> Handler | None:
        """The handler of a type, or ``None``."""
        return self._handlers.get(task_type)
