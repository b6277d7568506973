"""Kernels that reduce dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Reductions"]

Dims = int | Sequence[int] | None


class Reductions:
    """Sums and their relatives. Results are arrays or NumPy scalars; whoever wraps them makes them arrays."""

    xp: Any

    def sum(self, x: Any, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Any:
        if dtype is None and x.dtype.kind in "biu":
            dtype = "int64"
        return self.xp.add.reduce(x, axis=_axis(dim), dtype=dtype, keepdims=keepdim)

    def sum_to_size(self, x: Any, shape: Sequence[int]) -> Any:
        """Sum the dimensions along which `shape` was broadcast to ``x.shape``."""
        lead = x.ndim - len(shape)
        axes = (*range(lead), *(i + lead for i, n in enumerate(shape) if n == 1 and x.shape[i + lead] != 1))
        if axes:
            x = self.xp.add.reduce(x, axis=axes, dtype=x.dtype)
        return x.reshape(shape)

    def amax(self, x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
        return self.xp.amax(x, axis=_axis(dim), keepdims=keepdim)

    def amin(self, x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
        return self.xp.amin(x, axis=_axis(dim), keepdims=keepdim)

    def prod(self, x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
        return self.xp.prod(x, axis=_axis(dim), keepdims=keepdim)


def _axis(dim: Dims) -> Any:
    """An axis argument; an empty tuple of dims means all of them."""
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(dim) or None
