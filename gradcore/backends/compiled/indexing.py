"""Reading and writing by index, in one pass that also checks the bounds."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.indexing import Indices

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CompiledIndexing"]

#: Elements from which the kernels are faster than NumPy; the same for reading vectors, which NumPy does as fast as one
#: thread.
_LARGE, _LARGE_VECTORS = 1 << 11, 1 << 15
#: Elements of a row from which a loop pays off.
_WIDTH = 16
#: Bytes of elements that are copied, and dtypes that are added, by NumPy's characters.
_SIZES, _ADDED = (1, 2, 4, 8, 16), {c: c for c in "fdFDhil"} | {"b": "b", "B": "b", "H": "h", "I": "i", "L": "l"}
if np.dtype("l").itemsize == 8:
    _ADDED |= {"q": "l", "Q": "l"}


class _Slices(ctypes.Structure):
    """Sizes of the work of the kernels of `indexing.cpp`."""

    _fields_ = (
        ("parts", ctypes.c_int64), ("outer", ctypes.c_int64), ("length", ctypes.c_int64), ("inner", ctypes.c_int64),
        ("count", ctypes.c_int64), ("negative", ctypes.c_int64), ("by_columns", ctypes.c_int64),
        ("step", ctypes.c_int64),
    )  # fmt: skip


def _is_copied(x: Any) -> bool:
    return x.itemsize in _SIZES and x.flags.aligned and not x.dtype.hasobject


def _takes_slices(backend: Any, x: Array, dim: int, index: Array, *_: Any) -> bool:
    size = index.size * (x.size // x.shape[dim] if x.ndim and x.shape[dim] else 0)
    is_last_dim = dim == x.ndim - 1  # NumPy copies longer slices as fast
    return bool(
        is_last_dim and size >= _least(x) and index.dtype.kind == "i" and x.flags.c_contiguous and _is_copied(x)
    )


def _least(x: Array) -> int:
    return _LARGE if x.ndim > 1 else _LARGE_VECTORS


def _reads_each(backend: Any, x: Array, dim: int, index: Array) -> bool:
    return index.size >= _least(x) and _writes_each(backend, x, dim, index)


def _writes_each(backend: Any, x: Array, dim: int, index: Array, src: Any = 0) -> bool:
    return bool(index.size >= _LARGE and x.ndim and x.size and _is_copied(x) and _same_but(x.shape, index.shape, dim))


def _adds_each(backend: Any, out: Array, dim: int, index: Array, src: Array) -> bool:
    return out.dtype.char in _ADDED and src.dtype == out.dtype and _writes_each(backend, out, dim, index)


def _adds_rows(backend: Any, out: Array, index: Array, rows: Array) -> bool:
    return bool(
        rows.size >= _LARGE and out.size and out.dtype == rows.dtype and out.dtype.char in _ADDED
        and out.flags.carray
    )  # fmt: skip


def _same_but(shape: Sequence[int], other: Sequence[int], dim: int) -> bool:
    return len(shape) == len(other) and shape[:dim] == other[:dim] and shape[dim + 1 :] == other[dim + 1 :]


def _reverses_rows(backend: Any, x: Array, dims: Sequence[int]) -> bool:
    width = x.shape[-1] if x.ndim else 0
    return bool(tuple(dims) == (x.ndim - 1,) and width >= _WIDTH and x.size >= _LARGE and _is_copied(x))


class CompiledIndexing(CompiledCalls):
    """Kernels for one vector of indices along a dim, and for an index for each element."""

    # -- rows --------------------------------------------------------------------------------------------------------

    @kernel_for(_reverses_rows)
    def reverse_dims(self, x: Array, dims: Sequence[int]) -> Array:
        out, width = np.empty(x.shape, x.dtype), x.shape[-1]
        work = _Slices(x.size // width, 1, 1, width, 1)
        self._fails("reverse_rows", str(x.itemsize), work, x.size, np.ascontiguousarray(x), out)
        return out

    # -- slices of a dim ---------------------------------------------------------------------------------------------

    @kernel_for(_takes_slices)
    def taken_along(self, x: Array, dim: int, index: Array, negative: bool = False, *message: str) -> Array:
        shape = x.shape[:dim] + index.shape + x.shape[dim + 1 :]
        out = np.empty(shape, x.dtype)
        outer, inner, index = prod(x.shape[:dim]), prod(x.shape[dim + 1 :]), _integers(index)
        work = _Slices(outer * index.size, outer, x.shape[dim], inner, index.size, x.shape[dim] if negative else 0)
        if self._fails("take_slices", str(x.itemsize), work, out.size, x, index, out):
            return super().taken_along(x, dim, index, negative, *message)  # This call raises the error.
        return out

    @kernel_for(_adds_rows)
    def add_rows(self, out: Array, index: Array, rows: Array) -> Array:
        return self._add_slices(out, 0, index, rows)

    def sum_into_rows(self, height: int, index: Array, rows: Array) -> Array:
        out = np.zeros((height, rows.shape[1]), rows.dtype)
        if _adds_rows(self, out, index, rows):
            return self._add_slices(out, 0, index, rows)
        return super().sum_into_rows(height, index, rows)

    def _add_slices(self, out: Array, dim: int, index: Array, values: Array) -> Array:
        """Add `values` to slices of the contiguous array `out` along a dim, and return it. `index` is within bounds."""
        outer, inner = prod(out.shape[:dim]), prod(out.shape[dim + 1 :])
        columns = outer == 1
        parts = inner if columns else outer
        work = _Slices(parts, outer, out.shape[dim], inner, index.size, out.shape[dim], columns, 1)
        arrays = np.ascontiguousarray(values), _integers(index), out
        if self._fails("add_slices", _ADDED[out.dtype.char], work, values.size, *arrays):
            self.check_bounds(index, out.shape[dim], dim, -out.shape[dim])
        return out

    def index_write(self, x: Array, values: Array, indices: Indices, accumulate: bool = False) -> Array:
        dim = _added_dim(indices, values) if accumulate and values.dtype == x.dtype else None
        if dim is None or values.shape != (*x.shape[:dim], *indices[dim].shape, *x.shape[dim + 1 :]):
            return super().index_write(x, values, indices, accumulate)
        return self._add_slices(np.array(x, order="C"), dim, indices[dim], values)  # This method checks the bounds.

    def _accumulate(self, shape: Sequence[int], indices: Indices, values: Array) -> Array:
        dim = _added_dim(indices, values)
        if dim is None:
            return super()._accumulate(shape, indices, values)
        index = indices[dim]
        full = (*shape[:dim], *index.shape, *shape[dim + 1 :])
        if values.shape != full:
            values = np.broadcast_to(values, full)
        out = np.zeros(shape, values.dtype)
        return self._add_slices(out, dim, index, values) if values.size else out

    # -- an index for each element -----------------------------------------------------------------------------------

    @kernel_for(_reads_each)
    def gather_along(self, x: Array, dim: int, index: Array) -> Array:
        out = np.empty(index.shape, x.dtype)
        work = self._each(x, dim, index, reading=True)
        if self._fails("gather_along", str(x.itemsize), work, out.size, np.ascontiguousarray(x), _integers(index), out):
            return super().gather_along(x, dim, index)  # This call raises the error.
        return out

    @kernel_for(_writes_each)
    def scatter_along(self, x: Array, dim: int, index: Array, src: Any) -> Array:
        src = np.asarray(src)
        values = np.ascontiguousarray(self.cut(src, index) if src.ndim else src, x.dtype)
        out, work = np.array(x, order="C"), self._each(x, dim, index, 1 if src.ndim else 0)
        if self._fails("scatter_along", str(x.itemsize), work, index.size, values, _integers(index), out):
            return super().scatter_along(x, dim, index, src)  # This call raises the error.
        return out

    @kernel_for(_adds_each)
    def added_along(self, out: Array, dim: int, index: Array, src: Array) -> Array:
        total, values = np.ascontiguousarray(out), np.ascontiguousarray(self.cut(src, index))
        work = self._each(total, dim, index, 1)
        if self._fails("add_along", _ADDED[out.dtype.char], work, index.size, values, _integers(index), total):
            self.check_bounds(index, out.shape[dim], dim)
        return total

    def _each(self, x: Array, dim: int, index: Array, step: int = 0, reading: bool = False) -> _Slices:
        outer, inner, count = prod(x.shape[:dim]), prod(x.shape[dim + 1 :]), index.shape[dim]
        columns = outer == 1 and not reading
        parts = outer * count if reading else inner if columns else outer
        return _Slices(parts, outer, x.shape[dim], inner, count, 0, columns, step)

    def _fails(self, name: str, kind: str, work: _Slices, size: int, *arrays: Any) -> bool:
        """Run a kernel, and return whether an index was out of bounds (such an index is not used)."""
        wrong = np.zeros(1, np.int64)
        self.run_kernel(name, kind, work, size, *arrays, wrong)
        return bool(wrong[0])


def _added_dim(indices: Indices, values: Array) -> int | None:
    """Return the one dim that is indexed, by integers, if the kernels can add values of this dtype; else None."""
    present = [dim for dim, index in enumerate(indices) if index is not None]
    if len(present) != 1 or not values.size or values.dtype.char not in _ADDED or indices[present[0]].dtype.kind != "i":
        return None
    return present[0]


def _integers(index: Array) -> Array:
    """Return indices in the dtype and layout that the kernels read."""
    return np.ascontiguousarray(index, np.int64)
