"""One showing of the demo: set the stage, play the chapters, leave nothing behind."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import FrameType

import redis

from dramatiq_handshake.cli.demo import chapters
from dramatiq_handshake.cli.demo import closing as last
from dramatiq_handshake.cli.demo.application import Application, Release
from dramatiq_handshake.cli.demo.cast import Break, Cast
from dramatiq_handshake.cli.demo.ledger import Ledger
from dramatiq_handshake.cli.demo.narrator import Narrator
from dramatiq_handshake.cli.demo.server import embedded_valkey
from dramatiq_handshake.cli.demo.stage import Stage
from dramatiq_handshake.cli.output import console
from dramatiq_handshake.errors import HandshakeError

__all__ = ["CHAPTERS", "run_demo"]

Chapter = tuple[str, Callable[[Stage], None]]

CHAPTERS: Sequence[Chapter] = (
    ("Three workers come up, and no two are alike", chapters.who_is_live),
    ("Work that somebody can run, runs", chapters.work_that_runs),
    ("Work that nobody can run is blocked: kept, and explained", chapters.nobody_has_a_gpu),
    ("Work of a newer release waits for it", chapters.nobody_knows_the_actor),
    ("A worker that can comes up, and the work resumes by itself", chapters.a_capable_worker_comes),
    ("What exists here: the directory", last.what_exists_here),
    ("The ledger has the last word", last.the_books),
)
_OURS = "DRAMATIQ_HANDSHAKE_"
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def run_demo(broken: Break | None = None) -> int:
    """Show the demo.

    Args:
        broken: How the story is sabotaged; `None` isn't.

    Returns:
        The exit code: 0, or 1 where any step of the story did not happen.

    Raises:
        ConfigurationError: The extra `embedded` is not installed.
        HandshakeError: The server does not start.
    """
    began = time.monotonic()
    narrator = Narrator(console())
    narrator.title(
        "dramatiq-handshake: a fleet tells what it can do",
        "Real worker processes, on a Valkey server of their own. What is claimed (✓) is compared with a "
        "ledger: a file to which the actors themselves write what they ran.",
    )
    if broken is not None:
        narrator.title(f"Sabotaged with --break {broken}: the checks must notice.", "")
    try:
        with _world_of_its_own(), _ending_cleanly():
            _show(narrator, broken)
    except KeyboardInterrupt:
        narrator.say("Interrupted. The workers and the server are stopped.")
        raise
    return _verdict(narrator, time.monotonic() - began)


def _show(narrator: Narrator, broken: Break | None) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dramatiq-handshake-demo-")))
        path = folder / "ledger.jsonl"
        path.touch()
        ledger = Ledger(path, "producer")
        with narrator.waiting("starting a Valkey server"):
            url = stack.enter_context(embedded_valkey(folder / "valkey"))
        cast = stack.enter_context(Cast(folder, url, path, broken))
        application = stack.enter_context(closing(Application.build(url, ledger, Release.TODAY)))
        _play(stack.enter_context(closing(Stage(application, cast, ledger, narrator, url))))
        with narrator.waiting("stopping the workers"):
            cast.stop()


def _play(stage: Stage) -> None:
    for title, perform in CHAPTERS:
        stage.narrator.chapter(title)
        try:
            perform(stage)
        except (HandshakeError, redis.RedisError, OSError) as error:
            # One chapter's trouble is told as what it is, and the others are judged by themselves.
            stage.narrator.check(False, f"{type(error).__name__}: {error}")


def _verdict(narrator: Narrator, took_s: float) -> int:
    narrator.verdict(took_s)
    return 1 if narrator.failures else 0


@contextmanager
def _world_of_its_own() -> Iterator[None]:
    """Keep what this shell set for another fleet out of the demo, and its log lines off the screen."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(_OURS)}
    silence = logging.NullHandler()
    loggers = [logging.getLogger(name) for name in ("dramatiq_handshake", "dramatiq")]
    for logger in loggers:
        logger.addHandler(silence)
    try:
        yield
    finally:
        os.environ.update(kept)
        for logger in loggers:
            logger.removeHandler(silence)


@contextmanager
def _ending_cleanly() -> Iterator[None]:
    """Let the signals that end a program end this one through its clean-up."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in _ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
