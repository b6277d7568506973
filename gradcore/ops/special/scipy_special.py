"""Functions of numbers that only SciPy has: one operation for each number of arguments, with a table of derivatives.

A name is that of `scipy.special`; ``"fresnel:0"`` is the first of several results. On CUDA they are computed by CuPy,
or on the host where CuPy has none of that name.
"""

from __future__ import annotations

import math
from typing import Any

from gradcore.backends.kernel_rules import Result
from gradcore.core.typing import AnyTensor
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.promotion import common_dtype
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import general
from gradcore.ops.special.bessel import large_slope
from gradcore.ops.special.functions import _order_slope, inverse_powers

_ROOT_PI = math.sqrt(math.pi)


def log1p_ratio(F: Any, z: AnyTensor) -> AnyTensor:
    """Return ``log1p(z) / z``, by its power series where derivatives would cancel."""
    small = abs(z) < 0.2
    at = F.where(small, z, 0)
    series = 0
    for k in reversed(range(22)):
        series = 1 / (k + 1) - series * at
    z = F.where(small, 1, z)
    return F.where(small, series, F.log1p(z) / z)


def _sinh_ratio(F, x):
    """Return ``sinh(x) / x``, by its power series where derivatives would cancel."""
    small = abs(x) < 1
    square = F.where(small, x * x, 0)
    series = 0
    for k in reversed(range(10)):
        series = series * square + 1 / math.factorial(2 * k + 1)
    x = F.where(small, 1, x)
    return F.where(small, series, F.sinh(x) / x)


def _spence_slope(F, x):
    near = abs(x - 1) < 0.2
    far = F.where(near, 2, x)
    return -F.where(near, log1p_ratio(F, F.where(near, x - 1, 0)), F.log(far) / (far - 1))


def _wrightomega_slope(F, y):
    large = y > 1
    return F.where(large, 1 / (1 + 1 / F.where(large, y, 1)), y / (1 + y))


def _digamma_step(F, z, s):
    """Return ``digamma(z + s) - digamma(z)``."""
    from gradcore.ops.special.incomplete_beta import digamma_difference

    use = (z > 0) & (s > 0)
    near = digamma_difference(F, F.where(use, z, 1), F.where(use, s, 1))
    return F.where(use, near, F.digamma(F.where(use, 1, z + s)) - F.digamma(F.where(use, 1, z)))


def _one(F, name, x):
    return F.special_of_one(x, name)


def _two(F, name, x, y):
    return F.special_of_two(x, y, name)


# -- one argument -----------------------------------------------------------------------------------------------------


def _dawsn_slope(F, x, y):
    use = abs(x) > 15
    return F.where(use, -inverse_powers(F, x, 1, use), 1 - 2 * x * y)


def _rgamma_slope(F, x, y):
    if _is_complex(x):
        return -y * F.digamma(x)
    use = x < 0.5  # by reflection, as the digamma function has poles where the result is zero
    u = F.where(use, 1 - x, 1)
    turn = math.pi * (x - F.round(x))
    even = F.cos(math.pi * F.round(x))
    reflected = F.special_of_one(u, "gamma") * even * (F.cos(turn) - F.digamma(u) * F.sin(turn) / math.pi)
    return F.where(use, reflected, -y * F.digamma(F.where(use, 1, x)))


def _wofz_slope(F, x, y):
    """Return the derivative ``2j / sqrt(pi) - 2 * x * y``, far from 0 by the asymptotic series of the result.

    The series of the real part is zero on the real axis, where the real part is ``exp(-x**2)``.
    """
    if not _is_complex(x):
        use = abs(x) > 15
        return F.where(use, -2j / _ROOT_PI * inverse_powers(F, x, 1, use), -2 * x * y + 2j / _ROOT_PI)
    use = (abs(x) > 6.5) & (F.imag(x) >= 0)
    near = use & (F.imag(x) * abs(x) < 0.01)
    on_axis = F.where(near, x, 0)
    far = -2j / _ROOT_PI * inverse_powers(F, x, 1, use, 25) - 2 * on_axis * F.exp(-on_axis * on_axis)
    return F.where(use, far, -2 * x * y + 2j / _ROOT_PI)


