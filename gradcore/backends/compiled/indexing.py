"""Reading and writing by index, in one pass that also checks the bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.compiled import calls
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy import threads
from gradcore.backends.portable.indexing import OUT_OF_BOUNDS, Indices

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CompiledIndexing"]

#: Elements from which the kernel for reversed rows is faster than NumPy's function; and the least size of such a row.
_LARGE, _WIDTH = 1 << 11, 16
#: Names of kernels that copy by the bytes of an element, and of kernels that add by NumPy's character of the dtype.
_COPIED = {1: "1", 2: "2", 4: "4", 8: "8", 16: "16"}
_ADDED = {c: c for c in "fdFDhil"} | {"b": "b", "B": "b", "H": "h", "I": "i", "L": "l"}
if np.dtype("l").itemsize == 8:
    _ADDED |= {"q": "l", "Q": "l"}
#: A strided array is copied for a kernel only if it has at most so many elements for each index.
_COPIED_PER_INDEX = 8
_INT64 = np.dtype(np.int64)
#: What kernels of indices return. For other arrays than they support, they return another number.
_DONE, _OUT_OF_BOUNDS = 0, 1


def _kind_of(x: Any) -> str | None:
    """Return the name of the kernels that copy elements of `x`, or None if there are none."""
    dtype = x.dtype
    return None if dtype.hasobject else _COPIED.get(dtype.itemsize)


def _reverses_rows(backend: Any, x: Array, dims: Sequence[int]) -> bool:
    width = x.shape[-1] if x.ndim else 0
    return bool(
        tuple(dims) == (x.ndim - 1,) and width >= _WIDTH and x.size >= _LARGE and x.flags.aligned and _kind_of(x)
    )


class CompiledIndexing(calls.CompiledCalls):
    """Kernels for one vector of indices along a dim, and for an index for each element."""

    # -- rows --------------------------------------------------------------------------------------------------------

    @kernel_for(_reverses_rows)
    def reverse_dims(self, x: Array, dims: Sequence[int]) -> Array:
        out, width = np.empty(x.shape, x.dtype), x.shape[-1]
        height = x.size // width
        work = calls.Work(height, height, width)
        self.run_kernel("reverse_rows", _COPIED[x.itemsize], work, x.size, np.ascontiguousarray(x), out)
        return out

    # -- slices of a dim ---------------------------------------------------------------------------------------------

    def check_bounds(self, index: Array, size: int, dim: int, low: int = 0, message: str = OUT_OF_BOUNDS) -> None:
        if index.dtype is not _INT64 or not isinstance(index, np.ndarray):  # The kernel reads arrays, not scalars.
            super().check_bounds(index, size, dim, low, message)
        elif self._function("find_outside", "l")(size, -low, index) != _DONE:
            super().check_bounds(index, size, dim, low, message)  # This call raises the error.

    def are_classes(self, target: Array, classes: int) -> bool:
        if target.dtype is _INT64 and isinstance(target, np.ndarray):
            outcome = self._function("find_outside", "l")(classes, 0, target)
            if outcome in (_DONE, _OUT_OF_BOUNDS):
                return bool(outcome == _DONE)
        return super().are_classes(target, classes)

    def taken_along(self, x: Array, dim: int, index: Array, negative: bool = False, *message: str) -> Array:
        kind = _kind_of(x)
        if kind is not None and index.dtype.kind == "i" and x.flags.c_contiguous:
            out = np.empty((*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]), x.dtype)
            if self._run_indexed("take_slices", kind, dim, negative, x, index, out) == _DONE:
                return out
        return super().taken_along(x, dim, index, negative, *message)

    def add_rows(self, out: Array, index: Array, rows: Array) -> Array:
        outcome = self._add_slices(out, 0, index, rows)
        if outcome == _OUT_OF_BOUNDS:
            self._raise_out_of_bounds(index, len(out), 0, -len(out))
        return out if outcome == _DONE else super().add_rows(out, index, rows)

    def sum_into_rows(self, height: int, index: Array, rows: Array) -> Array:
        out = self.allocate_zeros((height, rows.shape[1]), rows.dtype)
        if self._add_slices(out, 0, index, rows) == _DONE:
            return out
        return super().sum_into_rows(height, index, rows)

    def index_write(self, x: Array, values: Array, indices: Indices, accumulate: bool = False) -> Array:
        dim = _added_dim(indices, values) if accumulate and values.dtype == x.dtype else None
        if dim is not None and values.shape == (*x.shape[:dim], *indices[dim].shape, *x.shape[dim + 1 :]):
            out = np.array(x, order="C")
            if self._add_slices(out, dim, indices[dim], values) == _DONE:
                return out
        return super().index_write(x, values, indices, accumulate)

    def _accumulate(self, shape: Sequence[int], indices: Indices, values: Array) -> Array:
        dim = _added_dim(indices, values)
        if dim is not None:
            index = indices[dim]
            full = (*shape[:dim], *index.shape, *shape[dim + 1 :])
            if values.shape != full:
                values = np.broadcast_to(values, full)
            out = self.allocate_zeros(shape, values.dtype)
            if self._add_slices(out, dim, index, values) == _DONE:
                return out
        return super()._accumulate(shape, indices, values)

    def _add_slices(self, out: Array, dim: int, index: Array, values: Array) -> int | None:
        """Add `values` to slices of the contiguous array `out` along a dim, and return the kernel's outcome.

        Negative indices count from the end. Without a kernel for these arrays, `out` stays as it is.
        """
        char = _ADDED.get(out.dtype.char)
        if char is None or values.dtype != out.dtype or index.dtype.kind != "i" or not out.flags.writeable:
            return None
        return self._run_indexed("add_slices", char, dim, True, np.ascontiguousarray(values), index, out)

    # -- an index for each element -----------------------------------------------------------------------------------

    def gather_along(self, x: Array, dim: int, index: Array) -> Array:
        kind = _kind_of(x)
        if kind is not None and (x.flags.c_contiguous or x.size <= _COPIED_PER_INDEX * index.size):
            out = np.empty(index.shape, x.dtype)
            if self._run_indexed("gather_along", kind, dim, False, np.ascontiguousarray(x), index, out) == _DONE:
                return out
        return super().gather_along(x, dim, index)

    def scatter_along(self, x: Array, dim: int, index: Array, src: Any) -> Array:
        kind = _kind_of(x)
        if kind is not None and x.ndim:
            values = np.asarray(src, x.dtype)
            if values.ndim:
                values = np.ascontiguousarray(self.cut(values, index))
            out = np.array(x, order="C")
            if self._run_indexed("scatter_along", kind, dim, False, values, index, out) == _DONE:
                return out
        return super().scatter_along(x, dim, index, src)

    def added_along(self, out: Array, dim: int, index: Array, src: Array) -> Array:
        char = _ADDED.get(out.dtype.char)
        if char is not None and src.dtype == out.dtype and out.ndim:
            total, values = np.ascontiguousarray(out), np.ascontiguousarray(self.cut(src, index))
            outcome = self._run_indexed("add_along", char, dim, False, values, index, total)
            if outcome == _DONE:
                return total
            if outcome == _OUT_OF_BOUNDS:
                self._raise_out_of_bounds(index, out.shape[dim], dim)
        return super().added_along(out, dim, index, src)

    def take_along(self, x: Array, index: Array, dim: int) -> Array:
        kind = _kind_of(x)
        if kind is not None and x.ndim and index.size:
            out = np.empty(index.shape, x.dtype)
            if self._run_indexed("gather_along", kind, dim, False, x, index, out) == _DONE:
                return out
        return super().take_along(x, index, dim)

    # -- calls -------------------------------------------------------------------------------------------------------

    def _run_indexed(
        self, name: str, kind: str, dim: int, negative: bool, source: Array, index: Array, target: Array
    ) -> int:
        """Run a kernel of `indexing.cpp`, which checks shapes, layouts and bounds, and return its outcome."""
        function = self._function(name, kind)
        positions = index if index.__class__ is np.ndarray and index.dtype is _INT64 else np.asarray(index, np.int64)
        if not positions.flags.c_contiguous:
            positions = np.ascontiguousarray(positions)
        outcome: int = function(dim, negative, calls.WORTH_A_THREAD, threads.available(), source, positions, target)
        return outcome

    def _raise_out_of_bounds(self, index: Array, size: int, dim: int, low: int = 0) -> None:
        """Raise the error for an index that a kernel has refused, also if another thread has changed it since."""
        self.check_bounds(index, size, dim, low)
        raise RuntimeError("indices were modified while they were in use")


def _added_dim(indices: Indices, values: Array) -> int | None:
    """Return the one dim that is indexed, by integers, if the kernels can add values of this dtype; else None."""
    present = [dim for dim, index in enumerate(indices) if index is not None]
    if len(present) != 1 or not values.size or values.dtype.char not in _ADDED or indices[present[0]].dtype.kind != "i":
        return None
    return present[0]
