"""Compact layouts: which elements of memory an array uses, and where they are after gaps are removed."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

__all__ = ["Layout"]


class Layout(NamedTuple):
    """Layout of an array in the order of addresses: strides from the largest to the smallest, and sizes."""

    strides: tuple[int, ...]
    sizes: tuple[int, ...]
    #: The dims of the array in this order, and the offset of its first element in the memory, in elements.
    dims: tuple[int, ...]
    below: int

    @classmethod
    def of(cls, x: Any) -> Self | None:
        """Return the layout of an array, or None if elements overlap or are not aligned to their size."""
        if any(s % x.itemsize for s in x.strides):
            return None
        dims = [d for d in range(x.ndim) if x.shape[d] > 1 and x.strides[d]]
        dims.sort(key=lambda d: -abs(x.strides[d]))
        strides = tuple(abs(x.strides[d]) // x.itemsize for d in dims)
        sizes = tuple(x.shape[d] for d in dims)
        last_offset = 0
        for s, n in zip(reversed(strides), reversed(sizes), strict=True):
            if s <= last_offset:
                return None
            last_offset += (n - 1) * s
        below = sum((x.shape[d] - 1) * -x.strides[d] for d in dims if x.strides[d] < 0) // x.itemsize
        return cls(strides, sizes, tuple(dims), below if x.size else 0) if x.size else cls((), (0,), (), 0)

    @property
    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self.sizes)

    def remove_gaps(self, x: Any) -> Any:
        """Return the elements of the array as a dense array, in the order of addresses."""
        if not x.size:
            return x.reshape(-1)
        key = tuple(
            0 if d not in self.dims else slice(None, None, -1) if x.strides[d] < 0 else slice(None)
            for d in range(x.ndim)
        )
        dims = sorted(self.dims)
        return x[key].transpose([dims.index(d) for d in self.dims])

    def place_of(self, view: Any, offset: int) -> tuple[int, tuple[int, ...]] | None:
        """Return the offset and strides of a view after gaps are removed.

        Parameters
        ----------
        view : array
            A view of the same memory.
        offset : int
            The offset in bytes from the first element of the array to the first element of the view.

        Returns
        -------
        tuple or None
            None where it has negative strides, or elements that are not the array's.
        """
        if offset % view.itemsize or any(s % view.itemsize or s < 0 for s in view.strides):
            return None
        if not view.size:
            return 0, tuple(s // view.itemsize for s in view.strides)
        steps = [s // view.itemsize if n > 1 else 0 for s, n in zip(view.strides, view.shape, strict=True)]
        offset = offset // view.itemsize + self.below
        if math.prod(self.sizes) == 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True)):
            return offset, tuple(s // view.itemsize for s in view.strides)  # there are no gaps
        splits = [split for split in map(self._split, (offset, *steps)) if split is not None]
        if len(splits) <= len(steps):
            return None
        for dim, n in enumerate(self.sizes):
            if splits[0][dim] + sum((m - 1) * c[dim] for m, c in zip(view.shape, splits[1:], strict=True)) >= n:
                return None
        packed = [math.prod(self.sizes[dim + 1 :]) for dim in range(len(self.sizes))]
        joined = [sum(k * p for k, p in zip(c, packed, strict=True)) for c in splits]
        return joined[0], tuple(joined[1:])

    def _split(self, step: int) -> list[int] | None:
        """Return `step` as a number of steps along each dim."""
        counts = []
        for stride in self.strides:
            count, step = divmod(step, stride)
            counts.append(count)
        return None if step else counts
