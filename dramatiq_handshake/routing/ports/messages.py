"""The messages between a gateway and a worker: typed, versioned, and parsed whatever comes.

| message | from | says |
| --- | --- | --- |
| ``worker.ready`` | worker | it takes jobs of these types |
| ``worker.heartbeat`` | worker | it lives |
| ``job.assigned`` | gateway | run this |
| ``job.cancel`` | gateway | stop that |
| ``job.started`` | worker | its handler is about to be called |
| ``job.log`` | worker | its handler wrote a line |
| ``job.succeeded`` | worker | its handler returned |
| ``job.failed`` | worker | its handler raised, or there is none (``refused``) |
| ``job.cancelled`` | worker | it never began, or its handler followed the signal |

A message is a JSON object with ``type`` and ``version``. Fields that a later release adds are passed over;
a release that means something else by a field gives its messages another version.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, Strict, TypeAdapter, ValidationError

from dramatiq_handshake.errors import WireError
from dramatiq_handshake.routing.jobs import Job
from dramatiq_handshake.routing.ports.base import Unsendable

__all__ = [
    "VERSION",
    "FromGateway",
    "FromWorker",
    "JobAssigned",
    "JobCancel",
    "JobCancelled",
    "JobFailed",
    "JobLogged",
    "JobStarted",
    "JobSucceeded",
    "MessageInvalid",
    "WorkerHeartbeat",
    "WorkerReady",
    "from_gateway",
    "from_worker",
]

#: What this release speaks.
VERSION = 1
#: How much of a broken message is repeated in its report.
SHOWN = 120

Id = Annotated[str, Field(min_length=1)]
TaskTypes = Annotated[tuple[Id, ...], Strict(False)]


class MessageInvalid(WireError):
    """What came through a port is no message that this end understands; it is skipped and reported."""


class _Message(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="ignore", frozen=True, strict=True)

    version: Literal[1] = 1

    def to_frame(self) -> dict[str, Any]:
        """The message as a port carries it; values are those of the message, not copies."""
        return dict(self)


class WorkerReady(_Message):
    """A worker takes jobs of these types from now on."""

    type: Literal["worker.ready"] = "worker.ready"
    worker_id: Id
    task_types: TaskTypes


class WorkerHeartbeat(_Message):
    """A worker lives, and comes round to its port."""

    type: Literal["worker.heartbeat"] = "worker.heartbeat"
    worker_id: Id


class JobAssigned(_Message):
    """A job for the worker: the fields of `Job`."""

    type: Literal["job.assigned"] = "job.assigned"
    job_id: Id
    run_id: str
    task_id: str
    task_type: str
    attempt: Annotated[int, Field(ge=1)] = 1
    params: Any = None
    outputs: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, job: Job) -> Self:
        """The message that assigns `job`.

        Raises:
            Unsendable: The job's fields are not what `Job` says.
        """
        fields = {name: getattr(job, name) for name in Job.__slots__}
        try:
            return cls(**fields | {"outputs": dict(job.outputs)})
        except ValidationError as error:
            raise Unsendable("job.assigned", _first(error)) from None

    def job(self) -> Job:
        """The job that it assigns."""
        return Job(**{name: getattr(self, name) for name in Job.__slots__})


class JobCancel(_Message):
    """The job is not wanted any more."""

    type: Literal["job.cancel"] = "job.cancel"
    job_id: Id
    reason: str = ""


class JobStarted(_Message):
    """The job's handler is about to be called."""

    type: Literal["job.started"] = "job.started"
    job_id: Id


class JobLogged(_Message):
    """The job's handler wrote a line."""

    type: Literal["job.log"] = "job.log"
    job_id: Id
    level: str
    message: str
    fields: dict[str, Any] = Field(default_factory=dict)


class JobSucceeded(_Message):
    """The job's handler returned."""

    type: Literal["job.succeeded"] = "job.succeeded"
    job_id: Id
    output: Any = None


class JobFailed(_Message):
    """The job's handler raised; with ``refused``, the worker has none for its type."""

    type: Literal["job.failed"] = "job.failed"
    job_id: Id
    name: str
    message: str
    stack: str = ""
    refused: bool = False
    types: TaskTypes = ()


class JobCancelled(_Message):
    """The job never began, or its handler followed the signal."""

    type: Literal["job.cancelled"] = "job.cancelled"
    job_id: Id
    reason: str = ""


FromGateway = Annotated[JobAssigned | JobCancel, Field(discriminator="type")]
FromWorker = Annotated[
    WorkerReady | WorkerHeartbeat | JobStarted | JobLogged | JobSucceeded | JobFailed | JobCancelled,
    Field(discriminator="type"),
]


def from_gateway(frame: object) -> JobAssigned | JobCancel:
    """What a worker's end received.

    Raises:
        MessageInvalid: It is nothing that a gateway sends.
    """
    message: JobAssigned | JobCancel = _parsed(_adapters()[0], frame)
    return message


def from_worker(
    frame: object,
) -> WorkerReady | WorkerHeartbeat | JobStarted | JobLogged | JobSucceeded | JobFailed | JobCancelled:
    """What a gateway's end received.

    Raises:
        MessageInvalid: It is nothing that a worker sends.
    """
    message: (
        WorkerReady | WorkerHeartbeat | JobStarted | JobLogged | JobSucceeded | JobFailed | JobCancelled
    ) = _parsed(_adapters()[1], frame)
    return message


@cache
def _adapters() -> tuple[TypeAdapter[Any], TypeAdapter[Any]]:
    return TypeAdapter(FromGateway), TypeAdapter(FromWorker)


def _parsed(adapter: TypeAdapter[Any], frame: object) -> Any:
    if not isinstance(frame, Mapping):
        raise MessageInvalid("", "an object with type and version", _shown(frame))
    try:
        return adapter.validate_python(frame)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise MessageInvalid(_path(first["loc"]), first["msg"], _shown(first["input"])) from None


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    return f"{_path(first['loc'])}: {first['msg']}, got {_shown(first['input'])}"


def _path(place: tuple[int | str, ...]) -> str:
    return ".".join(map(str, place))


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception as broken:  # noqa: BLE001 - foreign code
        return f"a {type(value).__name__} whose repr raises {type(broken).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
