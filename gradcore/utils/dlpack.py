"""Exchange of memory with other array libraries, under PyTorch's names."""

from __future__ import annotations

from typing import Any

from gradcore.tensor import Tensor
from gradcore.tensor.creation import from_dlpack
from gradcore.torch_names import paths

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """Return a capsule with the memory of a tensor, which another library can consume once.

    Newer libraries accept the tensor itself: ``numpy.from_dlpack(tensor)``.
    """
    return tensor.__dlpack__()


paths.show_public(__name__)
