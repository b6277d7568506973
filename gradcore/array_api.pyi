"""Written by gradcore.stubs from the table of operations."""

from gradcore.numpy.array_api import *
