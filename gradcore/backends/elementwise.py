"""Elementwise kernels: mostly the array library's own functions under the table's names."""

from __future__ import annotations

from typing import Any

__all__ = ["RENAMED", "SPECIAL", "Elementwise"]

#: Kernels that are functions of the array library: name in the table, name in NumPy.
RENAMED = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "add": "add", "angle": "angle", "asin": "arcsin",
    "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "bitwise_and": "bitwise_and",
    "bitwise_left_shift": "left_shift", "bitwise_not": "invert", "bitwise_or": "bitwise_or",
    "bitwise_right_shift": "right_shift", "bitwise_xor": "bitwise_xor", "ceil": "ceil", "conj": "conjugate",
    "copysign": "copysign", "cos": "cos", "cosh": "cosh", "deg2rad": "deg2rad", "div": "true_divide", "eq": "equal",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "floor": "floor", "fmax": "fmax", "fmin": "fmin", "fmod": "fmod",
    "gcd": "gcd", "ge": "greater_equal", "gt": "greater", "heaviside": "heaviside", "hypot": "hypot", "imag": "imag",
    "isfinite": "isfinite", "isinf": "isinf", "isnan": "isnan", "lcm": "lcm", "le": "less_equal", "log": "log",
    "log10": "log10", "log1p": "log1p", "log2": "log2", "logaddexp": "logaddexp", "logaddexp2": "logaddexp2",
    "logical_and": "logical_and", "logical_not": "logical_not", "logical_or": "logical_or",
    "logical_xor": "logical_xor", "lt": "less", "maximum": "maximum", "minimum": "minimum", "mul": "multiply",
    "ne": "not_equal", "neg": "negative", "nextafter": "nextafter", "positive": "positive", "rad2deg": "rad2deg",
    "real": "real", "reciprocal": "reciprocal", "remainder": "remainder", "rint": "rint", "sign": "sign",
    "signbit": "signbit", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "square": "square", "sub": "subtract",
    "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip

#: Kernels that are functions of scipy.special (cupyx.scipy.special on CUDA), imported when first used.
SPECIAL = {
    "digamma": "digamma", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "i0": "i0", "lgamma": "gammaln",
    "ndtr": "ndtr", "ndtri": "ndtri", "polygamma_kernel": "polygamma", "zeta": "zeta",
}  # fmt: skip


class Elementwise:
    """Kernels that act on each element, after broadcasting."""

    xp: Any
    special: Any
    #: Whether float16 and bfloat16 are computed in float32 by the caller (slow natively on this backend).
    upcasts = True

    def astype(self, x: Any, dtype: Any) -> Any:
        """`x` in another NumPy dtype; the real part of complex numbers where `dtype` is real."""
        if x.dtype.kind == "c" and self.xp.dtype(dtype).kind not in "cb":
            x = x.real
        return x.astype(dtype)

    def to(self, x: Any, dtype: Any) -> Any:
        """`x` in another of gradcore's dtypes."""
        return x if x.dtype == dtype.numpy else self.astype(x, dtype.numpy)

    def zeros_like(self, x: Any) -> Any:
        return self.xp.zeros_like(x)

    def ones_like(self, x: Any) -> Any:
        return self.xp.ones_like(x)

    def new_zeros(self, x: Any, shape: Any) -> Any:
        """Zeros of another shape in the dtype of `x`."""
        return self.xp.zeros(shape, x.dtype)

    def copy_into(self, target: Any, source: Any) -> None:
        """Write `source` into the memory of `target`, converting its dtype."""
        target[...] = source

    def where(self, condition: Any, self_: Any, other: Any) -> Any:
        return self.xp.where(condition, self_, other)

    def pow(self, x: Any, exponent: Any) -> Any:
        """``x ** exponent``; small integer exponents by multiplication (NumPy's power is 100 times slower)."""
        if getattr(exponent, "ndim", 0) == 0 and x.dtype.kind in "fc":
            value = exponent if isinstance(exponent, (int, float)) else None
            if value is None and self.host_scalars and getattr(exponent, "dtype", x.dtype).kind != "c":
                value = float(exponent)
            small = _SMALL_POWERS.get(value)
            if small is not None:
                return small(self, x)
        return self.xp.power(x, exponent)

    #: Whether reading a 0-dim array costs nothing (no device to wait for).
    host_scalars = True

    def special_function(self, name: str) -> Any:
        """A function of scipy.special's counterpart."""
        return getattr(self.special, name)


_SMALL_POWERS: dict[Any, Any] = {
    1: lambda F, x: x * 1,
    2: lambda F, x: F.xp.square(x),
    3: lambda F, x: F.xp.square(x) * x,
    4: lambda F, x: F.xp.square(F.xp.square(x)),
    0.5: lambda F, x: F.xp.sqrt(x),
    -1: lambda F, x: F.xp.reciprocal(x),
    -2: lambda F, x: F.xp.reciprocal(F.xp.square(x)),
}
