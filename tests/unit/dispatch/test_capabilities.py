"""What a process can do, and what a worker makes of it for each message."""

from __future__ import annotations

import threading
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import AsyncIO, CurrentMessage, Retries
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_handshake import DeclarationError
from dramatiq_handshake.decide.need import Need
from dramatiq_handshake.dispatch.abilities import Abilities
from dramatiq_handshake.dispatch.capabilities import Capabilities, derived_capabilities
from dramatiq_handshake.dispatch.options import ActorProfile

# -- sources ---------------------------------------------------------------------------------------


def test_the_environment_is_the_first_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAMATIQ_HANDSHAKE_CAPABILITIES", " gpu, saga ,,")
    assert Capabilities({"tpu"}).stated() == {"gpu", "saga"}
    assert Capabilities(lambda: {"tpu"}).stated() == {"gpu", "saga"}


def test_an_empty_environment_states_that_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAMATIQ_HANDSHAKE_CAPABILITIES", "")
    capabilities = Capabilities({"tpu"})
    assert capabilities.stated(frozenset({"of-my-actors"})) == frozenset()


def test_a_collection_is_the_second_source_and_is_not_shared() -> None:
    names = ["gpu"]
    capabilities = Capabilities(names)
    names.append("tpu")
    assert capabilities.stated() == {"gpu"}


def test_a_callable_is_asked_each_time() -> None:
    answers = [{"gpu"}, set()]
    capabilities = Capabilities(lambda: answers.pop(0))
    assert capabilities.stated() == {"gpu"}
    assert capabilities.stated() == frozenset()


def test_a_callable_that_answers_something_else_is_told_so() -> None:
    with pytest.raises(DeclarationError, match=r"capabilities\(\): expected a list"):
        Capabilities(lambda: "gpu").stated()


def test_a_callable_that_fails_later_is_taken_at_its_last_word(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Any] = [{"gpu"}, OSError("no device"), "gpu", {"tpu"}, OSError("no device")]

    def source() -> set[str]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert answer is not None
        return answer

    capabilities = Capabilities(source)
    assert [capabilities.stated() for _ in range(5)] == [{"gpu"}, {"gpu"}, {"gpu"}, {"tpu"}, {"tpu"}]
    assert len(caplog.records) == 2, "each failure once, however long it lasts"
    with pytest.raises(OSError, match="no device"):
        Capabilities(lambda: (_ for _ in ()).throw(OSError("no device"))).stated()


def test_nobody_said_anything() -> None:
    assert Capabilities().stated() == frozenset()
    assert Capabilities().stated(frozenset({"of-my-actors"})) == {"of-my-actors"}
    assert Capabilities(()).stated(frozenset({"of-my-actors"})) == frozenset()


@pytest.mark.parametrize("name", [7, "", " ", None, ["gpu"]])
def test_only_a_text_can_be_added_or_removed(name: Any) -> None:
    capabilities = Capabilities()
    for change in (capabilities.add, capabilities.remove):
        with pytest.raises(DeclarationError, match="capability: expected every capability to be a non-empty"):
            change(name)
    assert capabilities.stated() == frozenset()


@given(
    st.sets(st.sampled_from("abc")),
    st.lists(st.tuples(st.sampled_from(["add", "remove"]), st.sampled_from("abc")), max_size=8),
)
def test_the_last_word_on_a_capability_counts(source: set[str], changes: list[tuple[str, str]]) -> None:
    capabilities = Capabilities(source)
    expected = set(source)
    for change, name in changes:
        getattr(capabilities, change)(name)
        (expected.add if change == "add" else expected.discard)(name)

    assert capabilities.stated() == expected


# -- what the middleware gives ---------------------------------------------------------------------


def test_only_what_the_brokers_middleware_really_offers_is_claimed() -> None:
    bare = StubBroker(middleware=[])
    assert derived_capabilities(bare) == {"priority"}

    bare.add_middleware(Retries())
    bare.add_middleware(CurrentMessage())
    bare.add_middleware(Results(backend=StubBackend()))
    assert derived_capabilities(bare) == {"priority", "retries", "current-message", "results"}


