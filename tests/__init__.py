"""The tests; `tests.support` is the harness they share."""
