"""The shape of a tensor."""

from __future__ import annotations

from typing import Any

__all__ = ["Size"]


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

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        n = 1
        for size in self:
            n *= size
        return n

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __mul__(self, n: Any) -> Size:
        return Size(tuple.__mul__(self, n))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)
