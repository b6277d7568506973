"""Elementwise kernels, most of which are the array library's own functions under gradcore's names."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.kernel_rules import writes
from gradcore.core import dtypes

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["RENAMED", "SPECIAL", "Elementwise", "is_positive_zero"]

#: Functions of the array library, by name in the dispatch table and name in NumPy. Methods below override some.
RENAMED = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "add": "add", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "bitwise_and": "bitwise_and",
    "bitwise_left_shift": "left_shift", "bitwise_not": "invert", "bitwise_or": "bitwise_or",
    "bitwise_right_shift": "right_shift", "bitwise_xor": "bitwise_xor", "cbrt": "cbrt", "ceil": "ceil",
    "conj": "conjugate", "copysign": "copysign", "cos": "cos", "cosh": "cosh", "deg2rad": "deg2rad", "div": "divide",
    "eq": "equal", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "floor": "floor", "floor_divide": "floor_divide",
    "fmax": "fmax", "fmin": "fmin", "fmod": "fmod", "gcd": "gcd", "ge": "greater_equal", "gt": "greater",
    "heaviside": "heaviside", "hypot": "hypot", "imag": "imag", "isfinite": "isfinite", "isinf": "isinf",
    "isnan": "isnan", "lcm": "lcm", "ldexp": "ldexp", "le": "less_equal", "log": "log", "log10": "log10",
    "log1p": "log1p", "log2": "log2", "logaddexp": "logaddexp", "logaddexp2": "logaddexp2",
    "logical_and": "logical_and", "logical_not": "logical_not", "logical_or": "logical_or",
    "logical_xor": "logical_xor", "lt": "less", "maximum": "maximum", "minimum": "minimum", "mul": "multiply",
    "ne": "not_equal", "neg": "negative", "positive": "positive", "pow": "power",
    "rad2deg": "rad2deg", "real": "real", "reciprocal": "reciprocal", "remainder": "remainder", "round": "rint",
    "sign": "sign", "signbit": "signbit", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "square": "square",
    "sub": "subtract", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip

#: Kernels that are functions of scipy.special (cupyx.scipy.special on CUDA), imported when first used.
SPECIAL = {
    "bessel_j0": "j0", "bessel_j1": "j1", "bessel_y0": "y0", "bessel_y1": "y1", "digamma": "digamma",
    "erf": "erf", "erfc": "erfc", "erfcx": "erfcx", "erfinv": "erfinv", "i0": "i0", "i0e": "i0e", "i1": "i1",
    "i1e": "i1e", "igamma": "gammainc", "igammac": "gammaincc", "log_ndtr": "log_ndtr",
    "modified_bessel_k0": "k0", "modified_bessel_k1": "k1", "ndtri": "ndtri",
    "scaled_modified_bessel_k0": "k0e", "scaled_modified_bessel_k1": "k1e", "xlog1py": "xlog1py",
    "xlogy": "xlogy", "zeta": "zeta",
}  # fmt: skip


def _copy_expanded(x: Array, copy: Callable[[Array], Array]) -> Array:
    """Return ``copy(x)`` of an expanded array with the strides that PyTorch gives to copies.

    NumPy's copies make an expanded dim the innermost, so that the result could not be viewed as a flat one.
    """
    steps = [step for step in x.strides if step]
    if len(steps) < 2 or all(step > other for step, other in pairwise((*steps, 0))):  # in row-major order
        return copy(x)
    # From the fastest dim to the slowest; expanded dims have no place of their own, and of equal steps the smaller dim
    # is first.
    order = list(reversed(range(x.ndim)))
    for i in range(1, x.ndim):
        moving = i
        for j in reversed(range(i)):
            step, other = abs(x.strides[order[moving]]), abs(x.strides[order[j]])
            if step and (other > step or (other == step and x.shape[order[j]] > x.shape[order[moving]])):
                order[j], order[moving] = order[moving], order[j]
                moving = j
            elif 0 < other < step:
                break
    order.reverse()
    return copy(x.transpose(order)).transpose(sorted(range(x.ndim), key=order.__getitem__))


def is_positive_zero(value: complex | np.generic) -> bool:
    """Return whether the bits of a number are all zero: -0.0 equals zero, but has a sign."""
    return bool(value == 0 and not (np.signbit(value.real) or np.signbit(value.imag)))


class Elementwise:
    """Kernels that act on each element, after broadcasting."""

    xp: Namespace
    special: Any
    asarray: Any
    restride: Any
    #: Whether float16 and bfloat16 are computed in float32 by the caller (slow natively on this backend).
    upcasts = True

    def astype(self, x: Array, dtype: Any) -> Array:
        """Convert `x` to a NumPy dtype, and take the real part of complex numbers if `dtype` is real."""
        if x.dtype.kind == "c" and self.xp.dtype(dtype).kind not in "cb":
            x = x.real
        if x.base is not None and 0 in x.strides:
            return _copy_expanded(x, lambda y: y.astype(dtype, order="C"))
        return x.astype(dtype)

    def to(self, x: Array, dtype: Any) -> Array:
        """Convert `x` to one of gradcore's dtypes."""
        return x if x.dtype == dtype.numpy else self.astype(x, dtype.numpy)

    def conj(self, x: Array) -> Array:
        """Return the complex conjugate; a real array is returned as it is."""
        return self.xp.conjugate(x) if x.dtype.kind == "c" else x

    def copy_elements(self, x: Array, order: Any = "K") -> Array:
        """Return a copy in the memory order of `x` (`order` "K") or in row-major order ("C")."""
        if x.base is not None and order == "K" and 0 in x.strides:
            return _copy_expanded(x, lambda y: y.copy("C"))
        return x.copy(order)

    def zeros_like(self, x: Array) -> Array:
        return self.xp.zeros_like(x)

    def ones_like(self, x: Array) -> Array:
        return self.xp.ones_like(x)

    def new_zeros(self, x: Array, shape: Any) -> Array:
        """Return zeros of the given shape in the dtype of `x`."""
        return self.xp.zeros(shape, x.dtype)

    @writes("target")
    def copy_into(self, target: Array, source: Array) -> None:
        """Write `source` into the memory of `target`, converting its dtype."""
        target[...] = source

    #: Whether reading a 0-dim array costs nothing (no device to wait for).
    host_scalars = True

    def number(self, x: Array) -> Array:
        """Return the element of a 0-dim array as a Python number; this waits for a device."""
        return x.item()

    def special_function(self, name: str) -> Any:
        """Return the function `name` of the library's counterpart of `scipy.special`."""
        return getattr(self.special, name)

    # -- selection -------------------------------------------------------------------------------------------

    def where(self, condition: Array, x: Array | float, y: Array | float) -> Array:
        return self.xp.where(condition, x, y)

    def clamp(self, x: Array, low: Any = None, high: Any = None) -> Array:
        """Clamp `x` between two bounds, either of which may be None.

        An element that equals a bound is kept, with the sign of a zero. That is why it comes second: of two equal
        numbers, extrema on the CPU and in generated kernels are the second.
        """
        if low is not None:
            x = self.xp.maximum(low, x)
        return x if high is None else self.xp.minimum(high, x)

    def relu(self, x: Array) -> Array:
        return self.clamp(x, 0)

    def heaviside(self, x: Array, values: Any) -> Array:
        return self.where(x == 0, values, (x > 0).astype(x.dtype))

    def nan_to_num(
        self, x: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
    ) -> Array:
        """Replace NaN by 0, and infinities by the limits of the dtype, unless other numbers are given."""
        if x.dtype.kind == "c":
            return self.complex(*(self.nan_to_num(part, nan, posinf, neginf) for part in (x.real, x.imag)))
        if x.dtype.kind in "biu":
            return x.copy()
        limits = dtypes.finfo(dtypes.from_numpy(x.dtype))
        # Each condition looks at `x`, since the numbers that are put in may be infinite or NaN themselves.
        result = self.where(x == -math.inf, limits.min if neginf is None else neginf, x)
        result = self.where(x == math.inf, limits.max if posinf is None else posinf, result)
        return self.where(x != x, 0.0 if nan is None else nan, result)

    # -- rounding --------------------------------------------------------------------------------------------

    def floor(self, x: Array) -> Array:
        return x.copy() if x.dtype.kind in "iu" else self.xp.floor(x)

    def ceil(self, x: Array) -> Array:
        return x.copy() if x.dtype.kind in "iu" else self.xp.ceil(x)

    def trunc(self, x: Array) -> Array:
        return x.copy() if x.dtype.kind in "iu" else self.xp.trunc(x)

    def round(self, x: Array, decimals: int = 0) -> Array:
        """Round to `decimals` digits, and halves to the even neighbour."""
        if x.dtype.kind in "iu":
            return x.copy()
        if decimals == 0:
            return self.xp.rint(x)
        scale = 10.0 ** abs(decimals) if abs(decimals) <= 308 else math.inf  # then results are NaN, as in PyTorch
        return self.xp.rint(x * scale) / scale if decimals > 0 else self.xp.rint(x / scale) * scale

    def sign(self, x: Array) -> Array:
        """Return -1, 0 or 1, and 0 for NaN."""
        if x.dtype.kind == "b":
            return x.copy()
        return ((x > 0).view("int8") - (x < 0).view("int8")).astype(x.dtype)

    # -- interpolation -----------------------------------------------------------------------------------------------

    def lerp(self, x: Array, end: Array, weight: Array) -> Array:
        """Interpolate, starting from the nearer end, so that weights of 0 and 1 give exactly `x` and `end`."""
        near_start = abs(weight) < 0.5
        if self.host_scalars and not weight.ndim:
            return (end - x) * weight + x if near_start else (end - x) * (weight - 1) + end
        step = end - x
        return self.where(near_start, x + step * weight, end - step * (1 - weight))

    # -- quotients and powers --------------------------------------------------------------------------------

    def _check_divisor(self, y: Array) -> None:
        """Raise for an integer divisor of zero. On a GPU this is not checked, because the host would have to wait."""
        if self.host_scalars and y.dtype.kind in "iu" and not y.all():
            raise RuntimeError("ZeroDivisionError")

    def floor_divide(self, x: Array, y: Array) -> Array:
        self._check_divisor(y)
        return self.xp.floor_divide(x, y)

    def trunc_divide(self, x: Array, y: Array) -> Array:
        if x.dtype.kind in "fc":
            return self.xp.trunc(x / y)
        self._check_divisor(y)
        return self.xp.floor_divide(x - self.xp.fmod(x, y), y)

    def remainder(self, x: Array, y: Array) -> Array:
        self._check_divisor(y)
        return self.xp.remainder(x, y)

    def fmod(self, x: Array, y: Array) -> Array:
        self._check_divisor(y)
        return self.xp.fmod(x, y)

    def pow(self, x: Array, exponent: Any) -> Array:
        """Compute ``x ** exponent``, by multiplication for small integer exponents: a power is 100 times slower."""
        value = self._number(exponent)
        if x.dtype.kind in "fc":
            small = _SMALL_POWERS.get(value)
            return self.power(x, exponent, value) if small is None else small(self, x)
        if value is None or value < 0:
            return self._integer_power(x, exponent)
        return self.xp.power(x, exponent)

    def power(self, x: Array, exponent: Any, value: float | None) -> Array:
        """Return a power of floating-point numbers. `value` is the exponent as a Python number, if known."""
        return self.xp.power(x, exponent)

    def _number(self, value: Any) -> Any:
        """Return `value` as a Python number, or None if the host would have to wait for a device."""
        if value.__class__ is int or value.__class__ is float or not hasattr(value, "ndim"):
            return value
        return value.item() if self.host_scalars and not value.ndim and value.dtype.kind != "b" else None

    def _integer_power(self, x: Array, exponent: Array) -> Array:
        """Return a power of integers. For a negative exponent it is 0, unless the base is 1 or -1."""
        xp = self.xp
        if exponent.dtype.kind == "u":
            return xp.power(x, exponent)
        result = xp.power(x, xp.maximum(exponent, 0))
        unit = xp.where(exponent % 2 == 0, abs(x), x)
        return xp.where(exponent < 0, xp.where(abs(x) == 1, unit, 0), result)

    def ldexp(self, x: Array, exponent: Array) -> Array:
        """Compute ``x * 2**exponent``."""
        if exponent.dtype.kind == "i":
            return self.xp.ldexp(x, exponent)
        return x * self.xp.exp2(exponent)

    def nextafter(self, x: Any, y: Any) -> Array:
        """Return the neighbour of `x` towards `y`; numbers of 16 bits are moved as the integers that their bits are."""
        dtype = (x if hasattr(x, "dtype") else y).dtype
        if dtype.itemsize > 2:
            return self.xp.nextafter(x, y)
        x, y = (v if hasattr(v, "dtype") else self.xp.asarray(v, "float32").astype(dtype) for v in (x, y))
        start, goal = x.astype("float32"), y.astype("float32")
        bits, bits_of_goal = x.view("uint16"), y.view("uint16")
        away_from_zero = (goal > start) == (start > 0)
        moved = bits + self.xp.where(away_from_zero, 1, 0xFFFF).astype("uint16")
        moved = self.xp.where(start == 0, bits_of_goal & 0x8000 | 1, moved)
        moved = self.xp.where((start == goal) | (goal != goal), bits_of_goal, moved)
        return self.xp.where(start != start, bits, moved).astype("uint16").view(dtype)

    def frexp(self, x: Array) -> tuple[Array, Array]:
        if x.dtype.kind != "f":
            raise RuntimeError("torch.frexp() only supports floating-point dtypes")
        mantissa, exponent = self.xp.frexp(x)
        return mantissa, exponent.astype("int32")

    # -- exponentials and logarithms -------------------------------------------------------------------------

    def log1p(self, x: Array) -> Array:
        """Compute ``log(1 + x)``, of complex numbers without the rounding error of the sum where `x` is small."""
        if x.dtype.kind != "c":
            return self.xp.log1p(x)
        real, imag = x.real, x.imag
        is_near = self.xp.hypot(real, imag) < 0.5
        near = self.xp.where(is_near, real * (2 + real) + imag * imag, 0)
        far = self.xp.log(self.complex(self.xp.where(is_near, 1, 1 + real), imag)).real
        return self.complex(self.xp.where(is_near, self.xp.log1p(near) / 2, far), self.xp.arctan2(imag, 1 + real))

    def sigmoid(self, x: Array) -> Array:
        """Compute ``1 / (1 + exp(-x))``. Where exp overflows, the quotient is 0, as it should be."""
        if not x.ndim:
            return 1 / (1 + self.xp.exp(-x))
        y = -x
        y = self.xp.exp(y, out=y)
        y += 1
        return self.xp.divide(1, y, out=y)

    def logaddexp(self, x: Array, y: Array) -> Array:
        if x.dtype.kind == "c":
            x_is_greater = x.real >= y.real
            large, small = self.where(x_is_greater, x, y), self.where(x_is_greater, y, x)
            return self.where(x == y, x + math.log(2), large + self.xp.log(1 + self.xp.exp(small - large)))
        return self.xp.maximum(x, y) + self.xp.log1p(self.xp.exp(-self._distance(x, y)))

    def logaddexp2(self, x: Array, y: Array) -> Array:
        correction = self.xp.log1p(self.xp.exp2(-self._distance(x, y))) / math.log(2)
        return self.xp.maximum(x, y) + correction

    def _distance(self, x: Array, y: Array) -> Array:
        """Compute ``abs(x - y)``, but a large number where both are the same infinity or one is NaN."""
        return self.xp.fmin(abs(x - y), 1e30)

    # -- special functions -----------------------------------------------------------------------------------

    def lgamma(self, x: Array) -> Array:
        """Return the logarithm of the absolute gamma function: infinity at -inf, where SciPy's function is -inf."""
        return self.where(x == -math.inf, math.inf, self.special_function("gammaln")(x))

    def airy_ai(self, x: Array) -> Array:
        return self.airy(x)[0]

    def airy_slope(self, x: Array) -> Array:
        return self.airy(x)[1]

    def airy(self, x: Array) -> tuple[Array, ...]:
        """Return the Airy functions. SciPy's are NaN for large numbers, where those of the first kind are zero."""
        result: tuple[Array, ...] = self.special.airy(self.xp.minimum(x, 1000))
        return result

    def polygamma(self, n: int, x: Array) -> Array:
        if n < 0:
            raise RuntimeError("polygamma(n, x) does not support negative n.")
        return self.special.digamma(x) if n == 0 else self.special.polygamma(n, x).astype(x.dtype)

    def degrees_up_to(self, n: Any) -> range:
        """Return the range from 1 to below the largest element of `n`; this waits for a device."""
        finite = n[self.xp.isfinite(n)]
        largest = int(self.number(finite.max())) if finite.size else 0
        return range(1, largest)

    # -- complex numbers -------------------------------------------------------------------------------------

    def is_complex(self, x: Array) -> bool:
        return bool(x.dtype.kind == "c")

    def complex(self, real: Any, imag: Any) -> Array:
        """Compute ``real + 1j * imag`` without the NaN that this product gives for infinities."""
        shape = np.broadcast_shapes(real.shape, imag.shape)
        result = self.xp.empty(shape, "complex64" if real.dtype == "float32" else "complex128")
        result.real[...] = real
        result.imag[...] = imag
        return result

    def angle(self, x: Array) -> Array:
        if x.dtype.kind == "c":
            return self.xp.arctan2(x.imag, x.real)
        return self.where(x < 0, math.pi, self.where(x != x, x, 0.0))

    def view_as_real(self, x: Array) -> Array:
        if x.dtype.kind != "c":
            raise RuntimeError("view_as_real is only supported for complex tensors")
        # The real part of a NumPy scalar is not followed by the imaginary part in memory, so a scalar becomes an array.
        x = self.asarray(x)
        real = x.real
        return self.restride(real, (*x.shape, 2), (*x.strides, real.dtype.itemsize))

    def view_as_complex(self, x: Array) -> Array:
        """Return a complex view of `x`, whose last dim holds pairs of real and imaginary parts."""
        if x.dtype.kind != "f" or x.dtype.itemsize < 4:
            name = dtypes.from_numpy(x.dtype).scalar_name
            raise RuntimeError(
                "view_as_complex is only supported for float and double tensors, "
                f"but got a tensor of scalar type: {name}"
            )
        size = x.dtype.itemsize
        if not x.ndim:
            raise RuntimeError("Input tensor must have one or more dimensions")
        if x.shape[-1] != 2:
            raise RuntimeError("Tensor must have a last dimension of size 2")
        dtype = "complex64" if size == 4 else "complex128"
        if not x.size:
            return x.view(dtype).reshape(x.shape[:-1])
        if x.strides[-1] != size:
            raise RuntimeError("Tensor must have a last dimension with stride 1")
        if any(step % (2 * size) for step, n in zip(x.strides[:-1], x.shape[:-1], strict=True) if n > 1):
            raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
        return x.view(dtype)[..., 0]


def _multiply_into(K: Any, product: Array, x: Array) -> Array:
    """Return ``product * x``, written to `product` if that is an array of NumPy: new memory costs time."""
    return K.mul(product, x, product) if product.__class__ is np.ndarray else product * x


#: Powers by small exponents, as functions of a backend, whose threads share large arrays, and of an array.
_SMALL_POWERS: dict[Any, Any] = {
    0: lambda K, x: K.ones_like(x),
    1: lambda K, x: x.copy(),
    2: lambda K, x: K.square(x),
    3: lambda K, x: _multiply_into(K, K.square(x), x),
    4: lambda K, x: K.square(K.square(x)),
    0.5: lambda K, x: K.sqrt(x),
    -0.5: lambda K, x: 1 / K.sqrt(x),
    -1: lambda K, x: 1 / x,
    -2: lambda K, x: 1 / K.square(x),
}
