"""Arithmetic of shapes and dims, with PyTorch's errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

__all__ = [
    "all_dims",
    "along",
    "axes",
    "check_count",
    "check_elements",
    "keep_reduced_dims",
    "reduced_size",
    "remove_reduced_dims",
    "wrap_dim",
]


#: A number of elements that exceeds any memory.
_MOST_ELEMENTS = 2**59

#: A number of results that exceeds any list.
_MOST_RESULTS = 2**27


def check_elements(shape: Sequence[int]) -> None:
    """Raise if a shape has more elements than an int64 can count or memory can hold.

    Raises
    ------
    RuntimeError
        If there are that many elements.
    """
    if shape and max(shape) > 0x7FFFFFFF and math.prod(shape) > _MOST_ELEMENTS:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")


def check_count(name: str, count: int) -> None:
    """Raise if a number of results or steps is so large that it must be a mistake, before any is computed.

    Raises
    ------
    RuntimeError
        If the count is larger than what one call can return.
    """
    if count > _MOST_RESULTS:
        raise RuntimeError(f"{name}: not enough memory for {count} results; at most {_MOST_RESULTS} are possible")


def wrap_dim(dim: int, ndim: int) -> int:
    """Return `dim` counted from the front.

    Raises
    ------
    IndexError
        If the dim is out of range.
    TypeError
        If the dim is not an integer.
    """
    if dim.__class__ is int and 0 <= dim < ndim:
        return dim
    bound = ndim or 1
    try:
        dim = index(dim)
    except TypeError:
        raise TypeError(f"argument 'dim' must be int, not {type(dim).__name__}") from None
    if not -bound <= dim < bound:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})")
    return dim + bound if dim < 0 else dim


def all_dims(dim: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Return the dims that a reduction over `dim` reduces, counted from the front; None and () mean all.

    Raises
    ------
    RuntimeError
        If a dim appears twice.
    """
    if dim is None:
        return tuple(range(ndim))
    if isinstance(dim, int) and ndim:
        return (wrap_dim(dim, ndim),)
    dims = tuple([wrap_dim(d, ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))])
    if not dims:
        return tuple(range(ndim))
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"dim {max(dims, key=dims.count)} appears multiple times in the list of dims")
    return dims if ndim else ()


def keep_reduced_dims(shape: Sequence[int], dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return `shape` with the reduced dims of size 1, as ``keepdim=True`` gives it."""
    if isinstance(dim, int) and shape:
        dim = wrap_dim(dim, len(shape))
        return (*shape[:dim], 1, *shape[dim + 1 :])
    dims = all_dims(dim, len(shape))
    return tuple([1 if i in dims else n for i, n in enumerate(shape)])


def remove_reduced_dims(shape: Sequence[int], dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return `shape` without the reduced dims."""
    dims = all_dims(dim, len(shape))
    return tuple([n for i, n in enumerate(shape) if i not in dims])


def reduced_size(shape: Sequence[int], dim: int | Sequence[int] | None) -> int:
    """Return the number of elements that a reduction over `dim` reduces to one."""
    return math.prod(shape[i] for i in all_dims(dim, len(shape)))


def axes(dim: int | Sequence[int] | None, ndim: int) -> tuple[int, ...] | None:
    """Return `dim` as kernels of reductions take it: None for all dims, else a tuple counted from the front."""
    if dim is None or dim == ():
        return None
    return (wrap_dim(dim, ndim),) if dim.__class__ is int and ndim else all_dims(dim, ndim)


def along(kernel: Callable[..., Any], x: Any, dim: int, *settings: Any) -> Any:
    """Run a kernel along one dim; a 0-dim array is passed as an array of one element."""
    dim = wrap_dim(dim, x.ndim)
    if x.ndim:
        return kernel(x, dim, *settings)
    out = kernel(x.reshape((1,)), 0, *settings)
    return tuple(o.reshape(()) for o in out) if isinstance(out, tuple) else out.reshape(())
