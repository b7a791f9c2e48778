"""resume: how soon blocked work runs once somebody can run it, and how fast it drains.

Messages that require a capability are sent while nobody live has it, so that they are blocked: kept in
their lane and listed. Then a capable Dramatiq worker boots in this process. `first_ms` is the time from
its advertisement, as its first heartbeat tells it, to the first of 1, 1,000 and 10,000 of them running.
`drain_ratio` compares the whole of it, from boot to the last message, with a bare worker on a plain queue.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from dramatiq import Worker

from benchmarks.applications import QUEUE, Application, redis_application
from benchmarks.harness.figures import Figure, Outcome, WrongResult, at_least, at_most, of_estimate, ratio
from benchmarks.harness.pairs import Method, run_pairs
from benchmarks.harness.server import Server
from benchmarks.harness.statistics import median_estimate
from dramatiq_handshake import HandshakeEngine, HandshakeMiddleware
from dramatiq_handshake.decide.need import requirement_lane
from dramatiq_handshake.wire.heartbeat import read_heartbeat

__all__ = ["Runs", "check_ran", "run"]

CAPABILITY = "gpu"
LANE = requirement_lane(QUEUE, frozenset({CAPABILITY}))
#: How many messages are blocked when the worker boots: one, and shares of a block of operations.
DEPTHS = ((1, 0.0), (0, 0.5), (0, 5.0))
#: How often each depth is tried. The medians lie far below the bar, and a trial boots a worker.
TRIALS = 10
#: A worker at its default prefetch waits for the broker most of the time, which would hide what we add.
PREFETCH = 64
THREADS = 8
WORKER_TIMEOUT_MS = 100
RUN_WAIT_S = 30.0


def run(method: Method, server: Server) -> Outcome:
    """Measure; see the module."""
    trials = min(TRIALS, method.pairs)
    depths = [fixed + round(share * method.operations) for fixed, share in DEPTHS]
    firsts = [_first_runs(server, depth, trials, method.seed) for depth in depths]
    plain, blocked = _PlainDrain(server), _BlockedDrain(server)
    pairs = run_pairs(plain, blocked, method)
    plain.close()
    blocked.close()
    worst = max(firsts, key=lambda figure: figure.value)
    return Outcome(
        (
            Figure(
                "first_ms",
                worst.value,
                f"from advertisement to the first of {', '.join(f'{depth:,}' for depth in depths)} "
                "running, the slowest median (ms)",
                bar=at_most(50),
                interval=worst.interval,
                samples=worst.samples,
            ),
            ratio(
                "drain_ratio",
                pairs,
                bar=at_least(0.8),
                meaning="blocked messages drained a second, as a share of a plain queue's",
                seed=method.seed,
            ),
            *firsts,
        ),
        {"depths": depths, "trials": trials, "prefetch": PREFETCH, "threads": THREADS},
    )


def _first_runs(server: Server, depth: int, trials: int, seed: int) -> Figure:
    """How long the first message waits for a capable worker, with so many messages blocked."""
    deployment = _Deployment(server, f"bench-first-{depth}")
    ran: list[int] = []
    waited_ms = []
    for _ in range(trials):
        # A worker runs on until it has stopped; what it took meanwhile is blocked anew.
        deployment.block(depth - deployment.waiting())
        deployment.runs.expect(depth)
        with _stopping(deployment.capable_worker()) as worker:
            worker.start()
            deployment.runs.wait_for_first()
            waited_ms.append(deployment.runs.first_ns / 1e6 - deployment.advertised_at_ms())
        ran += deployment.runs.numbers
    if left := deployment.waiting():
        deployment.runs.expect(left)
        with _stopping(deployment.capable_worker()) as worker:
            worker.start()
            deployment.runs.wait_for_all()
        ran += deployment.runs.numbers
    deployment.check_done(ran)
    deployment.close()
    return of_estimate(
        f"first_ms_{depth}",
        median_estimate(waited_ms, seed=seed),
        meaning=f"the same with {depth:,} blocked (ms)",
        samples=waited_ms,
    )


class _Drain:
    """A full queue, and one worker that drains it, from its boot to the last message."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.worker: Worker | None = None

    def run(self, operations: int) -> None:
        assert self.worker is not None
        try:
            self.worker.start()
            self.runs.wait_for_all()
        except BaseException:
            self.worker.stop()
            raise


class _BlockedDrain(_Drain):
    """Blocked messages, drained by a capable worker."""

    def __init__(self, server: Server) -> None:
        self._deployment = _Deployment(server, "bench-ours")
        super().__init__(self._deployment.runs)

    def prepare(self, operations: int) -> None:
        self._deployment.block(operations)
        self.runs.expect(operations)
        self.worker = self._deployment.capable_worker()

    def check(self, operations: int) -> None:
        assert self.worker is not None
        self.worker.stop()
        self._deployment.check_done(self.runs.numbers)

    def close(self) -> None:
        self._deployment.close()


