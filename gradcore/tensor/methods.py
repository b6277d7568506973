"""The methods of tensors that are made from the table of operations; ``methods.pyi`` says what they are."""

from __future__ import annotations

__all__ = ["Methods"]


class Methods:
    """A base of `Tensor`, for type checkers."""

    __slots__ = ()