def _beip_slope(F, x, y):
    """Return the second derivative of Kelvin's function bei, by its power series where ``ber(x) - y / x`` cancels."""
    use = abs(x) < 1
    power = F.where(use, x, 0) ** 4 / -16
    series = 0
    for k in reversed(range(6)):
        series = series * power + (4 * k + 2) * (4 * k + 1) / (4 * math.factorial(2 * k + 1) ** 2)
    z = F.where(use, 1, x)
    return F.where(use, series, _one(F, "ber", x) - y / z)


def _is_complex(x):
    """Return whether an array, or a tensor, is complex."""
    return getattr(x.dtype, "is_complex", None) or getattr(x.dtype, "kind", "") == "c"


# -- elliptic integrals -----------------------------------------------------------------------------------------------
#
# Their derivatives with respect to the parameter m have removable singularities at 0 and 1, where differences of the
# integrals cancel. Near these, and for small angles, the derivative of the integrand is integrated numerically.


def _integral_of_sines(F, phi, m, power):
    """Return the integral of ``sin(t)**2 * (1 - m * sin(t)**2)**power`` from 0 to `phi`, at most a quarter turn."""
    from gradcore.ops.special.quadrature import gauss_legendre

    total = phi * 0
    for node, weight in gauss_legendre(24):
        square = F.sin(phi * node) ** 2
        total = total + weight * square * F.pow(1 - m * square, power)
    return phi * total


def _integral_near_one(F, phi, m):
    """Return the integral of ``sin(t)**2 * (1 - m * sin(t)**2)**-1.5`` from 0 to `phi`, for `m` near 1."""
    from gradcore.ops.special.quadrature import gauss_legendre

    end = F.asinh(F.tan(phi))  # with sin(t) = tanh(u) the integrand has no singularity near the path
    total = phi * 0
    for node, weight in gauss_legendre(40):
        u = end * node
        square = F.tanh(u) ** 2
        total = total + weight * square * F.pow(1 - m * square, -1.5) / F.cosh(u)
    return end * total


def _incomplete_slope(F, phi, m, power):
    """Return a mask where differences of elliptic integrals cancel, and the integral to use there."""
    turns = F.round(phi / math.pi)
    remainder = phi - math.pi * turns
    square = F.sin(remainder) ** 2
    # Beyond a quarter turn the complete integral is one of the terms, so that all m have to be small.
    use = F.where(turns == 0, abs(m) * square, abs(m)) <= 0.5
    small = F.where(use, m, 0)
    quarter = _integral_of_sines(F, m * 0 + math.pi / 2, small, power)
    integral = _integral_of_sines(F, F.where(use, remainder, 0), small, power) + 2 * turns * quarter
    near = ~use & (abs(m - 1) < 0.1) & (turns == 0) & (abs(F.tan(remainder)) < 50) & (m * square < 1)
    if power == -1.5:
        integral = F.where(near, _integral_near_one(F, F.where(near, remainder, 0), F.where(near, m, 1)), integral)
        use = use | near
    return use, integral


def _ellipkinc_slope(F, phi, m, y):
    use, integral = _incomplete_slope(F, phi, m, -1.5)
    n = F.where(use, 0.5, m)
    angle = F.where(use, 0.5, phi)
    e = _two(F, "ellipeinc", angle, n)
    cancelling = e / (2 * n * (1 - n)) - y / (2 * n) - F.sin(2 * angle) / (4 * (1 - n) * _sine_root(F, angle, n))
    return F.where(use, integral / 2, cancelling)


def _ellipeinc_slope(F, phi, m, y):
    use, integral = _incomplete_slope(F, phi, m, -0.5)
    n = F.where(use, 0.5, m)
    return F.where(use, -integral / 2, (y - _two(F, "ellipkinc", F.where(use, 0.5, phi), n)) / (2 * n))


def _ellipk_slope(F, m, rest=None):
    """Return the derivative at `m`; `rest` is ``1 - m`` if it is known more accurately."""
    use = abs(m) <= 0.5
    rest = 1 - m if rest is None else rest
    n, p = F.where(use, 0.5, m), F.where(use, 0.5, rest)
    k, e = _one(F, "ellipkm1", p), _one(F, "ellipe", n)
    series = _integral_of_sines(F, m * 0 + math.pi / 2, F.where(use, m, 0), -1.5) / 2
    return F.where(use, series, (e - p * k) / (2 * n * p))


