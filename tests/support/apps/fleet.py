"""The module that test workers import: the sample application, built from the environment.

``TEST_BROKER_URL``, ``APP_LEDGER`` and ``APP_LABEL`` are required; ``APP_VARIANT`` is ``old`` or ``new``,
``APP_PLUGIN`` ``on`` or ``off``, ``APP_EXTRAS`` names further actors, separated by commas, ``APP_HANDSHAKE``
holds the middleware's arguments as JSON.
"""

from __future__ import annotations

import json
import os

import dramatiq

from tests.support.apps.application import build_application
from tests.support.ledger import Ledger

application = build_application(
    os.environ["TEST_BROKER_URL"],
    Ledger(os.environ["APP_LEDGER"]),
    label=os.environ["APP_LABEL"],
    variant=os.environ.get("APP_VARIANT", "new"),
    plugin=os.environ.get("APP_PLUGIN", "on") == "on",
    extras=[name for name in os.environ.get("APP_EXTRAS", "").split(",") if name],
    **json.loads(os.environ.get("APP_HANDSHAKE", "{}")),
)
broker = application.broker
dramatiq.set_broker(broker)
