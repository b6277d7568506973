"""Elementwise kernels that are faster than NumPy's own functions for large arrays.

NumPy's `where` branches for every element, its remainders and its `hypot` call the C library for one element at a
time, and its `power` is slow for negative numbers. Small arrays use NumPy's functions, because the kernels here make
several calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from gradcore.backends.numpy import bits, tiled
from gradcore.backends.numpy.bits import BITS
from gradcore.backends.portable import approximations
from gradcore.backends.portable.elementwise import Elementwise

__all__ = ["NumpyElementwise"]

#: Elements from which kernels on bits, and `clip`, are faster than NumPy's functions; elements of a tile in cache.
_BITS_FROM, _CLIP_FROM, _TILE = 1024, 4096, 32768


#: Whether `clip` keeps a zero's sign, as `maximum` does. That of NumPy 2.0 does not.
_CLIP_KEEPS_SIGNS = bool(np.signbit(np.clip(np.array([-0.0]), 0.0, np.inf))[0])
#: The number one as a 0-dim array, by the dtype's character. NumPy needs half the time for it of a Python number.
ONE = {char: np.ones((), char) for char in "fd"}


class NumpyElementwise(Elementwise):
    """Elementwise kernels that replace NumPy's own functions."""

    bodies: ClassVar[dict[str, Callable[..., Any]]]

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """Select elements by integer arithmetic on their bits."""
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
        # As `clamp` of `Elementwise`: of two equal numbers NumPy gives the second, so that -0.0 stays.
        return np.clip(x, 0, np.inf) if _clips(x) else np.maximum(0, x)

    def clamp(self, x: Any, low: Any = None, high: Any = None) -> Any:
        """Clamp `x` between bounds. With numbers as bounds, `clip` is faster than `maximum` and `minimum`."""
        if _clips(x) and not getattr(low, "ndim", 0) and not getattr(high, "ndim", 0):
            return np.clip(x, -np.inf if low is None else low, np.inf if high is None else high)
        if low is not None:
            x = np.maximum(low, x)
        return x if high is None else np.minimum(high, x)

    def copysign(self, x: Any, y: Any) -> Any:
        return bits.copysign(x, y) if x.dtype.kind == "f" and x.size >= _BITS_FROM else np.copysign(x, y)

    def reciprocal(self, x: Any) -> Any:
        """Compute ``1 / x``. `numpy.reciprocal` takes twice the time of a division."""
        return 1 / x if x.dtype.kind == "f" else np.reciprocal(x)

    def tanh_backward(self, grad: Any, output: Any) -> Any:
        one = ONE.get(output.dtype.char, 1) if output.__class__ is np.ndarray else 1
        return grad * (one - output * output)

    def power(self, x: Any, exponent: Any, value: Any) -> Any:
        if x.dtype.kind == "f" and isinstance(value, (int, float)) and value == value // 1:
            magnitude = np.power(np.abs(x), exponent)
            return magnitude if value % 2 == 0 else self.copysign(magnitude, x)
        return np.power(x, exponent)

    def hypot(self, x: Any, y: Any) -> Any:
        """Compute ``sqrt(x*x + y*y)``, and use NumPy's `hypot` where squares are too large or too small."""
        if x.size < _BITS_FROM:
            return np.hypot(x, y)
        limit = 1e30 if x.dtype == np.float32 else 1e290
        squares = x * x + y * y
        in_range = (squares > 1 / limit) & (squares < limit)
        result = np.sqrt(squares, out=squares)
        if not in_range.all():
            extreme = ~in_range
            x, y = np.broadcast_arrays(x, y)
            result[extreme] = np.hypot(x[extreme], y[extreme])
        return result

    def special_function(self, name: str) -> Any:
        """Return a function of `scipy.special`, or for large arrays an approximation of the same accuracy."""
        dtypes = approximations.DTYPES.get(name, "")
        if not dtypes:
            return super().special_function(name)
        formula = getattr(approximations, name)

        def kernel(x: Any) -> Any:
            if x.size < _CLIP_FROM or x.dtype.char not in dtypes:
                return getattr(self.special, name)(x)
            return tiled.evaluate(formula, self, (x,))

        return kernel

    # -- quotients: float64 holds the rounded quotients of float32 numbers exactly if they are not too large --

    def floor_divide(self, x: Any, y: Any) -> Any:
        return _compute_in_tiles(_floor_divide, x, y) if _exact(x, y) else super().floor_divide(x, y)

    def remainder(self, x: Any, y: Any) -> Any:
        return _compute_in_tiles(_remainder, x, y) if _exact(x, y) else super().remainder(x, y)

    def fmod(self, x: Any, y: Any) -> Any:
        return _compute_in_tiles(_fmod, x, y) if _exact(x, y) else super().fmod(x, y)


def _clips(x: Any) -> bool:
    return bool(x.size >= _CLIP_FROM and x.dtype.kind == "f" and _CLIP_KEEPS_SIGNS)


def _exact(x: Any, y: Any) -> bool:
    return bool(x.dtype == y.dtype == np.float32 and max(x.size, y.size) >= _BITS_FROM)


def _compute_in_tiles(kernel: Callable[..., None], *arrays: Any) -> Any:
    """Compute a result from broadcast arrays of one dtype by calling ``kernel(out, *parts)`` for cache-sized parts."""
    arrays = np.broadcast_arrays(*arrays)
    result = np.empty(arrays[0].shape, arrays[0].dtype)
    flat, parts = result.reshape(-1), [np.ascontiguousarray(a).reshape(-1) for a in arrays]
    for i in range(0, flat.size, _TILE):
        kernel(flat[i : i + _TILE], *(p[i : i + _TILE] for p in parts))
    return result


def _make_quotient_kernel(rounding: Any, plain: Any, sign_of: int | None = None) -> Callable[..., None]:
    """Return a kernel ``kernel(out, x, y)`` for the rounded quotient of float32 numbers, or for the remainder.

    `rounding` rounds the quotient, and `plain` is NumPy's function, which is called if quotients are too large or a
    divisor is infinite. The remainder has the sign of argument `sign_of`, also if it is zero.
    """

    def kernel(out: Any, x: Any, y: Any) -> None:
        x_double = x.astype(np.float64)
        quotient = x_double / y
        rounding(quotient, out=quotient)
        if not ((np.abs(quotient) < 2**24).all() and np.isfinite(y).all()):
            plain(x, y, out=out)
        elif sign_of is None:
            out[...] = quotient
        else:
            quotient *= y
            out[...] = np.copysign(np.subtract(x_double, quotient, out=x_double), (x, y)[sign_of], out=x_double)

    return kernel


_floor_divide = _make_quotient_kernel(np.floor, np.floor_divide)
_remainder = _make_quotient_kernel(np.floor, np.remainder, sign_of=1)
_fmod = _make_quotient_kernel(np.trunc, np.fmod, sign_of=0)
