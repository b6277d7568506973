"""NumPy's reductions and statistics on tensors."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor, ArrayLike, Axis, DTypeLike, Function
from gradcore.numpy.conversion import (
    axes_of,
    axis_of,
    cast,
    common,
    dtype_of,
    fill_masked,
    inexact,
    promote,
    rename,
    tensor_of,
    write_out,
)
from gradcore.tensor import Tensor

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "corrcoef", "count_nonzero", "cov", "cumprod",
    "cumsum", "cumulative_prod", "cumulative_sum", "max", "mean", "median", "min", "nanargmax", "nanargmin",
    "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod", "nanquantile",
    "nanstd", "nansum", "nanvar", "percentile", "prod", "ptp", "quantile", "std", "sum", "var",
]  # fmt: skip


def _reduce_over(operation: Function, x: Tensor, axis: Any, keepdims: bool) -> AnyTensor:
    """Apply a reduction of gradcore over `axis` in NumPy's sense, where an empty tuple reduces nothing."""
    if axis.__class__ is tuple and not axis:
        return x
    return operation(x, axis if axis is None or axis.__class__ is int else axes_of(axis, x.ndim), keepdims)


def _fill_masked(x: Tensor, where: ArrayLike, value: ArrayLike) -> AnyTensor:
    """Return `x` with `value` where the mask `where` is False; the mask must not have more elements than `x`."""
    result = fill_masked(x, where, value)
    if result.shape != x.shape:
        raise ValueError(
            f"where= of shape {tuple(tensor_of(where).shape)} doesn't match the array, whose shape is {tuple(x.shape)}"
        )
    return result


def _check_initial(pairwise: str, where: ArrayLike, initial: ArrayLike | None) -> None:
    """Raise NumPy's error for a mask of a reduction without an identity if there is no initial value."""
    if where is not True and initial is None:
        raise ValueError(
            f"reduction operation '{pairwise}' does not have an identity, so to use a where mask one has to specify "
            "'initial'"
        )


def _write(result: AnyTensor, out: Tensor | tuple[Tensor, ...] | None) -> AnyTensor:
    """Write a reduced tensor into `out`, if that is given, which must have its shape."""
    for target in () if out is None else out if isinstance(out, tuple) else (out,):
        if tuple(target.shape) != tuple(result.shape):
            raise ValueError(f"the result has shape {tuple(result.shape)}, but out has shape {tuple(target.shape)}")
    return write_out(result, out)


def _accumulator(x: Tensor, dtype: Any) -> AnyTensor:
    """Convert `x` to the dtype in which it is summed: by default, small integers are summed in 64 bits."""
    if dtype is not None:
        return cast(x, dtype_of(dtype))
    if x._dtype.is_differentiable:
        return x
    return cast(x, dtypes.int64 if x._dtype.is_signed or x._dtype is dtypes.bool_ else dtypes.uint64)


def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Tensor | None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Tensor:
    x = _accumulator(tensor_of(a), dtype)
    result = _reduce_over(F.sum, x if where is True else _fill_masked(x, where, 0), axis, keepdims)
    if result._dtype is not x._dtype:  # of unsigned numbers
        result = cast(result, x._dtype)
    if initial is not None:
        result = result + cast(tensor_of(initial), result._dtype)
    return result if out is None else _write(result, out)


def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Tensor | None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Tensor:
    x = _fill_masked(_accumulator(tensor_of(a), dtype), where, 1)
    if axis is None:
        result = F.prod(x).reshape((1,) * x.ndim if keepdims else ())
    else:
        result = x
        for each in sorted(axes_of(axis, x.ndim), reverse=True):
            result = F.prod(result, each, keepdims)
    result = cast(result, x._dtype)
    if initial is not None:
        result = result * cast(tensor_of(initial), result._dtype)
    return _write(result, out)


