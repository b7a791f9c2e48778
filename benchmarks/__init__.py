"""What the handshake costs, measured against bare Dramatiq on one machine; the method is in README.md."""
