"""enqueue: what a steady `send()` costs.

Bare Dramatiq against the handshake on one Valkey, in wall-clock time: that is where a round trip would
show. On StubBroker in CPU time of the sending thread, where nothing hides what Python itself does. And
the commands of a long run of sends, counted by the server.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from dramatiq import Message

from benchmarks.applications import QUEUE, Application, redis_application, stub_application
from benchmarks.fleet import SimulatedFleet, advertisement_of
from benchmarks.harness.figures import Figure, Outcome, WrongResult, added_us, at_least, at_most, ratio
from benchmarks.harness.pairs import Method, run_pairs
from benchmarks.harness.server import Server
from dramatiq_handshake import HandshakeMiddleware

__all__ = ["RedisSends", "StubSends", "run"]

#: Workers of two builds on the queue: what a producer's view holds in the middle of a deploy.
WORKERS = 20
#: The long run that is counted, in blocks: it lasts for seconds, so that the view's refreshes are in it.
COUNTED_BLOCKS = 5


def run(method: Method, server: Server) -> Outcome:
    """Measure; see the module."""
    bare = redis_application(server.url, "bench-bare")
    ours = redis_application(server.url, "bench-ours", handshake=HandshakeMiddleware())
    fleet = SimulatedFleet(
        server.url,
        ours.namespace,
        [
            advertisement_of(f"worker-{number}", {QUEUE: ["work"]}, build=str(1 + number % 2))
            for number in range(WORKERS)
        ],
    )
    try:
        sends = RedisSends(server, bare), RedisSends(server, ours, fleet)
        pairs = run_pairs(*sends, method)
        _check_view(ours, server)
        counted, details = _count(*sends, method.operations * COUNTED_BLOCKS, server)
    finally:
        fleet.close()
        bare.close()
        ours.close()
    stub_pairs = run_pairs(
        StubSends(stub_application()),
        StubSends(stub_application(handshake=HandshakeMiddleware())),
        method,
        clock=time.thread_time,
    )
    return Outcome(
        (
            ratio(
                "ratio",
                pairs,
                bar=at_least(0.98),
                meaning="sends a second on Valkey, as a share of bare Dramatiq's",
                seed=method.seed,
            ),
            added_us(
                "stub_added_us",
                stub_pairs,
                method.operations,
                bar=at_most(2.0),
                meaning="CPU time added to a send on StubBroker (µs)",
                seed=method.seed,
            ),
            counted,
        ),
        details,
    )


class _Sends:
    """A block of sends."""

    def __init__(self, application: Application) -> None:
        self._send = application.work.send

    def run(self, operations: int) -> None:
        """Send the numbers from 0."""
        send = self._send
        for number in range(operations):
            send(number)


class RedisSends(_Sends):
    """Sends on a RedisBroker, and what the server then holds.

    Args:
        fleet: Kept alive between blocks, where there is one.
    """

    def __init__(self, server: Server, application: Application, fleet: SimulatedFleet | None = None) -> None:
        super().__init__(application)
        self._client = server.client
        self._ids = f"{application.namespace}:{QUEUE}"
        self._bodies = f"{self._ids}.msgs"
        self._fleet = fleet

    def prepare(self, operations: int) -> None:
        """Let the fleet beat where that is due."""
        if self._fleet is not None:
            self._fleet.beat_if_due()

    def check(self, operations: int) -> None:
        """Read every message back, then delete the queue.

        Raises:
            WrongResult: One is missing, out of order or changed.
        """
        ids = self._client.lrange(self._ids, 0, -1)
        bodies = self._client.hgetall(self._bodies)
        if set(ids) != bodies.keys():
            raise WrongResult(f"{self._ids!r} holds {len(ids)} ids and {len(bodies)} bodies that don't match")
        _check_messages([Message.decode(bodies[each]) for each in ids], operations, {"redis_message_id"})
        self._client.delete(self._ids, self._bodies)


class StubSends(_Sends):
    """Sends on a StubBroker, and what its queue then holds."""

    def __init__(self, application: Application) -> None:
        super().__init__(application)
        self._broker: Any = application.broker

    def prepare(self, operations: int) -> None:
        """Nothing to make ready."""

    def check(self, operations: int) -> None:
        """Read every message back, then flush the queue.

        Raises:
            WrongResult: One is missing, out of order or changed.
        """
        bodies = list(self._broker.queues[QUEUE].queue)
        _check_messages([Message.decode(body) for body in bodies], operations, set())
        self._broker.flush(QUEUE)


def _check_messages(messages: list[Message[Any]], operations: int, options: set[str]) -> None:
    """Every message is there, once, in order, for the right actor, and carries nothing of ours."""
    if [message.args for message in messages] != [(number,) for number in range(operations)]:
        raise WrongResult(
            f"expected {operations} messages, 0 to {operations - 1} in order, but found {len(messages)}: "
            f"{[message.args for message in messages[:5]]}…"
        )
    for message in messages:
        if (message.actor_name, message.queue_name) != ("work", QUEUE) or message.options.keys() != options:
            raise WrongResult(f"a message came out changed: {message!r}")


def _check_view(ours: Application, server: Server) -> None:
    """Our side really was ours: it sees the whole fleet, and has announced itself as a control plane."""
    assert ours.middleware is not None
    seen = len(list(ours.middleware.engine.fleet()))
    if seen != WORKERS:
        raise WrongResult(f"expected a view of {WORKERS} workers, got one of {seen}")
    if not list(server.client.scan_iter(match=f"{ours.namespace}-control-plane:*", count=1_000)):
        raise WrongResult("our side never announced itself, so its sends were not planned")


def _count(
    bare: RedisSends, ours: RedisSends, sends: int, server: Server
) -> tuple[Figure, Mapping[str, Any]]:
    """Commands beyond bare Dramatiq's and beyond the process's own, which are the same at any rate of sends.

    These are one look at the fleet a second, and two; and the beat of the control plane, its key and its
    claim on the broker's id, every ten seconds.
    """
    counts = []
    elapsed_s = 0.0
    for side in (bare, ours):
        side.prepare(sends)
        with server.counting_commands() as commands:
            started = time.perf_counter()
            side.run(sends)
            elapsed_s = time.perf_counter() - started
        side.check(sends)
        counts.append(commands)
    plain, handshake = counts
    beyond = handshake.total - plain.total
    allowed = int(elapsed_s) + 2 + 2 * (1 + int(elapsed_s / 10))
    figure = Figure(
        "extra_commands",
        max(0, beyond - allowed),
        "commands beyond bare Dramatiq's and the view's own, one look a second",
        bar=at_most(0),
        samples=[{"bare": dict(plain.by_name), "ours": dict(handshake.by_name)}],
    )
    return figure, {
        "counted_sends": sends,
        "counted_s": round(elapsed_s, 3),
        "own_commands": beyond,
        "own_commands_allowed": allowed,
    }
