"""Kernels of cumulative operations along a dimension, written for any array library.

Recurrences are computed by doubling: after step s every element covers the 2**s elements up to it, so the number of
array operations grows with the logarithm of the dimension's size.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gradcore.backends.kernel_rules import along, native_rows

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["Cumulative"]


def _from(dim: int, start: int | None, stop: int | None = None) -> tuple[slice, ...]:
    """Return an index that takes the range from `start` to `stop` along `dim`."""
    return (slice(None),) * dim + (slice(start, stop),)


class Cumulative:
    """Cumulative sums, products and extrema along one dimension, which is counted from the front."""

    xp: Namespace
    log1p: Any
    equal_or_nan: Any  # of the reductions

    @along(1)
    @native_rows(
        "cumulative_sum", "rows -> rows", "dim number dtype", cumsum="dim dtype", cumsum_backward="dim number=1"
    )
    def cumsum_along(self, x: Any, dim: int, reverse: bool = False, dtype: Any = None) -> Array:
        """Sum up to each element, or from each element on if `reverse`."""
        result_dtype = dtype.numpy if dtype is not None else "int64" if x.dtype.kind in "biu" else None
        if not reverse:
            return self.xp.cumsum(x, axis=dim, dtype=result_dtype)
        return self.xp.flip(self.xp.cumsum(self.xp.flip(x, dim), axis=dim, dtype=result_dtype), dim)

    @along(1)
    @native_rows("cumulative_product", "rows -> rows", "dim dtype", cumprod="dim dtype")
    def cumprod_along(self, x: Any, dim: int, dtype: Any = None) -> Array:
        """Multiply up to each element."""
        result_dtype = dtype.numpy if dtype is not None else "int64" if x.dtype.kind in "biu" else None
        return self.xp.cumprod(x, axis=dim, dtype=result_dtype)

    @along(1)
    def shift_along(self, x: Array, dim: int, by: int, fill: float = 0) -> Array:
        """Return the elements moved by one position (back if `by` is -1), with `fill` at the free end."""
        out = self.xp.full(x.shape, fill, x.dtype)
        out[_from(dim, 1) if by > 0 else _from(dim, None, -1)] = x[_from(dim, None, -1) if by > 0 else _from(dim, 1)]
        return out

    @along(2)
    @native_rows("scan", "rows rows -> rows", "dim number", scan="dim number")
    def scan_along(self, factor: Array, term: Any, dim: int, reverse: bool = False) -> Any:
        """Compute ``out[i] = factor[i] * out[i - 1] + term[i]`` along a dim, from the end backwards if `reverse`."""
        xp = self.xp
        if reverse:
            return xp.flip(self.scan_along(xp.flip(factor, dim), xp.flip(term, dim), dim), dim)
        out = term.astype(xp.result_type(factor, term))  # a copy
        factor = factor.copy()
        step = 1
        while step < out.shape[dim]:
            later, earlier = _from(dim, step), _from(dim, None, -step)
            out[later] += factor[later] * out[earlier]
            factor[later] *= factor[earlier].copy()
            step *= 2
        return out

    @along(1)
    @native_rows("cumulative_extremum", "rows -> rows index", "dim", cummax="dim")
    def cummax_along(self, x: Array, dim: int) -> tuple[Array, Array]:
        """Return the maxima up to each element, and the index of the last element equal to each.

        From the first NaN on, maxima are NaN.
        """
        return self.with_last_index(x, self.running_max(x, dim), dim)

    @along(1)
    @native_rows("cumulative_extremum", "rows -> rows index", "dim number=1", cummin="dim")
    def cummin_along(self, x: Array, dim: int) -> tuple[Array, Array]:
        """Return the minima up to each element, and the index of the last element equal to each.

        From the first NaN on, minima are NaN.
        """
        return self.with_last_index(x, self.running(self.xp.minimum, x, dim), dim)

    @along(2)
    def with_last_index(self, x: Array, running: Any, dim: int) -> tuple[Array, Array]:
        """Return the running extrema, and for each the index of the last element of `x` that equals it."""
        xp = self.xp
        position = xp.arange(x.shape[dim]).reshape((-1,) + (1,) * (x.ndim - dim - 1))
        is_extremum = self.equal_or_nan(x, running)
        return running, self.running_max(xp.where(is_extremum, position, 0), dim)

    @along(1)
    def running_max(self, x: Array, dim: int = -1) -> Array:
        return self.running(self.xp.maximum, x, dim % x.ndim)

    def running(self, function: Any, x: Array, dim: int) -> Array:
        """Accumulate along a dim with an associative function of two arrays."""
        out = x.copy()
        step = 1
        while step < out.shape[dim]:
            later, earlier = _from(dim, step), _from(dim, None, -step)
            out[later] = function(out[later], out[earlier])
            step *= 2
        return out

    @along(1)
    def logcumsumexp_along(self, x: Any, dim: int) -> Any:
        """Return the logarithms of the sums of exponentials up to each element."""
        if x.dtype.kind != "c":
            return self.running(self.xp.logaddexp, x, dim)
        # One element after another, because the order determines which multiple of 2 pi the imaginary part gets.
        # As in PyTorch, exp(-inf) is 0 for every imaginary part, and a NaN in one part makes both parts NaN.
        x = self.xp.where((x.real == -math.inf) & ~self.xp.isnan(x), x.dtype.type(complex(-math.inf, 0)), x)
        x = self.xp.where(self.xp.isnan(x), x.dtype.type(complex(math.nan, math.nan)), x)
        out = self.xp.moveaxis(x, dim, 0)
        for i in range(1, len(out)):
            out[i] = self.complex_logaddexp(out[i - 1], out[i])
        return self.xp.moveaxis(out, 0, dim)

    def complex_logaddexp(self, x: Array, y: Array) -> Any:
        """Compute ``log(exp(x) + exp(y))`` of complex numbers, relative to the one with the greater real part."""
        xp = self.xp
        swap = x.real < y.real
        large, small = xp.where(swap, y, x), xp.where(swap, x, y)
        # For infinities of the same sign, only the imaginary parts are subtracted, because inf - inf is NaN.
        angle = (small.imag - large.imag) * x.dtype.type(1j)
        difference = xp.where(xp.isinf(large.real) & (small.real == large.real), angle, small - large)
        return large + self.log1p(xp.exp(difference))
