"""What an orchestrator refuses, and what can come between a run and its end."""

from __future__ import annotations

from dramatiq_handshake.routing.errors import RoutingError

__all__ = ["RunInterrupted", "UnknownRun", "UnknownTask"]


class UnknownRun(RoutingError):
    """The orchestrator and its store have no run of this id, or none any more.

    Args:
        run_id: The id that was given.
    """

    _arguments = ("run_id",)

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(
            f"unknown run {run_id!r}: it was never started here, or the store has dropped it since it ended"
        )


class UnknownTask(RoutingError):
    """The run has no task of this id.

    Args:
        run_id: The run.
        task_id: The id that was given.
    """

    _arguments = ("run_id", "task_id")

    def __init__(self, run_id: str, task_id: str) -> None:
        self.run_id = run_id
        self.task_id = task_id
        super().__init__(f"run {run_id!r} has no task {task_id!r}")


class RunInterrupted(RoutingError):
    """The orchestrator was closed, or its store failed, before the run ended; it can be recovered.

    Args:
        run_id: The run.
        reason: What happened.
    """

    _arguments = ("run_id", "reason")

    def __init__(self, run_id: str, reason: str) -> None:
        self.run_id = run_id
        self.reason = reason
        super().__init__(f"run {run_id!r} was interrupted: {reason}; recover it from its last snapshot")
