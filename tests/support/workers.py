"""Real Dramatiq worker processes, started through the ``dramatiq`` command line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.poll import eventually

__all__ = ["ROOT", "ChildProcess", "Fleet", "WorkerProcess", "clean_environment"]

ROOT = Path(__file__).resolve().parents[2]
APPLICATION = "tests.support.apps.fleet"
READY_LINE = "Worker process is ready for action."
#: What an outer shell may have set must not leak into a fleet under test.
OUR_ENVIRONMENT = ("DRAMATIQ_HANDSHAKE_", "APP_", "TEST_BROKER_URL")
SHUTDOWN_S = 20.0
#: How long Dramatiq's idle threads sleep. Its own second makes every stop of a worker take two.
WORKER_TIMEOUT_MS = "200"
#: Set by coverage's own patch for subprocesses while it measures.
COVERAGE = "COVERAGE_PROCESS_CONFIG"
#: What no worker may say unless a test provokes it.
ALARMS = ("[ERROR]", "[CRITICAL]")


def clean_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment for a child process: ours, without what configures a fleet, and `extra`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OUR_ENVIRONMENT)}
    return inherited | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"} | dict(extra)


class ChildProcess:
    """A process in a group of its own, whose output goes to a file.

    Args:
        label: Its name in failure reports.
        command: Program and arguments.
        output: The file that takes what it prints.
        environment: What is set beside the clean environment.
        cwd: Where it runs.
    """

    def __init__(
        self,
        label: str,
        command: Sequence[str],
        output: Path,
        *,
        environment: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> None:
        self.label = label
        self.output = output
        with output.open("ab") as sink:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=clean_environment(environment or {}),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The id of the main process, which is also the id of the group."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code of the main process; ``None`` while it runs."""
        return self._process.poll()

    @property
    def text(self) -> str:
        """All that it printed so far."""
        return self.output.read_text(errors="replace")

    @property
    def alarms(self) -> list[str]:
        """The lines that it logged as an error or worse."""
        return [line for line in self.text.splitlines() if any(level in line for level in ALARMS)]

    def said(self, text: str) -> list[str]:
        """The lines that it printed so far and that hold `text`."""
        return [line for line in self.text.splitlines() if text in line]

    def wait_output(self, text: str, timeout_s: float = 15.0) -> None:
        """Wait until it has printed `text`."""
        eventually(
            lambda: text in self.text,
            timeout_s,
            what=f"{self.label} prints {text!r}",
            state=lambda: self.text,
        )

    def terminate(self, timeout_s: float = SHUTDOWN_S) -> int:
        """Stop it as a process manager does (SIGTERM), wait for the end, return the exit code."""
        self.request_stop()
        return self.wait(timeout_s)

    def request_stop(self) -> None:
        """Send SIGTERM to the main process and return at once."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait(self, timeout_s: float = SHUTDOWN_S) -> int:
        """Wait until it has ended, return the exit code."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.label!r} did not end within {timeout_s:g} s:\n{self.text}") from None

    def kill9(self) -> None:
        """Kill main process and worker at the same moment (SIGKILL to the group)."""
        self._signal_group(signal.SIGKILL)
        self._process.wait(SHUTDOWN_S)

    def pause(self) -> None:
        """Freeze the whole group (SIGSTOP)."""
        self._signal_group(signal.SIGSTOP)

    def resume(self) -> None:
        """Thaw the whole group (SIGCONT)."""
        self._signal_group(signal.SIGCONT)

    def _signal_group(self, number: signal.Signals) -> None:
        # A group that has ended already is what a killer wants.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


class WorkerProcess(ChildProcess):
    """One ``python -m dramatiq``: a main process and one worker child.

    Args:
        label: Its name in the ledger and in failure reports.
        module: The module to import, which makes the broker and the actors.
        output: The file that takes what it prints.
        threads: Worker threads.
        queues: Base queues to consume (``-Q``); all if empty.
        environment: What is set beside the clean environment.
        shutdown_timeout_ms: How long it lets running actors finish after SIGTERM.
        cwd: Where it runs, and finds `module`.
    """

    def __init__(
        self,
        label: str,
        module: str,
        output: Path,
        *,
        threads: int = 2,
        queues: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        shutdown_timeout_ms: int = 5000,
        cwd: Path = ROOT,
    ) -> None:
        command = [sys.executable, "-m", "dramatiq", module, "-p", "1", "-t", str(threads)]
        command += ["--worker-shutdown-timeout", str(shutdown_timeout_ms)]
        names = list(queues)
        command += ["-Q", *names] if names else []
        super().__init__(label, command, output, environment=environment, cwd=cwd)

    def wait_ready(self, timeout_s: float = 30.0) -> WorkerProcess:
        """Wait until Dramatiq says that the worker is booted; fail at once where it exits instead."""

        def ready() -> bool:
            if READY_LINE in self.text:
                return True
            if self.returncode is not None:
                raise RuntimeError(
                    f"worker {self.label!r} exited with {self.returncode} before it was ready:\n{self.text}"
                )
            return False

        eventually(ready, timeout_s, what=f"worker {self.label!r} is ready", state=lambda: self.text)
        return self


