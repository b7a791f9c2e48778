"""The examples of routing run as they are, print what they promise, and leave no process behind."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import redis

from tests.support.poll import eventually
from tests.support.workers import ROOT, clean_environment

pytestmark = pytest.mark.timeout(120)

EXAMPLES = {
    "routing_requests.py": [
        "first: …",
        "hopeless: gave up, the deadline has passed",
        "second: …",
        "exit codes: [0, 0]",
    ],
    "routing_recovery.py": [
        "run.started",
        "task.started    page-1 1",
        "task.retried    page-1 1 WorkerLost",
        "task.started    page-1 2",
        "task.succeeded  page-1 2",
        "task.started    page-2 1",
        "task.retried    page-2 1 WorkerLost",
        "task.started    page-2 2",
        "task.succeeded  page-2 2",
        "task.started    book   1",
        "task.succeeded  book   1",
        "run.succeeded",
        "workers left: 1",
        "page 1, page 2",
        "exit codes: [-9, -9, 0]",
    ],
    "routing_fleet.py": [
        "anna: 8 done, at most 2 at once on a worker",
        "ben: 8 done, at most 2 at once on a worker",
        "cleo: 8 done, at most 2 at once on a worker",
        "left in the directory: ()",
        "exit codes: [0, 0, 0, 0, 0]",
    ],
}


def group_is_empty(group: int) -> bool:
    """Whether no process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_it_promises_and_leaves_nothing_behind(
    name: str, valkey: redis.Redis, valkey_url: str
) -> None:
    """``…`` stands for the rest of a line; warnings are errors; its whole process group ends."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name)],
        env=clean_environment({"REDIS_URL": valkey_url}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as example:
        printed, errors = example.communicate(timeout=110)
    assert (example.returncode, errors) == (0, "")
    wanted = EXAMPLES[name]
    lines = printed.splitlines()
    assert len(lines) == len(wanted), printed
    for line, promised in zip(lines, wanted, strict=True):
        start, more, _ = promised.partition("…")
        assert line.startswith(start) if more else line == promised
    eventually(lambda: group_is_empty(example.pid))


def test_every_example_of_routing_is_run() -> None:
    """A new one needs its promise here."""
    assert set(EXAMPLES) == {path.name for path in (ROOT / "examples").glob("routing_*.py")}
