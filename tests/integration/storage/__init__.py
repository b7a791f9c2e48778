"""`RedisStore` on real servers: what it costs, how it fails, where it may connect."""
