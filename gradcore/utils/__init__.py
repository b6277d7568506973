"""Helpers: checkpointing, nested containers, PyTorch's names for the handles of hooks and for DLPack."""

from gradcore.utils import checkpoint, dlpack, hooks

__all__ = ["checkpoint", "dlpack", "hooks"]
