"""Failures in words: the right sentence for each, and never what the server or a URL said."""

from __future__ import annotations

import inspect

import pytest
from redis import exceptions as errors

from dramatiq_handshake.storage.faults import FAILURES, explain, refuses_writes


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (errors.TimeoutError("Timeout reading from socket"), "did not answer within 500 ms"),
        (errors.ConnectionError("Error 111"), "can't be reached"),
        (errors.BusyLoadingError("LOADING"), "loading"),
        (errors.AuthenticationError("invalid password"), "credentials"),
        (errors.MaxConnectionsError("Too many connections"), "pool are in use"),
        (errors.ReadOnlyError("You can't write against a read only replica."), "replica"),
        (errors.OutOfMemoryError("command not allowed"), "out of memory"),
        (errors.NoPermissionError("User x has no permissions"), "docs/keys.md"),
        (errors.MasterDownError("Link with MASTER is down"), "lost its primary"),
        (errors.MovedError("1234 127.0.0.1:7001"), "cluster"),
        (errors.ResponseError("NOREPLICAS Not enough good replicas to write."), "too few replicas"),
        (errors.ResponseError("MISCONF Redis is configured to save"), "can't save"),
        (errors.ResponseError("NOAUTH Authentication required."), "credentials"),
        (errors.ResponseError("BUSY Redis is busy running a script."), "busy"),
        (errors.ResponseError("WRONGTYPE Operation against a key"), "another program"),
        (errors.ResponseError("unknown command 'ZMSCORE'"), "Redis 6.2"),
        (
            errors.ResponseError(
                "Error running script (call to f_1): @user_script:9: -OOM command not allowed"
            ),
            "out of memory",
        ),
        (errors.ResponseError("something new"), "answered an error (ResponseError)"),
        (errors.DataError("Invalid input of type"), "answered an error (DataError)"),
        (errors.ChildDeadlockedError(), "forked"),
        (ConnectionResetError(104, "reset"), "can't be reached"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_each_failure_has_its_own_sentence(error: Exception, said: str) -> None:
    assert isinstance(error, FAILURES)
    assert said in explain(error, timeout_ms=500)


def test_whatever_redis_py_raises_has_a_sentence_that_repeats_nothing() -> None:
    kinds = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.RedisError) and kind is not errors.AskError
    ]
    assert len(kinds) > 15
    for kind in kinds:
        arguments = ("1 hunter2:1",) if issubclass(kind, errors.AskError) else ("hunter2",)
        sentence = explain(kind(*arguments), timeout_ms=500)
        assert sentence
        assert "hunter2" not in sentence


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (errors.ReadOnlyError("x"), True),
        (errors.OutOfMemoryError("x"), True),
        (errors.NoPermissionError("x"), True),
        (errors.ResponseError("NOREPLICAS x"), True),
        (errors.ResponseError("-READONLY You can't write against a read only replica."), True),
        (errors.ResponseError("WRONGTYPE x"), False),
        (errors.ConnectionError("OOM killer took it"), False),
        (errors.TimeoutError("x"), False),
        (OSError("READONLY file system"), False),
    ],
    ids=repr,
)
def test_a_refused_write_is_told_from_a_server_that_is_away(error: Exception, refused: bool) -> None:
    assert refuses_writes(error) is refused
