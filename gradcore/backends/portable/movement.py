"""Kernels that rearrange elements, which return views where the array library can create one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.kernel_rules import leading
from gradcore.core import dtypes

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["Movement"]


class Movement:
    """Kernels that change shapes and the order of elements, or that split and join arrays."""

    xp: Namespace

    # -- views ------------------------------------------------------------------------------------------------------

    def shares_memory(self, view: Any, x: Array) -> bool:
        """Return whether `view`, which was made from `x`, is a view of its memory rather than a copy."""
        return getattr(view, "base", None) is x or _owner(view) is _owner(x)

    def restride(self, x: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
        """Return a view that starts at the first element of `x` and has these sizes, and strides in bytes."""
        view: Array = self.xp.lib.stride_tricks.as_strided(x, shape, strides)
        return view

    def broadcast_view(self, x: Array, shape: Sequence[int]) -> Array:
        """Return a view broadcast to `shape`."""
        return self.xp.broadcast_to(x, shape)

    def view_dtype_kernel(self, x: Array, dtype: Any) -> Array:
        """Return a view of the memory of `x` in another of gradcore's dtypes."""
        new, old = dtype.numpy, x.dtype
        if new.itemsize == old.itemsize:
            return x.view(new)
        names = f"to view {dtypes.from_numpy(old).scalar_name} as {dtype.scalar_name} (different element sizes)"
        if not x.ndim:
            raise RuntimeError(f"self.dim() cannot be 0 {names}")
        step = x.strides[-1] // old.itemsize
        if step != 1 and x.shape[-1] > 1:
            raise RuntimeError(f"self.stride(-1) must be 1 {names}, but got {step}")
        if x.shape[-1] * old.itemsize % new.itemsize:
            ratio = new.itemsize // old.itemsize
            raise RuntimeError(f"self.size(-1) must be divisible by {ratio} {names}, but got {x.shape[-1]}")
        return x.view(new)

    def diagonal_of(self, x: Array, offset: int, dim1: int, dim2: int) -> Array:
        """Return the diagonal as a view, which is writable if `x` is."""
        out = x.diagonal(offset, dim1, dim2)
        if not getattr(out.flags, "writeable", True) and x.flags.writeable:  # CuPy's arrays always are
            out.flags.writeable = True
        return out

    def view_memory(self, x: Array, shape: Sequence[int], strides: Sequence[int], offset: int) -> Array:
        """Return a view of the memory that `x` belongs to. `offset` counts elements from the first one of `x`.

        Raises
        ------
        RuntimeError
            If it has elements outside of that memory.
        """
        shape, strides = tuple(map(index, shape)), tuple(map(index, strides))
        memory, offset = self.memory_of(x), index(offset) + self.geometry_of(x)[1]
        if min(shape, default=0) < 0 or len(shape) != len(strides):
            raise RuntimeError(
                f"as_strided: sizes {list(shape)} and strides {list(strides)} cannot be those of a tensor"
            )
        if 0 in shape:
            return memory[:0].reshape(shape)
        distances = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        extent = 1 + offset + sum(r for r in distances if r > 0)
        if offset + sum(r for r in distances if r < 0) < 0 or extent > memory.size:
            raise RuntimeError(
                f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, and itemsize "
                f"{x.itemsize} requiring a storage size of {extent * x.itemsize} are out of bounds for storage of size "
                f"{memory.size * x.itemsize}"
            )
        if math.prod(shape) * x.itemsize >= 2**63:
            raise RuntimeError(f"as_strided: a tensor of sizes {list(shape)} has too many elements")
        # Dims of one element may have any stride; one that overflows becomes 0.
        steps = [s * x.itemsize if abs(s * x.itemsize) < 2**63 else 0 for s in strides]
        return self.restride(memory[offset:], shape, steps)

    def memory_of(self, x: Array) -> Array:
        """Return the whole memory block that `x` belongs to, as a vector.

        It may contain elements that are not part of any tensor.
        """
        owner = _owner(x)
        flat = owner.reshape(-1) if owner.flags.c_contiguous else self._span(owner)
        if flat.dtype == x.dtype:
            return flat
        if flat.nbytes % x.itemsize:
            flat = flat.view("u1")[: flat.nbytes // x.itemsize * x.itemsize]
        return flat.view(x.dtype)

    def place_in_memory(self, x: Array) -> tuple[int, int]:
        """Return the bytes of the memory block of `x` before its first element, and of the whole block."""
        memory = self.memory_of(x)
        return self.address(x) - self.address(memory), memory.nbytes

    def owner_of(self, x: Array) -> Array:
        """Return the array that owns the memory of `x`: itself, unless it is a view."""
        return _owner(x)

    def own_header(self, x: Array) -> Array:
        """Return an array on the same memory that is a view of no other array; here `x` itself."""
        return x

    def _span(self, x: Array) -> Array:
        """Return, as a vector, the memory from the lowest to the highest address among the elements of `x`."""
        if not x.size or any(s % x.itemsize for s in x.strides):
            raise RuntimeError("a tensor whose strides are no multiples of its element size has no storage: clone it")
        lowest = x[tuple(slice(None, None, -1 if s < 0 else 1) for s in x.strides)]
        count = 1 + sum((n - 1) * s for n, s in zip(lowest.shape, lowest.strides, strict=True)) // x.itemsize
        return self.restride(lowest, (count,), (x.itemsize,))

    def geometry_of(self, x: Array) -> tuple[tuple[int, ...], int]:
        """Return the strides and the offset of `x` in its memory, in elements."""
        owner = _owner(x)
        low = self.address(owner) + sum((n - 1) * s for n, s in zip(owner.shape, owner.strides, strict=True) if s < 0)
        start = self.address(x) - low
        if start % x.itemsize or any(s % x.itemsize for s, n in zip(x.strides, x.shape, strict=True) if n > 1):
            raise RuntimeError("a tensor whose strides are no multiples of its element size has no storage: clone it")
        return tuple(s // x.itemsize for s in x.strides), start // x.itemsize

    def address(self, x: Any) -> int:
        """Return the address of the first element of `x`."""
        return int(x.__array_interface__["data"][0])

    def locations(self, shape: Sequence[int], strides: Sequence[int], offset: int) -> Array:
        """Return the flat positions in memory of the elements of a view with these sizes and strides."""
        positions = self.xp.full((), offset, "int64")
        for n, s in zip(shape, strides, strict=True):
            positions = positions[..., None] + self.xp.arange(n) * s
        return positions.reshape(-1)

    def windows_of(self, x: Array, dim: int, size: int, step: int) -> Array:
        """Return the windows along a dim as a view, with a new last dim for the elements of each."""
        size, step = index(size), index(step)
        if step < 1 or not 0 <= size <= x.shape[dim]:
            raise RuntimeError(
                f"unfold: windows of size {size} in steps of {step} are not within a dim of {x.shape[dim]}"
            )
        count = (x.shape[dim] - size) // step + 1
        shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
        stride = x.strides[dim] * step if count > 1 or step < 2**31 else 0
        strides = (*x.strides[:dim], stride, *x.strides[dim + 1 :], x.strides[dim])
        return self.restride(x, shape, strides)

    def unfold_dim_backward(self, grad: Array, shape: Sequence[int], dim: int, size: int, step: int) -> Array:
        """Return an array of `shape` in which the windows `grad` are summed where they overlap."""
        if not shape:
            return grad.sum().reshape(())
        out = self.xp.zeros(shape, grad.dtype)
        count, lead = grad.shape[dim], (slice(None),) * dim
        if step >= size and size:
            self.windows_of(out, dim, size, step)[...] = grad
            return out
        for k in range(size):
            out[(*lead, slice(k, k + (count - 1) * step + 1, step))] += grad[..., k]
        return out

    # -- rearrangements -----------------------------------------------------------------------------------------------

    def contiguous(self, x: Array) -> Array:
        return self.xp.ascontiguousarray(x)

    @leading(2)
    def adjoint(self, x: Array) -> Array:
        """Return the conjugate transpose of the last two dims."""
        return x.swapaxes(-2, -1).conj()

    def reverse_dims(self, x: Array, dims: Sequence[int]) -> Array:
        """Return a copy with the elements in reverse order along `dims`, counted from the front."""
        return x[tuple(slice(None, None, -1) if d in dims else slice(None) for d in range(x.ndim))].copy()

    def tile_array(self, x: Array, repeats: Sequence[int]) -> Array:
        """Return copies of `x` side by side. `repeats` has at least as many elements as `x` has dims."""
        shape = (1,) * (len(repeats) - x.ndim) + x.shape
        out = self.xp.empty([n * r for n, r in zip(shape, repeats, strict=True)], x.dtype)
        split = out.reshape([k for n, r in zip(shape, repeats, strict=True) for k in (r, n)])
        split[...] = x.reshape([k for n in shape for k in (1, n)])
        return out

    # -- joins --------------------------------------------------------------------------------------------------------

    def join_arrays(self, arrays: Sequence[Array], dim: int) -> Array:
        """Concatenate arrays along a dim, in their common dtype."""
        return self.xp.concatenate(self.alike(arrays), axis=dim)

    def alike(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """Return the arrays in their common dtype, by PyTorch's rules."""
        first = arrays[0].dtype
        if all(a.dtype == first for a in arrays):
            return arrays
        kinds = [dtypes.from_numpy(a.dtype) for a in arrays]
        dims = [k for k, a in zip(kinds, arrays, strict=True) if a.ndim]
        common = dtypes.result_dtype(dims, [k for k, a in zip(kinds, arrays, strict=True) if not a.ndim], []).numpy
        return [a.astype(common) for a in arrays]

    def block_diagonal(self, blocks: Sequence[Any]) -> Array:
        """Return a matrix with the given matrices along its diagonal, and zeros elsewhere."""
        blocks = self.alike(blocks)
        rows, columns = zip(*(b.shape for b in blocks), strict=True)
        out = self.xp.zeros((sum(rows), sum(columns)), blocks[0].dtype)
        for block, i, j in zip(blocks, itertools.accumulate(rows), itertools.accumulate(columns), strict=True):
            out[i - block.shape[0] : i, j - block.shape[1] : j] = block
        return out

    def broadcast_shapes(self, *shapes: Sequence[int]) -> tuple[int, ...]:
        return np.broadcast_shapes(*shapes)

    def zeros(self, shape: Sequence[int], dtype: Any) -> Any:
        return self.xp.zeros(shape, dtype)


def _owner(x: Array) -> Array:
    """Return the array that owns the memory of `x`: itself, unless it is a view."""
    owner, base = x, getattr(x, "base", None)
    while base is not None:
        if hasattr(base, "dtype"):
            # NumPy's `as_strided` inserts a base that is no array.
            owner = base
        base = getattr(base, "base", None)
    return owner
