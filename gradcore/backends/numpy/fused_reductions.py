"""Sums of ``x * y`` over broadcast dims that do not store the product, for the gradients of products."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt
from typing import Any

import numpy as np

from gradcore.backends.numpy import threads
from gradcore.backends.numpy.matmul import blas_alone
from gradcore.backends.numpy.row_blocks import LONG, TALL
from gradcore.core.typing import NamedTuple

__all__ = ["dots_of_columns", "sums_of_products"]

#: Columns from which dot products are faster than a product and a sum; elements from which a thread pays off.
_WIDE, _WORTH_A_THREAD = 64, 1 << 20
#: Elements that one call of BLAS multiplies and adds; the least number of rows for one call of `numpy.einsum`.
_ROW, _ROWS = 1024, 1024


class _Dims(NamedTuple):
    """Merged adjacent dims of `x`.

    Attributes
    ----------
    size : int
        Number of elements.
    stay : bool
        Whether the result has these dims, so that they are not summed over.
    of_both : bool
        Whether `y` has these dims, too.
    """

    size: int
    stay: bool
    of_both: bool


def sums_of_products(F: Any, x: Any, y: Any, shape: tuple[int, ...]) -> Any:
    """Sum ``x * y`` to `shape`: over the dims of `x` that `shape` lacks, or in which it has one element.

    Returns None if multiplying first is as fast, or if the dims form more than two groups in the sense of `_Dims`.
    """
    if x.dtype != y.dtype or x.dtype.char not in "fd" or not (_is_dense(x) and _is_dense(y)):
        return None
    dims = _merge_dims(x.shape, y.shape, shape)
    added = [each for each in dims if not each.stay]
    if not added or len(dims) > 2 or not all(each.of_both for each in added):
        return None
    with blas_alone(x.size):
        result = (
            _dot(F, x, y)
            if len(dims) == 1
            else _sum_rows_or_columns(F, x.reshape([each.size for each in dims]), y, *dims)
        )
    return None if result is None else result.reshape(shape)


def _is_dense(x: Any) -> bool:
    return bool(x.flags.c_contiguous and x.flags.aligned)


def _merge_dims(whole: tuple[int, ...], other: tuple[int, ...], target: tuple[int, ...]) -> list[_Dims]:
    """Merge adjacent dims of the shape `whole` if `target` has both or neither of them, and `other` likewise."""
    results: list[_Dims] = []
    for i, n in enumerate(whole):
        if n != 1:
            is_kept, of_both = (
                each[i - len(whole)] == n if len(whole) - i <= len(each) else False for each in (target, other)
            )
            if results and results[-1][1:] == (is_kept, of_both):
                results[-1] = _Dims(results[-1].size * n, is_kept, of_both)
            else:
                results.append(_Dims(n, is_kept, of_both))
    return results


def _dot(F: Any, x: Any, y: Any) -> Any:
    """Return the sum of all products."""
    x, y = x.reshape(-1), y.reshape(-1)
    end = len(x) // _ROW * _ROW
    total = F.row_dots(x[:end].reshape(-1, _ROW), y[:end].reshape(-1, _ROW)).sum()
    return np.asarray(total + x[end:].dot(y[end:]))


def _sum_rows_or_columns(F: Any, x: Any, y: Any, first: _Dims, second: _Dims) -> Any:
    """Sum ``x * y`` over the rows or the columns of a matrix. Return None where BLAS would be imprecise."""
    if not first.of_both:
        return F.times_vector(x, y.reshape(-1)) if second.size < LONG else None
    if not second.of_both:
        return F.sum_of_rows(y.reshape(-1), x) if first.size < TALL else None
    if x.shape[1] < _WIDE or (first.stay and second.size >= LONG):
        return None
    y = y.reshape(x.shape)
    return F.column_dots(x, y) if second.stay else F.row_dots(x, y)


def dots_of_columns(x: Any, y: Any) -> Any:
    """Return the dot products of the columns of two contiguous matrices of one dtype.

    `numpy.einsum` adds one row after the other, which loses precision, so it gets blocks of rows. Their sums are added
    at the end.
    """
    step = max(_ROWS, isqrt(len(x)))
    result = np.empty((-(-len(x) // step), x.shape[1]), x.dtype)

    def run_numbers(numbers: Iterator[int]) -> None:
        for i in numbers:
            rows = slice(i * step, i * step + step)
            np.einsum("ij,ij->j", x[rows], y[rows], out=result[i])

    threads.share(run_numbers, len(result), x.size // _WORTH_A_THREAD)
    return np.add.reduce(result, 0)
