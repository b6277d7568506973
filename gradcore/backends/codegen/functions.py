"""How a function of an expression is written in C++."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradcore import dtypes
from gradcore.backends.codegen.expressions import Unfusable, Value

__all__ = ["C_TYPES", "DIFFERENT", "FUNCTION_NAMES", "SPECIAL_FUNCTIONS", "computed", "needs_complex", "written"]

#: By the name of a dtype: its type in memory.
C_TYPES = {
    "bool": "bool", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32",
    "int64": "i64", "uint64": "u64", "float16": "float16", "bfloat16": "bfloat16", "float32": "float",
    "float64": "double", "complex64": "complex<float>", "complex128": "complex<double>",
}  # fmt: skip

_INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "equal": "==", "not_equal": "!=", "less": "<",
    "less_equal": "<=", "greater": ">", "greater_equal": ">=", "bitwise_and": "&", "bitwise_or": "|",
    "bitwise_xor": "^",
}  # fmt: skip

#: Functions of C++, of `elementwise.cuh` or, for complex numbers too, of `complex.cuh`.
_CALLS = {
    "absolute": "magnitude", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctanh": "atanh", "conjugate": "conj", "cos": "cos", "cosh": "cosh", "exp": "exp",
    "isfinite": "is_finite", "isinf": "is_infinite", "isnan": "is_nan", "log": "log", "log10": "log10",
    "power": "power", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
}  # fmt: skip

_REAL_CALLS = {
    "arctan2": "atan2", "ceil": "ceil", "copysign": "copysign", "exp2": "exp2", "expm1": "expm1", "floor": "floor",
    "floor_divide": "floor_quotient", "fmax": "larger", "fmin": "smaller", "fmod": "rest", "gcd": "common_divisor",
    "hypot": "hypot", "lcm": "common_multiple", "ldexp": "ldexp", "left_shift": "shifted_left", "log1p": "log1p",
    "log2": "log2", "maximum": "maximum", "minimum": "minimum", "nextafter": "nextafter", "remainder": "floor_rest",
    "right_shift": "shifted_right", "rint": "rint", "signbit": "sign_bit", "trunc": "trunc",
}  # fmt: skip

_COMPLEX_CALLS = {"exp2": "exp_base_two", "expm1": "exp_minus_one", "log1p": "log_one_plus", "log2": "log2"}

#: Functions of scipy.special that CUDA or `elementwise.cuh` has.
SPECIAL_FUNCTIONS = {
    "erf": "erf", "erfc": "erfc", "erfcx": "erfcx", "erfinv": "erfinv", "gammaln": "lgamma", "i0": "cyl_bessel_i0",
    "i1": "cyl_bessel_i1", "j0": "j0", "j1": "j1", "log_ndtr": "log_normal_cdf", "ndtri": "normcdfinv",
    "digamma": "digamma", "xlog1py": "times_log1p", "xlogy": "times_log", "y0": "y0", "y1": "y1",
}  # fmt: skip

#: Functions that CuPy computes otherwise than NumPy, or leaves to what C++ does not define: kernels even alone.
DIFFERENT = {"floor_divide", "lcm", "left_shift", "remainder", "right_shift"}

#: The functions that kernels call.
FUNCTION_NAMES = {"cast", "load", "store", "truth"}.union(
    *(table.values() for table in (_CALLS, _REAL_CALLS, _COMPLEX_CALLS, SPECIAL_FUNCTIONS))
)

_TEMPLATES = {
    "positive": "{0}", "negative": "-{0}", "square": "{0} * {0}", "reciprocal": "{T}(1) / {0}",
    "real": "{0}.real()", "imag": "{0}.imag()", "complex": "{T}({0}, {1})", "where": "{0} ? {1} : {2}",
    "deg2rad": f"{{0}} * {{T}}({math.pi / 180!r})", "rad2deg": f"{{0}} * {{T}}({180 / math.pi!r})",
    "logical_and": "truth({0}) && truth({1})", "logical_or": "truth({0}) || truth({1})",
    "logical_xor": "truth({0}) != truth({1})", "logical_not": "!truth({0})", "cast": "cast<{T}>({0})",
}  # fmt: skip


def written(value: Value, operands: list[str]) -> str:
    """The C++ expression of a value, given the names of its operands."""
    name = value.function
    if name == "number":
        return _literal(value.operands[0], value.dtype)
    kind = value.operands[0].dtype.kind
    if name == "invert":
        return f"{'!' if kind == 'b' else '~'}{operands[0]}"
    if name in _INFIX:
        return f"{operands[0]} {_INFIX[name]} {operands[1]}"
    if name in _TEMPLATES:
        return _TEMPLATES[name].format(*operands, T=C_TYPES[value.dtype.name])
    calls = (_COMPLEX_CALLS if kind == "c" else _REAL_CALLS), _CALLS, SPECIAL_FUNCTIONS
    function = next((table[name] for table in calls if name in table), None)
    if function is None:
        raise Unfusable(f"there is no {name} in CUDA")
    return f"{function}({', '.join(operands)})"


def _literal(value: Any, dtype: np.dtype[Any]) -> str:
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        if dtype.itemsize == 8:
            return f"{C_TYPES[dtype.name]}({value}ll)" if value > -(2**63) and value < 2**63 else f"{value % 2**64}ull"
        return f"{C_TYPES[dtype.name]}({value})"
    if dtype.kind == "c":
        part = np.dtype("float32" if dtype.itemsize == 8 else "float64")
        return f"{C_TYPES[dtype.name]}({_literal(value.real, part)}, {_literal(value.imag, part)})"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}infinity<{C_TYPES[dtype.name]}>()"
    if math.isnan(value):
        return f"not_a_number<{C_TYPES[dtype.name]}>()"
    digits = repr(value) if dtype.itemsize == 8 else str(dtype.type(value))
    digits = digits if any(c in digits for c in ".e") else digits + ".0"
    return digits if dtype.itemsize == 8 else digits + "f"


def needs_complex(types: list[np.dtype[Any]]) -> bool:
    """Whether one of the dtypes is complex."""
    return any(dtype.kind == "c" for dtype in types)


def computed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that numbers of a dtype are computed in."""
    known = dtypes.FROM_NUMPY.get(dtype)
    return np.dtype("float32") if known is not None and known.is_reduced else dtype
