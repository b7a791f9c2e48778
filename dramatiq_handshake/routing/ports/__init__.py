"""What a gateway and a worker talk over: ports, and the messages that pass through them."""

from dramatiq_handshake.routing.ports.base import Port, PortClosed, Unsendable
from dramatiq_handshake.routing.ports.connections import ConnectionPort
from dramatiq_handshake.routing.ports.faults import PortFault
from dramatiq_handshake.routing.ports.queues import QueuePort, queue_ports

__all__ = [
    "ConnectionPort",
    "Port",
    "PortClosed",
    "PortFault",
    "QueuePort",
    "Unsendable",
    "queue_ports",
]
