"""Dramatiq's side: the way into a queue, the way out, and the lanes between (design §6)."""