def test_dramatiqs_default_middleware_is_known() -> None:
    broker = StubBroker()
    broker.add_middleware(AsyncIO())
    assert derived_capabilities(broker) >= {
        "age-limit",
        "asyncio",
        "callbacks",
        "pipelines",
        "priority",
        "retries",
        "shutdown-notifications",
        "time-limit",
    }


def test_a_subclass_of_dramatiqs_middleware_offers_the_same() -> None:
    class OurRetries(Retries):
        """A project's own."""

    assert "retries" in derived_capabilities(StubBroker(middleware=[OurRetries()]))


# -- abilities -------------------------------------------------------------------------------------


def abilities_of(
    profiles: dict[str, ActorProfile], *capabilities: str, protocol: tuple[int, int] = (1, 1)
) -> Abilities:
    broker = StubBroker(middleware=[])
    for name in profiles:
        dramatiq.actor(lambda: None, broker=broker, actor_name=name, queue_name="ml")
    abilities = Abilities(broker, profiles, protocol=protocol)
    abilities.capabilities = frozenset(capabilities)
    return abilities


GPU = ActorProfile(requires=frozenset({"gpu"}), version="2", accepts=frozenset({"1"}))


@pytest.mark.parametrize(
    ("need", "runs"),
    [
        (Need("ml", "train", "2", frozenset({"gpu"})), True),
        (Need("ml", "train", "1", frozenset({"gpu"})), True),
        (Need("ml", "train", None, frozenset()), True),
        (Need("ml", "train", "3", frozenset({"gpu"})), False),
        (Need("ml", "train", "2", frozenset({"gpu", "tpu"})), False),
        (Need("ml", "train", "2", frozenset({"gpu"}), 2), False),
        (Need("ml", "unknown"), False),
        (Need("ml", None), False),
    ],
    ids=str,
)
def test_a_worker_runs_what_it_has_in_full(need: Need, runs: bool) -> None:
    assert abilities_of({"train": GPU}, "gpu").runs(need) is runs


def test_what_the_actor_itself_requires_counts_though_the_message_does_not_ask() -> None:
    without = abilities_of({"train": GPU})
    assert not without.runs(Need("ml", "train"))
    assert not without.runs_plain("train")


def test_a_plain_message_is_of_protocol_one() -> None:
    assert abilities_of({"plain": ActorProfile()}, protocol=(1, 2)).runs_plain("plain")
    assert not abilities_of({"plain": ActorProfile()}, protocol=(2, 3)).runs_plain("plain")


def test_a_lost_capability_counts_for_the_next_message() -> None:
    abilities = abilities_of({"train": GPU}, "gpu")
    assert abilities.runs_plain("train")

    abilities.capabilities = frozenset()

    assert not abilities.runs_plain("train")


def test_an_answer_by_former_capabilities_is_not_remembered_for_the_new_ones() -> None:
    """A consumer thread may be in the middle of its answer while the capability goes."""
    asked, changed = threading.Event(), threading.Event()

    class Slow(frozenset[str]):
        """Requirements whose comparison the test can stop."""

        def __le__(self, other: object) -> bool:
            answer = super().__le__(other)  # type: ignore[operator]  # the other set
            asked.set()
            changed.wait(5)
            return answer

    profiles = {"train": ActorProfile(requires=Slow({"gpu"}))}
    abilities = abilities_of(profiles, "gpu")
    consumer = threading.Thread(target=abilities.runs_plain, args=("train",))
    consumer.start()
    assert asked.wait(5)

    abilities.capabilities = frozenset()
    changed.set()
    consumer.join()

    assert not abilities.runs_plain("train")


def test_the_needs_of_a_worker_are_those_that_it_runs() -> None:
    abilities = abilities_of({"train": GPU, "plain": ActorProfile()}, "gpu", protocol=(1, 2))
    needs = set(abilities.needs())

    assert all(abilities.runs(need) for need in needs)
    assert Need("ml", "train", "1", frozenset({"gpu"}), 2) in needs
    assert Need("ml", "train", None, frozenset()) in needs
    assert Need("ml", "plain") in needs
    assert not any(need.actor == "train" for need in abilities_of({"train": GPU}).needs())
