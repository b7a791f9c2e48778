"""What the demo's workers run: ``dramatiq dramatiq_handshake.cli.demo.worker:setup``."""

from __future__ import annotations

import dramatiq

from dramatiq_handshake.cli.demo.application import Application

__all__ = ["setup"]


def setup() -> None:
    """Build the broker as the environment says, for Dramatiq's command line to find."""
    dramatiq.set_broker(Application.from_environment().broker)
