"""The operations on tensors as functions: the ``F`` of derivatives that are recorded, and of composite operations.

Every operation is here under its name in the table, helpers of formulas included, and the functions that make tensors.
`gradcore.tensor.installation.install` puts them here, once; so the engine records without importing what is above it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

#: The names that PyTorch has in this module.
# ruff: noqa: F822
__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
    "cartesian_prod", "cdist", "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm", "pca_lowrank", "split",
    "stft", "svd_lowrank", "tensordot", "unique", "unique_consecutive", "unravel_index",
]  # fmt: skip

Function: TypeAlias = Callable[..., Any]
#: Makers of functions that have not been looked up yet, by name.
makers: dict[str, Callable[[], Function]] = {}


def find_operation(name: str) -> Function | None:
    """Return the function of an operation, or None if there is none; `gradcore.tensor.installation` replaces this."""
    return None


def __getattr__(name: str) -> Any:
    function = makers[name]() if name in makers else find_operation(name)
    if function is None:
        raise AttributeError(f"there is no operation named {name!r}")
    return globals().setdefault(name, function)