def _ellipe_slope(F, m, y):
    use = abs(m) <= 0.5
    n = F.where(use, 0.5, m)
    series = _integral_of_sines(F, m * 0 + math.pi / 2, F.where(use, m, 0), -0.5) / -2
    return F.where(use, series, (y - _one(F, "ellipk", n)) / (2 * n))


def _sine_root(F, phi, m):
    return F.sqrt(1 - m * F.sin(phi) ** 2)


#: Derivatives of functions of one argument, ``(F, x, result)``.
_ONE = {
    "gamma": lambda F, x, y: y * F.digamma(x),
    "loggamma": lambda F, x, y: F.digamma(x),
    "rgamma": _rgamma_slope,
    "erfcinv": lambda F, x, y: -_ROOT_PI / 2 * F.exp(y * y),
    "erfi": lambda F, x, y: 2 / _ROOT_PI * F.exp(x * x),
    "dawsn": _dawsn_slope,
    "exprel": lambda F, x, y: 0.5 * F.special_of_three(F.zeros_like(x) + 2, F.zeros_like(x) + 3, x, "hyp1f1"),
    "expi": lambda F, x, y: F.exp(x) / x,
    "exp1": lambda F, x, y: -F.exp(-x) / x,
    "exp10": lambda F, x, y: math.log(10) * y,
    "cosm1": lambda F, x, y: -F.sin(x),
    "sindg": lambda F, x, y: math.pi / 180 * _one(F, "cosdg", x),
    "cosdg": lambda F, x, y: -math.pi / 180 * _one(F, "sindg", x),
    "tandg": lambda F, x, y: math.pi / 180 * (1 + y * y),
    "cotdg": lambda F, x, y: -math.pi / 180 * (1 + y * y),
    "spence": lambda F, x, y: _spence_slope(F, x),
    "ndtri_exp": lambda F, x, y: math.sqrt(math.pi / 2) * F.erfcx(y * -math.sqrt(0.5)),
    "wrightomega": lambda F, x, y: _wrightomega_slope(F, y),
    "ellipk": lambda F, x, y: _ellipk_slope(F, x),
    "ellipkm1": lambda F, x, y: -_ellipk_slope(F, 1 - x, x),
    "ellipe": _ellipe_slope,
    "ber": lambda F, x, y: _one(F, "berp", x),
    "bei": lambda F, x, y: _one(F, "beip", x),
    "ker": lambda F, x, y: _one(F, "kerp", x),
    "kei": lambda F, x, y: _one(F, "keip", x),
    "berp": lambda F, x, y: -_one(F, "bei", x) - y / x,
    "beip": _beip_slope,
    "kerp": lambda F, x, y: -_one(F, "kei", x) - y / x,
    "keip": lambda F, x, y: _one(F, "ker", x) - y / x,
    "fresnel:0": lambda F, x, y: F.sin(math.pi / 2 * x * x),
    "fresnel:1": lambda F, x, y: F.cos(math.pi / 2 * x * x),
    "sici:0": lambda F, x, y: F.sinc(x / math.pi),
    "sici:1": lambda F, x, y: F.cos(x) / x,
    "shichi:0": lambda F, x, y: _sinh_ratio(F, x),
    "shichi:1": lambda F, x, y: F.cosh(x) / x,
    "airy:0": lambda F, x, y: _one(F, "airy:1", x),
    "airy:1": lambda F, x, y: x * _one(F, "airy:0", x),
    "airy:2": lambda F, x, y: _one(F, "airy:3", x),
    "airy:3": lambda F, x, y: x * _one(F, "airy:2", x),
    "wofz": _wofz_slope,
    "lambertw": lambda F, x, y: F.exp(-y) / (1 + y),
}


# -- two arguments ----------------------------------------------------------------------------------------------------


def _gamma_density(F, a, x):
    return F.exp(F.xlogy(a - 1, x) - x - F.lgamma(a))