class Fleet:
    """The worker processes of one test: starts them, and leaves none behind.

    Args:
        directory: Takes the outputs.
        broker_url: The Redis or Valkey that the application's broker uses.
        ledger_path: The ledger that the application's actors write to.
    """

    def __init__(self, directory: Path, broker_url: str, ledger_path: Path) -> None:
        self._directory = directory
        self._broker_url = broker_url
        self._ledger_path = ledger_path
        self.workers: list[WorkerProcess] = []
        self._others: list[ChildProcess] = []

    def start(
        self,
        label: str = "",
        *,
        capabilities: Iterable[str] | None = None,
        variant: str = "new",
        plugin: bool = True,
        namespace: str | None = None,
        mode: str | None = None,
        handshake: Mapping[str, Any] | None = None,
        queues: Iterable[str] = (),
        threads: int = 2,
        extras: Iterable[str] = (),
        env: Mapping[str, str] | None = None,
        module: str = APPLICATION,
        broker_url: str | None = None,
        shutdown_timeout_ms: int = 5000,
        wait: bool = True,
    ) -> WorkerProcess:
        """Start a worker of the sample application.

        Args:
            label: Its name in the ledger; by default ``worker-<n>``.
            capabilities: ``DRAMATIQ_HANDSHAKE_CAPABILITIES``; ``None`` leaves it unset.
            variant: ``old`` (without `added_later`) or ``new``.
            plugin: ``False`` is a plain Dramatiq worker.
            namespace: ``DRAMATIQ_HANDSHAKE_NAMESPACE``.
            mode: ``DRAMATIQ_HANDSHAKE_MODE``.
            handshake: Further arguments of `HandshakeMiddleware`.
            queues: Base queues to consume; all if empty.
            threads: Worker threads.
            extras: Further actors of the sample application.
            env: Further environment.
            module: Another application module.
            broker_url: Another server than the fixture's.
            shutdown_timeout_ms: As Dramatiq's ``--worker-shutdown-timeout``.
            wait: Whether to return only when the worker is booted.
        """
        label = label or f"worker-{len(self.workers) + 1}"
        environment = {
            "TEST_BROKER_URL": broker_url or self._broker_url,
            "APP_LEDGER": str(self._ledger_path),
            "APP_LABEL": label,
            "APP_VARIANT": variant,
            "APP_PLUGIN": "on" if plugin else "off",
            "APP_EXTRAS": ",".join(extras),
            "APP_HANDSHAKE": json.dumps(dict(handshake or {})),
            "dramatiq_worker_timeout": WORKER_TIMEOUT_MS,
        }
        if capabilities is not None:
            environment["DRAMATIQ_HANDSHAKE_CAPABILITIES"] = ",".join(capabilities)
        if namespace is not None:
            environment["DRAMATIQ_HANDSHAKE_NAMESPACE"] = namespace
        if mode is not None:
            environment["DRAMATIQ_HANDSHAKE_MODE"] = mode
        worker = WorkerProcess(
            label,
            module,
            self._directory / f"{len(self.workers) + 1:02}-{label}.log",
            threads=threads,
            queues=queues,
            environment=environment | dict(env or {}),
            shutdown_timeout_ms=shutdown_timeout_ms,
        )
        self.workers.append(worker)
        return worker.wait_ready() if wait else worker

    def run(self, label: str, code: str, **environment: str) -> ChildProcess:
        """Run Python code in another process of the same fleet: a producer, as a rule.

        Args:
            label: Its name in the ledger.
            code: What ``python -c`` runs; it may import `tests.support.apps.fleet`.
            **environment: Further environment.
        """
        child = ChildProcess(
            label,
            [sys.executable, "-c", code],
            self._directory / f"{len(self._others) + 1:02}-{label}.out",
            environment={
                "TEST_BROKER_URL": self._broker_url,
                "APP_LEDGER": str(self._ledger_path),
                "APP_LABEL": label,
                **environment,
            },
        )
        self._others.append(child)
        return child

    def wait_ready(self) -> None:
        """Wait until every worker that was started with ``wait=False`` is booted."""
        for worker in self.workers:
            if worker.returncode is None:
                worker.wait_ready()

    @property
    def alarms(self) -> list[str]:
        """What any worker of the test logged as an error or worse."""
        return [line for worker in self.workers for line in worker.alarms]

    def terminate_all(self) -> None:
        """Ask every worker to stop, then wait for each."""
        for worker in self.workers:
            worker.request_stop()
        for worker in self.workers:
            worker.wait()

    def close(self) -> None:
        """Leave nothing running. Under coverage, ask first: a worker writes its share when it ends."""
        if COVERAGE in os.environ:
            self._ask_to_end()
        for child in (*self.workers, *self._others):
            child.kill9()

    def _ask_to_end(self) -> None:
        running = [worker for worker in self.workers if worker.returncode is None]
        for worker in running:
            worker.resume()
            worker.request_stop()
        for worker in running:
            try:
                worker.wait()
            finally:
                worker.kill9()

    def reports(self) -> list[tuple[str, str]]:
        """What each process printed, for the report of a failed test."""
        return [
            (f"output of {kind} {child.label!r} (pid {child.pid}, exit code {child.returncode})", child.text)
            for kind, children in (("worker", self.workers), ("process", self._others))
            for child in children
        ]
