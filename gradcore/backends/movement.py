"""Kernels that rearrange elements: views where the library can make one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Movement"]


class Movement:
    """Shapes, orders, pieces and joins."""

    xp: Any

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        return x.reshape(shape)

    def permute(self, x: Any, dims: Sequence[int]) -> Any:
        return x.transpose(dims)

    def transpose(self, x: Any, dim0: int, dim1: int) -> Any:
        return x.swapaxes(dim0, dim1) if x.ndim else x[...]

    def expand(self, x: Any, shape: Sequence[int]) -> Any:
        """Broadcast to `shape`, in which -1 keeps a dimension."""
        lead = len(shape) - x.ndim
        return self.xp.broadcast_to(x, [x.shape[i - lead] if n == -1 else n for i, n in enumerate(shape)])

    def squeeze(self, x: Any, dim: int | Sequence[int] | None = None) -> Any:
        """Drop dimensions of size 1: all, or those named that have size 1."""
        if dim is None:
            return x.squeeze()
        dims = (dim,) if isinstance(dim, int) else dim
        drop = {d % x.ndim for d in dims} if x.ndim else set()
        return x.reshape([n for i, n in enumerate(x.shape) if not (i in drop and n == 1)])

    def unsqueeze(self, x: Any, dim: int) -> Any:
        dim = dim + x.ndim + 1 if dim < 0 else dim
        return x[(slice(None),) * dim + (None,)]

    def flip(self, x: Any, dims: Sequence[int]) -> Any:
        return self.xp.flip(x, tuple(dims)).copy()

    def cat(self, tensors: Sequence[Any], dim: int = 0) -> Any:
        return self.xp.concatenate(tensors, axis=dim)

    def clone(self, x: Any) -> Any:
        return x.copy()

    def broadcast_shapes(self, *shapes: Sequence[int]) -> tuple[int, ...]:
        import numpy as np

        return np.broadcast_shapes(*shapes)

    def zeros(self, shape: Sequence[int], dtype: Any) -> Any:
        return self.xp.zeros(shape, dtype)
