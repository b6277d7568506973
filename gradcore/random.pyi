"""Written by gradcore.stubs from the table of operations."""

from gradcore.tensor.random import *
