"""The module that the demo's workers import: ``dramatiq dramatiq_handshake.cli.demo.worker``."""

from __future__ import annotations

import dramatiq

from dramatiq_handshake.cli.demo.application import Application

broker = Application.from_environment().broker
dramatiq.set_broker(broker)
