"""The command line: its commands, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from dramatiq_handshake.cli.commands.blocked import blocked
from dramatiq_handshake.cli.commands.demo import demo
from dramatiq_handshake.cli.commands.directory import directory
from dramatiq_handshake.cli.commands.fleet import fleet
from dramatiq_handshake.cli.failure import PROGRAM, UNUSABLE, describe
from dramatiq_handshake.release import own_release

__all__ = ["app", "run"]

_DEBUG = "--debug"

app = typer.Typer(
    name=PROGRAM,
    help="What a Dramatiq fleet can run, who is live, what is blocked and why.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"{PROGRAM} {own_release()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    debug: Annotated[  # noqa: ARG001 - `run` reads it wherever it stands; here it is listed by --help
        bool, typer.Option(_DEBUG, help="Show the traceback of an error; may stand anywhere.")
    ] = False,
    version: Annotated[  # noqa: ARG001 - its callback does all
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version, and exit."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(UNUSABLE)


for _command in (fleet, directory, blocked, demo):
    app.command()(_command)


def run(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: What stands after the program's name.

    Returns:
        The exit code: 0; 1 where a check did not hold; 2 where the command could not be carried out, told
        in one line on standard error; 130 after Ctrl-C.
    """
    try:
        code = app(
            args=[argument for argument in arguments if argument != _DEBUG],
            prog_name=PROGRAM,
            standalone_mode=False,
        )
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has left, as `| head` does; Python must not complain at its own flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as error:  # noqa: BLE001 - every error ends in one line
        if _DEBUG in arguments:
            traceback.print_exc()
        sys.stderr.write(f"{describe(error)}\n")
        return UNUSABLE
    return code if isinstance(code, int) else 0
