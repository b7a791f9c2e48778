"""The parts of the registry that need no server."""
