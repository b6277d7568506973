"""The shape of a tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from operator import index
from typing import Any, SupportsIndex

__all__ = ["Size", "contiguous_strides", "size_of"]


class Size(tuple[int, ...]):
    """A tensor's shape: a tuple of ints that prints as PyTorch's.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.zeros(3, 4).shape
    torch.Size([3, 4])
    >>> gradcore.Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[SupportsIndex] = ()) -> Size:
        result = tuple(sizes)
        for i, n in enumerate(result):
            if n.__class__ is not int:
                if not hasattr(n, "__index__"):
                    raise TypeError(f"torch.Size() takes an iterable of 'int' (item {i} is '{type(n).__name__}')")
                result = (*result[:i], index(n), *result[i + 1 :])
        return tuple.__new__(cls, result)

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def numel(self) -> int:
        """Return the number of elements of a tensor of this shape."""
        n = 1
        for size in self:
            n *= size
        return n

    def __getitem__(self, index: Any) -> Any:
        result = tuple.__getitem__(self, index)
        return size_of(result) if index.__class__ is slice else result

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __mul__(self, n: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, n))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)


#: The `Size` of an array's shape.
size_of = partial(tuple.__new__, Size)


def contiguous_strides(shape: Sequence[int], step: int = 1) -> tuple[int, ...]:
    """Return the strides of a contiguous layout of `shape`, with `step` between neighbouring elements."""
    strides = []
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))
