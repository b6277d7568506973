"""Saving and loading: PyTorch's files, which PyTorch reads and writes as well.

A file holds a structure of containers, numbers, strings and tensors. What is loaded is restricted to these, unless a
class is allowed by name: a file cannot run code.
"""

from gradcore.serialization.reading import load
from gradcore.serialization.safety import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from gradcore.serialization.writing import save
from gradcore.torch_names import paths

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

__getattr__ = paths.further(__name__)
paths.show_public(__name__)