def _lower_degree(F, n):
    """Return the degree of a derivative, ``n - 1``, or 0 for constants, whose derivative is zero."""
    return F.where(n == 0, 0, n - 1)


def _expn_slope(F, n, x, y):
    """Return the derivative of `expn`.

    SciPy rounds the order towards zero, and has no negative orders.
    """
    first = (n < 1) & (n > -1)
    z = F.where(first, x, 1)
    return F.where(first, -F.exp(-z) * (1 + z) / (z * z), -_two(F, "expn", F.where(first, 1, n - 1), x))


def _struve_slope(F, v, x, y):
    """Return the derivative of Struve's function by two of them (DLMF 11.4.27).

    Near 0 both cancel for the order -1. That function is ``2 / pi`` minus the function of order 1 (DLMF 11.4.3).
    """
    is_minus_one = v == -1
    order = F.where(is_minus_one, 1, v)
    slope = _two(F, "struve", order - 1, x) - order / x * F.where(is_minus_one, _two(F, "struve", order, x), y)
    return F.where(is_minus_one, -slope, slope)


def _modstruve_slope(F, v, x, y):
    """Return the derivative of Struve's modified function by terms that do not cancel (DLMF 11.4.26, 11.4.28).

    For the order -1 they do cancel; that function is the function of order 1 plus a constant.
    """
    is_minus_one = v == -1
    order = F.where(is_minus_one, 1, v)
    first = F.pow(x / 2, order) * _one(F, "rgamma", order + 1.5) / _ROOT_PI
    value = F.where(is_minus_one, _two(F, "modstruve", order, x), y)
    return _two(F, "modstruve", order + 1, x) + order / x * value + first


def _student_density(F, v, t):
    scale = F.lgamma((v + 1) / 2) - F.lgamma(v / 2) - F.log(math.pi * v) / 2
    return F.exp(scale - (v + 1) / 2 * F.log1p(t * t / v))


def _stdtr_slope(F, v, t, y):
    """Return the derivative of Student's distribution function by the degrees of freedom `v`.

    The function is ``1/2 + sign(t) / 2 * I(w; 1/2, v/2)`` with ``w = t**2 / (v + t**2)``. Near 0, where the derivative
    by the parameter of the incomplete beta function has no digits, its limit is used.
    """
    from gradcore.ops.special.incomplete_beta import beta_slope, digamma_difference

    w = t * t / (v + t * t)
    near = w < 1e-18
    by_w = t * _student_density(F, v, t)
    limit = by_w / 2 * digamma_difference(F, v / 2, 0.5)
    slope = F.sgn(t) / 4 * beta_slope(F, 0.5 + 0 * v, v / 2, F.where(near, 0.5, w), 1)
    return F.where(near, limit, slope) - by_w / (2 * v)


