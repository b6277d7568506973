"""Written by gradcore.stubs from the table of operations."""

from gradcore.functions.return_types import *
