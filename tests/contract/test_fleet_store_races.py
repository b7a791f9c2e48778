"""What threads and processes do to each other: nothing is lost between them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from dramatiq_handshake.storage.base import FleetStore
from tests.contract.builders import ad, classes_on, lane, look_at, messages, need

ROUNDS = 40


def together(*calls: Callable[[], object]) -> list[object]:
    """Run the calls in threads that start at the same moment; returns what they returned."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> object:
        barrier.wait(10)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_two_workers_that_bring_the_same_class_at_once_make_one_change(
    store: FleetStore, peer: FleetStore
) -> None:
    for number in range(ROUNDS):
        token = f"q{number}"
        together(
            lambda token=token: store.advertise(ad("w1", token)),
            lambda token=token: peer.advertise(ad("w2", token)),
        )
        mark = look_at(store, token).mark
        assert mark is not None
        assert mark.classes == 1

        store.advertise(ad("w1", token))
        assert store.look({token: mark}, None).tokens == {}, "the class was there: nothing appeared"


def test_a_class_stays_while_one_of_its_workers_leaves_and_another_comes(
    store: FleetStore, peer: FleetStore
) -> None:
    for number in range(ROUNDS):
        token = f"q{number}"
        store.advertise(ad("leaves", token))
        together(
            lambda token=token: store.withdraw("leaves", [token]),
            lambda token=token: peer.advertise(ad("comes", token)),
        )

        assert classes_on(store, token) == {"c1"}


def test_whoever_looks_while_classes_come_and_go_ends_with_what_is_there(
    store: FleetStore, peer: FleetStore
) -> None:
    """A reader that trusts marks only must never keep a view that is out of date."""
    stop = threading.Event()
    view: dict[str, set[str]] = {"ml": set()}

    def refresh(known: dict[str, object]) -> None:
        for token, seen in peer.look({"ml": known.get("ml")}, None).tokens.items():  # type: ignore[dict-item]  # marks
            view[token] = {presence.class_id for presence in seen.classes}
            known[token] = seen.mark

    known: dict[str, object] = {}

    def read() -> None:
        while not stop.is_set():
            refresh(known)

    def write() -> None:
        for number in range(ROUNDS):
            store.advertise(ad("w1", class_id=f"c{number % 3}"))
            if number % 4 == 3:
                store.withdraw("w1", ["ml"])
        store.advertise(ad("w1", class_id="last"))
        stop.set()

    together(read, write)
    refresh(known)

    assert view["ml"] == {"last"}


def test_a_lane_is_open_after_it_was_registered_whoever_retires_it_meanwhile(
    store: FleetStore, peer: FleetStore
) -> None:
    """The gate registers, then publishes: a lane retired in between would hold messages that nobody sees."""
    for number in range(ROUNDS):
        name = f"ml.need.{number}"
        together(
            lambda name=name: store.register_lane(lane(name)),
            lambda name=name: peer.retire_lane(name, quiet_ms=5_000),
            lambda name=name: peer.retire_lane(name, quiet_ms=5_000),
        )

        assert name in {found.name for found in store.look({"ml": None}, None).lanes or ()}


def test_messages_that_are_blocked_and_released_at_once_are_counted_once(
    store: FleetStore, peer: FleetStore
) -> None:
    for number in range(ROUNDS):
        need_id = f"n{number}"
        store.block(need(need_id), messages("first" + need_id, need_id=need_id), lane=None)
        _, released, _ = together(
            lambda need_id=need_id: store.block(
                need(need_id), messages("second" + need_id, need_id=need_id), lane=None
            ),
            lambda need_id=need_id: peer.release({need_id: ["first" + need_id]}),
            lambda need_id=need_id: peer.block(
                need(need_id), messages("second" + need_id, need_id=need_id), lane=None
            ),
        )
        assert isinstance(released, tuple)
        assert len(released) <= 1, "empty for a moment, or never"

        (last,) = store.release({need_id: ["second" + need_id]})
        assert last.messages == (1 if released else 2)
    assert store.blocked_needs() == ()