#: Derivatives of functions of two arguments, ``(F, x, y, result)`` for each argument; None if there is no formula.
_TWO = {
    "beta": (
        lambda F, a, b, y: -y * _digamma_step(F, a, b),
        lambda F, a, b, y: -y * _digamma_step(F, b, a),
    ),
    "betaln": (
        lambda F, a, b, y: -_digamma_step(F, a, b),
        lambda F, a, b, y: -_digamma_step(F, b, a),
    ),
    "poch": (
        lambda F, z, m, y: y * _digamma_step(F, z, m),
        lambda F, z, m, y: y * F.digamma(z + m),
    ),
    "binom": (
        lambda F, n, k, y: y * (F.digamma(n + 1) - F.digamma(n - k + 1)),
        lambda F, n, k, y: y * (F.digamma(n - k + 1) - F.digamma(k + 1)),
    ),
    "rel_entr": (lambda F, x, y, r: F.log(x / y) + 1, lambda F, x, y, r: -x / y),
    "kl_div": (lambda F, x, y, r: F.log(x / y), lambda F, x, y, r: 1 - x / y),
    "powm1": (lambda F, x, y, r: y * F.pow(x, y - 1), lambda F, x, y, r: (r + 1) * F.log(x)),
    "jv": (None, lambda F, v, x, y: (_two(F, "jv", v - 1, x) - _two(F, "jv", v + 1, x)) / 2),
    "yv": (None, lambda F, v, x, y: (_two(F, "yv", v - 1, x) - _two(F, "yv", v + 1, x)) / 2),
    "iv": (None, lambda F, v, x, y: (_two(F, "iv", v - 1, x) + _two(F, "iv", v + 1, x)) / 2),
    "kv": (None, lambda F, v, x, y: -(_two(F, "kv", v - 1, x) + _two(F, "kv", v + 1, x)) / 2),
    "ive": (
        None,
        lambda F, v, x, y: large_slope(
            F, v, x, -1, (_two(F, "ive", v - 1, x) + _two(F, "ive", v + 1, x)) / 2 - F.sgn(x) * y
        ),
    ),
    "kve": (
        None,
        lambda F, v, x, y: large_slope(F, v, x, 1, y - (_two(F, "kve", v - 1, x) + _two(F, "kve", v + 1, x)) / 2),
    ),
    "struve": (None, _struve_slope),
    "modstruve": (None, _modstruve_slope),
    "expn": (None, _expn_slope),
    "gammaincinv": (
        lambda F, a, p, x: -_order_slope(F, a, x) / _gamma_density(F, a, x),
        lambda F, a, p, x: 1 / _gamma_density(F, a, x),
    ),
    "gammainccinv": (
        lambda F, a, p, x: -_order_slope(F, a, x) / _gamma_density(F, a, x),
        lambda F, a, p, x: -1 / _gamma_density(F, a, x),
    ),
    "ellipkinc": (
        lambda F, phi, m, y: 1 / _sine_root(F, phi, m),
        _ellipkinc_slope,
    ),
    "ellipeinc": (
        lambda F, phi, m, y: _sine_root(F, phi, m),
        _ellipeinc_slope,
    ),
    "owens_t": (
        lambda F, h, a, y: -F.exp(-h * h / 2) * F.erf(a * h * math.sqrt(0.5)) / (2 * math.sqrt(2 * math.pi)),
        lambda F, h, a, y: F.exp(-h * h * (1 + a * a) / 2) / (2 * math.pi * (1 + a * a)),
    ),
    "hyp0f1": (None, lambda F, v, z, y: _two(F, "hyp0f1", v + 1, z) / v),
    "stdtr": (_stdtr_slope, lambda F, v, t, y: _student_density(F, v, t)),
    "eval_legendre": (
        None,
        lambda F, n, x, y: (
            (n + 1) / 2 * (n != 0) * F.special_of_four(_lower_degree(F, n), 0 * n + 1, 0 * n + 1, x, "eval_jacobi")
        ),
    ),
    "eval_chebyt": (None, lambda F, n, x, y: n * _two(F, "eval_chebyu", _lower_degree(F, n), x)),
    "eval_chebyu": (
        None,
        lambda F, n, x, y: 2 * (n != 0) * F.special_of_three(_lower_degree(F, n), 0 * n + 2, x, "eval_gegenbauer"),
    ),
    "eval_hermite": (None, lambda F, n, x, y: 2 * n * _two(F, "eval_hermite", _lower_degree(F, n), x)),
    "eval_hermitenorm": (None, lambda F, n, x, y: n * _two(F, "eval_hermitenorm", _lower_degree(F, n), x)),
    "eval_laguerre": (
        None,
        lambda F, n, x, y: -1 * (n != 0) * F.special_of_three(_lower_degree(F, n), 0 * n + 1, x, "eval_genlaguerre"),
    ),
    "ellipj:0": (lambda F, u, m, y: _two(F, "ellipj:1", u, m) * _two(F, "ellipj:2", u, m), None),
    "ellipj:1": (lambda F, u, m, y: -_two(F, "ellipj:0", u, m) * _two(F, "ellipj:2", u, m), None),
    "ellipj:2": (lambda F, u, m, y: -m * _two(F, "ellipj:0", u, m) * _two(F, "ellipj:1", u, m), None),
    "ellipj:3": (lambda F, u, m, y: _two(F, "ellipj:2", u, m), None),
}


# -- three and four ---------------------------------------------------------------------------------------------------


def _beta_density(F, a, b, x):
    return F.exp(F.xlogy(a - 1, x) + F.xlog1py(b - 1, -x) - F.special_of_two(a, b, "betaln"))


