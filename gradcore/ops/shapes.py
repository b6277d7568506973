"""Arithmetic of shapes and dims, with PyTorch's errors."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["all_dims", "kept", "wrap_dim"]


def wrap_dim(dim: int, ndim: int) -> int:
    """`dim` counted from the front.

    Raises
    ------
    IndexError
        If there is no such dim.
    """
    bound = ndim or 1
    if not -bound <= dim < bound:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})"
        )
    return dim + bound if dim < 0 else dim


def all_dims(dim: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """The dims that a reduction over `dim` reduces, counted from the front; None and () mean all.

    Raises
    ------
    RuntimeError
        If a dim appears twice.
    """
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(ndim))
    dims = tuple(wrap_dim(d, ndim) for d in ((dim,) if isinstance(dim, int) else dim))
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"dim {max(dims, key=dims.count)} appears multiple times in the list of dims")
    return dims if ndim else ()


def kept(shape: Sequence[int], dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """`shape` with the reduced dims of size 1, as ``keepdim=True`` gives it."""
    dims = all_dims(dim, len(shape))
    return tuple(1 if i in dims else n for i, n in enumerate(shape))
