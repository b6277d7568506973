"""Utilities: checkpointing, pytrees, data loading, and PyTorch's modules for hook handles and DLPack."""

from gradcore.torch_names import paths

__all__ = ["checkpoint", "data", "dlpack", "hooks"]


__getattr__ = paths.further(__name__)

paths.show_public(__name__)