def _beta_slope(F, a, b, x, position):
    """Return the derivative of the regularized incomplete beta function with respect to `a` or `b`."""
    from gradcore.ops.special.incomplete_beta import beta_slope

    return beta_slope(F, a, b, x, position)


#: Derivatives of functions of three arguments, ``(F, x, y, z, result)`` for each argument.
_THREE = {
    "betainc": (
        lambda F, a, b, x, y: _beta_slope(F, a, b, x, 0),
        lambda F, a, b, x, y: _beta_slope(F, a, b, x, 1),
        lambda F, a, b, x, y: _beta_density(F, a, b, x),
    ),
    "betaincc": (
        lambda F, a, b, x, y: -_beta_slope(F, a, b, x, 0),
        lambda F, a, b, x, y: -_beta_slope(F, a, b, x, 1),
        lambda F, a, b, x, y: -_beta_density(F, a, b, x),
    ),
    "betaincinv": (
        lambda F, a, b, y, x: -_beta_slope(F, a, b, x, 0) / _beta_density(F, a, b, x),
        lambda F, a, b, y, x: -_beta_slope(F, a, b, x, 1) / _beta_density(F, a, b, x),
        lambda F, a, b, y, x: 1 / _beta_density(F, a, b, x),
    ),
    "betainccinv": (
        lambda F, a, b, y, x: -_beta_slope(F, a, b, x, 0) / _beta_density(F, a, b, x),
        lambda F, a, b, y, x: -_beta_slope(F, a, b, x, 1) / _beta_density(F, a, b, x),
        lambda F, a, b, y, x: -1 / _beta_density(F, a, b, x),
    ),
    "hyp1f1": (None, None, lambda F, a, b, x, y: a / b * F.special_of_three(a + 1, b + 1, x, "hyp1f1")),
    "hyperu": (None, None, lambda F, a, b, x, y: -a * F.special_of_three(a + 1, b + 1, x, "hyperu")),
    "eval_gegenbauer": (
        None,
        None,
        lambda F, n, a, x, y: 2 * a * (n != 0) * F.special_of_three(_lower_degree(F, n), a + 1, x, "eval_gegenbauer"),
    ),
    "eval_genlaguerre": (
        None,
        None,
        lambda F, n, a, x, y: -1 * (n != 0) * F.special_of_three(_lower_degree(F, n), a + 1, x, "eval_genlaguerre"),
    ),
}
_FOUR = {
    "hyp2f1": (
        None,
        None,
        None,
        lambda F, a, b, c, z, y: a * b / c * F.special_of_four(a + 1, b + 1, c + 1, z, "hyp2f1"),
    ),
    "eval_jacobi": (
        None,
        None,
        None,
        lambda F, n, a, b, x, y: (
            (n + a + b + 1) / 2 * (n != 0) * F.special_of_four(_lower_degree(F, n), a + 1, b + 1, x, "eval_jacobi")
        ),
    ),
}


# -- the operations ---------------------------------------------------------------------------------------------------


def _slope(F, table, name, position, *values):
    formulas = table.get(name) or table[name.partition(":")[0]]  # all branches of a function share one formula
    formula = formulas if callable(formulas) else formulas[position]
    if formula is None:
        raise NotImplementedError(
            f"the derivative of {name.partition(':')[0]} by argument {position} is not implemented"
        )
    return formula(F, *values)


def _shape(*args):
    *arrays, name = args
    check_implemented(name.partition(":")[0], arrays[0], "bi")
    shape = ()
    for a in arrays:
        ndim = max(len(shape), a.ndim)
        left, right = ((1,) * (ndim - len(s)) + tuple(s) for s in (shape, a.shape))
        shape = tuple(m if n == 1 else n for n, m in zip(left, right, strict=True))
    return Result(shape, arrays[0].dtype)


_OPTIONS = {"function": False, "method": False, "mixed": common_dtype, "broadcasts": True, "shaped": _shape}


@general(**_OPTIONS, samples=lambda: [case(floats(3, 2, low=0.2, high=2.0), "gamma"), case(floats(4), "fresnel:1")])
def special_of_one(x, name: str):
    """Return SciPy's function called `name` of one argument."""


