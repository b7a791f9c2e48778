"""beat: what a worker's sign of life costs the registry.

Ours against the contract's plain beat, which the reference sends: for every token that the worker
consumes, its heartbeat and its whole descriptor, each written with its time to live. Both are counted by
the server, with its replies, for the same worker: five queues, twenty actors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import redis

from benchmarks.fleet import advertisement_of
from benchmarks.harness.figures import Figure, Outcome, WrongResult, at_most
from benchmarks.harness.pairs import Method
from benchmarks.harness.server import Server, Traffic
from dramatiq_handshake.storage import RedisStore
from dramatiq_handshake.storage.base import HEARTBEAT_TTL_MS, Advertisement
from dramatiq_handshake.wire.heartbeat import heartbeat_json, read_heartbeat
from dramatiq_handshake.wire.keys import ContractKeys

__all__ = ["count_beats", "run"]

BEATS = 40
#: The worker that the figures are about, and others that show what they depend on: (queues, actors each).
SHAPE = (5, 4)
OTHER_SHAPES = ((1, 1), (1, 20), (5, 1), (20, 4))


def run(method: Method, server: Server) -> Outcome:
    """Count; see the module. The plant is one more round trip in so many percent of the beats."""
    ours, plain = _compare(SHAPE, server, planted=round(BEATS * method.plant_percent / 100))
    others = {shape: _compare(shape, server, planted=0) for shape in OTHER_SHAPES}
    return Outcome(
        (
            Figure(
                "bytes_ratio",
                ours.bytes / plain.bytes,
                "bytes of a beat, as a share of the plain beat's (5 queues, 20 actors)",
                bar=at_most(0.5),
            ),
            Figure("round_trips", ours.reads / BEATS, "round trips of a beat", bar=at_most(1)),
            *(
                Figure(
                    f"bytes_ratio_{queues}x{actors}",
                    other.bytes / other_plain.bytes,
                    f"the same of a worker with {queues} queue(s) of {actors} actor(s)",
                )
                for (queues, actors), (other, other_plain) in others.items()
            ),
        ),
        {
            "beats": BEATS,
            "bytes_per_beat": ours.bytes / BEATS,
            "plain_bytes_per_beat": plain.bytes / BEATS,
            "plain_round_trips": plain.reads / BEATS,
        },
    )


def _compare(shape: tuple[int, int], server: Server, *, planted: int) -> tuple[Traffic, Traffic]:
    """What as many beats of ours and plain ones exchange with the server."""
    queues, actors = shape
    worker = advertisement_of(
        "py-worker-4242-0a1b2c3d",
        {
            f"queue-{queue}": [f"actor_{queue}_{number}" for number in range(actors)]
            for queue in range(queues)
        },
        build="1",
    )
    server.client.flushall()
    store = RedisStore(url=server.url, prefix="bench")
    client: Any = redis.Redis.from_url(server.url)
    try:
        ours = count_beats(
            worker, server, beat=lambda: store.advertise(worker), stumble=client.ping, times=planted
        )
        if {(record.token, record.instance_id) for record in store.workers()} != {
            (token, worker.instance_id) for token in worker.tokens
        }:
            raise WrongResult("the worker's beats did not leave it in the index")
        server.client.flushall()
        plain = count_beats(
            worker, server, beat=lambda: _plain_beat(client, worker), stumble=client.ping, times=0
        )
    finally:
        client.close()
        store.close()
    return ours, plain


def _plain_beat(client: Any, worker: Advertisement) -> None:
    keys, life_s = ContractKeys("bench"), HEARTBEAT_TTL_MS // 1000
    for token in worker.tokens:
        value = heartbeat_json(
            time.time_ns() // 1_000_000, worker.state.value, worker.etag, worker.threads, 0
        )
        client.set(keys.heartbeat(token, worker.instance_id), value, ex=life_s)
        client.set(keys.descriptor(token, worker.instance_id), worker.descriptor_json, ex=life_s)


def count_beats(
    worker: Advertisement,
    server: Server,
    *,
    beat: Callable[[], None],
    stumble: Callable[[], Any],
    times: int,
) -> Traffic:
    """Count steady beats, the first two being behind, and see that they kept the worker alive."""
    for _ in range(2):
        beat()
    stumble()
    _near_the_end(worker, server)
    with server.counting_traffic() as traffic:
        for number in range(BEATS):
            beat()
            if number < times:
                stumble()
    _check(worker, server)
    return traffic


def _contract_keys(worker: Advertisement) -> list[tuple[str, str]]:
    keys = ContractKeys("bench")
    return [
        (keys.heartbeat(token, worker.instance_id), keys.descriptor(token, worker.instance_id))
        for token in worker.tokens
    ]


def _near_the_end(worker: Advertisement, server: Server) -> None:
    """Bring every lease near its end, so that only a beat that renews it can explain a long one."""
    for heartbeat, descriptor in _contract_keys(worker):
        if not server.client.pexpire(heartbeat, 20_000) or not server.client.pexpire(descriptor, 20_000):
            raise WrongResult(f"a first beat did not write {heartbeat!r} and {descriptor!r}")


def _check(worker: Advertisement, server: Server) -> None:
    """The contract's keys hold what they must, and live on."""
    for heartbeat, descriptor in _contract_keys(worker):
        if read_heartbeat(server.client.get(heartbeat)).descriptor_hash != worker.etag:
            raise WrongResult(f"{heartbeat!r} does not name the descriptor's ETag")
        if server.client.get(descriptor) != worker.descriptor_json.encode():
            raise WrongResult(f"{descriptor!r} does not hold the descriptor")
        for key in (heartbeat, descriptor):
            if server.client.pttl(key) <= 20_000:
                raise WrongResult(f"the beats did not renew the lease of {key!r}")
