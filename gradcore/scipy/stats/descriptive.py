"""Descriptive statistics, differentiable with respect to samples and weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from gradcore import functional as F
from gradcore.core.dtypes import finfo
from gradcore.core.typing import AnyTensor, ArrayLike, Axis, DTypeLike
from gradcore.numpy.conversion import axes_of, cast, dtype_of, inexact
from gradcore.scipy.conversion import floating, logarithm, promote_arguments

__all__ = [
    "describe", "entropy", "gmean", "gstd", "gzscore", "hmean", "kurtosis", "moment", "pearsonr", "pmean", "sem",
    "skew", "variation", "zmap", "zscore",
]  # fmt: skip


def _prepare(a: Any, axis: Any, nan_policy: str = "propagate") -> tuple[AnyTensor, tuple[int, ...], int]:
    """Return the samples as a tensor, the dims to reduce, and the number of samples along them."""
    if nan_policy not in ("propagate", "raise", "omit"):
        raise ValueError("nan_policy must be one of {'propagate', 'raise', 'omit'}")
    if nan_policy != "propagate":
        raise NotImplementedError("only nan_policy='propagate' is implemented; remove NaN before the call")
    x = F.atleast_1d(floating(a))
    dims = axes_of(axis if axis is None or isinstance(axis, tuple) else (axis,), x.ndim)
    return x, dims, math.prod(x.shape[d] for d in dims)


def _broadcast(a: ArrayLike, b: ArrayLike) -> tuple[AnyTensor, AnyTensor]:
    """Return two arrays of samples, or of samples and weights, in one shape and dtype."""
    x, y = (F.atleast_1d(inexact(t)) for t in promote_arguments(a, b))
    try:
        x, y = F.broadcast_tensors(x, y)
    except RuntimeError:
        raise ValueError("Array shapes are incompatible for broadcasting.") from None
    return x, y


def _central(x: AnyTensor, order: int, dims: tuple[int, ...], keepdims: bool = False) -> AnyTensor:
    return F.mean((x - F.mean(x, dims, True)) ** order, dims, keepdims)


def _std(x: AnyTensor, dims: tuple[int, ...], ddof: int, keepdims: bool = False) -> AnyTensor:
    if math.prod(x.shape[d] for d in dims) <= ddof:
        return F.mean(x, dims, keepdims) * math.nan
    return F.std(x, dims, correction=ddof, keepdim=keepdims)


def _divide_by_deviation(x: AnyTensor, order: int, dims: tuple[int, ...], keepdims: bool) -> AnyTensor:
    """Return a central moment divided by that power of the standard deviation; NaN for samples that are all equal."""
    variance, mean = _central(x, 2, dims, keepdims), F.mean(x, dims, keepdims)
    is_constant = variance <= (finfo(x.dtype).eps * mean) ** 2
    return F.where(is_constant, math.nan, _central(x, order, dims, keepdims) / variance ** (order / 2))


def moment(
    a: Any, order: Any = 1, axis: Any = 0, nan_policy: str = "propagate", *, center: Any = None, keepdims: bool = False
) -> AnyTensor:
    """Return the moment of one order about the mean, or about `center`, as `scipy.stats.moment`.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.moment(gc.tensor([1.0, 2.0, 3.0, 6.0]), 2)
    tensor(3.5000)
    """
    x, dims, _ = _prepare(a, axis, nan_policy)
    if order != int(order):
        raise ValueError("All elements of `order` must be integral.")
    if center is None:
        return _central(x, order, dims, keepdims)
    return F.mean((x - promote_arguments(x, center)[1]) ** order, dims, keepdims)


def skew(
    a: Any, axis: Any = 0, bias: bool = True, nan_policy: str = "propagate", *, keepdims: bool = False
) -> AnyTensor:
    """Return the third moment of standardized samples, as `scipy.stats.skew`.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.skew(gc.tensor([1.0, 2.0, 3.0, 6.0]))
    tensor(0.6872)
    """
    x, dims, n = _prepare(a, axis, nan_policy)
    result = _divide_by_deviation(x, 3, dims, keepdims)
    return result if bias or n < 3 else result * (math.sqrt(n * (n - 1)) / (n - 2))


def kurtosis(
    a: Any, axis: Any = 0, fisher: bool = True, bias: bool = True, nan_policy: str = "propagate", *,
    keepdims: bool = False,
) -> AnyTensor:  # fmt: skip
    """Compute the kurtosis, as `scipy.stats.kurtosis`; by default (`fisher`) that of the normal distribution is 0.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.kurtosis(gc.tensor([1.0, 2.0, 3.0, 6.0]))
    tensor(-1.)
    """
    x, dims, n = _prepare(a, axis, nan_policy)
    result = _divide_by_deviation(x, 4, dims, keepdims)
    if not bias and n > 3:
        result = ((n * n - 1) * result - 3 * (n - 1) ** 2) / ((n - 2) * (n - 3)) + 3
    return result - 3 if fisher else result


def variation(
    a: Any, axis: Any = 0, nan_policy: str = "propagate", ddof: int = 0, *, keepdims: bool = False
) -> AnyTensor:
    """Return the standard deviation divided by the mean, as `scipy.stats.variation`.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.variation(gc.tensor([1.0, 2.0, 3.0]))
    tensor(0.4082)
    """
    x, dims, _ = _prepare(a, axis, nan_policy)
    return _std(x, dims, ddof, keepdims) / F.mean(x, dims, keepdims)


def sem(a: Any, axis: Any = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> AnyTensor:
    """Return the standard error of the mean, as `scipy.stats.sem`.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.sem(gc.tensor([1.0, 2.0, 3.0]))
    tensor(0.5774)
    """
    x, dims, n = _prepare(a, axis, nan_policy)
    return _std(x, dims, ddof, keepdims) / math.sqrt(max(n, 1))


def zmap(scores: Any, compare: Any, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate") -> AnyTensor:
    """Return `scores` in standard deviations from the mean of `compare`, as `scipy.stats.zmap`.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.zmap(gc.tensor([0.0, 2.0]), gc.tensor([1.0, 2.0, 3.0]))
    tensor([-2.4495,  0.0000])
    """
    axes_of(axis if axis is None or isinstance(axis, tuple) else (axis,), floating(compare).ndim)
    x, dims, _ = _prepare(compare, axis, nan_policy)
    scores, x = (inexact(t) for t in promote_arguments(scores, x))
    return (scores - F.mean(x, dims, True)) / _std(x, dims, ddof, True)


def zscore(a: Any, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate") -> AnyTensor:
    """Return the samples' distances from their mean in standard deviations, as `scipy.stats.zscore`.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.zscore(gc.tensor([1.0, 2.0, 3.0]))
    tensor([-1.2247,  0.0000,  1.2247])
    """
    scores = zmap(a, a, axis, ddof, nan_policy)
    x, dims, _ = _prepare(a, axis, nan_policy)
    is_constant = _std(x, dims, ddof, True) <= F.abs(finfo(x.dtype).eps * F.mean(x, dims, True))
    return F.where(is_constant, math.nan, scores)


def gzscore(a: Any, *, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate") -> AnyTensor:
    """Return the `zscore` of logarithms, as `scipy.stats.gzscore`.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.gzscore(gc.tensor([1.0, 2.0, 8.0]))
    tensor([-1.0690, -0.2673,  1.3363])
    """
    return zscore(F.log(floating(a)), axis, ddof, nan_policy)


def gstd(a: Any, axis: Any = 0, ddof: int = 1, *, keepdims: bool = False, nan_policy: str = "propagate") -> AnyTensor:
    """Return the exponential of the standard deviation of logarithms, as `scipy.stats.gstd`.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.gstd(gc.tensor([1.0, 2.0, 4.0]))
    tensor(2.)
    """
    x, dims, _ = _prepare(a, axis, nan_policy)
    return F.exp(_std(F.log(x), dims, ddof, keepdims))


def _mean(
    function: Callable[[AnyTensor], AnyTensor], a: ArrayLike, axis: Axis, dtype: DTypeLike, weights: ArrayLike | None,
    nan_policy: str, keepdims: bool,
) -> AnyTensor:  # fmt: skip
    """Return the weighted mean of a function of the samples."""
    w = None
    if weights is not None:
        a, w = _broadcast(a, weights)
    x, dims, _ = _prepare(a, axis, nan_policy)
    x = function(cast(x, dtype_of(dtype)))
    return F.mean(x, dims, keepdims) if w is None else F.sum(x * w, dims, keepdims) / F.sum(w, dims, keepdims)


def gmean(
    a: Any, axis: Any = 0, dtype: Any = None, weights: Any = None, *, nan_policy: str = "propagate",
    keepdims: bool = False,
) -> AnyTensor:  # fmt: skip
    """Return the geometric mean, as `scipy.stats.gmean`.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.gmean(gc.tensor([1.0, 4.0]))
    tensor(2.)
    """
    return F.exp(_mean(F.log, a, axis, dtype, weights, nan_policy, keepdims))


def hmean(
    a: Any, axis: Any = 0, dtype: Any = None, *, weights: Any = None, nan_policy: str = "propagate",
    keepdims: bool = False,
) -> AnyTensor:  # fmt: skip
    """Return the harmonic mean, as `scipy.stats.hmean`.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.hmean(gc.tensor([1.0, 2.0, 4.0]))
    tensor(1.7143)
    """
    return 1 / _mean(lambda x: 1 / F.where(x < 0, math.nan, x), a, axis, dtype, weights, nan_policy, keepdims)


def pmean(
    a: Any, p: float, *, axis: Any = 0, dtype: Any = None, weights: Any = None, nan_policy: str = "propagate",
    keepdims: bool = False,
) -> AnyTensor:  # fmt: skip
    """Return the mean of p-th powers, as `scipy.stats.pmean`.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.pmean(gc.tensor([1.0, 2.0, 3.0]), 2)
    tensor(2.1602)
    """
    if not isinstance(p, (int, float)):
        raise ValueError("Power mean only defined for exponent of type int or float.")
    if p == 0:
        return gmean(a, axis, dtype, weights, nan_policy=nan_policy, keepdims=keepdims)
    mean = _mean(lambda x: F.where(x < 0, math.nan, x) ** p, a, axis, dtype, weights, nan_policy, keepdims)
    return mean ** (1 / p)


def entropy(
    pk: Any, qk: Any = None, base: float | None = None, axis: Any = 0, *, nan_policy: str = "propagate",
    keepdims: bool = False,
) -> AnyTensor:  # fmt: skip
    """Normalize `pk`, and compute its entropy or, given `qk`, its relative entropy, as `scipy.stats.entropy`.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.entropy(gc.tensor([1.0, 1.0]), base=2)
    tensor(1.)
    """
    if base is not None and base <= 0:
        raise ValueError("`base` must be a positive number or `None`.")
    q = None
    if qk is not None:
        pk, q = _broadcast(pk, qk)
    p, dims, _ = _prepare(pk, axis, nan_policy)
    if q is None:
        terms = F.entr(p / F.sum(p, dims, True))
    else:
        terms = F.special_of_two(p / F.sum(p, dims, True), q / F.sum(q, dims, True), "rel_entr")
    result = F.sum(terms, dims, keepdims)
    return result if base is None else result / logarithm(base)


class PearsonRResult(NamedTuple):
    """Result of `pearsonr`: the correlation coefficient and its p-value."""

    statistic: AnyTensor
    pvalue: AnyTensor


def pearsonr(x: Any, y: Any, *, alternative: str = "two-sided", method: Any = None, axis: Any = 0) -> PearsonRResult:
    """Compute Pearson's correlation coefficient and its two-sided p-value, as `scipy.stats.pearsonr`.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.pearsonr(gc.tensor([1.0, 2.0, 3.0]), gc.tensor([1.0, 3.0, 2.0])).statistic
    tensor(0.5000)
    """
    if alternative != "two-sided" or method is not None:
        raise NotImplementedError("pearsonr() is implemented for alternative='two-sided' without method only")
    x, y = (inexact(t) for t in promote_arguments(x, y))
    if axis is None:
        x, y, axis = F.flatten(x), F.flatten(y), 0
    ndim = max(x.ndim, y.ndim)
    x, y = (F.reshape(t, (1,) * (ndim - t.ndim) + tuple(t.shape)) for t in (x, y))
    if len({tuple(t.shape[d] for d in axes_of((axis,), ndim)) for t in (x, y)}) > 1:
        raise ValueError("`x` and `y` must have the same length along `axis`.")
    x, y = _broadcast(x, y)
    x, dims, n = _prepare(x, axis)
    if n < 2:
        raise ValueError("`x` and `y` must have length at least 2.")
    is_constant = (F.amax(x, dims) == F.amin(x, dims)) | (F.amax(y, dims) == F.amin(y, dims))
    x, y = (t - F.mean(t, dims, True) for t in (x, y))
    x, y = (t / F.amax(F.abs(t.detach()), dims, True) for t in (x, y))  # so that squares stay within the dtype
    result = F.sum(x / F.sqrt(F.sum(x * x, dims, True)) * y / F.sqrt(F.sum(y * y, dims, True)), dims)
    result = F.where(is_constant, math.nan, F.clamp(result, -1, 1))
    half = F.zeros_like(result) + (n / 2 - 1)
    pvalue = 2 * F.special_of_three(half, half, (1 - F.abs(result)) / 2, "betainc") if n > 2 else F.ones_like(result)
    return PearsonRResult(result, pvalue)


class DescribeResult(NamedTuple):
    """Result of `describe`."""

    nobs: int
    minmax: tuple[AnyTensor, AnyTensor]
    mean: AnyTensor
    variance: AnyTensor
    skewness: AnyTensor
    kurtosis: AnyTensor


def describe(a: Any, axis: Any = 0, ddof: int = 1, bias: bool = True, nan_policy: str = "propagate") -> DescribeResult:
    """Compute the number of samples, extrema, mean, variance, skewness and kurtosis, as `scipy.stats.describe`.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> stats.describe(gc.tensor([1.0, 2.0, 3.0])).variance
    tensor(1.)
    """
    x, dims, n = _prepare(a, axis, nan_policy)
    if not x.numel():
        raise ValueError("The input must not be empty.")
    extrema = F.amin(x, dims), F.amax(x, dims)
    variance = _central(x, 2, dims) * (n / (n - ddof))
    return DescribeResult(n, extrema, F.mean(x, dims), variance, skew(x, axis, bias), kurtosis(x, axis, bias=bias))
