"""Cumulative operations along a dim, differences, and integrals by the trapezoid rule."""

from __future__ import annotations

import math

from gradcore.core import dtypes
from gradcore.ops.declare.annotations import DType, Scalar
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import along, wrap_dim
from gradcore.ops.declare.table import composite, general, linear
from gradcore.ops.reductions.sums import run_accumulating


def _samples():
    return [
        case(floats(3, 4), 1),
        case(floats(5, 2), 0),
        case(floats(2, 3, 4), -2),
        case(floats(), 0),
        case(floats(0), 0),
    ]


# -- sums -------------------------------------------------------------------------------------------------------------


@linear(lambda F, grad, dim: F.cumsum_backward(grad, dim), inplace=True, samples=_samples, autocast="float32:cuda")
def cumsum(K, self, dim: int, *, dtype: DType = None):
    """Return the cumulative sum along `dim`; integers and bools are summed in int64.

    Examples
    --------
    >>> gc.cumsum(gc.tensor([[1, 2], [3, 4]]), dim=0)
    tensor([[1, 2],
            [4, 6]])
    """
    return run_accumulating(K, lambda x, wanted: along(K.cumsum_along, x, dim, False, wanted), self, dtype)


@linear(lambda F, grad, dim: F.cumsum(grad, dim), function=False, method=False, samples=_samples)
def cumsum_backward(K, self, dim: int):
    """Return the sums of the elements from each one on along `dim`: the transpose of `cumsum`."""
    return along(K.cumsum_along, self, dim, True, None)


# -- recurrences for derivatives of cumulative products and sums of exponentials --------------------------------------


@general(
    lambda F, grad, dim, by: F.shift(grad, dim, -by),
    function=False,
    method=False,
    samples=lambda: [case(floats(3, 4), 1, 1), case(floats(3, 4), 0, -1, 1), case(floats(1), 0, 1)],
)
def shift(K, self, dim: int, by: int, fill: float = 0):
    """Shift the elements along `dim` by one (`by` 1) or by minus one (-1), and fill with `fill`."""
    return along(K.shift_along, self, dim, by, fill)


@shift.jvp("self")
def _(F, t, dim, by):
    return F.shift(t, dim, by)


def _accumulate_gradient(F, grad, factor, dim, reverse):
    """Return the gradient of a scan: for each element, the contributions of all later elements.

    Later refers to the order of the scan.
    """
    return F.scan(F.conj(F.shift(factor, dim, 1 if reverse else -1)), grad, dim, not reverse)


@general(
    factor=lambda F, grad, factor, result, dim, reverse: (
        _accumulate_gradient(F, grad, factor, dim, reverse) * F.conj(F.shift(result, dim, -1 if reverse else 1))
    ),
    term=lambda F, grad, factor, dim, reverse: _accumulate_gradient(F, grad, factor, dim, reverse),
    function=False,
    method=False,
    samples=lambda: [
        case(floats(3, 4), floats(3, 4), 1), case(floats(4, 2), floats(4, 2), 0, True),
        case(floats(3, 5, form="zeros"), floats(3, 5), 1),
    ],
)  # fmt: skip
def scan(K, factor, term, dim: int, reverse: bool = False):
    """Compute ``out[i] = factor[i] * out[i - 1] + term[i]`` along `dim`, from the end if `reverse`."""
    dim = wrap_dim(dim, term.ndim)
    return K.scan_along(factor, term, dim, reverse) if term.ndim else term.copy()


# -- products ---------------------------------------------------------------------------------------------------------


def _product_samples():
    return [
        case(floats(3, 4), 1), case(floats(5, 2, form="zeros"), 0), case(floats(2, 3, 4), -2), case(floats(), 0),
        case(floats(0), 0),
    ]  # fmt: skip


@general(
    lambda F, grad, self, result, dim: (
        F.conj(F.shift(result, dim, 1, 1)) * F.scan(F.conj(F.shift(self, dim, -1)), grad, dim, True)
    ),
    inplace=True,
    samples=_product_samples,
    autocast="float32:cuda",
)
def cumprod(K, self, dim: int, *, dtype: DType = None):
    """Return the cumulative product along `dim`; integers and bools are multiplied in int64.

    Examples
    --------
    >>> gc.cumprod(gc.tensor([1, 2, 3, 4]), dim=0)
    tensor([ 1,  2,  6, 24])
    """
    return run_accumulating(K, lambda x, wanted: along(K.cumprod_along, x, dim, wanted), self, dtype)


@cumprod.jvp("self")
def _(F, t, self, result, dim):
    return F.scan(self, t * F.shift(result, dim, 1, 1), dim)


# -- logarithms of sums of exponentials -------------------------------------------------------------------------------


def _decay(F, result, dim):
    """Compute ``exp(result[i - 1] - result[i])``.

    The factor converts weights relative to one cumulative sum to weights relative to the next. It is 1 between equal
    infinities, so that numbers before an infinity have finite gradients.
    """
    previous = F.shift(result, dim, 1, -math.inf)
    return F.exp(F.where(F.isinf(result) & (previous == result), 0, previous - result))


