"""Written by gradcore.stubs from the table of operations."""
