"""The command line; what it needs beyond the library is the extra ``cli``: typer and rich."""