@general(
    lambda F, grad, self, result, dim: (
        F.conj(F.exp(self - result)) * F.scan(F.conj(F.shift(_decay(F, result, dim), dim, -1)), grad, dim, True)
    ),
    samples=lambda: [*_samples(), case(floats(3, 4, low=800, high=1200), 1)],
)
def logcumsumexp(K, self, dim: int):
    """Compute ``log(cumsum(exp(self)))`` along a dim, without overflow.

    Examples
    --------
    >>> gc.logcumsumexp(gc.tensor([0.0, 0.0, 0.0]), dim=0)
    tensor([0.0000, 0.6931, 1.0986])
    """
    check_implemented("logcumsumexp_out_cpu", self, "bi")
    return along(K.logcumsumexp_along, self, dim)


@logcumsumexp.jvp("self")
def _(F, t, self, result, dim):
    return F.scan(_decay(F, result, dim), t * F.exp(self - result), dim)


# -- differences and integrals ----------------------------------------------------------------------------------------


def _split_neighbours(F, x, dim):
    """Return all elements along `dim` but the first, and all but the last."""
    n = x.shape[dim]
    return F.narrow(x, dim, 1, n - 1), F.narrow(x, dim, 0, n - 1)


@composite(
    samples=lambda: [
        case(floats(3, 5)),
        case(floats(4, 3), 2, 0),
        case(floats(3, 2), 1, -1, floats(3, 1), floats(3, 2)),
        case(floats(1)),
    ]
)
def diff(F, self, n: int = 1, dim: int = -1, prepend=None, append=None):
    """Return the `n`-th difference of neighbours along `dim`.

    Parameters
    ----------
    n : int
        The number of times that differences are taken.
    dim : int
        Along which dim.
    prepend, append : Tensor, optional
        Tensors to join to the input along the dim before differences are taken.

    Returns
    -------
    Tensor
        Smaller by `n` along `dim`, before `prepend` and `append` are counted.

    Examples
    --------
    >>> gc.diff(gc.tensor([1, 4, 9, 16]))
    tensor([3, 5, 7])
    >>> gc.diff(gc.tensor([1, 4, 9, 16]), n=2)
    tensor([2, 2])
    """
    if not self.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = wrap_dim(dim, self.ndim)
    for end in (prepend, append):
        if end is not None and end.ndim != self.ndim:
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    if n == 0:
        return F.clone(self)
    pieces = [x for x in (prepend, self, append) if x is not None]
    x = F.cat(pieces, dim) if len(pieces) > 1 else self
    for _ in range(n):
        if not x.shape[dim]:
            break
        after, before = _split_neighbours(F, x, dim)
        x = F.logical_xor(after, before) if x.dtype.category == 0 else after - before
    return x


def _areas(F, name, y, x, dx, dim):
    """Return twice the areas of the trapezoids between neighbours along `dim`.

    `x` are coordinates, `dx` is the distance of neighbours; at most one of them is given.
    """
    if x is None:
        if not y.dtype.is_differentiable:
            y = F.to(y, dtypes.int64)  # the sum of two neighbours may not fit into their dtype
        after, before = _split_neighbours(F, y, dim)
        return after + before if dx is None else F.scale(after + before, dx)
    if dx is not None:
        raise TypeError(f"{name}(): give either 'x' or 'dx', not both")
    if x.ndim == 1 and y.ndim != 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        x = F.reshape(x, [-1 if i == dim else 1 for i in range(y.ndim)])
        widths = F.diff(x, 1, dim)
    else:
        if x.ndim < y.ndim:
            x = F.reshape(x, (1,) * (y.ndim - x.ndim) + tuple(x.shape))
        if x.shape[dim] != y.shape[dim]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        widths = F.diff(x, 1, dim)
    after, before = _split_neighbours(F, y, dim)
    return (after + before) * widths


_INTEGRAL = """

    Parameters
    ----------
    x : Tensor, optional
        The points at which `y` was taken; without them neighbours are `dx` apart.
    dx : float, optional
        The distance between neighbours, 1 by default.
    dim : int
        Along which dim to integrate.
"""


def _integrals():
    return [
        case(floats(3, 5)), case(floats(4, 3), floats(4), dim=0), case(floats(2, 3), floats(2, 3)),
        case(floats(3, 4), dx=0.5), case(floats(2, 1)),
    ]  # fmt: skip


def trapezoid(F, y, x=None, *, dx: Scalar | None = None, dim: int = -1):
    dim = wrap_dim(dim, y.ndim)
    if not y.ndim or y.shape[dim] == 0:
        return F.new_zeros(y, tuple(y.shape[:dim]) + tuple(y.shape[dim + 1 :]))
    return F.scale(F.sum(_areas(F, "trapezoid", y, x, dx, dim), dim), 0.5)


def cumulative_trapezoid(F, y, x=None, *, dx: Scalar | None = None, dim: int = -1):
    dim = wrap_dim(dim, y.ndim)
    if not y.ndim:
        return F.new_zeros(y, y.shape)
    if y.shape[dim] == 0:
        return F.clone(y)
    return F.scale(F.cumsum(_areas(F, "cumulative_trapezoid", y, x, dx, dim), dim), 0.5)


trapezoid.__doc__ = f"Compute the integral of `y` along a dim by the trapezoid rule.{_INTEGRAL}"
cumulative_trapezoid.__doc__ = (
    f"Compute the integrals of `y` up to each point along a dim by the trapezoid rule.{_INTEGRAL}"
)
composite(method=False, samples=_integrals, aliases=("trapz",))(trapezoid)
composite(method=False, samples=_integrals)(cumulative_trapezoid)
