"""``dramatiq-handshake demo``: a fleet of real processes tells what the handshake does."""

from __future__ import annotations

from typing import Annotated

import typer

from dramatiq_handshake.cli.demo.cast import Break
from dramatiq_handshake.cli.demo.show import run_demo

__all__ = ["demo"]


def demo(
    broken: Annotated[
        Break | None,
        typer.Option("--break", show_default=False, help="Sabotage the story: its checks must notice."),
    ] = None,
) -> int:
    """Watch a real fleet of workers tell its story.

    They advertise, work that none can run is blocked and explained, a capable worker comes up and the work
    resumes, the directory tells what exists. Exit code 1 if any step of that did not happen.
    """
    return run_demo(broken)
