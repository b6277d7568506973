"""Elementwise kernels that NumPy has too, but slower.

Its `where` branches for every element, its remainders and its `hypot` call the C library for one element at a
time, its `power` is slow for negative numbers, and SciPy's `erf` is slow. Small arrays are left to NumPy: every pass
is a call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from gradcore.backends import bits
from gradcore.backends.bits import BITS
from gradcore.backends.elementwise import Elementwise

__all__ = ["NumpyElementwise"]

#: The sizes from which the kernels below are faster than NumPy's, and that of a tile that stays in cache.
_BITS_FROM, _CLIP_FROM, _TILE = 1024, 4096, 32768

#: erf(x) = tanh(x * p(x**2)): the coefficients of p, of the least relative error of erf for abs(x) < 4.
_ERF = np.array(
    [1.1283792, 0.10276987, -1.9528909e-4, -6.1483734e-4, 8.459618e-5, -4.7945155e-6, 2.7566725e-8, 5.421964e-9], "f4"
)

#: The same for erf(x / sqrt(2)).
_SCALED_ERF = (_ERF * math.sqrt(0.5) * 0.5 ** np.arange(len(_ERF))).astype("f4")


class NumpyElementwise(Elementwise):
    """What replaces NumPy's own functions on the CPU."""

    bodies: ClassVar[dict[str, Callable[..., Any]]]

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """Selection by integer arithmetic on the bits."""
        dtype = x.dtype if hasattr(x, "dtype") else getattr(y, "dtype", None)
        if dtype not in BITS or condition.size < _BITS_FROM or getattr(y, "dtype", dtype) != dtype:
            return np.where(condition, x, y)
        shape = condition.shape
        for operand in (x, y):
            if getattr(operand, "ndim", 0) and operand.shape != shape:
                shape = np.broadcast_shapes(shape, operand.shape)
        result = np.empty(shape, dtype)
        bits.select(condition, x, y, result)
        return result

    def relu(self, x: Any) -> Any:
        return np.clip(x, 0, np.inf) if _clips(x) else np.maximum(x, 0)

    def clamp(self, x: Any, low: Any = None, high: Any = None) -> Any:
        """`x` between bounds; with numbers as bounds `clip` is faster than `maximum` and `minimum`."""
        if _clips(x) and not getattr(low, "ndim", 0) and not getattr(high, "ndim", 0):
            return np.clip(x, -np.inf if low is None else low, np.inf if high is None else high)
        return super().clamp(x, low, high)

    def copysign(self, x: Any, y: Any) -> Any:
        return bits.copysign(x, y) if x.dtype.kind == "f" and x.size >= _BITS_FROM else np.copysign(x, y)

    def reciprocal(self, x: Any) -> Any:
        """`numpy.reciprocal` takes twice the time of a division."""
        return 1 / x if x.dtype.kind == "f" else np.reciprocal(x)

    def power(self, x: Any, exponent: Any, value: Any) -> Any:
        if x.dtype.kind == "f" and isinstance(value, (int, float)) and value == value // 1:
            magnitude = np.power(np.abs(x), exponent)
            return magnitude if value % 2 == 0 else self.copysign(magnitude, x)
        return np.power(x, exponent)

    def hypot(self, x: Any, y: Any) -> Any:
        """The root of the squares, and NumPy's `hypot` for those that are too large or too small for it."""
        if x.size < _BITS_FROM:
            return np.hypot(x, y)
        limit = 1e30 if x.dtype == np.float32 else 1e290
        squares = x * x + y * y
        plain = (squares > 1 / limit) & (squares < limit)
        result = np.sqrt(squares, out=squares)
        if not plain.all():
            rest = ~plain
            x, y = np.broadcast_arrays(x, y)
            result[rest] = np.hypot(x[rest], y[rest])
        return result

    def erf(self, x: Any) -> Any:
        """In float32 within 4 units in the last place of SciPy's."""
        return _in_tiles(_erf, x) if _clips(x) and x.dtype == np.float32 else self.special.erf(x)

    def gelu(self, x: Any, approximate: str = "none") -> Any:
        """As its body, in passes over parts that stay in cache."""
        if approximate == "none" and _clips(x) and x.dtype == np.float32:
            return _in_tiles(_gelu, x)
        return self.bodies["gelu"](self, x, approximate)

    def gelu_slope(self, x: Any) -> Any:
        """As its body, in passes over parts that stay in cache."""
        if _clips(x) and x.dtype == np.float32:
            return _in_tiles(_gelu_slope, x)
        return self.bodies["gelu_slope"](self, x)

    # -- quotients: those of float32 numbers are exact in float64, where they are not too large --------------

    def floor_divide(self, x: Any, y: Any) -> Any:
        return _in_tiles(_floor_divide, x, y) if _exact(x, y) else super().floor_divide(x, y)

    def remainder(self, x: Any, y: Any) -> Any:
        return _in_tiles(_remainder, x, y) if _exact(x, y) else super().remainder(x, y)

    def fmod(self, x: Any, y: Any) -> Any:
        return _in_tiles(_fmod, x, y) if _exact(x, y) else super().fmod(x, y)


