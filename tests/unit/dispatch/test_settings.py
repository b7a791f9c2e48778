"""The middleware's arguments and the environment, read and checked once."""

from __future__ import annotations

from typing import Any

import pytest

from dramatiq_handshake import DeclarationError, HandshakeMiddleware
from dramatiq_handshake.dispatch.settings import Mode, Settings


def test_without_arguments_everything_has_its_default() -> None:
    settings = Settings.read()

    assert settings.mode is Mode.ENFORCE
    assert (settings.url, settings.prefix, settings.namespace) == (None, None, None)
    assert (settings.protocol, settings.registry_timeout_ms) == ((1, 1), 500)
    assert (settings.heartbeat_interval_ms, settings.heartbeat_ttl_ms) == (10_000, 35_000)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mode": "enforced"}, ["mode", "'enforce'", "'observe'", "'off'", "'enforced'"]),
        ({"on_blocked": "drop"}, ["on_blocked", "'keep'", "'raise'", "'drop'"]),
        ({"on_registry_error": True}, ["on_registry_error", "'enqueue'", "True"]),
        ({"namespace": "a:b"}, ["namespace", "':'", "'a:b'"]),
        ({"namespace": " a"}, ["namespace", "' a'"]),
        ({"namespace": 7}, ["namespace", "7"]),
        ({"prefix": "a:b"}, ["prefix", "'a:b'"]),
        ({"protocol": 1}, ["protocol", "(1, 2)", "1"]),
        ({"protocol": (2, 1)}, ["protocol", "(2, 1)"]),
        ({"protocol": (0, 1)}, ["protocol", "(0, 1)"]),
        ({"protocol": (1, True)}, ["protocol", "(1, True)"]),
        ({"protocol": ("1", "2")}, ["protocol", "('1', '2')"]),
        ({"registry_timeout_ms": 0}, ["registry_timeout_ms", "positive", "0"]),
        ({"registry_timeout_ms": 0.5}, ["registry_timeout_ms", "milliseconds", "0.5"]),
        ({"heartbeat_interval_ms": -1}, ["heartbeat_interval_ms", "-1"]),
        ({"heartbeat_ttl_ms": "35"}, ["heartbeat_ttl_ms", "'35'"]),
        ({"heartbeat_interval_ms": 20_000}, ["heartbeat_ttl_ms", "60000", "35000", "three|3"]),
        ({"capabilities": "gpu"}, ["capabilities", "'gpu'", "list"]),
        ({"capabilities": [7]}, ["capabilities", "7", "text"]),
        ({"capabilities": 7}, ["capabilities", "7", "list"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_argument_is_refused_by_the_constructor(arguments: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(DeclarationError) as refused:
        HandshakeMiddleware(**arguments)

    for word in ["HandshakeMiddleware", "expected", "got", *words]:
        assert any(one in str(refused.value) for one in word.split("|")), word


def test_the_environment_turns_the_mode_over_the_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAMATIQ_HANDSHAKE_MODE", "observe")
    assert Settings.read(mode="enforce").mode is Mode.OBSERVE

    monkeypatch.setenv("DRAMATIQ_HANDSHAKE_MODE", "sometimes")
    with pytest.raises(DeclarationError, match="'sometimes'"):
        HandshakeMiddleware()


def test_arguments_win_over_the_rest_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"URL": "redis://e", "PREFIX": "e", "NAMESPACE": "e"}.items():
        monkeypatch.setenv(f"DRAMATIQ_HANDSHAKE_{name}", value)

    stated = Settings.read(url="redis://a", prefix="a", namespace="a")
    silent = Settings.read()

    assert (stated.url, stated.prefix, stated.namespace) == ("redis://a", "a", "a")
    assert (silent.url, silent.prefix, silent.namespace) == ("redis://e", "e", "e")


def test_a_lease_of_three_beats_is_long_enough() -> None:
    assert Settings.read(heartbeat_interval_ms=1000, heartbeat_ttl_ms=3000).heartbeat_ttl_ms == 3000
