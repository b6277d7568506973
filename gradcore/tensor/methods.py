"""Methods of tensors that are created from the table of operations; ``methods.pyi`` declares them."""

from __future__ import annotations

__all__ = ["Methods"]


class Methods:
    """Base of `Tensor` that declares its methods to type checkers."""

    __slots__ = ()
