"""What users write, as mypy --strict must read it. Checked by tests/typing/test_typing.py, never run.

A line that must be refused carries the error code that it must be refused with: strict mode complains
about an ignore that nothing needs, so a type that became too wide fails the check as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker

import dramatiq_handshake
from dramatiq_handshake import (
    CapabilityUnavailable,
    Code,
    Diagnostic,
    HandshakeEngine,
    HandshakeError,
    HandshakeMiddleware,
    RegistryUnavailable,
    Undeliverable,
)

broker = RedisBroker(url="redis://127.0.0.1:6379/0")  # type: ignore[no-untyped-call]  # Dramatiq leaves it untyped
broker.add_middleware(HandshakeMiddleware())


def probe_gpu() -> set[str]:
    return {"gpu"}


HandshakeMiddleware({"gpu"})
HandshakeMiddleware(capabilities=["gpu", "saga"])
HandshakeMiddleware(probe_gpu, mode="observe", namespace="acme", protocol=(1, 2))
HandshakeMiddleware(url="redis://127.0.0.1:6379/1", on_blocked="raise", on_registry_error="raise")
HandshakeMiddleware(registry_timeout_ms="500")  # type: ignore[arg-type]  # a text is no duration
HandshakeMiddleware(capabilities=3)  # type: ignore[arg-type]  # a number names no capability


@dramatiq.actor(requires=["gpu"], version="2", origin="vision", queue_name="ml")
def train(dataset_id: int) -> None: ...


@dramatiq.actor(step=True, accepts=["1"], store_results=True)
def embed(number: int, *, scale: float = 1.0) -> float:
    return number * scale


@dramatiq.actor(requires=["gpu"])
async def infer(text: str) -> str:
    return text


# An actor is typed as plain Dramatiq types it.
assert_type(train.send(1), dramatiq.Message[None])
assert_type(embed.send(1, scale=2.0), dramatiq.Message[float])
train.send_with_options(args=(1,), requires=["gpu", "saga"], version="1")
embed.send_with_options(args=(1,), kwargs={"scale": 2.0}, delay=1000)
train.send("one")  # type: ignore[arg-type]  # the dataset's id is a number

engine = dramatiq_handshake.get_engine()
assert_type(engine, HandshakeEngine)
assert_type(dramatiq_handshake.get_engine(broker), HandshakeEngine)
assert_type(dramatiq_handshake.attach(StubBroker()), HandshakeMiddleware)


def what_exists(asked: HandshakeEngine) -> str | None:
    directory = asked.workflow_directory()
    if not directory.supported:
        return directory.detail
    for partition in directory.other_partitions:
        assert_type(partition.groups, tuple[str, ...])
    for disagreement in directory.workflows[0].disagreements:
        assert_type(disagreement.values, tuple[str, ...])
    assert_type(directory.workflows[0].key, str)
    assert_type(directory.workflows[0].requires, tuple[tuple[str, ...], ...])
    assert_type(asked.announced_workflows()[0].version, str | None)
    return directory.workflows[0].version


def who_lives(asked: HandshakeEngine) -> list[str]:
    report = asked.fleet()
    assert_type(report.workers[0].capabilities, tuple[str, ...])
    assert_type(len(report), int)
    return [worker.outcome.value for worker in report]


def what_is_blocked(asked: HandshakeEngine) -> list[str]:
    report = asked.blocked(queue="ml", actor="train", limit=10)
    assert_type(report.messages[0].reason, str)
    assert_type(report.needs[0].missing, tuple[str, ...])
    assert_type(report.next_cursor, str | None)
    return [message.message_id for message in report]


def from_outside() -> None:
    with HandshakeEngine("redis://127.0.0.1:6379/0", prefix="shop", namespace="acme") as outside:
        assert_type(outside.fleet().detail, str)


def on_refusal(diagnostic: Diagnostic) -> None:
    assert_type(diagnostic.code, Code)
    assert_type(diagnostic.reason, str)


def follow(handshake: HandshakeMiddleware) -> Callable[[], None]:
    handshake.add_capability("gpu")
    handshake.remove_capability("gpu")
    handshake.add_capability(1)  # type: ignore[arg-type]  # a number names no capability
    assert_type(handshake.engine, HandshakeEngine)
    handshake.on("capability.unavailable", on_refusal)
    return handshake.on(Code.CAPABILITY_UNAVAILABLE, on_refusal)


def send_or_explain(actor: dramatiq.Actor[[int], Any]) -> str:
    try:
        actor.send(1)
    except CapabilityUnavailable as error:
        return error.reason
    except Undeliverable as error:
        return error.code
    except RegistryUnavailable:
        return "try again"
    except HandshakeError as error:
        return str(error)
    return "sent"
