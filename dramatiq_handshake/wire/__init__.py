"""The wire contract, pure: descriptors, heartbeats, ETags, tokens and keys (design §3)."""
