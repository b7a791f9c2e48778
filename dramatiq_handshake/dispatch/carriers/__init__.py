"""How each kind of broker carries a message in another queue than the one it names."""

from dramatiq_handshake.dispatch.carriers.base import BrokerIdentity, Carrier
from dramatiq_handshake.dispatch.carriers.observed import ObservedBroker
from dramatiq_handshake.dispatch.carriers.redis import RedisCarrier
from dramatiq_handshake.dispatch.carriers.stub import StubCarrier

__all__ = ["BrokerIdentity", "Carrier", "ObservedBroker", "RedisCarrier", "StubCarrier"]
