"""What is declared wrongly is refused at once, out of the line that declares it, in words that help."""

from __future__ import annotations

import logging
from typing import Any

import dramatiq
import pytest
from dramatiq.broker import Broker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker

from dramatiq_handshake import ConfigurationError, DeclarationError, HandshakeMiddleware, attach, get_engine


def run(*_: object) -> None:
    """An actor's function."""


def declare(broker: Broker, **options: Any) -> dramatiq.Actor[..., Any]:
    return dramatiq.actor(run, broker=broker, **options)


def unknown_broker() -> Broker:
    """A broker of a class that we know nothing of."""

    class SomeBroker(Broker):
        def declare_queue(self, queue_name: str) -> None:
            self.queues[queue_name] = None

        def enqueue(self, message: Any, *, delay: int | None = None) -> Any:
            return message

    return SomeBroker()


@pytest.fixture
def broker() -> StubBroker:
    broker = StubBroker()
    broker.add_middleware(HandshakeMiddleware())
    return broker


# -- actor options ---------------------------------------------------------------------------------

WRONG_OPTIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({"requires": "gpu"}, ["requires", "'gpu'", "['gpu']"]),
    ({"requires": b"gpu"}, ["requires", "b'gpu'", "list"]),
    ({"requires": ""}, ["requires", "''", "list"]),
    ({"requires": 7}, ["requires", "7", "list"]),
    ({"requires": 0}, ["requires", "0", "list"]),
    ({"requires": False}, ["requires", "False", "list"]),
    ({"requires": ["gpu", 7]}, ["requires", "7", "text"]),
    ({"requires": ["gpu", None]}, ["requires", "None", "text"]),
    ({"requires": ["  "]}, ["requires", "'  '", "non-empty"]),
    ({"version": 2}, ["version", "2", "quotes"]),
    ({"version": ""}, ["version", "''", "non-empty"]),
    ({"version": ["2"]}, ["version", "['2']", "text"]),
    ({"accepts": "1"}, ["accepts", "'1'", "list"]),
    ({"accepts": [1]}, ["accepts", "1", "text"]),
    ({"origin": 3.5}, ["origin", "3.5", "text"]),
    ({"origin": ""}, ["origin", "''", "non-empty"]),
    ({"step": "yes"}, ["step", "'yes'", "True or False"]),
    ({"step": 1}, ["step", "1", "True or False"]),
]


