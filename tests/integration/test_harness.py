"""The harness itself: what other tests rely on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import redis

from tests.conftest import AppFactory
from tests.support.ledger import Ledger
from tests.support.poll import ConditionNeverHeld, eventually
from tests.support.threads import OUR_THREADS, our_threads, wait_for_no_new_threads
from tests.support.valkey import OwnValkey
from tests.support.workers import Fleet


def test_eventually_returns_the_first_truthy_answer() -> None:
    """Polling goes on over falsy answers and refused asserts."""
    answers = iter([0, "", "here"])
    assert eventually(lambda: next(answers)) == "here"


def test_eventually_tells_what_it_hoped_for_and_saw_last() -> None:
    """A failure names the hope, the last answer and the state."""
    with pytest.raises(ConditionNeverHeld, match=r"'the moon'.*0\.01 s.*last answer: None\nstate: night"):
        eventually(lambda: None, 0.01, what="the moon", state=lambda: "night")


def test_eventually_lets_a_mistake_through_at_once() -> None:
    """Only an assertion counts as 'not yet'."""

    def mistaken() -> bool:
        raise KeyError("typo")

    with pytest.raises(KeyError):
        eventually(mistaken)


def test_a_ledger_keeps_every_line_of_many_writers(tmp_path: Path) -> None:
    """Lines written by several threads at once are all there, whole, each once."""
    ledger = Ledger(tmp_path / "ledger")

    def write(writer: int) -> None:
        for n in range(50):
            ledger.record("ran", "actor", f"{writer}-{n}")

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    runs = ledger.runs()
    assert len(runs) == 400
    assert set(runs.values()) == {1}


def test_a_left_thread_of_ours_is_noticed() -> None:
    """The check that runs after every test names the thread that was left."""
    before, leave = our_threads(), threading.Event()
    thread = threading.Thread(target=leave.wait, name=f"{OUR_THREADS}-beat")
    thread.start()
    try:
        with pytest.raises(AssertionError, match="dramatiq-handshake-beat"):
            wait_for_no_new_threads(before, patience_s=0.05)
    finally:
        leave.set()
        thread.join()


def test_an_own_server_keeps_port_and_data_over_a_restart(own_valkey: OwnValkey) -> None:
    """Stop, start, kill -9, start: the append-only file brings the data back."""
    own_valkey.client.set("key", "value")
    own_valkey.restart()
    assert own_valkey.client.get("key") == b"value"
    own_valkey.kill9()
    own_valkey.start()
    assert own_valkey.client.get("key") == b"value"


def test_a_paused_server_answers_nothing_until_resumed(own_valkey: OwnValkey) -> None:
    """SIGSTOP keeps connections open without an answer."""
    own_valkey.pause()
    with redis.Redis.from_url(own_valkey.url, socket_timeout=0.2, retry=None) as client:
        with pytest.raises(redis.TimeoutError):
            client.ping()
        own_valkey.resume()
        assert eventually(own_valkey.client.ping)


def test_plain_workers_run_what_a_producer_sends(fleet: Fleet, make_app: AppFactory, ledger: Ledger) -> None:
    """Real processes, their ledger, retries and results work before any plugin is involved."""
    app = make_app(plugin=False)
    worker = fleet.start("plain", plugin=False)
    greeting, unsteady, doubled = app["greet"].send("Ada"), app["flaky"].send("k"), app["double"].send(21)
    runs = ledger.wait_for_messages([m.message_id for m in (greeting, unsteady, doubled)])
    assert set(runs.values()) == {1}
    assert ledger.workers() == {"plain"}
    assert doubled.get_result(block=True, timeout=5000) == 42
    assert worker.terminate() == 0


def test_a_killed_worker_is_gone_with_its_whole_group(fleet: Fleet) -> None:
    """kill9 leaves neither main process nor worker."""
    worker = fleet.start("victim", plugin=False)
    worker.kill9()
    assert worker.returncode == -9
    eventually(lambda: not _group_lives(worker.pid), what="the group is gone")


def _group_lives(group: int) -> bool:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            return True
    return False


@pytest.mark.parametrize(
    "body",
    [
        "import pytest\ndef test_it(): pytest.skip('not today')",
        "import pytest\npytest.skip('not here', allow_module_level=True)",
        "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False",
    ],
    ids=["in a test", "a whole module", "expected to fail"],
)
def test_a_run_that_leaves_a_test_out_fails(pytester: pytest.Pytester, body: str) -> None:
    """Nobody can skip a test and stay green."""
    pytester.makeconftest("from tests.conftest import pytest_sessionfinish, pytest_terminal_summary")
    pytester.makepyfile(test_it=body)
    result = pytester.runpytest_inprocess("-p", "no:randomly")
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["LEFT OUT *nothing may be skipped here"])


def test_a_failed_test_shows_what_its_workers_printed(pytester: pytest.Pytester) -> None:
    """A failure in a test with a fleet comes with each worker's output."""
    pytester.makeconftest(
        "from tests.conftest import *\nfrom tests.conftest import pytest_runtest_makereport"
    )
    pytester.makepyfile(
        test_it="def test_it(fleet):\n    fleet.start('loud', plugin=False)\n    assert not 'reached'"
    )
    result = pytester.runpytest_subprocess("-p", "no:randomly")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*output of worker 'loud'*", "*ready for action*"])