def _extremum(operation: str, pairwise: str, name: str) -> Function:
    def reduce(
        a: ArrayLike,
        axis: Axis = None,
        out: Tensor | None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> Any:
        x = tensor_of(a)
        _check_initial(pairwise, where, initial)
        if where is not True:
            x = _fill_masked(x, where, cast(tensor_of(initial), x._dtype))
        if not x.numel() and initial is not None:
            reduced = axes_of(axis, x.ndim)
            shape = [n or int(i in reduced) for i, n in enumerate(x.shape)]
            x = F.full(shape, initial, dtype=x._dtype, device=x._device.real)
        result = _reduce_over(
            getattr(F, operation),
            x,
            () if axis is None and not x.ndim else axis if axis is not None else tuple(range(x.ndim)),
            keepdims,
        )
        if initial is not None:
            result = getattr(F, pairwise)(result, cast(tensor_of(initial), result._dtype))
        return _write(result, out)

    return rename(reduce, name)


max = amax = _extremum("amax", "maximum", "max")
min = amin = _extremum("amin", "minimum", "min")


def _quantifier(name: str, neutral: bool) -> Function:
    def reduce(
        a: ArrayLike, axis: Axis = None, out: Tensor | None = None, keepdims: bool = False, *, where: ArrayLike = True
    ) -> Tensor:
        x = _fill_masked(tensor_of(a) != 0, where, neutral)
        return _write(_reduce_over(getattr(F, name), x, axis, keepdims), out)

    return rename(reduce, name)


all, any = _quantifier("all", True), _quantifier("any", False)


def _wrap_for_ufunc(reduction: Function, takes_dtype: bool) -> Function:
    """Convert a reduction to a function with the arguments of ``ufunc.reduce``."""

    def reduce(
        array: ArrayLike,
        axis: Axis,
        dtype: DTypeLike,
        out: Tensor | None,
        keepdims: bool,
        initial: ArrayLike,
        where: ArrayLike,
    ) -> Any:
        if takes_dtype:
            return reduction(array, axis, dtype, out, keepdims, initial, where)
        array = tensor_of(array, dtype)
        if reduction in (all, any):
            return reduction(array, axis, out, keepdims, where=where)
        return reduction(array, axis, out, keepdims, initial, where)

    return reduce


def _logsumexp(
    array: Any, axis: Any, out: Any, keepdims: bool, initial: Any = None, where: Any = True, *, scale: float = 1.0
) -> Any:
    x = fill_masked(inexact(tensor_of(array)) * scale, where, -np.inf)
    result = F.logsumexp(x, axes_of(axis, x.ndim), keepdims) / scale
    return _write(result if initial is None else F.logaddexp(result * scale, tensor_of(initial * scale)) / scale, out)


#: Reductions by the name of the universal function that is folded.
REDUCTIONS: dict[str, Function] = {
    "add": _wrap_for_ufunc(sum, True),
    "multiply": _wrap_for_ufunc(prod, True),
    "maximum": _wrap_for_ufunc(max, False),
    "minimum": _wrap_for_ufunc(min, False),
    "logical_and": _wrap_for_ufunc(all, False),
    "logical_or": _wrap_for_ufunc(any, False),
    "logaddexp": _wrap_for_ufunc(_logsumexp, False),
    "logaddexp2": _wrap_for_ufunc(lambda *args: _logsumexp(*args, scale=float(np.log(2))), False),
}


# -- means and moments --------------------------------------------------------------------------------------------


def _count(x: Tensor, axis: Any, keepdims: bool, where: Any) -> Any:
    """Return the number of elements over the axes at which the mask `where` holds."""
    if where is True:
        return int(np.prod([x.shape[i] for i in axes_of(axis, x.ndim)], dtype=np.int64))
    mask = _fill_masked(F.ones_like(x, dtype=dtypes.bool_), where, False)
    return cast(sum(mask, axis, keepdims=keepdims), x._dtype.to_real())


def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Tensor | None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Tensor:
    x = tensor_of(a)
    x = inexact(x) if dtype is None else cast(x, dtype_of(dtype))
    if where is True:
        result = (
            _reduce_over(F.mean, x, axis, keepdims)
            if x._dtype.is_differentiable
            else cast(mean(inexact(x), axis, keepdims=keepdims), x._dtype)
        )
        return result if out is None else _write(result, out)
    return _write(sum(x, axis, None, None, keepdims, None, where) / _count(x, axis, keepdims, where), out)


def _spread(name: str, root: bool = False) -> Function:
    """Create the function for the variance or, with `root`, for the standard deviation."""

    def reduce(
        a: ArrayLike,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: Tensor | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: ArrayLike = True,
        mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> Tensor:
        x = tensor_of(a)
        x = inexact(x) if dtype is None else cast(x, dtype_of(dtype))
        if dtype is not None and x._dtype.is_complex:
            spread = reduce(x, axis, None, None, ddof, keepdims, where=where, mean=mean, correction=correction)
            return _write(cast(spread, x._dtype), out)
        if correction is not None:
            if ddof != 0:
                raise ValueError("ddof and correction can't be provided simultaneously.")
            ddof = correction
        if where is True and mean is None and x.numel() and (axis.__class__ is not tuple or axis):
            operation, axes = F.std if root else F.var, axes_of(axis, x.ndim)
            return _write(operation(x, axes if axes else None, correction=ddof, keepdim=keepdims), out)
        count = _count(x, axis, keepdims, where)
        x = _fill_masked(x, where, 0)
        center = (
            tensor_of(mean)
            if mean is not None
            else sum(x, axis, None, None, True, None, where) / _count(x, axis, True, where)
        )
        away = x - center
        square = F.real(away * F.conj(away)) if x._dtype.is_complex else F.square(away)
        divisor = F.clamp_min(count - ddof, 0) if isinstance(count, Tensor) else builtins.max(count - ddof, 0)
        result = sum(square, axis, None, None, keepdims, None, where) / divisor
        return _write(F.sqrt(result) if root else result, out)

    return rename(reduce, name)


var, std = _spread("var"), _spread("std", True)


def average(
    a: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    x = inexact(tensor_of(a))
    if weights is None:
        result, total = mean(x, axis, keepdims=keepdims), tensor_of(_count(x, axis, keepdims, True), x._dtype)
    else:
        x, w = common(x, weights)
        if w.shape != x.shape:
            axes = axes_of(axis, x.ndim)
            if axis is None or tuple(x.shape[i] for i in axes) != tuple(w.shape):
                raise TypeError("Axis must be specified when shapes of a and weights differ.")
            shape = [x.shape[i] if i in axes else 1 for i in range(x.ndim)]
            w = F.permute(w, tuple(int(i) for i in np.argsort(axes))).reshape(shape)
            w = F.broadcast_to(w, x.shape)
        total = sum(w, axis, keepdims=keepdims)
        result = sum(x * w, axis, keepdims=keepdims) / total
    return (result, F.broadcast_to(total, result.shape)) if returned else result


def ptp(a: ArrayLike, axis: Axis = None, out: Tensor | None = None, keepdims: bool = False) -> Tensor:
    return _write(max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims), out)


def count_nonzero(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    return sum(tensor_of(a) != 0, axis, dtypes.int64, keepdims=keepdims)


def _place(name: str) -> Function:
    def reduce(a: ArrayLike, axis: Axis = None, out: Tensor | None = None, *, keepdims: bool = False) -> Tensor:
        x = tensor_of(a)
        axis = axis if axis is None else axis_of(axis, builtins.max(x.ndim, 1))
        return _write(getattr(F, name)(_numbers(x), axis, keepdims), out)

    return rename(reduce, name)


argmax, argmin = _place("argmax"), _place("argmin")


def _numbers(x: Tensor) -> AnyTensor:
    return cast(x, dtypes.uint8) if x._dtype is dtypes.bool_ else x


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: float | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    *,
    dtype: DTypeLike = None,
) -> Tensor:
    sources = promote(*(tensor_of(values, dtype) for values in (m, y) if values is not None))
    if dtype is None:
        double = dtypes.complex128 if sources[0]._dtype.is_complex else dtypes.float64
        sources = [cast(values, double) for values in sources]
    for name, values in zip(("m", "y"), sources, strict=False):
        if values.ndim > 2:
            raise ValueError(f"{name} has more than 2 dimensions")
    variables = [values.mT if values.ndim == 2 and not rowvar else F.atleast_2d(values) for values in sources]
    x = F.cat(variables) if y is not None else variables[0]
    correction = ddof if ddof is not None else int(not bias)
    weights: Any = None
    scaled: Any
    if fweights is not None:
        weights = _weights("fweights", fweights, x)
    if aweights is not None:
        analytic_weights = _weights("aweights", aweights, x)
        weights = analytic_weights if weights is None else weights * analytic_weights
    if weights is None:
        total, center, scaled = x.shape[1], F.mean(x, 1, True), 1.0
        factor: Any = builtins.max(total - correction, 0)
    else:
        total = F.sum(weights)
        center, scaled = F.sum(x * weights, 1, True) / total, weights
        share = 1 if aweights is None else F.sum(weights * analytic_weights) / total
        factor = F.clamp_min(total - correction * share, 0)
    centered = x - center
    return F.squeeze(F.matmul(centered * scaled, F.conj(centered.mT)) / factor)


def _weights(name: str, values: ArrayLike, x: Tensor) -> AnyTensor:
    """Convert the weights of the observations, the columns of `x`, to a tensor of floating-point numbers."""
    weights = inexact(tensor_of(values))
    if name == "fweights" and F.holds_anywhere(weights != F.round(weights)):
        raise TypeError("fweights must be integer")
    if weights.ndim > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if tuple(weights.shape) != (x.shape[1],):
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    if F.holds_anywhere(weights < 0):
        raise ValueError(f"{name} cannot be negative")
    return weights


def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: DTypeLike = None) -> Tensor:
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    scale = F.sqrt(F.real(F.diagonal(c)))
    c = c / scale[:, None] / scale[None, :]
    return F.complex(F.clamp(F.real(c), -1, 1), F.clamp(F.imag(c), -1, 1)) if c._dtype.is_complex else F.clamp(c, -1, 1)


# -- cumulative ----------------------------------------------------------------------------------------------------


def _cumulative(operation: str, name: str) -> Function:
    def accumulate(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        x = _accumulator(tensor_of(a), dtype)
        result = getattr(F, operation)(*((x.reshape(-1), 0) if axis is None else (F.atleast_1d(x), axis)))
        return _write(cast(result, x._dtype), out)

    return rename(accumulate, name)


cumsum = _cumulative("cumsum", "cumsum")
cumprod = _cumulative("cumprod", "cumprod")


def _with_initial(accumulate: Function, first: int, name: str) -> Function:
    def cumulative(
        x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
    ) -> Any:
        x = F.atleast_1d(tensor_of(x))
        if axis is None:
            if x.ndim != 1:
                raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
            axis = 0
        result = accumulate(x, axis, dtype)
        if include_initial:
            shape = [1 if i == axis_of(axis, x.ndim) else n for i, n in enumerate(x.shape)]
            result = F.cat([F.full(shape, first, dtype=result._dtype, device=result._device.real), result], axis)
        return _write(result, out)

    return rename(cumulative, name)


cumulative_sum = _with_initial(cumsum, 0, "cumulative_sum")
cumulative_prod = _with_initial(cumprod, 1, "cumulative_prod")


# -- without NaN ---------------------------------------------------------------------------------------------------


def _present(a: Any, where: Any, dtype: DTypeLike = None) -> tuple[Tensor, Tensor]:
    """Return `a` as a tensor, and the mask of the elements that are not NaN and where `where` holds."""
    x = tensor_of(a)
    if x._dtype.is_differentiable and dtype is not None and not dtype_of(dtype).is_differentiable:
        raise TypeError("If a is inexact, then dtype must be inexact")
    return x, _fill_masked(F.logical_not(F.isnan(x)), where, False)


def _nan_total(reduction: Function, name: str) -> Function:
    def reduce(
        a: ArrayLike,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: Tensor | None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> Tensor:
        x, mask = _present(a, where)
        return reduction(x, axis, dtype, out, keepdims, initial, mask)

    return rename(reduce, name)


nansum, nanprod = _nan_total(sum, "nansum"), _nan_total(prod, "nanprod")


def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Tensor | None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Tensor:
    x, mask = _present(a, where, dtype)
    return mean(x, axis, dtype, out, keepdims, where=mask)


def _nan_spread(name: str, root: bool = False) -> Function:
    def reduce(
        a: ArrayLike,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: Tensor | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: ArrayLike = True,
        mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> Tensor:
        x, mask = _present(inexact(tensor_of(a)), where, dtype)
        count = _count(x, axis, keepdims, mask)
        result = var(x, axis, dtype, None, ddof, keepdims, where=mask, mean=mean, correction=correction)
        result = fill_masked(result, count - (ddof if correction is None else correction) > 0, np.nan)
        return _write(F.sqrt(result) if root else result, out)

    return rename(reduce, name)


nanvar, nanstd = _nan_spread("nanvar"), _nan_spread("nanstd", True)


def _nan_extremum(reduction: Function, worst: float, name: str) -> Function:
    def reduce(
        a: ArrayLike,
        axis: Axis = None,
        out: Tensor | None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> Any:
        x = tensor_of(a)
        _check_initial(f"f{reduction.__name__}", where, initial)
        if not x._dtype.is_differentiable:
            return reduction(x, axis, out, keepdims, initial, where)
        x, mask = _present(x, where)
        result = reduction(fill_masked(x, mask, worst), axis, None, keepdims, initial)
        if initial is None:
            result = fill_masked(result, any(mask, axis, keepdims=keepdims), np.nan)
        return _write(result, out)

    return rename(reduce, name)


nanmax = _nan_extremum(max, -np.inf, "nanmax")
nanmin = _nan_extremum(min, np.inf, "nanmin")


def _nan_place(reduction: Function, worst: float, name: str) -> Function:
    def reduce(a: ArrayLike, axis: Axis = None, out: Tensor | None = None, *, keepdims: bool = False) -> Any:
        x = tensor_of(a)
        if x._dtype.is_differentiable:
            x, mask = _present(x, True)
            if not bool(F.all(any(mask, axis))):
                raise ValueError("All-NaN slice encountered")
            x = fill_masked(x, mask, worst)
        return reduction(x, axis, out, keepdims=keepdims)

    return rename(reduce, name)


nanargmax = _nan_place(argmax, -np.inf, "nanargmax")
nanargmin = _nan_place(argmin, np.inf, "nanargmin")


def _nan_cumulative(accumulate: Function, neutral: int, name: str) -> Function:
    def cumulative(a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: Tensor | None = None) -> Tensor:
        x, mask = _present(a, True)
        return accumulate(fill_masked(x, mask, neutral), axis, dtype, out)

    return rename(cumulative, name)


nancumsum = _nan_cumulative(cumsum, 0, "nancumsum")
nancumprod = _nan_cumulative(cumprod, 1, "nancumprod")


# -- order statistics ----------------------------------------------------------------------------------------------

#: Quantile methods that interpolate between neighbours, with NumPy's parameters alpha and beta.
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0, 1), "hazen": (0.5, 0.5), "weibull": (0, 0), "linear": (1, 1),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
}  # fmt: skip


#: Methods whose quantiles are elements, and have their dtype.
_DISCRETE = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")


def _places(q: Tensor, count: Any, method: str) -> AnyTensor:
    """Return the fractional positions of the quantiles `q` among `count` sorted elements."""
    if method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        return count * q + (alpha + q * (1 - alpha - beta)) - 1
    at = q * (count - 1)
    if method == "lower":
        return F.floor(at)
    if method == "higher":
        return F.ceil(at)
    if method == "nearest":
        return F.round(at)
    if method == "midpoint":
        return (F.floor(at) + F.ceil(at)) / 2
    edge = count * q - 1
    if method == "inverted_cdf":
        return F.ceil(edge)
    if method == "averaged_inverted_cdf":
        return F.where(edge == F.floor(edge), edge + 0.5, F.ceil(edge))
    if method == "closest_observation":
        low = F.floor(edge - 0.5)
        return F.where((edge - 0.5 == low) & (low % 2 == 1), low, low + 1)
    raise ValueError(f"'{method}' is not a valid method")


def _quantile(
    a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: bool, weights: Any, interpolation: Any, skip_nan: bool
) -> Any:
    if weights is not None:
        raise TypeError(
            "quantiles of tensors do not support weights; repeat elements, or sort and use cumsum of the weights"
        )
    method = interpolation or method
    source = tensor_of(a)
    x = inexact(source)
    axes = axes_of(axis, x.ndim)
    kept_axes = [i for i in range(x.ndim) if i not in axes]
    size = math.prod(x.shape[i] for i in axes)
    flat = F.permute(x, (*kept_axes, *axes)).reshape(*[x.shape[i] for i in kept_axes], size)
    dtype = source._dtype if method in _DISCRETE else x._dtype
    if method not in _DISCRETE and not isinstance(q, (bool, int, float)):
        common = dtypes.from_numpy(np.result_type(source._dtype.numpy, _type_of(q)))
        dtype = common if common.is_differentiable else x._dtype
    points = cast(tensor_of(q).to(x._device.real), dtypes.float64)
    if bool(((points < 0) | (points > 1)).any()):
        raise ValueError("Quantiles must be in the range [0, 1]")
    if not size:  # as of one element that is NaN
        flat = F.full((*flat.shape[:-1], 1), np.nan, dtype=x._dtype, device=x._device.real)
        size = 1
    ordered = F.sort(flat, -1)[0]
    results = []
    for point in F.unbind(points.reshape(-1), 0):
        count = F.sum(F.logical_not(F.isnan(flat)), -1).to(dtypes.float64) if skip_nan else float(size)
        last = count - 1
        at = F.broadcast_to(_places(point, count, method), flat.shape[:-1])
        at = F.minimum(F.maximum(at, F.zeros_like(at)), last if skip_nan else F.full_like(at, last))
        at = F.maximum(at, F.zeros_like(at))
        low = F.floor(at)
        left = F.gather(ordered, -1, F.to(low, dtypes.int64)[..., None])[..., 0]
        right = F.gather(ordered, -1, F.to(F.ceil(at), dtypes.int64)[..., None])[..., 0]
        left, right = cast(left, dtype), cast(right, dtype)
        if method not in _DISCRETE:
            between = left + (right - left) * cast(at - low, dtype)
            between = F.where(F.isinf(left) | F.isinf(right), left + right, between)  # not NaN for equal infinities
            left = F.where(at == low, left, between)
        results.append(left)
    result = F.stack(results, 0)
    if not skip_nan:
        result = fill_masked(result, F.logical_not(F.isnan(flat).any(-1)), np.nan)
    shape = [1 if i in axes else x.shape[i] for i in range(x.ndim)] if keepdims else [x.shape[i] for i in kept_axes]
    return _write(result.reshape(*points.shape, *shape), out)


def _type_of(q: Any) -> Any:
    return q._dtype.numpy if isinstance(q, Tensor) else np.asarray(q).dtype


def _share(q: Any) -> Any:
    return (
        q / 100
        if isinstance(q, (bool, int, float))
        else tensor_of(q) / 100.0
        if isinstance(q, Tensor)
        else np.asarray(q) / 100
    )


def _quantiles(name: str, percent: bool, skip_nan: bool) -> Function:
    def reduce(
        a: ArrayLike,
        q: ArrayLike,
        axis: Axis = None,
        out: Tensor | None = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: ArrayLike | None = None,
        interpolation: str | None = None,
    ) -> Tensor:
        share = _share(q) if percent else q
        return _quantile(a, share, axis, out, method, keepdims, weights, interpolation, skip_nan)

    return rename(reduce, name)


quantile, nanquantile = _quantiles("quantile", False, False), _quantiles("nanquantile", False, True)
percentile, nanpercentile = _quantiles("percentile", True, False), _quantiles("nanpercentile", True, True)


def _median(name: str, skip_nan: bool) -> Function:
    def reduce(
        a: ArrayLike,
        axis: Axis = None,
        out: Tensor | None = None,
        overwrite_input: bool = False,
        keepdims: bool = False,
    ) -> Tensor:
        return _quantile(a, 0.5, axis, out, "linear", keepdims, None, None, skip_nan)

    return rename(reduce, name)


median, nanmedian = _median("median", False), _median("nanmedian", True)