@pytest.mark.parametrize(("options", "words"), WRONG_OPTIONS, ids=lambda value: str(value)[:30])
def test_a_wrong_option_is_refused_where_it_is_written(
    broker: StubBroker, options: dict[str, Any], words: list[str]
) -> None:
    """The decorator raises; the error names the actor, the option, what came and what to do."""
    with pytest.raises(DeclarationError) as refused:
        declare(broker, actor_name="train", **options)

    for word in ["'train'", "expected", *words]:
        assert word in str(refused.value)
    assert "train" not in broker.actors


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"actor_name": "a:b"}, ["a:b", "':'", "actor_name="]),
        ({"queue_name": "ml.need.0123"}, ["ml.need.0123", ".need.", "rename the queue"]),
        ({"queue_name": "ml.requires.gpu"}, ["ml.requires.gpu", ".requires.", "rename the queue"]),
        ({"queue_name": "ml.DQ"}, ["ml.DQ", "rename the queue"]),
        ({"queue_name": "ml.XQ"}, ["ml.XQ", "rename the queue"]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_name_that_would_be_read_as_something_else_is_refused(
    broker: StubBroker, names: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(DeclarationError) as refused:
        declare(broker, **names)

    for word in ["expected", *words]:
        assert word in str(refused.value)
    assert not broker.actors
    assert "ml" not in broker.queues


@pytest.mark.parametrize("name", ["a:b", "ml.need.0123", "ml.requires.gpu", "ml.XQ"])
def test_a_queue_without_an_actor_is_checked_as_well(broker: StubBroker, name: str) -> None:
    with pytest.raises(DeclarationError, match="expected"):
        broker.declare_queue(name)

    assert name not in broker.queues


def test_right_options_are_taken(broker: StubBroker) -> None:
    actor = declare(
        broker,
        requires=("gpu", "saga"),
        version="2",
        accepts={"1"},
        origin="vision",
        step=True,
        queue_name="q",
    )
    nothing = declare(broker, actor_name="nothing", requires=None, version=None, origin=None, accepts=None)

    assert broker.actors == {"run": actor, "nothing": nothing}
    assert actor.queue_name == "q"


def test_a_wrong_option_of_an_actor_declared_earlier_is_refused_by_add_middleware() -> None:
    broker = StubBroker()
    broker.add_middleware(_Options())
    declare(broker, actor_name="train", requires="gpu")

    with pytest.raises(DeclarationError, match="'train', requires"):
        broker.add_middleware(HandshakeMiddleware())


class _Options(dramatiq.Middleware):
    """Lets our options pass before our middleware is there."""

    actor_options = {"requires", "version"}  # noqa: RUF012 - Dramatiq's own shape


# -- one middleware, one broker --------------------------------------------------------------------


def test_a_second_middleware_on_a_broker_is_refused() -> None:
    broker = StubBroker()
    broker.add_middleware(HandshakeMiddleware())
    broker.add_middleware(HandshakeMiddleware())

    with pytest.raises(DeclarationError, match="expected one on a broker, got two; remove"):
        declare(broker)


def test_a_second_middleware_is_refused_by_add_middleware_once_an_actor_is_declared(
    broker: StubBroker,
) -> None:
    declare(broker)

    with pytest.raises(DeclarationError, match="expected one on a broker, got two; remove"):
        broker.add_middleware(HandshakeMiddleware())


def test_a_middleware_serves_one_broker() -> None:
    middleware = HandshakeMiddleware()
    first, second = StubBroker(), StubBroker()
    first.add_middleware(middleware)
    declare(first)
    second.add_middleware(middleware)

    with pytest.raises(DeclarationError, match="expected one broker, got a second; create one for each"):
        declare(second)


def test_binding_again_is_no_second_broker(broker: StubBroker) -> None:
    declare(broker)
    enqueue = broker.enqueue

    attach(broker)
    get_engine(broker)

    assert broker.enqueue is enqueue or broker.enqueue == enqueue, "it is wrapped once"


# -- namespaces ------------------------------------------------------------------------------------


def test_a_namespace_names_the_queues_of_actors() -> None:
    broker = StubBroker()
    broker.add_middleware(HandshakeMiddleware(namespace="acme"))
    actor = declare(broker, queue_name="ml")

    assert actor.queue_name == "ml@acme"
    assert set(broker.queues) == {"ml@acme", "ml@acme.DQ"}
    assert actor.message().queue_name == "ml@acme"


def test_a_namespace_needs_the_middleware_before_the_actors() -> None:
    broker = StubBroker()
    declare(broker, actor_name="early")

    with pytest.raises(DeclarationError) as refused:
        broker.add_middleware(HandshakeMiddleware(namespace="acme"))

    for word in ["'early'", "acme", "before any actor", "right after the broker is created"]:
        assert word in str(refused.value)


def test_declaring_an_actor_again_keeps_its_queue() -> None:
    broker = StubBroker()
    broker.add_middleware(HandshakeMiddleware(namespace="acme"))
    actor = declare(broker, queue_name="ml")

    broker.declare_actor(actor)

    assert actor.queue_name == "ml@acme"
    assert set(broker.queues) == {"ml@acme", "ml@acme.DQ"}


@pytest.mark.parametrize("namespace", [None, "", "default"])
def test_no_namespace_and_the_default_one_rename_nothing(namespace: str | None) -> None:
    broker = StubBroker()
    early = declare(broker, actor_name="early")
    broker.add_middleware(HandshakeMiddleware(namespace=namespace))

    assert early.queue_name == "default"
    assert declare(broker, actor_name="late").queue_name == "default"


# -- the registry's server -------------------------------------------------------------------------


def test_a_broker_of_another_class_needs_a_url() -> None:
    broker = unknown_broker()
    broker.add_middleware(HandshakeMiddleware())

    with pytest.raises(DeclarationError) as refused:
        declare(broker)

    for word in ["SomeBroker", "url=", "DRAMATIQ_HANDSHAKE_URL", "got none", "redis://"]:
        assert word in str(refused.value)


def test_a_broker_of_another_class_takes_the_url_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAMATIQ_HANDSHAKE_URL", "redis://127.0.0.1:1/0")
    broker = unknown_broker()
    broker.add_middleware(HandshakeMiddleware())

    assert declare(broker).queue_name == "default"


@pytest.mark.parametrize("url", ["nonsense", "http://127.0.0.1/", "redis://:pass:word@host:port/0", 7])
def test_a_url_that_can_not_be_read_stops_the_import(url: Any) -> None:
    """Dramatiq swallows every other kind of error out of a hook, and the fleet would run unguarded."""
    broker = StubBroker()
    broker.add_middleware(HandshakeMiddleware(url=url))

    with pytest.raises(DeclarationError) as refused:
        declare(broker)

    assert "URL" in str(refused.value) or "url" in str(refused.value)
    assert "pass:word" not in str(refused.value), "a password stays out of messages"


def test_the_engine_of_a_broker_without_the_middleware_says_how_to_add_it() -> None:
    with pytest.raises(
        ConfigurationError, match=r"no HandshakeMiddleware; add it with broker.add_middleware"
    ):
        get_engine(StubBroker())


def test_before_its_broker_is_known_the_middleware_says_what_to_do() -> None:
    middleware = HandshakeMiddleware()

    for ask in (lambda: middleware.engine, lambda: middleware.on("message.carried", print)):
        with pytest.raises(ConfigurationError, match=r"declare an actor first, or call .*attach\(broker\)"):
            ask()


# -- mode off --------------------------------------------------------------------------------------


def test_off_checks_declarations_and_touches_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    broker = StubBroker()
    enqueue = broker.enqueue
    middleware = HandshakeMiddleware(mode="off", namespace="acme")
    broker.add_middleware(middleware)
    actor = declare(broker, queue_name="ml", requires=["gpu"])

    assert broker.enqueue == enqueue
    assert actor.queue_name == "ml@acme"
    actor.send()
    assert broker.queues["ml@acme"].qsize() == 1
    with pytest.raises(DeclarationError):
        declare(broker, actor_name="wrong", requires="gpu")
    with pytest.raises(ConfigurationError, match="off"):
        _ = middleware.engine
    assert not caplog.records


def test_redis_brokers_need_no_url() -> None:
    broker = RedisBroker(url="redis://127.0.0.1:1/0")  # nobody listens there: declaring asks nothing
    broker.add_middleware(HandshakeMiddleware())

    declare(broker, requires=["gpu"])
    broker.client.connection_pool.disconnect()
