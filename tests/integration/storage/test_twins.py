"""Whatever is done to them, the two stores tell the same story."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dramatiq_handshake.storage.base import FleetStore, Mark, WorkerState
from tests.contract.builders import ad, lane, messages, need
from tests.contract.harness import PREFIX, Deployment, FakeClock, MemoryDeployment, RedisDeployment
from tests.contract.leaks import leaks

INSTANCES = ["w1", "w2", "w3"]
TOKENS = ["ml", "mail", "x@y"]
CLASSES = ["c1", "c2"]
NEEDS = ["n1", "n2"]
LANES = ["ml.need.a", "ml.need.b", "mail.requires.gpu"]
IDS = [f"m{number}" for number in range(6)]
DAY_MS = 24 * 3600 * 1000

Step = Callable[[Deployment, FleetStore], Any]


def advertise(
    instance: str, tokens: list[str], class_id: str, state: WorkerState, broker: str | None
) -> Step:
    beat = ad(instance, tokens=tuple(tokens), class_id=class_id, state=state, broker_id=broker)
    return lambda deployment, store: store.advertise(beat)


def withdraw(instance: str, tokens: list[str]) -> Step:
    return lambda deployment, store: store.withdraw(instance, tokens)


def lose(token: str, instance: str, heartbeat: bool, descriptor: bool) -> Step:
    return lambda deployment, store: deployment.lose(
        token, instance, heartbeat=heartbeat, descriptor=descriptor
    )


def block(need_id: str, ids: list[str], name: str | None) -> Step:
    beside = lane(name, name.partition(".")[0]) if name else None
    return lambda deployment, store: store.block(need(need_id), messages(*ids, need_id=need_id), lane=beside)


def release(need_id: str, ids: list[str]) -> Step:
    return lambda deployment, store: store.release({need_id: ids})


def register(name: str) -> Step:
    return lambda deployment, store: store.register_lane(lane(name, name.partition(".")[0]))


def retire(name: str, quiet_ms: int) -> Step:
    return lambda deployment, store: store.retire_lane(name, quiet_ms=quiet_ms)


def announce(broker: str) -> Step:
    return lambda deployment, store: store.announce_control_plane("cp", "{}", broker_id=broker)


def some(values: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), unique=True)


states = st.sampled_from([WorkerState.UP, WorkerState.UP, WorkerState.UP, WorkerState.DRAINING])
brokers = st.sampled_from([None, "b1", "b2"])
steps = st.one_of(
    st.builds(advertise, st.sampled_from(INSTANCES), some(TOKENS), st.sampled_from(CLASSES), states, brokers),
    st.builds(advertise, st.sampled_from(INSTANCES), some(TOKENS), st.sampled_from(CLASSES), states, brokers),
    st.builds(withdraw, st.sampled_from(INSTANCES), some(TOKENS)),
    st.builds(lose, st.sampled_from(TOKENS), st.sampled_from(INSTANCES), st.booleans(), st.booleans()),
    st.builds(block, st.sampled_from(NEEDS), some(IDS), st.sampled_from([None, *LANES])),
    st.builds(release, st.sampled_from(NEEDS), some(IDS)),
    st.builds(register, st.sampled_from(LANES)),
    st.builds(retire, st.sampled_from(LANES), st.sampled_from([0, 5_000, 20_000])),
    st.builds(announce, st.sampled_from(["b1", "b3"])),
    # Far apart from each other and from the lease's end, since real time passes as well.
    st.sampled_from([5_000, 10_000, 20_000, 35_000, 7 * DAY_MS - 35_000]),
)


class Reader:
    """Remembers marks as a process does, and tells what a look at them said."""

    def __init__(self, store: FleetStore) -> None:
        self.store = store
        self.known: dict[str, Mark | None] = dict.fromkeys(TOKENS)
        self.lanes_epoch: str | None = None

    def story(self) -> Any:
        """Everything that both stores must agree on: all but the epochs themselves."""
        store = self.store
        changes = store.look(self.known, self.lanes_epoch)
        self.known |= {token: seen.mark for token, seen in changes.tokens.items()}
        self.lanes_epoch = changes.lanes_epoch
        return {
            "changed": {
                token: (
                    sorted((presence.class_id, presence.remaining_ms) for presence in seen.classes),
                    seen.served_lately,
                    seen.mark and seen.mark.classes,
                )
                for token, seen in changes.tokens.items()
            },
            "lanes": None if changes.lanes is None else sorted(changes.lanes, key=lambda found: found.name),
            "workers": store.workers(),
            "scan": store.scan_advertisements(),
            "bodies": store.class_bodies(CLASSES),
            "needs": store.blocked_needs(),
            "pages": [store.blocked_messages(need_id, limit=2) for need_id in NEEDS],
            "messages": [store.blocked_message(message_id) for message_id in IDS],
            "control planes": store.control_planes(),
            "unclaimed": store.unclaimed(["b1", "b2", "b3"]),
        }


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, max_size=30))
def test_memory_and_server_agree_after_every_step(valkey: redis.Redis, taken: list[Step | int]) -> None:
    valkey.flushall()
    clock = FakeClock()
    twins: list[Deployment] = [MemoryDeployment(clock), on_server := RedisDeployment(clock, valkey)]
    opened = [(twin, twin.open(listed_max=2)) for twin in twins]
    readers = [Reader(store) for _, store in opened]
    try:
        for step in taken:
            if isinstance(step, int):
                clock.advance(step)
            else:
                answers = [step(twin, store) for twin, store in opened]
                assert answers[0] == answers[1]
            in_memory, on_the_server = (reader.story() for reader in readers)
            assert in_memory == on_the_server
        assert leaks(valkey, PREFIX) == []
    finally:
        on_server.close()
