"""Saving and loading of files in PyTorch's format, which PyTorch can also read and write.

A file contains containers, numbers, strings and tensors. Loading accepts only these, and classes that the user has
allowed by name, so a file cannot run code.
"""

from gradcore.serialization.reading import load
from gradcore.serialization.safety import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from gradcore.serialization.writing import save
from gradcore.torch_names import paths

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

__getattr__ = paths.further(__name__)
paths.show_public(__name__)
