"""Reductions: sums, means, products, extrema and norms over dims."""

from __future__ import annotations

from collections.abc import Sequence

from gradcore.ops.shapes import kept
from gradcore.ops.table import linear

Dims = int | Sequence[int] | None


def _spread(F, grad, shape, dim):
    """Undo a reduction's removal of dims, and repeat along them."""
    return F.expand(F.reshape(grad, kept(shape, dim)), shape)


@linear(
    lambda F, grad, self_shape, dim: _spread(F, grad, self_shape, dim),
    node=lambda self, dim, *_: "SumBackward0" if dim is None else "SumBackward1",
)
def sum(self, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None):
    """Sum over `dim` (all dims if None)."""
