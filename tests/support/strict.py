"""Nothing may be left out: a skipped or expectedly failing test makes the whole run fail."""

from __future__ import annotations

import pytest

__all__ = ["fail_where_tests_were_left_out", "left_out", "tell_what_was_left_out"]

LEFT_OUT = ("skipped", "xfailed", "xpassed")


def left_out(config: pytest.Config) -> list[str]:
    """The ids of what was skipped, or failed as expected, so far."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return []
    return [report.nodeid for kind in LEFT_OUT for report in reporter.stats.get(kind, [])]


def fail_where_tests_were_left_out(session: pytest.Session) -> None:
    """Turn a run that would pass into a failed one."""
    if session.exitstatus == pytest.ExitCode.OK and left_out(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def tell_what_was_left_out(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which tests those were, and that this is why the run fails."""
    for nodeid in left_out(config):
        terminalreporter.write_line(f"LEFT OUT {nodeid}: nothing may be skipped here", red=True)
