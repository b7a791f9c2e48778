"""The options that commands share, and the engine that they name."""

from __future__ import annotations

from typing import Annotated

import typer

from dramatiq_handshake.dispatch.settings import NAMESPACE_VARIABLE, PREFIX_VARIABLE, URL_VARIABLE
from dramatiq_handshake.engine import HandshakeEngine
from dramatiq_handshake.errors import ConfigurationError

__all__ = ["DEFAULT_PREFIX", "Json", "Namespace", "Prefix", "Url", "open_engine"]

DEFAULT_PREFIX = "dramatiq"

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar=URL_VARIABLE,
        show_default=False,
        help="The Redis or Valkey that the fleet shares, e.g. redis://127.0.0.1:6379/0.",
    ),
]
Prefix = Annotated[
    str,
    typer.Option("--prefix", envvar=PREFIX_VARIABLE, help="The deployment: the RedisBroker's namespace."),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace", envvar=NAMESPACE_VARIABLE, show_default=False, help="One tenant only; all by default."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def open_engine(url: str | None, prefix: str, namespace: str | None) -> HandshakeEngine:
    """An engine that looks at a fleet from outside.

    Raises:
        ConfigurationError: No server is named, or an option is not what it must be.
    """
    if not url:
        raise ConfigurationError(
            f"no fleet registry is named: give --url redis://HOST:6379/0, or set {URL_VARIABLE}"
        )
    # What an answer finds is shown with the answer, so nothing goes to the log as well.
    return HandshakeEngine(url, prefix=prefix, namespace=namespace, on_diagnostic=lambda _: None)
