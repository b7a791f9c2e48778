"""One module a command; `dramatiq_handshake.cli.app` registers them."""
