"""Kernels of embeddings: rows of a table, looked up and summed by index."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from gradcore.backends.kernel_rules import indexes, native_arrays

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["Embedding"]


class Embedding:
    """Kernels of embeddings: selecting rows of a table by index, and summing them."""

    xp: Namespace
    number: Any
    check_bounds: Any
    sum_into_rows: Any
    taken_along: Any

    @indexes("take", "dim", "x index - -")
    def embedding_rows(self, weight: Array, indices: Array, *_: object) -> Any:
        """Return the rows `indices` of `weight`, ``(*indices, *width)``. Other settings only concern the gradient."""
        return self.taken_along(weight, 0, indices, False, "index out of range in self")

    @native_arrays(
        "add_rows", "rows indices=index -> value",
        lambda rows, indices, height, padding=-1: (indices.size, height, rows.size // indices.size, padding),
    )  # fmt: skip
    def embedding_sum(self, rows: Array, indices: Array, height: int, padding_idx: int = -1) -> Any:
        """Return `height` rows in which `rows` are summed by `indices`; the row `padding_idx` stays zero."""
        width = rows.shape[indices.ndim :]
        result = self.sum_into_rows(height, indices.reshape(-1), rows.reshape(indices.size, prod(width)))
        if padding_idx >= 0:
            result[padding_idx] = 0
        return result.reshape(height, *width)

    def index_counts(self, indices: Array, height: int) -> Array:
        """Return, for each index, how often it occurs among all of them."""
        return self.xp.bincount(indices.reshape(-1), minlength=height).take(indices)

    def one_hot(self, x: Array, num_classes: int = -1) -> Any:
        """Return zeros with a one at each class, along a new last dim."""
        if num_classes < 0:
            num_classes = self.number(x.max()) + 1
            if num_classes >= 2**63:
                raise RuntimeError(f"Storage size calculation overflowed with sizes={[*x.shape, num_classes]}")
        self.check_bounds(x, num_classes, 0, 0, "Class values must be smaller than num_classes.")
        return (x[..., None] == self.xp.arange(num_classes)).astype("int64")
