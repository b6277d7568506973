"""Rank filters, which select one element of each window.

The gradient goes to that element, or to the first of several equal ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import axis_of
from gradcore.scipy.conversion import write_output
from gradcore.scipy.ndimage.arguments import axes_of, extend, filterable, sequence

__all__ = [
    "maximum_filter", "maximum_filter1d", "median_filter", "minimum_filter", "minimum_filter1d", "percentile_filter",
    "rank_filter",
]  # fmt: skip


def _window(size: Any, footprint: Any, ndim: int) -> Any:
    """Return the window as a bool array of `ndim` dims, from `footprint` or `size`."""
    if footprint is not None:
        mask = np.asarray(footprint, dtype=bool)
        if mask.ndim != ndim:
            raise RuntimeError(f"footprint.ndim ({mask.ndim}) must match len(axes) ({ndim})")
        if not mask.any():
            raise ValueError("All-zero footprint is not supported.")
        return mask
    if size is None:
        raise RuntimeError("no footprint or filter size provided")
    sizes = sequence(size, ndim)
    if any(n < 1 for n in sizes):
        raise RuntimeError("incorrect filter size")
    return np.ones([int(n) for n in sizes], bool)


def _filter_by_rank(
    input: Any, rank: Any, size: Any, footprint: Any, output: Any, mode: Any, cval: Any, origin: Any, axes: Any
) -> AnyTensor:
    """Select the element of rank ``rank(n)`` from each window, where `n` is the number of elements of the window."""
    original, _ = filterable(input)
    if original._dtype.is_complex:
        raise TypeError("Complex type not supported")
    along = axes_of(axes, original.ndim)
    window = _window(size, footprint, len(along))
    modes, origins = sequence(mode, len(along)), sequence(origin, len(along))
    for o, n in zip(origins, window.shape, strict=True):
        if not 0 <= n // 2 + o < n:
            raise ValueError("invalid origin")
    rank = rank(int(window.sum()))
    x = extend(original, along, window.shape, modes, cval, origins)
    offsets = np.zeros((int(window.sum()), x.ndim), int)
    offsets[:, list(along)] = np.argwhere(window)
    result = F.select_rank(x, tuple(map(tuple, offsets.tolist())), tuple(original.shape), rank)
    return write_output(result, output, original._dtype)


def _resolve_rank(rank: int) -> Any:
    def resolve(count: int) -> int:
        result = rank + count if rank < 0 else rank
        if not 0 <= result < count:
            raise RuntimeError("rank not within filter footprint size")
        return result

    return resolve


def rank_filter(
    input: Any, rank: int, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect",
    cval: float = 0.0, origin: Any = 0, *, axes: Any = None,
) -> AnyTensor:  # fmt: skip
    """Return the element of rank `rank` of each window, as `scipy.ndimage.rank_filter`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.rank_filter(gc.tensor([3.0, 1.0, 2.0, 5.0]), 1, size=3)
    tensor([3., 2., 2., 5.])
    """
    return _filter_by_rank(input, _resolve_rank(rank), size, footprint, output, mode, cval, origin, axes)


def minimum_filter(
    input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect", cval: float = 0.0,
    origin: Any = 0, *, axes: Any = None,
) -> AnyTensor:  # fmt: skip
    """Return the smallest element of each window, as `scipy.ndimage.minimum_filter`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> x = gc.tensor([3.0, 1.0, 2.0, 5.0], requires_grad=True)
    >>> ndimage.minimum_filter(x, size=3).sum().backward()
    >>> x.grad
    tensor([0., 3., 1., 0.])
    """
    return _filter_by_rank(input, lambda n: 0, size, footprint, output, mode, cval, origin, axes)


def maximum_filter(
    input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect", cval: float = 0.0,
    origin: Any = 0, *, axes: Any = None,
) -> AnyTensor:  # fmt: skip
    """Return the largest element of each window, as `scipy.ndimage.maximum_filter`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.maximum_filter(gc.tensor([3.0, 1.0, 2.0, 5.0]), size=3)
    tensor([3., 3., 5., 5.])
    """
    return _filter_by_rank(input, lambda n: n - 1, size, footprint, output, mode, cval, origin, axes)


def median_filter(
    input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect", cval: float = 0.0,
    origin: Any = 0, *, axes: Any = None,
) -> AnyTensor:  # fmt: skip
    """Return the median of each window, as `scipy.ndimage.median_filter`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.median_filter(gc.tensor([3.0, 1.0, 2.0, 5.0]), size=3)
    tensor([3., 2., 2., 5.])
    """
    return _filter_by_rank(input, lambda n: n // 2, size, footprint, output, mode, cval, origin, axes)


def percentile_filter(
    input: Any, percentile: float, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect",
    cval: float = 0.0, origin: Any = 0, *, axes: Any = None,
) -> AnyTensor:  # fmt: skip
    """Return the element of each window at a percentile, as `scipy.ndimage.percentile_filter`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.percentile_filter(gc.tensor([3.0, 1.0, 2.0, 5.0]), 20, size=3)
    tensor([1., 1., 1., 2.])
    """
    percent = percentile + 100 if percentile < 0 else percentile
    if not 0 <= percent <= 100:
        raise RuntimeError("invalid percentile")

    def rank(n: int) -> int:
        return n - 1 if percent == 100 else int(n * percent / 100)

    return _filter_by_rank(input, rank, size, footprint, output, mode, cval, origin, axes)


def minimum_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: float = 0.0,
    origin: int = 0,
) -> AnyTensor:  # fmt: skip
    """Return the smallest element of each window along an axis, as `scipy.ndimage.minimum_filter1d`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.minimum_filter1d(gc.tensor([3.0, 1.0, 2.0, 5.0]), 3)
    tensor([1., 1., 1., 2.])
    """
    return minimum_filter(input, size, None, output, mode, cval, origin, axes=_axis(input, axis))


def maximum_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: float = 0.0,
    origin: int = 0,
) -> AnyTensor:  # fmt: skip
    """Return the largest element of each window along an axis, as `scipy.ndimage.maximum_filter1d`.

    Examples
    --------
    >>> from gradcore.scipy import ndimage
    >>> ndimage.maximum_filter1d(gc.tensor([3.0, 1.0, 2.0, 5.0]), 3)
    tensor([3., 3., 5., 5.])
    """
    return maximum_filter(input, size, None, output, mode, cval, origin, axes=_axis(input, axis))


def _axis(input: Any, axis: int) -> int:
    return axis_of(axis, filterable(input)[0].ndim)
