"""Argument checks of linear algebra on arrays and tensors, with PyTorch's error messages."""

from __future__ import annotations

from math import prod
from typing import Any

from gradcore.ops.declare.checks import dtype_of

__all__ = ["check_floating", "check_matrix", "check_solvable", "check_square", "is_vector"]


def check_floating(caller: str, x: Any) -> None:
    """Raise if `x` holds integers or bools."""
    dtype = dtype_of(x)
    if not dtype.is_differentiable:
        raise RuntimeError(f"{caller}: Expected a floating point or complex tensor as input. Got {dtype.scalar_name}")


def check_matrix(caller: str, x: Any, name: str = "A") -> None:
    """Raise if `x` is not a batch of matrices."""
    if x.ndim < 2:
        raise RuntimeError(f"{caller}: The input tensor {name} must have at least 2 dimensions.")


def check_square(caller: str, x: Any, floating: bool = True) -> None:
    """Raise if `x` is not a batch of square matrices, of floating-point numbers if `floating`."""
    check_matrix(caller, x)
    if x.shape[-2] != x.shape[-1]:
        raise RuntimeError(
            f"{caller}: A must be batches of square matrices, but they are {x.shape[-2]} by {x.shape[-1]} matrices"
        )
    if floating:
        check_floating(caller, x)


def is_vector(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether right-hand sides of the shape `other` are one vector for each matrix of `shape`."""
    return len(other) == 1 or (len(other) == len(shape) - 1 and tuple(other) == tuple(shape[:-1]))


def check_solvable(caller: str, a: Any, b: Any, left: bool, vector: bool = False) -> None:
    """Raise if the shapes or dtypes of ``a @ x = b``, or of ``x @ a = b`` if not `left`, do not fit."""
    check_square(caller, a)
    first, second = (dtype_of(x) for x in (a, b))
    if first is not second:
        raise RuntimeError(
            f"{caller}: Expected A and B to have the same dtype, but found A of type {first.scalar_name} and B of type "
            f"{second.scalar_name} instead"
        )
    for back in range(3, min(a.ndim, b.ndim) + 1):
        if a.shape[-back] != b.shape[-back] and 1 not in (a.shape[-back], b.shape[-back]):
            raise RuntimeError(
                f"The size of tensor a ({b.shape[-back]}) must match the size of tensor b ({a.shape[-back]}) at "
                f"non-singleton dimension {max(a.ndim, b.ndim) - back}"
            )
    rows, columns = (b.shape[-1], 1) if vector else tuple(b.shape[-2:])
    if (rows if left else columns) != a.shape[-1]:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{caller}: Incompatible shapes of A and B for the equation {equation} "
            f"({a.shape[-2]}x{a.shape[-1]} and {rows}x{columns})"
        )


def check_reshapable(what: str, shape: tuple[int, ...], split: int) -> None:
    """Raise if the dims before and after `split` do not make a square matrix."""
    rows, columns = prod(shape[:split]), prod(shape[split:])
    if rows != columns:
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[{what}:]) == prod(self.shape[:{what}]), "
            f"but got {columns} != {rows}"
        )
