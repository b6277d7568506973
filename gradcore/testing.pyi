"""Written by gradcore.stubs from the table of operations."""

from gradcore.torch_names.testing import *
