"""Helpers: checkpointing, nested containers, batches of data, PyTorch's names for handles of hooks and for DLPack."""

from gradcore.torch_names import paths

__all__ = ["checkpoint", "data", "dlpack", "hooks"]


__getattr__ = paths.further(__name__)
