"""Which Redis server a broker is on, by servers that the test imitates."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from dramatiq_handshake.dispatch.server_identity import RENEW_S, ServerIdentity
from dramatiq_handshake.errors import RegistryUnavailable
from tests.support.dispatching import Hands


class Server:
    """As much of a server as tells it from others."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.values: dict[str, bytes] = {}
        self.away = False
        self.asked = 0

    def _answer(self) -> None:
        self.asked += 1
        if self.away:
            raise redis.ConnectionError("away")

    def info(self, section: str) -> dict[str, Any]:
        self._answer()
        return {"run_id": self.run_id}

    def set(self, key: str, value: str, *, nx: bool) -> None:
        self._answer()
        assert nx
        self.values.setdefault(key, value.encode())

    def get(self, key: str) -> bytes | None:
        self._answer()
        return self.values.get(key)


def identity(broker: Server, registry: Server, hands: Hands | None = None) -> ServerIdentity:
    def registry_run_id() -> str:
        try:
            return registry.info("server")["run_id"]
        except redis.ConnectionError as error:
            raise RegistryUnavailable("the registry is away") from error

    return ServerIdentity(broker, registry_run_id, "p-handshake-server", clock=(hands or Hands()).s)  # type: ignore[arg-type]  # an imitation


def test_a_broker_on_the_registrys_own_server_needs_no_name() -> None:
    assert identity(Server("a"), Server("a"))() == ""


def test_everybody_gives_a_server_the_same_name() -> None:
    broker, registry = Server("b"), Server("a")
    name = identity(broker, registry)()
    assert name
    assert identity(broker, registry)() == name
    assert identity(Server("c"), registry)() not in ("", name)


def test_a_name_survives_the_servers_restart() -> None:
    hands, broker, registry = Hands(), Server("b"), Server("a")
    ask = identity(broker, registry, hands)
    name = ask()
    broker.run_id = "b2"
    hands.advance(RENEW_S)
    assert ask() == name
    assert identity(broker, registry)() == name


def test_a_server_that_was_restarted_empty_gets_its_name_back() -> None:
    hands, broker, registry = Hands(), Server("b"), Server("a")
    ask = identity(broker, registry, hands)
    name = ask()
    broker.values.clear()
    assert ask() == name
    hands.advance(RENEW_S)
    assert ask() == name
    assert identity(broker, registry)() == name, "the newcomer learns it from who remembers"


@pytest.mark.parametrize("who", ["broker", "registry"])
def test_once_known_a_server_keeps_its_name_while_one_is_away(who: str) -> None:
    hands, broker, registry = Hands(), Server("b"), Server("a")
    ask = identity(broker, registry, hands)
    name = ask()
    {"broker": broker, "registry": registry}[who].away = True
    hands.advance(2 * RENEW_S)
    assert ask() == name
    asked = broker.asked
    assert ask() == name
    assert broker.asked == asked, "and is not asked again at each call"


@pytest.mark.parametrize(("who", "why"), [("broker", "must answer once"), ("registry", "registry is away")])
def test_a_name_that_was_never_learned_is_unavailable(who: str, why: str) -> None:
    servers = {"broker": Server("b"), "registry": Server("a")}
    servers[who].away = True
    with pytest.raises(RegistryUnavailable, match=why):
        identity(servers["broker"], servers["registry"])()