@general(
    **_OPTIONS,
    samples=lambda: [
        case(floats(3, low=0.3, high=2.0), floats(2, 3, low=0.3, high=2.0), "beta"),
        case(floats(3, 1, low=0.3, high=2.0), floats(2, low=0.1, high=0.9), "gammaincinv"),
    ],
)
def special_of_two(x, y, name: str):
    """Return SciPy's function called `name` of two arguments."""


@general(
    **_OPTIONS,
    samples=lambda: [
        case(floats(3, low=0.5, high=4.0), floats(2, 1, low=0.5, high=4.0), floats(3, low=0.1, high=0.9), "betainc")
    ],
)
def special_of_three(x, y, z, name: str):
    """Return SciPy's function called `name` of three arguments."""


@general(**_OPTIONS)
def special_of_four(x, y, z, w, name: str):
    """Return SciPy's function called `name` of four arguments."""


special_of_one.vjp("x")(lambda F, t, x, result, name: t * F.conj(_slope(F, _ONE, name, 0, x, result)))
special_of_one.jvp("x")(lambda F, t, x, result, name: t * _slope(F, _ONE, name, 0, x, result))
special_of_two.vjp("x")(lambda F, t, x, y, result, name: t * F.conj(_slope(F, _TWO, name, 0, x, y, result)))
special_of_two.jvp("x")(lambda F, t, x, y, result, name: t * _slope(F, _TWO, name, 0, x, y, result))
special_of_two.vjp("y")(lambda F, t, x, y, result, name: t * F.conj(_slope(F, _TWO, name, 1, x, y, result)))
special_of_two.jvp("y")(lambda F, t, x, y, result, name: t * _slope(F, _TWO, name, 1, x, y, result))
special_of_three.vjp("x")(lambda F, t, x, y, z, result, name: t * F.conj(_slope(F, _THREE, name, 0, x, y, z, result)))
special_of_three.jvp("x")(lambda F, t, x, y, z, result, name: t * _slope(F, _THREE, name, 0, x, y, z, result))
special_of_three.vjp("y")(lambda F, t, x, y, z, result, name: t * F.conj(_slope(F, _THREE, name, 1, x, y, z, result)))
special_of_three.jvp("y")(lambda F, t, x, y, z, result, name: t * _slope(F, _THREE, name, 1, x, y, z, result))
special_of_three.vjp("z")(lambda F, t, x, y, z, result, name: t * F.conj(_slope(F, _THREE, name, 2, x, y, z, result)))
special_of_three.jvp("z")(lambda F, t, x, y, z, result, name: t * _slope(F, _THREE, name, 2, x, y, z, result))
special_of_four.vjp("x")(
    lambda F, t, x, y, z, w, result, name: t * F.conj(_slope(F, _FOUR, name, 0, x, y, z, w, result))
)
special_of_four.jvp("x")(lambda F, t, x, y, z, w, result, name: t * _slope(F, _FOUR, name, 0, x, y, z, w, result))
special_of_four.vjp("y")(
    lambda F, t, x, y, z, w, result, name: t * F.conj(_slope(F, _FOUR, name, 1, x, y, z, w, result))
)
special_of_four.jvp("y")(lambda F, t, x, y, z, w, result, name: t * _slope(F, _FOUR, name, 1, x, y, z, w, result))
special_of_four.vjp("z")(
    lambda F, t, x, y, z, w, result, name: t * F.conj(_slope(F, _FOUR, name, 2, x, y, z, w, result))
)
special_of_four.jvp("z")(lambda F, t, x, y, z, w, result, name: t * _slope(F, _FOUR, name, 2, x, y, z, w, result))
special_of_four.vjp("w")(
    lambda F, t, x, y, z, w, result, name: t * F.conj(_slope(F, _FOUR, name, 3, x, y, z, w, result))
)
special_of_four.jvp("w")(lambda F, t, x, y, z, w, result, name: t * _slope(F, _FOUR, name, 3, x, y, z, w, result))

#: The names of the functions, by number of arguments.
NAMES = {1: tuple(_ONE), 2: tuple(_TWO), 3: tuple(_THREE), 4: tuple(_FOUR)}
