"""Written by gradcore.stubs from the table of operations."""

from gradcore.core.errors import *
