"""Reductions of arrays whose rows or columns are too short for NumPy's inner loops; softmax along columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.compiled.calls import WORTH_A_THREAD, CompiledCalls, Work
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy import threads

if TYPE_CHECKING:
    from gradcore.backends.portable.reductions import Dims
    from gradcore.core.arrays import Array

__all__ = ["CompiledNarrow"]

#: Rows of fewer elements, and columns of which fewer lie side by side, are narrow; the same for extrema of columns.
_LONG, _WIDE, _WIDE_EXTREMA = 32, 64, 512
#: Elements from which kernels are faster than NumPy: for sums and extrema, for indices, and for logsumexp (1 in tests).
_LEAST, _LEAST_INDICES, _LEAST_LOGSUMEXP = 512, 1024, 32
#: The columns of a single matrix from which kernels find indices faster than NumPy.
_COLUMNS = 8
#: The length of the rows from which extrema are found faster than column by column, and the elements of shorter rows.
_FOLDED, _FEW = 8, 2048
#: The columns side by side from which softmax is computed by a kernel, and those of a part, as in `rows.h`.
_LEAST_COLUMNS, _COLUMNS_OF_PART = 8, 256
#: The longest dim that kernels reduce: they number the elements along it by int32.
_LONGEST = (1 << 31) - 1


def _takes_sum(x: Array, dims: Sequence[int]) -> bool:
    # BLAS adds the elements of rows, and the rows of a single matrix, as fast.
    if len(dims) != 1 or dims[0] <= 0:
        return False
    return 1 < _count_columns(x, dims[0]) < _WIDE


def _takes_extremum(x: Array, dims: Sequence[int]) -> bool:
    if len(dims) != 1 or dims[0] < 0:
        return False
    dim = dims[0]
    if dim < x.ndim - 1:
        return 0 < _count_columns(x, dim) < _WIDE_EXTREMA
    n = x.shape[dim]
    return bool(dim and n < _LONG and (n >= _FOLDED or x.size < _FEW or _LEAST == 1) and _count_columns(x, dim))


def _takes_indices(x: Array, dim: int) -> bool:
    if dim == x.ndim - 1:
        return bool(dim and x.shape[dim] < _LONG and _count_columns(x, dim))
    return (1 if dim else _COLUMNS) <= _count_columns(x, dim) < _WIDE


def _takes_logsumexp(x: Array, dims: Sequence[int]) -> bool:
    if len(dims) != 1 or dims[0] < 0 or not _count_columns(x, dims[0]):
        return False
    return dims[0] < x.ndim - 1 or x.shape[dims[0]] < _LONG


def _count_columns(x: Array, dim: int) -> int:
    """Return the number of elements between neighbours along a dim, or 0 if a kernel cannot read the array."""
    is_readable = x.flags.c_contiguous and x.flags.aligned and x.shape[dim] <= _LONGEST
    return x.strides[dim] // x.itemsize if is_readable and x.dtype.char in "fd" else 0


def _takes_columns(backend: object, x: Array, *rest: Any) -> bool:
    *others, dim = rest
    if dim >= x.ndim - 1 or not x.size or _count_columns(x, dim) < _LEAST_COLUMNS:
        return False
    return all(a.dtype is x.dtype and a.flags.c_contiguous and a.flags.aligned for a in others)


class CompiledNarrow(CompiledCalls):
    """Sums, extrema, their indices and logsumexp along a dim of narrow arrays of floats, and softmax along columns."""

    def sum_over(self, x: Array, dims: Dims = None, keepdim: bool = False, dtype: object = None) -> Array:
        if dims and x.size >= _LEAST and dtype is None and _takes_sum(x, dims):
            return self._reduce_narrow("narrow_sums", x, dims[0], keepdim)
        out: Array = super().sum_over(x, dims, keepdim, dtype)
        return out

    def max_over(self, x: Array, dims: Dims = None, keepdim: bool = False) -> Array:
        if dims and x.size >= _LEAST and _takes_extremum(x, dims):
            return self._reduce_narrow("narrow_maxima", x, dims[0], keepdim)
        out: Array = super().max_over(x, dims, keepdim)
        return out

    def min_over(self, x: Array, dims: Dims = None, keepdim: bool = False) -> Array:
        if dims and x.size >= _LEAST and _takes_extremum(x, dims):
            return self._reduce_narrow("narrow_minima", x, dims[0], keepdim)
        out: Array = super().min_over(x, dims, keepdim)
        return out

    def logsumexp_over(self, x: Array, dims: Sequence[int] | None, keepdim: bool) -> Array:
        if dims and x.size >= _LEAST_LOGSUMEXP and _takes_logsumexp(x, dims):
            return self._reduce_narrow("narrow_logsumexp", x, dims[0], keepdim)
        out: Array = super().logsumexp_over(x, None if dims is None else tuple(dims), keepdim)
        return out

    def argmax_along(self, x: Array, dim: int, keepdim: bool = False) -> Array:
        if x.size >= _LEAST_INDICES and _takes_indices(x, dim):
            return self._reduce_narrow("narrow_argmax", x, dim, keepdim, True)
        out: Array = super().argmax_along(x, dim, keepdim)
        return out

    def argmin_along(self, x: Array, dim: int, keepdim: bool = False) -> Array:
        if x.size >= _LEAST_INDICES and _takes_indices(x, dim):
            return self._reduce_narrow("narrow_argmin", x, dim, keepdim, True)
        out: Array = super().argmin_along(x, dim, keepdim)
        return out

    def max_along(self, x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
        if x.size >= _LEAST_INDICES and _takes_indices(x, dim):
            return self.take_at_index(x, self.argmax_along(x, dim), dim, keepdim)
        out: tuple[Array, Array] = super().max_along(x, dim, keepdim)
        return out

    def min_along(self, x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
        if x.size >= _LEAST_INDICES and _takes_indices(x, dim):
            return self.take_at_index(x, self.argmin_along(x, dim), dim, keepdim)
        out: tuple[Array, Array] = super().min_along(x, dim, keepdim)
        return out

    # -- softmax along another dim than the last -----------------------------------------------------------------------

    @kernel_for(_takes_columns)
    def softmax_along(self, x: Array, dim: int) -> Array:
        return self._map_columns("softmax_columns", dim, x)

    @kernel_for(_takes_columns)
    def log_softmax_along(self, x: Array, dim: int) -> Array:
        return self._map_columns("log_softmax_columns", dim, x)

    @kernel_for(_takes_columns)
    def softmax_product(self, t: Array, y: Array, dim: int) -> Array:
        return self._map_columns("softmax_backward_columns", dim, t, y)

    @kernel_for(_takes_columns)
    def log_softmax_transposed(self, t: Array, y: Array, dim: int) -> Array:
        return self._map_columns("log_softmax_backward_columns", dim, t, y)

    @kernel_for(_takes_columns)
    def exponentials_along(self, x: Array, dim: int) -> tuple[Array, Array, Array]:
        shape = *x.shape[:dim], 1, *x.shape[dim + 1 :]
        # Not parts of one array: the node of cross entropy keeps only the exponentials and their sums.
        out, top, total = (np.empty(each, x.dtype) for each in (x.shape, shape, shape))
        self._run_columns("exponential_columns", dim, x, top, out, total)
        return out, top, total

    def _map_columns(self, kernel: str, dim: int, *arrays: Array) -> Array:
        out: Array = np.empty(arrays[0].shape, arrays[0].dtype)
        self._run_columns(kernel, dim, *arrays, out)
        return out

    def _run_columns(self, kernel: str, dim: int, *arrays: Any) -> None:
        """Run a kernel of rows.h on the columns along a dim of contiguous arrays, the first of which it reads."""
        x = arrays[0]
        columns = x.strides[dim] // x.itemsize
        matrices = x.size // (x.shape[dim] * columns)
        parts = matrices * -(-columns // _COLUMNS_OF_PART)
        self.run_kernel(kernel, x.dtype.char, Work(parts, x.shape[dim], columns), x.size, *arrays)

    def _reduce_narrow(self, kernel: str, x: Array, dim: int, keepdim: bool, finds_index: bool = False) -> Array:
        """Reduce a contiguous array of floats, which must not be empty, along a dim by a kernel."""
        shape = x.shape
        out: Array = np.empty(shape[:dim] + (1,) * keepdim + shape[dim + 1 :], np.int64 if finds_index else x.dtype)
        run = self._function(kernel, x.dtype.char)
        if run(dim, WORTH_A_THREAD, threads.available(), x, out):
            raise AssertionError(f"{kernel} does not read arrays of the shape {shape}")
        return out
