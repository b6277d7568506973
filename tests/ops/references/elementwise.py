"""References of operations on single elements."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

Array = Any
Reference = Callable[..., Any]

#: Operations that NumPy has under the same name.
SAME = """
    expm1 log log10 log1p sqrt sin cos tan sinh cosh tanh floor ceil trunc sign abs signbit isnan isinf isfinite
    isposinf isneginf isreal deg2rad rad2deg positive square reciprocal sinc conj angle real imag logical_not frexp exp
    true_divide floor_divide remainder fmod gcd lcm float_power hypot copysign nextafter heaviside logaddexp2
    maximum minimum fmax fmin logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor
    bitwise_left_shift bitwise_right_shift isclose allclose
"""

#: Operations that NumPy has under another name.
RENAMED = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "neg": "negative",
    "bitwise_not": "invert",
    "mul": "multiply",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "pow": "power",
    "sgn": "sign",
    "conj_physical": "conj",
    "resolve_conj": "positive",
    "resolve_neg": "positive",
    "is_complex": "iscomplexobj",
    "equal": "array_equal",
}

#: Operations of `scipy.special`: under the same name, and under another.
UNCHANGED = "erf erfc erfinv erfcx ndtr ndtri log_ndtr digamma polygamma zeta xlogy xlog1py entr i0 i0e i1 i1e"
SPECIAL = {
    **{n: n for n in UNCHANGED.split()},
    **{f"bessel_{n}": n for n in ["j0", "j1", "y0", "y1"]},
    **{f"modified_bessel_{n}": n for n in ["i0", "i1", "k0", "k1"]},
    **{f"scaled_modified_bessel_{n}": f"{n}e" for n in ("k0", "k1")},
    "lgamma": "gammaln",
    "igamma": "gammainc",
    "igammac": "gammaincc",
}

#: Orthogonal polynomials: ``scipy.special.eval_...(n, x)``.
POLYNOMIALS = {
    **{f"chebyshev_polynomial_{k}": f"cheby{k}" for k in "tu"},
    **{f"shifted_chebyshev_polynomial_{k}": f"sh_cheby{k}" for k in "tu"},
    "hermite_polynomial_h": "hermite",
    "hermite_polynomial_he": "hermitenorm",
    "laguerre_polynomial_l": "laguerre",
    "legendre_polynomial_p": "legendre",
}


def polynomial(name: str) -> Reference:
    evaluate = getattr(special, f"eval_{name}")
    return lambda x, n: evaluate(n, x)


def chebyshev_difference(sign: int, shifted: bool = False) -> Reference:
    """Return the polynomials of the third or fourth kind, from adjacent ones of the second kind."""

    def evaluate(x: Array, n: Array) -> Array:
        x = 2 * x - 1 if shifted else x
        return special.eval_chebyu(n, x) + sign * special.eval_chebyu(n - 1, x)

    return evaluate


def div(x: Array, y: Array, rounding_mode: str | None = None) -> Array:
    return {None: np.true_divide, "floor": np.floor_divide, "trunc": lambda a, b: np.trunc(a / b)}[rounding_mode](x, y)


def mvlgamma(x: Array, p: int) -> Array:
    return p * (p - 1) / 4 * math.log(math.pi) + sum(special.gammaln(x - j / 2) for j in range(p))


def clamp(x: Array, min: Any = None, max: Any = None) -> Array:
    x = x if min is None else np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def where(condition: Array, x: Any = None, y: Any = None) -> Array:
    return np.where(condition, x, y)


def softplus(x: Array, beta: float = 1, threshold: float = 20) -> Array:
    return np.where(x * beta > threshold, x, np.log(1 + np.exp(x * beta)) / beta)


def gelu(x: Array, approximate: str = "none") -> Array:
    if approximate == "tanh":
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x * special.ndtr(x)


def selu(x: Array, inplace: bool = False) -> Array:
    return 1.0507009873554804934 * np.where(x > 0, x, 1.6732632423543772848 * np.expm1(x))


def hardsigmoid(x: Array, inplace: bool = False) -> Array:
    return np.clip(x + 3, 0, 6) / 6


def glu(x: Array, dim: int = -1) -> Array:
    a, b = np.split(x, 2, dim)
    return a / (1 + np.exp(-b))


def prelu(x: Array, weight: Array) -> Array:
    return np.where(x > 0, x, x * (weight.reshape(-1, *[1] * (x.ndim - 2)) if weight.size > 1 else weight))


def celu(x: Array, alpha: float = 1.0, inplace: bool = False) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


def threshold(x: Array, threshold: float, value: float, inplace: bool = False) -> Array:
    return np.where(x > threshold, x, value)


def relu(x: Array, inplace: bool = False) -> Array:
    return np.where(x > 0, x, 0)


def logaddexp(x: Array, y: Array) -> Array:
    return np.log(np.exp(x) + np.exp(y))


ACTIVATIONS: dict[str, Reference] = {
    "relu": relu,
    "functional_relu": relu,
    "prelu": prelu,
    "threshold": threshold,
    "functional_threshold": threshold,
    "hardshrink": lambda x, lambd=0.5: np.where(abs(x) > lambd, x, 0),
    "softshrink": lambda x, lambd=0.5: np.sign(x) * np.maximum(abs(x) - lambd, 0),
    "celu": celu,
    "functional_celu": celu,
    "functional_elu": celu,
    "selu": selu,
    "functional_selu": selu,
    "softplus": softplus,
    "logsigmoid": lambda x: np.log(special.expit(x)),
    "gelu": gelu,
    "softsign": lambda x: x / (1 + abs(x)),
    "tanhshrink": lambda x: x - np.tanh(x),
    "glu": glu,
    "functional_hardtanh": lambda x, inplace=False: np.clip(x, -1, 1),
    "functional_relu6": lambda x, inplace=False: np.clip(x, 0, 6),
    "functional_leaky_relu": lambda x, inplace=False: np.where(x > 0, x, 0.01 * x),
    "functional_silu": lambda x, inplace=False: x * special.expit(x),
    "functional_mish": lambda x, inplace=False: x * np.tanh(softplus(x)),
    "functional_hardsigmoid": hardsigmoid,
    "functional_hardswish": lambda x, inplace=False: x * hardsigmoid(x),
}

ELEMENTWISE: dict[str, Reference] = {
    **{name: getattr(np, name) for name in SAME.split()},
    **{name: getattr(np, other) for name, other in RENAMED.items()},
    **{name: getattr(special, other) for name, other in SPECIAL.items()},
    **{name: polynomial(other) for name, other in POLYNOMIALS.items()},
    **{f"chebyshev_polynomial_{k}": chebyshev_difference(s) for k, s in (("v", -1), ("w", 1))},
    **{f"shifted_chebyshev_polynomial_{k}": chebyshev_difference(s, True) for k, s in (("v", -1), ("w", 1))},
    **ACTIVATIONS,
    "add": lambda x, y, alpha=1: x + alpha * y,
    "sub": lambda x, y, alpha=1: x - alpha * y,
    "rsub": lambda x, y, alpha=1: y - alpha * x,
    "div": div,
    "addcmul": lambda x, a, b, value=1: x + value * a * b,
    "addcdiv": lambda x, a, b, value=1: x + value * a / b,
    "lerp": lambda x, y, weight: (1 - weight) * x + weight * y,
    "exp2": lambda x: 2.0**x,
    "log2": lambda x: np.log(x) / math.log(2),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "logit": lambda x, eps=None: np.log(x / (1 - x)),
    "rsqrt": lambda x: x**-0.5,
    "ldexp": lambda x, y: x * 2.0**y,
    "logaddexp": logaddexp,
    "frac": lambda x: x - np.trunc(x),
    "round": lambda x, decimals=0: np.round(x, decimals),
    "nan_to_num": lambda x, nan=0.0, posinf=None, neginf=None: np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf),
    "complex": lambda real, imag: real + 1j * imag,
    "polar": lambda r, angle: r * np.exp(1j * angle),
    "is_floating_point": lambda x: x.dtype.kind == "f",
    "mvlgamma": mvlgamma,
    "polygamma_of": lambda x, n: special.polygamma(n, x),
    "airy_ai": lambda x: special.airy(x)[0],
    "spherical_bessel_j0": functools.partial(special.spherical_jn, 0),
    "where": where,
    "where_of": lambda x, condition, other: np.where(condition, x, other),
    "clamp": clamp,
    "clamp_min": lambda x, min: np.maximum(x, min),
    "clamp_max": lambda x, max: np.minimum(x, max),
}
