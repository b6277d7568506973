"""NumPy's products, convolutions, polynomials, numerical calculus and further elementwise functions, on tensors."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor, ArrayLike, Axis, DTypeLike
from gradcore.numpy.conversion import (
    axes_of,
    axis_of,
    cast,
    common,
    inexact,
    numpy_dtype,
    promote,
    refuse_history,
    tensor_of,
    write_out,
)
from gradcore.numpy.ufuncs import UFUNCS
from gradcore.ops.declare.shapes import check_count
from gradcore.tensor import Tensor

__all__ = [
    "allclose", "angle", "around", "array_equal", "array_equiv", "bartlett", "blackman", "clip", "convolve",
    "correlate", "cross", "diff", "dot", "ediff1d", "einsum", "einsum_path", "fix", "gradient", "hamming", "hanning",
    "i0", "imag", "inner", "interp", "isclose", "iscomplex", "isneginf", "isposinf", "isreal", "kaiser", "kron",
    "nan_to_num", "outer", "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub",
    "polyval", "real", "real_if_close", "roots", "round", "sinc", "tensordot", "trapezoid", "unwrap", "vander", "vdot",
]  # fmt: skip


# -- numbers --------------------------------------------------------------------------------------------------------


def real(val: ArrayLike) -> Tensor:
    return F.real(tensor_of(val))


def imag(val: ArrayLike) -> Tensor:
    x = tensor_of(val)
    return F.imag(x) if x._dtype.is_complex else F.zeros_like(x)


def angle(z: ArrayLike, deg: bool = False) -> Tensor:
    z = inexact(tensor_of(z))
    result = F.angle(z)
    return F.rad2deg(result) if deg else result


def round(a: ArrayLike, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    x = tensor_of(a)
    if x._dtype.is_complex:
        result = F.complex(F.round(F.real(x), decimals=decimals), F.round(F.imag(x), decimals=decimals))
    elif x._dtype is dtypes.bool_:
        result = cast(x, dtypes.float16)
    elif not x._dtype.is_differentiable:
        result = x if decimals >= 0 else cast(F.round(cast(x, dtypes.float64), decimals=decimals), x._dtype)
    else:
        result = F.round(x, decimals=decimals)
    return write_out(result, out)


around = round


def fix(x: ArrayLike, out: Tensor | None = None) -> Tensor:
    return UFUNCS[np.trunc](x) if out is None else UFUNCS[np.trunc](x, out=out)


#: Stands for bounds of `clip` that were not given; None is no bound.
_NOT_GIVEN = object()


def clip(
    a: ArrayLike,
    a_min: ArrayLike | None = _NOT_GIVEN,
    a_max: ArrayLike | None = _NOT_GIVEN,
    out: Tensor | None = None,
    *,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    **kwargs: Any,
) -> Tensor:
    """Limit the values to an interval; `kwargs` are those of universal functions."""
    if a_min is _NOT_GIVEN is a_max:
        low, high = min, max
    elif a_min is _NOT_GIVEN or a_max is _NOT_GIVEN:
        missing = "a_min" if a_min is _NOT_GIVEN else "a_max"
        raise TypeError(f"clip() missing 1 required positional argument: '{missing}'")
    elif min is not None or max is not None:
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    else:
        low, high = a_min, a_max
    x = tensor_of(a)
    if not x._dtype.is_differentiable and x._dtype is not dtypes.bool_:  # numbers outside of the dtype do not limit
        limits = dtypes.iinfo(x._dtype)
        low = None if low.__class__ is int and low <= limits.min else low
        high = None if high.__class__ is int and high >= limits.max else high
        for bound in (low, high):
            if bound.__class__ is int:
                np.asarray(bound, x._dtype.numpy)  # OverflowError for those that do not fit
    if low is None and high is None:
        return write_out(F.clone(x), out)
    bounds = [b for b in (low, high) if b is not None]
    if kwargs:
        written = {name: kwargs[name] for name in ("casting", "where") if name in kwargs}
        for bound, function in ((low, np.maximum), (high, np.minimum)):
            x = x if bound is None else UFUNCS[function](x, bound, **kwargs)
        return write_out(x, out, **written)
    if (
        all(b.__class__ in (int, float) for b in bounds)
        and (x._dtype.is_floating_point or all(b.__class__ is int for b in bounds))
        and x._dtype is not dtypes.bool_
    ):
        result = F.clamp(x, low, high)
    else:
        x, *rest = promote(x, *bounds)
        if low is not None:
            x = F.maximum(x, rest.pop(0))
        result = x if high is None else F.minimum(x, rest.pop(0))
    return write_out(result, out)


def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Tensor:
    t = tensor_of(x)
    if not t._dtype.is_differentiable:
        return F.clone(t)
    if t._dtype.is_complex:
        result = F.complex(*(nan_to_num(component, True, nan, posinf, neginf) for component in (F.real(t), F.imag(t))))
    else:
        new = {F.isnan: nan, F.isposinf: posinf, F.isneginf: neginf}
        result = F.nan_to_num(t, *(v if v is None or isinstance(v, (int, float)) else 0.0 for v in new.values()))
        for test, value in new.items():
            if value is not None and not isinstance(value, (int, float)):
                result = F.where(test(t), cast(tensor_of(value), t._dtype), result)
    return result if copy else F.copy_(t, result)


def real_if_close(a: ArrayLike, tol: float = 100) -> Tensor:
    x = tensor_of(a)
    if not x._dtype.is_complex:
        return x
    bound = tol * np.finfo(x._dtype.numpy).eps if tol > 1 else tol
    return F.real(x) if bool((F.abs(F.imag(x)) < bound).all()) else x


def sinc(x: ArrayLike) -> Tensor:
    return F.sinc(inexact(tensor_of(x)))


def i0(x: ArrayLike) -> Tensor:
    return F.i0(inexact(tensor_of(x)))


def isclose(a: ArrayLike, b: ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    return F.isclose(*promote(a, b), rtol=float(rtol), atol=float(atol), equal_nan=equal_nan)


def allclose(a: ArrayLike, b: ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> bool:
    a, b = promote(a1, a2)
    return a.shape == b.shape and bool(_same(a, b, equal_nan).all())


def _same(a: Tensor, b: Tensor, equal_nan: bool = False) -> AnyTensor:
    is_equal = a == b
    return F.logical_or(is_equal, F.logical_and(F.isnan(a), F.isnan(b))) if equal_nan else is_equal


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> bool:
    a, b = promote(a1, a2)
    try:
        np.broadcast_shapes(tuple(a.shape), tuple(b.shape))
    except ValueError:
        return False
    return bool(_same(a, b).all())


def isreal(x: ArrayLike) -> Tensor:
    return F.isreal(tensor_of(x))


def iscomplex(x: ArrayLike) -> Tensor:
    return F.logical_not(isreal(x))


def isposinf(x: ArrayLike, out: Tensor | None = None) -> Tensor:
    return write_out(F.isposinf(tensor_of(x)), out)


def isneginf(x: ArrayLike, out: Tensor | None = None) -> Tensor:
    return write_out(F.isneginf(tensor_of(x)), out)


def unwrap(
    p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, *, period: ArrayLike = 2 * math.pi
) -> Tensor:
    x = tensor_of(p)
    is_integer = not x._dtype.is_differentiable and isinstance(period, int)
    x = x if is_integer else inexact(x)
    step = F.diff(x, 1, axis)
    if not x.shape[axis]:
        return x
    half = period // 2 if is_integer else period / 2
    ambiguous = period % 2 == 0 if is_integer else True
    low = -half
    wrapped = F.remainder(step - low, period) + low
    if ambiguous:
        wrapped = F.where(F.logical_and(wrapped == low, step > 0), F.full_like(wrapped, half), wrapped)
    correction = wrapped - step
    correction = F.where(
        F.abs(step) < (half if discont is None else builtins.max(discont, half)), F.zeros_like(step), correction
    )
    head = F.narrow(x, axis, 0, 1)
    rest = F.narrow(x, axis, 1, x.shape[axis] - 1)
    return F.cat([head, rest + F.cumsum(correction, axis)], axis)


# -- products -------------------------------------------------------------------------------------------------------


def dot(a: ArrayLike, b: ArrayLike, out: Tensor | None = None) -> Tensor:
    x, y = promote(a, b)
    if not x.ndim or not y.ndim:
        return write_out(UFUNCS[np.multiply](x, y), out)
    if x.ndim <= 2 and y.ndim <= 2 and x._dtype is not dtypes.bool_:
        return write_out(F.matmul(x, y), out)
    return write_out(_tensordot(x, y, ([x.ndim - 1], [builtins.max(y.ndim - 2, 0)])), out)


def _tensordot(x: Tensor, y: Tensor, axes: Any) -> AnyTensor:
    if [x.shape[i] for i in axes[0]] != [y.shape[i] for i in axes[1]]:  # PyTorch broadcasts a size of 1
        raise ValueError(
            f"shapes {tuple(x.shape)} and {tuple(y.shape)} not aligned along the axes {axes[0]} and {axes[1]}"
        )
    if x._dtype is dtypes.bool_:
        return F.tensordot(x.to(dtypes.int64), y.to(dtypes.int64), axes) > 0
    return F.tensordot(x, y, axes)


def vdot(a: ArrayLike, b: ArrayLike, /) -> Tensor:
    x, y = (t.reshape(-1) for t in promote(a, b))
    if x.shape != y.shape:
        raise ValueError(f"vdot() takes arrays with the same number of elements, but got {len(x)} and {len(y)}")
    if x._dtype.is_differentiable:
        return F.sum(F.conj(x) * y)
    return F.any(x & y) if x._dtype is dtypes.bool_ else F.sum(x * y, dtype=x._dtype)


def inner(a: ArrayLike, b: ArrayLike, /) -> Tensor:
    x, y = promote(a, b)
    if not x.ndim or not y.ndim:
        return UFUNCS[np.multiply](x, y)
    return _tensordot(x, y, ([x.ndim - 1], [y.ndim - 1]))


def outer(a: ArrayLike, b: ArrayLike, out: Tensor | None = None) -> Tensor:
    x, y = promote(a, b)
    return write_out(UFUNCS[np.multiply](x.reshape(-1, 1), y.reshape(1, -1)), out)


def tensordot(a: ArrayLike, b: ArrayLike, axes: Any = 2) -> Tensor:
    x, y = promote(a, b)
    if isinstance(axes, (int, np.integer)):
        axes = (list(range(x.ndim - int(axes), x.ndim)), list(range(int(axes))))
    left, right = ([each] if np.ndim(each) == 0 else list(each) for each in axes)
    return _tensordot(x, y, (list(axes_of(left, x.ndim)), list(axes_of(right, y.ndim))))


def kron(a: ArrayLike, b: ArrayLike) -> Tensor:
    return F.kron(*promote(a, b))


def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Tensor:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promote(a, b)
    x, y = F.movedim(x, axisa, -1), F.movedim(y, axisb, -1)
    if {x.shape[-1], y.shape[-1]} - {2, 3}:
        raise ValueError("incompatible dimensions for cross product (dimension must be 2 or 3)")
    flat = x.shape[-1] == y.shape[-1] == 2
    x, y = (_three(t) for t in (x, y))
    x, y = F.broadcast_tensors(x, y)
    result = F.linalg_cross(x, y)
    return result[..., 2] if flat else F.movedim(result, -1, axisc)


def _three(x: Tensor) -> AnyTensor:
    return F.cat([x, F.zeros_like(x[..., :1])], -1) if x.shape[-1] == 2 else x


def einsum(
    *operands: ArrayLike,
    out: Tensor | None = None,
    optimize: Any = False,
    dtype: DTypeLike = None,
    order: str = "K",
    casting: str = "safe",
) -> Tensor:
    if isinstance(operands[0], str):
        equation, values = operands[0], operands[1:]
        tensors = promote(*(tensor_of(x, dtype) for x in values))
        return write_out(cast(F.einsum(equation.replace(" ", ""), *tensors), tensors[0]._dtype), out)
    pairs = list(operands)
    last = [pairs.pop()] if len(pairs) % 2 else []
    tensors = promote(*(tensor_of(x, dtype) for x in pairs[::2]))
    result = F.einsum(*(each for pair in zip(tensors, pairs[1::2], strict=True) for each in pair), *last)
    return write_out(cast(result, tensors[0]._dtype), out)


def einsum_path(*operands: ArrayLike, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    shapes = (np.broadcast_to(np.zeros(()), tuple(x.shape)) if isinstance(x, Tensor) else x for x in operands)
    return np.einsum_path(*shapes, optimize=optimize)  # type: ignore[arg-type]


def _window(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    @functools.wraps(function, assigned=("__name__", "__qualname__"))
    def window(M: int, *args: Any) -> Any:
        refuse_history(args, f"numpy.{name}()")
        return tensor_of(function(float(M), *map(float, args)), dtypes.float64)

    return window


bartlett, blackman, hamming = _window("bartlett"), _window("blackman"), _window("hamming")
hanning, kaiser = _window("hanning"), _window("kaiser")


def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Tensor:
    x, w = (F.atleast_1d(t) for t in promote(a, v))
    if x.shape[0] < w.shape[0]:
        x, w = w, x
    return _slid(x, F.flip(w, (0,)), mode)


def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Tensor:
    x, w = (F.atleast_1d(t) for t in promote(a, v))
    w = F.conj(w) if w._dtype.is_complex else w
    if x.shape[0] >= w.shape[0]:
        return _slid(x, w, mode)
    return F.flip(_slid(w, x, mode, len(x) % 2), (0,))


def _slid(x: Tensor, w: Tensor, mode: str, shift: int = 0) -> AnyTensor:
    """Return the inner products of `w` with all windows of the longer vector `x`, for a convolution mode."""
    if x.ndim > 1 or w.ndim > 1:
        raise ValueError(f"convolutions take arrays of one dimension, but got {x.ndim} and {w.ndim} dimensions")
    n, m = x.shape[0], w.shape[0]
    if not n or not m:
        raise ValueError("an array cannot be empty")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got '{mode}')")
    left = {"full": m - 1, "valid": 0, "same": m // 2}[mode]
    right = {"full": m - 1, "valid": 0, "same": m - 1 - m // 2}[mode]
    if mode == "same" and shift == 0 and m % 2 == 0:
        left, right = m // 2, m // 2 - 1
    if mode == "same" and shift:
        left, right = m // 2, m - 1 - m // 2
    x = F.cat([F.new_zeros(x, (left,)), x, F.new_zeros(x, (right,))])
    return F.matmul(x.unfold(0, m, 1), w)


# -- calculus -------------------------------------------------------------------------------------------------------


def diff(
    a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None, append: ArrayLike | None = None
) -> Tensor:
    x = tensor_of(a)
    axis = axis_of(axis, x.ndim)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")

    def ends(value: Any) -> list[Any]:
        if value is None:
            return []
        t = tensor_of(value)
        return [F.broadcast_to(t, [1 if i == axis else s for i, s in enumerate(x.shape)]) if not t.ndim else t]

    if prepend is not None or append is not None:
        x = F.cat(promote(*ends(prepend), x, *ends(append)), axis)
    if x._dtype is dtypes.bool_:
        for _ in range(n):
            x = F.narrow(x, axis, 1, x.shape[axis] - 1) != F.narrow(x, axis, 0, x.shape[axis] - 1)
        return x
    return F.diff(x, n, axis)


def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Tensor:
    x = tensor_of(ary).reshape(-1)
    parts = [x[1:] - x[:-1]]
    for name, value in (("to_begin", to_begin), ("to_end", to_end)):
        if value is not None:
            part = tensor_of(value)
            if not np.can_cast(part._dtype.numpy, x._dtype.numpy, "same_kind"):
                raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
            parts.insert(0 if name == "to_begin" else len(parts), cast(part, x._dtype).reshape(-1))
    return F.cat(parts)


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Tensor:
    y = inexact(tensor_of(y))
    size = y.shape[axis]
    pairs = F.narrow(y, axis, 1, size - 1) + F.narrow(y, axis, 0, size - 1)
    if x is None:
        return F.sum(UFUNCS[np.multiply](pairs, dx), axis) / 2.0
    x = tensor_of(x)
    steps = F.diff(x, 1, 0 if x.ndim == 1 else axis)
    if x.ndim == 1:
        steps = steps.reshape([-1 if i == axis_of(axis, y.ndim) else 1 for i in range(y.ndim)])
    pairs, steps = promote(pairs, steps)
    return F.sum(pairs * steps, axis) / 2.0


def gradient(f: ArrayLike, *varargs: ArrayLike, axis: Axis = None, edge_order: int = 1) -> Any:
    x = inexact(tensor_of(f))
    axes = axes_of(axis, x.ndim)
    spacings = list(varargs) or [1.0]
    if len(spacings) == 1 and not tensor_of(spacings[0]).ndim:
        spacings = spacings * len(axes)
    if len(spacings) != len(axes):
        raise TypeError("invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    result = tuple(_slopes(x, spacing, i, edge_order) for spacing, i in zip(spacings, axes, strict=True))
    return result[0] if len(result) == 1 else result


def _slopes(x: Tensor, spacing: Any, axis: int, edge_order: int) -> AnyTensor:
    """Estimate derivatives along an axis by second-order central differences, and one-sided ones at the ends."""
    size = x.shape[axis]
    if size < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
            "required."
        )
    y = F.movedim(x, axis, -1)
    y, h = common(y, spacing)
    if h.ndim and tuple(h.shape) != (size,):
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    steps = F.diff(h, 1, 0) if h.ndim else F.broadcast_to(h, (size - 1,))
    before, after = steps[:-1], steps[1:]
    if h.ndim:
        inside = (
            -after / (before * (before + after)) * y[..., :-2]
            + (after - before) / (before * after) * y[..., 1:-1]
            + before / (after * (before + after)) * y[..., 2:]
        )
    else:
        inside = (y[..., 2:] - y[..., :-2]) / (before + after)
    if edge_order == 1:
        first, last = (y[..., 1] - y[..., 0]) / steps[0], (y[..., -1] - y[..., -2]) / steps[-1]
    else:
        a, b = steps[0], steps[1]
        first = -(2 * a + b) / (a * (a + b)) * y[..., 0] + (a + b) / (a * b) * y[..., 1] - a / (b * (a + b)) * y[..., 2]
        a, b = steps[-2], steps[-1]
        last = (
            b / (a * (a + b)) * y[..., -3] - (b + a) / (a * b) * y[..., -2] + (2 * b + a) / (b * (a + b)) * y[..., -1]
        )
    return cast(F.movedim(F.cat([first[..., None], inside, last[..., None]], -1), -1, axis), x._dtype)


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    period: ArrayLike | None = None,
) -> Tensor:
    x, xp = promote(x, xp)
    if x._dtype.is_complex:
        raise TypeError("interp() takes real coordinates x and xp, but got complex numbers")
    x, xp = cast(x, dtypes.float64), cast(xp, dtypes.float64)
    fp = tensor_of(fp)
    fp = cast(fp, dtypes.complex128 if fp._dtype.is_complex else dtypes.float64)
    if xp.ndim != 1 or xp.shape != fp.shape:
        raise ValueError("fp and xp are not of the same length.")
    if period is not None:
        if not period:
            raise ValueError("period must be a non-zero value")
        period, left, right = abs(period), None, None
        x, xp = F.remainder(x, period), F.remainder(xp, period)
        order = F.argsort(xp, 0)
        xp, fp = F.index_select(xp, 0, order), F.index_select(fp, 0, order)
        xp, fp = F.cat([xp[-1:] - period, xp, xp[:1] + period]), F.cat([fp[-1:], fp, fp[:1]])
    if xp.shape[0] == 1:
        result = F.broadcast_to(fp, x.shape) if x.ndim else fp[0]
    else:
        at = F.clamp(F.searchsorted(xp.detach(), x.detach(), side="right") - 1, 0, xp.shape[0] - 2)
        x0, x1, y0, y1 = (F.take(t, at + i) if not t._dtype.is_complex else t[at + i] for t in (xp, fp) for i in (0, 1))
        slope = (y1 - y0) / (x1 - x0)
        result, from_right = y0 + slope * (x - x0), y1 + slope * (x - x1)
        at_ends = F.where((x == x0) | (F.isnan(from_right) & (y0 == y1)), y0, from_right)
        result = F.where(F.isnan(result) & (x == x), at_ends, result)  # infinite coordinates and values
        result = F.where(x >= xp[-1], fp[-1], result)
    low = fp[0] if left is None else cast(tensor_of(left), fp._dtype)
    high = fp[-1] if right is None else cast(tensor_of(right), fp._dtype)
    return F.where(x > xp[-1], high, F.where(x < xp[0], low, result))


# -- polynomials -------------------------------------------------------------------------------------------------------


def polyval(p: ArrayLike, x: ArrayLike) -> Tensor:
    p, x = promote(p, x)
    result = F.zeros_like(x)
    for each in F.unbind(p, 0):
        result = result * x + each
    return result


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Tensor:
    return UFUNCS[np.add](*_pad_coefficients(a1, a2))


def polysub(a1: ArrayLike, a2: ArrayLike) -> Tensor:
    return UFUNCS[np.subtract](*_pad_coefficients(a1, a2))


def _pad_coefficients(a: Any, b: Any) -> list[Any]:
    """Return the coefficients of two polynomials, padded with leading zeros to one length."""
    parts = [F.atleast_1d(t) for t in promote(a, b)]
    size = builtins.max(t.shape[0] for t in parts)
    return [F.cat([F.new_zeros(t, (size - t.shape[0],)), t]) for t in parts]


def polymul(a1: ArrayLike, a2: ArrayLike) -> Tensor:
    return convolve(_leading(a1), _leading(a2))


def _leading(p: Any) -> AnyTensor:
    """Return the coefficients without leading zeros."""
    p = F.atleast_1d(tensor_of(p))
    nonzero = np.flatnonzero(np.asarray(p.detach().cpu()))
    return p[int(nonzero[0]) if len(nonzero) else p.shape[0] - 1 :]


def polydiv(u: ArrayLike, v: ArrayLike) -> tuple[Tensor, ...]:
    u, v = (F.atleast_1d(t) for t in common(u, v))
    count = u.shape[0] - v.shape[0] + 1
    if count < 1:
        return F.new_zeros(u, (1,)), u
    quotient, remainder = [], u
    for i in range(count):
        d = remainder[i] / v[0]
        quotient.append(d)
        remainder = remainder - F.cat([F.new_zeros(u, (i,)), d * v, F.new_zeros(u, (count - 1 - i,))])
    host = np.asarray(remainder.detach().cpu())
    start = 0
    while start < len(host) - 1 and np.allclose(host[start], 0, rtol=1e-14):
        start += 1
    return F.stack(quotient), remainder[start:]


def polyder(p: ArrayLike, m: int = 1) -> Tensor:
    p = tensor_of(p)
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    for _ in range(min(m, p.shape[0])):
        size = p.shape[0] - 1
        p = UFUNCS[np.multiply](p[:-1], tensor_of(np.arange(size, 0, -1)).to(p._device.real))
    return p


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Tensor:
    p = inexact(tensor_of(p))
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    check_count("polyint", m)
    constants = F.broadcast_to(F.atleast_1d(tensor_of(0.0 if k is None else k)), (m,)) if m else []
    for i in range(m):
        size = p.shape[0]
        p = p / tensor_of(np.arange(size, 0, -1), p._dtype).to(p._device.real)
        p = F.cat([p, cast(constants[i], p._dtype)[None]])
    return p


def poly(seq_of_zeros: ArrayLike) -> Tensor:
    zeros = F.atleast_1d(tensor_of(seq_of_zeros))
    if zeros.ndim > 2 or (zeros.ndim == 2 and (not zeros.numel() or zeros.shape[0] != zeros.shape[1])):
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if zeros.ndim == 2:
        zeros = F.linalg_eigvals(inexact(zeros))
    zeros = inexact(zeros)
    if not zeros.numel():
        return F.new_zeros(zeros, ()) + 1
    result = F.new_zeros(zeros, (1,)) + 1
    for each in F.unbind(zeros, 0):
        result = F.cat([result, F.new_zeros(result, (1,))]) - F.cat([F.new_zeros(result, (1,)), result * each])
    if zeros._dtype.is_complex:
        host = np.asarray(zeros.detach().cpu())
        if np.array_equal(np.sort(host), np.sort(host.conjugate())):
            return F.real(result)
    return result


def roots(p: ArrayLike) -> Tensor:
    p = inexact(tensor_of(p))
    if p.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    nonzero = np.flatnonzero(np.asarray(p.detach().cpu()))
    if not len(nonzero):
        return F.new_zeros(p, (0,))
    trailing = p.shape[0] - int(nonzero[-1]) - 1
    p = p[int(nonzero[0]) : int(nonzero[-1]) + 1]
    size = p.shape[0] - 1
    if not size:
        return F.new_zeros(p, (trailing,))
    below = tensor_of(np.eye(size, k=-1)[1:], p._dtype).to(p._device.real)
    values = F.linalg_eigvals(F.cat([(-p[1:] / p[0])[None], below]))
    if not p._dtype.is_complex and not bool(F.imag(values).any()):
        values = F.real(values)
    return F.cat([values, F.new_zeros(values, (trailing,))])


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: ArrayLike | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: Any = False,
) -> Any:
    x, y = common(x, y)
    if full:
        raise TypeError("polyfit(full=True) of tensors: use linalg.lstsq and linalg.svd of vander(x, deg + 1)")
    vandermonde, right = vander(x, deg + 1), y
    if w is not None:
        weights = inexact(tensor_of(w))
        vandermonde, right = vandermonde * weights[:, None], right * (weights[:, None] if y.ndim > 1 else weights)
    scale = F.sqrt(F.sum(vandermonde * vandermonde, 0))
    coefficients = F.matmul(F.linalg_pinv(vandermonde / scale), right if y.ndim > 1 else right[:, None])
    coefficients = coefficients / scale[:, None]
    result = coefficients if y.ndim > 1 else coefficients[:, 0]
    if not cov:
        return result
    base = F.linalg_inv(F.matmul((vandermonde / scale).mT, vandermonde / scale)) / F.outer(scale, scale)
    if cov == "unscaled":
        return result, base
    residuals = F.sum(F.square(right - F.matmul(vandermonde, result)), 0) / (x.shape[0] - deg - 1)
    return result, base * residuals if y.ndim == 1 else base[:, :, None] * residuals


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Tensor:
    x = tensor_of(x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    dtype = dtypes.from_numpy(np.promote_types(numpy_dtype(x._dtype), np.dtype(int)))
    x = cast(x, dtype)
    count = x.shape[0] if N is None else N
    check_count("vander", count)
    columns = [F.ones_like(x)]
    for _ in range(count - 1):
        columns.append(columns[-1] * x)
    columns = columns[:count]
    return F.stack(columns if increasing else columns[::-1], 1) if count else F.new_zeros(x, (x.shape[0], 0))
