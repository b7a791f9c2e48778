"""Running handlers in this process: plain ones in threads, async ones on an event loop."""

from dramatiq_handshake.routing.running.outcome import Cancelled, Failed, Lost, Outcome, Refused, Succeeded
from dramatiq_handshake.routing.running.runner import JobRunner, Listener

__all__ = ["Cancelled", "Failed", "JobRunner", "Listener", "Lost", "Outcome", "Refused", "Succeeded"]
