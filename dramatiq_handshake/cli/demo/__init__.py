"""The demo: a fleet of real worker processes tells what the handshake does, and a ledger proves it."""
