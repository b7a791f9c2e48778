"""Pure decisions: negotiate, plan, explain and list; no I/O and no clock (design §4 and §8)."""