def _clips(x: Any) -> bool:
    return bool(x.size >= _CLIP_FROM and x.dtype.kind == "f")


def _exact(x: Any, y: Any) -> bool:
    return bool(x.dtype == y.dtype == np.float32 and max(x.size, y.size) >= _BITS_FROM)


def _in_tiles(kernel: Callable[..., None], *arrays: Any) -> Any:
    """Run ``kernel(out, *parts)`` on parts of arrays of one dtype that stay in cache."""
    arrays = np.broadcast_arrays(*arrays)
    result = np.empty(arrays[0].shape, arrays[0].dtype)
    flat, parts = result.reshape(-1), [np.ascontiguousarray(a).reshape(-1) for a in arrays]
    for i in range(0, flat.size, _TILE):
        kernel(flat[i : i + _TILE], *(p[i : i + _TILE] for p in parts))
    return result


def _tanh_of_series(out: Any, x: Any, bound: float, coefficients: Any) -> Any:
    """``tanh(x * p(x**2))`` with `x` kept within the bound; returns an array that is free now."""
    np.clip(x, -bound, bound, out=out)
    square = out * out
    series = square * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        series += coefficient
        series *= square
    series += coefficients[0]
    series *= out
    np.tanh(series, out=out)
    return square


def _erf(out: Any, x: Any) -> None:
    _tanh_of_series(out, x, 4, _ERF)


def _gelu(out: Any, x: Any) -> None:
    _tanh_of_series(out, x, 4 * math.sqrt(2), _SCALED_ERF)
    out += 1
    out *= x
    out *= 0.5


def _gelu_slope(out: Any, x: Any) -> None:
    density = _tanh_of_series(out, x, 4 * math.sqrt(2), _SCALED_ERF)
    out += 1
    out *= 0.5
    np.multiply(x, x, out=density)
    density *= -0.5
    np.exp(density, out=density)
    density *= x
    density *= 1 / math.sqrt(2 * math.pi)
    out += density


def _by_quotient(rounding: Any, plain: Any, *, rest: bool) -> Callable[..., None]:
    """A kernel for the rounded quotient, or for the rest that it leaves; `plain` is for large quotients."""

    def kernel(out: Any, x: Any, y: Any) -> None:
        wide = x.astype(np.float64)
        quotient = wide / y
        rounding(quotient, out=quotient)
        if not (np.abs(quotient) < 2**24).all():
            plain(x, y, out=out)
        elif rest:
            quotient *= y
            out[...] = np.subtract(wide, quotient, out=wide)
        else:
            out[...] = quotient

    return kernel


_floor_divide = _by_quotient(np.floor, np.floor_divide, rest=False)
_remainder = _by_quotient(np.floor, np.remainder, rest=True)
_fmod = _by_quotient(np.trunc, np.fmod, rest=True)
