"""``python -m dramatiq_handshake``, and the console script ``dramatiq-handshake``."""

from __future__ import annotations

import sys

__all__ = ["main"]

#: What the extra `cli` installs. Nothing else of this package imports them.
_EXTRA = frozenset({"typer", "rich", "click"})


def main() -> int:
    """Run the command line on this process's arguments; return the exit code."""
    try:
        from dramatiq_handshake.cli.app import run  # noqa: PLC0415 - only the command line needs the extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(
            f"dramatiq-handshake: the command line needs {error.name}, which is not installed: "
            "pip install 'dramatiq-handshake[cli]'\n"
        )
        return 2
    except KeyboardInterrupt:  # importing takes a moment, too
        return 130
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
