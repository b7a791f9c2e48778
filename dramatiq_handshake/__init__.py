"""dramatiq-handshake: workers that advertise, work that waits for the one who can."""
