"""What the chapters of the story work with: a producer, the workers, the ledger, the broker's own keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import redis

from dramatiq_handshake.cli.demo.application import Application
from dramatiq_handshake.cli.demo.cast import Cast, Player, Role
from dramatiq_handshake.cli.demo.ledger import BOOTED, RAN, Entry, Ledger
from dramatiq_handshake.cli.demo.narrator import Narrator
from dramatiq_handshake.cli.text import visible
from dramatiq_handshake.engine import BlockedNeedReport, HandshakeEngine, WorkerReport
from dramatiq_handshake.errors import HandshakeError

__all__ = ["Stage"]

#: How long a worker process may take to come up, on a machine that is busy with other things.
BOOT_S = 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.05

T = TypeVar("T")


class Stage:
    """The running demo.

    Args:
        application: The producer's.
        cast: The workers.
        ledger: What really happened.
        narrator: Who tells it.
        url: The server.
    """

    def __init__(
        self, application: Application, cast: Cast, ledger: Ledger, narrator: Narrator, url: str
    ) -> None:
        self.ledger = ledger
        self.narrator = narrator
        self.cast = cast
        self.engine: HandshakeEngine = application.handshake.engine
        self.url = url
        self._application = application
        self._server = redis.Redis.from_url(url)

    def close(self) -> None:
        """Release the connections."""
        self._server.close()

    # -- acting -----------------------------------------------------------------------------------

    def send(self, actor: str, argument: str) -> str:
        """Send a message, note it in the ledger, return its id."""
        # Noted first: a worker may be quicker than the next line.
        message = self._application.actors[actor].message(argument)
        self.ledger.sent(actor, message.message_id, argument)
        self._application.broker.enqueue(message)
        return message.message_id

    def raise_curtain(self, roles: Sequence[Role]) -> dict[str, Entry]:
        """Start workers and wait until each has written that it consumes.

        Returns:
            What they wrote, by name.

        Raises:
            HandshakeError: One of them ended, or did not come up in time.
        """
        players = [self.cast.start(role) for role in roles]
        names = {role.name for role in roles}

        def all_up() -> dict[str, Entry] | None:
            _raise_where_ended(players)
            up = {entry.process: entry for entry in self.ledger.entries(BOOTED)}
            return {name: up[name] for name in names} if names <= up.keys() else None

        with self.narrator.waiting(f"starting {', '.join(sorted(names))}"):
            booted = self.wait(all_up, BOOT_S)
        if booted is None:
            raise HandshakeError(f"not all of {', '.join(sorted(names))} came up within {BOOT_S:.0f} s")
        return booted

    def wait(self, condition: Callable[[], T], timeout_s: float) -> T:
        """Ask until the answer is truthy or the time is up; return the last answer."""
        deadline = time.monotonic() + timeout_s
        pause_s = _FIRST_PAUSE_S
        while not (answer := condition()) and time.monotonic() < deadline:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return answer

    # -- what really happened ---------------------------------------------------------------------

    def run_of(self, message_id: str, timeout_s: float = 0.0) -> Entry | None:
        """The first time that a message ran, by the ledger; `None` if it did not in time."""
        runs = self.wait(lambda: self.ledger.entries(RAN, message_id=message_id), timeout_s)
        return runs[0] if runs else None

    def kept_in(self, queue: str) -> int:
        """How many messages the broker keeps in a queue, by its own key."""
        return int(self._server.llen(f"dramatiq:{queue}"))

    def dead_letters(self) -> int:
        """How many messages lie in the dead-letter queues, by the broker's own keys."""
        return sum(
            int(self._server.zcard(key)) for key in self._server.scan_iter("dramatiq:*.XQ", count=1_000)
        )

    def errors_logged(self) -> list[str]:
        """What workers logged as errors, each line with the worker's name."""
        return [
            f"{player.role.name}: {line.rpartition('] ')[2]}"
            for player in self.cast.players
            for line in player.log_lines("ERROR", "CRITICAL")
        ]

    # -- what the library says --------------------------------------------------------------------

    def name_of(self, instance_id: str) -> str:
        """The name of the process that advertises itself so, by the process id in its instance id."""
        names = {str(entry.pid): entry.process for entry in self.ledger.entries(BOOTED)}
        pid = instance_id.rsplit("-", 2)[-2:-1]
        return names.get(pid[0] if pid else "", visible(instance_id))

    def live(self) -> dict[str, WorkerReport]:
        """The live workers, by name."""
        return {self.name_of(worker.instance_id): worker for worker in self.engine.fleet()}

    def consumers_of(self, queue: str) -> list[str]:
        """Who is live on a queue."""
        return sorted(name for name, worker in self.live().items() if queue in worker.tokens)

    def blocked_need(self, message_id: str) -> BlockedNeedReport | None:
        """The need of a message that is listed as blocked."""
        report = self.engine.blocked()
        wanted = {message.need_id for message in report if message.message_id == message_id}
        return next((need for need in report.needs if need.need_id in wanted), None)


def _raise_where_ended(players: Iterable[Player]) -> None:
    for player in players:
        if player.exit_code is not None:
            said = " | ".join(player.log_lines()[-3:]) or "it said nothing"
            raise HandshakeError(
                f"worker {player.role.name} ended with exit code {player.exit_code} before it was up: {said}"
            )
