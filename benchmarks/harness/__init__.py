"""How things are measured here: pairs, statistics, bars, a server that counts."""
