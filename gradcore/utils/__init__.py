"""Helpers: checkpointing, nested containers, batches of data, PyTorch's names for handles of hooks and for DLPack."""

import importlib
from types import ModuleType

from gradcore.utils import checkpoint, dlpack, hooks

__all__ = ["checkpoint", "data", "dlpack", "hooks"]


def __getattr__(name: str) -> ModuleType:
    """`data`, when it is first asked for."""
    if name == "data":
        return importlib.import_module("gradcore.utils.data")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