class _PlainDrain(_Drain):
    """Messages in a plain queue, drained by a bare worker."""

    def __init__(self, server: Server) -> None:
        super().__init__(Runs())
        self._server = server
        self._application = self._connect()

    def prepare(self, operations: int) -> None:
        for number in range(operations):
            self._application.work.send(number)
        self.runs.expect(operations)
        # A broker remembers its worker for good, so each worker gets a new one.
        self._application.close()
        self._application = self._connect()
        self.worker = _worker(self._application)

    def check(self, operations: int) -> None:
        assert self.worker is not None
        self.worker.stop()
        left = int(self._server.client.hlen(f"{self._application.namespace}:{QUEUE}.msgs"))
        check_ran(self.runs.numbers, range(operations), left)

    def close(self) -> None:
        self._application.close()

    def _connect(self) -> Application:
        return redis_application(self._server.url, "bench-bare", run=self.runs)


class Runs:
    """What an actor ran: the numbers, and when the first of them did."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.first_ns = 0
        self._expected = 0
        self._first = threading.Event()
        self._last = threading.Event()

    def expect(self, messages: int) -> None:
        """Forget what ran; so many are to run from now on."""
        self.numbers = []
        self._expected = messages
        self._first.clear()
        self._last.clear()

    def __call__(self, number: int) -> None:
        """Run one message."""
        if not self._first.is_set():
            self.first_ns = time.time_ns()
            self._first.set()
        self.numbers.append(number)
        if len(self.numbers) >= self._expected:
            self._last.set()

    def wait_for_first(self) -> None:
        """Wait until one message runs."""
        if not self._first.wait(RUN_WAIT_S):
            raise WrongResult(f"no blocked message ran within {RUN_WAIT_S:g} s")

    def wait_for_all(self) -> None:
        """Wait until as many ran as are expected."""
        if not self._last.wait(RUN_WAIT_S):
            raise WrongResult(
                f"only {len(self.numbers)} of {self._expected} messages ran within {RUN_WAIT_S:g} s"
            )


class _Deployment:
    """One deployment whose work is blocked until a capable worker boots.

    Args:
        namespace: What the keys of its broker and of its registry begin with.
    """

    def __init__(self, server: Server, namespace: str) -> None:
        self.runs = Runs()
        self._server = server
        self._namespace = namespace
        self._blocked: list[int] = []
        self._sent = 0
        self._application: Application | None = None

    def block(self, messages: int) -> None:
        """Send messages that nobody live can run, from a producer that has not seen the fleet before.

        Raises:
            WrongResult: One of them was not blocked.
        """
        producer = self._connect(HandshakeMiddleware())
        for _ in range(messages):
            sent = producer.work.send(self._sent)
            if not sent.options.get("handshake", {}).get("blocked"):
                raise WrongResult(f"message {self._sent} was sent as if somebody could run it")
            self._blocked.append(self._sent)
            self._sent += 1

    def capable_worker(self) -> Worker:
        """A worker that can run them, not yet started."""
        return _worker(self._connect(HandshakeMiddleware({CAPABILITY})))

    def waiting(self) -> int:
        """How many messages the lane holds."""
        return int(self._server.client.hlen(f"{self._namespace}:{LANE}.msgs"))

    def advertised_at_ms(self) -> float:
        """When the one live worker advertised itself (ms since the epoch, rounded down)."""
        pattern = f"{self._namespace}-worker-heartbeat:{QUEUE}:*"
        keys = list(self._server.client.scan_iter(match=pattern, count=1_000))
        if len(keys) != 1:
            raise WrongResult(f"expected the heartbeat of one worker, found {len(keys)}")
        return read_heartbeat(self._server.client.get(keys[0])).last_beat_at

    def close(self) -> None:
        """Release the connections."""
        if self._application is not None:
            self._application.close()

    def check_done(self, ran: list[int]) -> None:
        """Every blocked message ran, once, and nothing is left in the lane or listed as blocked."""
        with HandshakeEngine(self._server.url, prefix=self._namespace) as engine:
            listed = engine.blocked(limit=0).total
        check_ran(ran, self._blocked, self.waiting())
        if listed:
            raise WrongResult(f"{listed} messages that ran are still listed as blocked")
        self._blocked = []

    def _connect(self, handshake: HandshakeMiddleware) -> Application:
        """Another process of the deployment, in the place of the one before."""
        self.close()
        self._application = redis_application(
            self._server.url, self._namespace, handshake=handshake, run=self.runs, requires=[CAPABILITY]
        )
        return self._application


def _worker(application: Application) -> Worker:
    worker = Worker(application.broker, worker_timeout=WORKER_TIMEOUT_MS, worker_threads=THREADS)
    worker.queue_prefetch = PREFETCH
    return worker


@contextmanager
def _stopping(worker: Worker) -> Iterator[Worker]:
    """Stop the worker at the end, whatever comes."""
    try:
        yield worker
    finally:
        worker.stop()


def check_ran(ran: Iterable[int], expected: Iterable[int], left: int) -> None:
    """See that every message ran, once, and that none is left.

    Raises:
        WrongResult: That is not so.
    """
    runs = Counter(ran)
    wanted = set(expected)
    missing, strange = wanted - runs.keys(), runs.keys() - wanted
    twice = [number for number, times in runs.items() if times > 1]
    if missing or strange or twice or left:
        raise WrongResult(
            f"expected every message to run once: {len(missing)} never ran, {len(twice)} ran more than once, "
            f"{len(strange)} were never sent, {left} are left in the queue"
        )
