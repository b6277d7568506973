"""Kernels that reduce dimensions, written for any array library.

`dims` is None for all dimensions, otherwise a tuple of dimensions counted from the front. Results are arrays or NumPy
scalars, which the caller converts to arrays.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradcore.backends.kernel_rules import along, finds_extremum, indexes, native_body, native_rows, reduces

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["Reductions", "broadcast_dims"]

Dims = tuple[int, ...] | None


@functools.lru_cache(1024)
def broadcast_dims(shape: tuple[int, ...], original: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dims of `shape` along which an array of the shape `original` was broadcast to it."""
    lead = len(shape) - len(original)
    if lead < 0 or any(n not in (1, shape[i]) for i, n in enumerate(original, lead)):
        raise RuntimeError(f"size {{{list(original)}}} is not expandable to size {{{list(shape)}}}.")
    return (*range(lead), *(i for i, n in enumerate(original, lead) if n == 1 != shape[i]))


class Reductions:
    """Sums, products, extrema, norms and softmax over dims."""

    xp: Namespace
    div: Any
    log: Any
    host_scalars: bool

    # -- sums -----------------------------------------------------------------------------------------------------

    @along(1)
    @reduces("sum", "add", "row_sums", 1 << 14, 1 << 12, ("element", "a + b", "a", "0"), operations=("sum",))
    def sum_over(self, x: Array, dims: Dims = None, keepdim: bool = False, dtype: Any = None) -> Array:
        """Sum over dims. Integers and bools are summed in int64, unless one of gradcore's dtypes is given."""
        return self.xp.add.reduce(x, axis=dims, dtype=_sum_dtype(x, dtype), keepdims=keepdim)

    @reduces("sum")
    def sum_to_size(self, x: Array, shape: Sequence[int]) -> Array:
        """Sum the dimensions along which `shape` was broadcast to ``x.shape``."""
        dims = broadcast_dims(x.shape, tuple(shape))
        if dims:
            x = self.sum_over(x, dims)
        return x.reshape(shape)

    @native_body
    def product_to_size(self, x: Array, y: Array, shape: Sequence[int]) -> Array:
        """Return ``sum_to_size(x * y, shape)``, where the product has the shape of `x`."""
        return self.sum_to_size(x * y, shape)

    @along(1)
    @reduces("", cuda=("element == element ? static_cast<float>(element) : 0.f", "a + b", "a", "0"))
    def nansum_over(self, x: Array, dims: Dims = None, keepdim: bool = False, dtype: Any = None) -> Array:
        """Sum over dims, with NaN as zero."""
        if x.dtype.kind == "f":
            if self.host_scalars:
                total = self.sum_over(x, dims, keepdim, dtype)
                if not self.xp.isnan(total).any():
                    return total
            x = self.xp.where(x == x, x, self.xp.zeros((), x.dtype))
        return self.sum_over(x, dims, keepdim, dtype)

    @along(1)
    @reduces("mean", cuda=("element", "a + b", "a / (_in_ind.size() / _out_ind.size())", "0"), operations=("mean",))
    def mean_over(self, x: Array, dims: Dims = None, keepdim: bool = False, dtype: Any = None) -> Array:
        return self.sum_over(x, dims, keepdim, dtype) / _count(x.shape, dims)

    @reduces("", "add", "row_squares", 1 << 14)
    def squares_over(self, x: Array, dims: Dims, keepdim: bool) -> Array:
        """Sum of ``x * x`` over dims."""
        return self.sum_over(x * x, dims, keepdim)

    @along(2)
    def dot_over(self, x: Array, y: Array, dim: int) -> Array:
        """Sum of ``x * y`` over one dim, which stays with size 1."""
        return self.sum_over(x * y, (dim,), True)

    @along(1)
    def var_mean_over(self, x: Array, dims: Dims, correction: float, root: bool = False) -> tuple[Array, Array]:
        """Return the variance (or its root) and the mean over dims, which stay with size 1.

        The mean is computed first, then the squared distances from it. Where squares of float32 overflow, the variance
        is a float64, as its root may be in range.
        """
        xp = self.xp
        mean = self.mean_over(x, dims, True)
        total = self.squared_distances_over(x, mean, dims)
        if self.host_scalars and x.dtype == "float32" and not xp.isfinite(total).all():
            return self.var_mean_over(x.astype("float64"), dims, correction, root)[0], mean
        var = total / max(_count(x.shape, dims) - correction, 0.0)
        return xp.sqrt(var) if root else var, mean

    def squared_distances_over(self, x: Array, mean: Array, dims: Dims) -> Array:
        """Sum of ``abs(x - mean) ** 2`` over dims, which stay with size 1."""
        difference = self.xp.asarray(x - mean)
        if difference.dtype.kind == "c":
            square = difference.real * difference.real
            square += difference.imag * difference.imag
        else:
            square = self.xp.multiply(difference, difference, out=difference)
        return self.sum_over(square, dims, True)

    # -- products -------------------------------------------------------------------------------------------------

    @along(1)
    @reduces("", "multiply", "row_products", 1 << 13, cuda=("element", "a * b", "a", "1"))
    def prod_over(self, x: Array, dims: Dims = None, keepdim: bool = False, dtype: Any = None) -> Array:
        """Multiply over dims. Integers and bools are multiplied in int64, unless one of gradcore's dtypes is given."""
        return self.xp.multiply.reduce(x, axis=dims, dtype=_sum_dtype(x, dtype), keepdims=keepdim)

    @along(1)
    def prod_others_along(self, x: Array, dim: int) -> Array:
        """Return, for each element, the product of all others along a dim."""
        xp = self.xp
        zero = x == 0
        if self.host_scalars and not zero.any():
            return self.div(self.prod_over(x, (dim,), True), x)
        filled = xp.where(zero, xp.ones((), x.dtype), x)
        zeros = zero.sum(axis=dim, keepdims=True)
        # The product of the others is zero, unless the element is the only zero.
        return (zeros == zero) * self.div(self.prod_over(filled, (dim,), True), filled)

    # -- extrema --------------------------------------------------------------------------------------------------

    # On CUDA, NaN counts as larger and as smaller than any number.

    @along(1)
    @reduces(
        "max", "maximum", "row_maxima", 1 << 15, 1 << 12, ("element", "a != a || a > b ? a : b", "a", "-1.f / 0.f"),
        operations=("amax", "max_all"),
    )  # fmt: skip
    def max_over(self, x: Array, dims: Dims = None, keepdim: bool = False) -> Array:
        return x.max(axis=dims, keepdims=keepdim)

    @along(1)
    @reduces(
        "min", "minimum", "row_minima", 1 << 14, 1 << 12, ("element", "a != a || a < b ? a : b", "a", "1.f / 0.f"),
        operations=("amin", "min_all"),
    )  # fmt: skip
    def min_over(self, x: Array, dims: Dims = None, keepdim: bool = False) -> Array:
        return x.min(axis=dims, keepdims=keepdim)

    @along(1)
    @finds_extremum(">", "index", "argmax")
    def argmax_along(self, x: Array, dim: int, keepdim: bool = False) -> Array:
        """Return the index of the first maximum, or of the first NaN if there is one."""
        return self.keep_dim(x.argmax(axis=dim), dim, keepdim)

    @along(1)
    @finds_extremum("<", "index", "argmin")
    def argmin_along(self, x: Array, dim: int, keepdim: bool = False) -> Array:
        """Return the index of the first minimum, or of the first NaN if there is one."""
        return self.keep_dim(x.argmin(axis=dim), dim, keepdim)

    @along(1)
    @finds_extremum(">", "value index", "max_dim")
    def max_along(self, x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
        """Return the maximum along a dim and its index."""
        return self.take_at_index(x, x.argmax(axis=dim), dim, keepdim)

    @along(1)
    @finds_extremum("<", "value index", "min_dim")
    def min_along(self, x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
        """Return the minimum along a dim and its index."""
        return self.take_at_index(x, x.argmin(axis=dim), dim, keepdim)

    @along(2)
    def take_at_index(self, x: Array, index: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
        """Return the elements at an index along `dim`, which the index lacks, and the index."""
        kept_index = self.keep_dim(index, dim)
        values = self.take_along(x, kept_index, dim)
        return (values, kept_index) if keepdim else (values.reshape(index.shape), index)

    @along(2)
    def take_along(self, x: Array, index: Array, dim: int) -> Array:
        """Return the elements at `index` along a dim. The index has the other dims of `x`."""
        return self.xp.take_along_axis(x, index, dim)

    @along(1)
    def keep_dim(self, x: Array, dim: int, keepdim: bool = True) -> Array:
        """Return a reduced result, with the reduced dim as a dim of size 1 if `keepdim`."""
        return x.reshape((*x.shape[:dim], 1, *x.shape[dim:])) if keepdim else x

    @indexes("put", "each", "values shape dim index", place="values shape dim index")
    def put_along(self, x: Array, shape: tuple[int, ...], dim: int, index: Array) -> Array:
        """Return zeros of `shape` with the elements of `x` at `index` along a dim, where no index repeats."""
        out = self.xp.zeros(shape, x.dtype)
        self.xp.put_along_axis(out, index, x, dim)
        return out

    # -- tests ----------------------------------------------------------------------------------------------------

    @along(1)
    def any_over(self, x: Array, dims: Dims = None, keepdim: bool = False) -> Array:
        return x.any(axis=dims, keepdims=keepdim)

    @along(1)
    def all_over(self, x: Array, dims: Dims = None, keepdim: bool = False) -> Array:
        return x.all(axis=dims, keepdims=keepdim)

    @along(1)
    def count_over(self, x: Array, dims: Dims = None) -> Array:
        """Return the number of elements that are not zero."""
        result = self.xp.count_nonzero(x, axis=dims)
        # Before version 2.4, NumPy returns an int for a count over all dims.
        return self.xp.asarray(result) if result.__class__ is int else result

    def equal_or_nan(self, x: Array, y: Array) -> Array:
        """Return whether elements are equal, or both NaN."""
        equal = x == y
        if self.host_scalars and not (y != y).any():
            return equal
        return equal | ((x != x) & (y != y))

    # -- exponentials ---------------------------------------------------------------------------------------------

    @along(1)
    def logsumexp_over(self, x: Array, dims: Dims, keepdim: bool) -> Array:
        """Compute ``log(sum(exp(x)))`` over dims without overflow; -inf for no elements."""
        xp = self.xp
        if not x.size:
            return self.log(self.sum_over(xp.exp(x), dims, keepdim))
        top = self.max_over(x.real, dims, True)
        top = xp.where(xp.isfinite(top), top, xp.zeros((), top.dtype))
        total = self.sum_over(self.exp_less(x, top), dims, keepdim)
        return self.log(total) + (top if keepdim else top.reshape(total.shape))

    def exp_less(self, x: Array, top: Array) -> Array:
        """Compute ``exp(x - top)``."""
        shifted = self.xp.asarray(x - top)
        return self.xp.exp(shifted, out=shifted)

    @along(1)
    @native_rows("softmax", "rows -> rows", "dim", 32, "softmax softmax", softmax="dim dtype")
    def softmax_along(self, x: Array, dim: int) -> Array:
        """Compute ``exp(x) / sum(exp(x))`` along a dim."""
        if not x.size:
            return x.copy()
        out = self.exp_for_ratio(x, self.max_over(x, (dim,), True))
        out /= self.sum_over(out, (dim,), True)
        return out

    def exp_for_ratio(self, x: Array, top: Array) -> Array:
        """Return the exponentials of `x` up to a factor, which cancels in a ratio: here ``exp(x - top)``.

        Elements that share an element of `top`, their maximum, have the same factor.

        `top` are the maxima.
        """
        return self.exp_less(x, top)

    @along(1)
    @native_rows("log_softmax", "rows -> rows", "dim", 32, "softmax softmax logarithm", log_softmax="dim dtype")
    def log_softmax_along(self, x: Array, dim: int) -> Array:
        """Compute ``x - log(sum(exp(x)))`` along a dim."""
        if not x.size:
            return x.copy()
        out = x - self.max_over(x, (dim,), True)
        out -= self.xp.log(self.sum_over(self.xp.exp(out), (dim,), True))
        return out

    @along(2)
    @native_rows("softmax_backward", "rows rows -> rows", "dim", 32, "softmax softmax_backward", softmax_backward="dim")
    def softmax_product(self, t: Array, y: Array, dim: int) -> Array:
        """Return the product of softmax's (symmetric) Jacobian matrix at the result `y` with `t`."""
        out = t - self.dot_over(t, y, dim)
        out *= y
        return out

    @along(2)
    @native_rows(
        "log_softmax_backward", "rows rows -> rows", "dim", 32, "softmax softmax_backward logarithm",
        log_softmax_backward="dim",
    )  # fmt: skip
    def log_softmax_transposed(self, t: Array, y: Array, dim: int) -> Array:
        """Return the product of log_softmax's transposed Jacobian matrix at the result `y` with `t`."""
        out = self.xp.exp(y)
        out *= self.sum_over(t, (dim,), True)
        return self.xp.subtract(t, out, out=out)


def _sum_dtype(x: Array, dtype: Any) -> Any:
    """Return the NumPy dtype in which to sum, or None for that of `x`."""
    if dtype is not None:
        return dtype.numpy
    return "int64" if x.dtype.kind in "biu" else None


def _count(shape: tuple[int, ...], dims: Dims) -> int:
    """Return the number of elements that a reduction over dims combines."""
    return math.prod(shape if dims is None else [shape[d] for d in dims])
