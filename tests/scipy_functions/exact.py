"""Special functions in mpmath, and points at which gradcore's derivatives are compared with them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest

mp: Any = pytest.importorskip("mpmath")

__all__ = ["TABLE", "Exact"]

Points = list[tuple[float, ...]]


class Exact(NamedTuple):
    """A function of mpmath.

    Attributes
    ----------
    function : callable
    points : list of tuple
        Where it is compared: ordinary points, points next to singularities and to limits, extreme arguments.
    positions : tuple of int
        The arguments by which it is differentiated.
    bounds : tuple of float
        Of the relative errors of the value, the first and the second derivative.
    """

    function: Callable[..., Any]
    points: Points
    positions: tuple[int, ...] = (0,)
    bounds: tuple[float, float, float] = (1e-13, 1e-13, 1e-12)


def at(*numbers: float) -> Points:
    return [(x,) for x in numbers]


def grid(*sides: tuple[float, ...]) -> Points:
    return list(product(*sides))


def normal(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def betainc(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


def gammainc(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def inverse(function: Callable[[Any], Any], start: Callable[..., float]) -> Callable[..., Any]:
    """Return the function of ``(*parameters, y)`` that solves ``function(*parameters, x) = y``."""
    return lambda *args: mp.findroot(lambda x: function(*args[:-1], x) - args[-1], start(*map(float, args)))


def student(v: Any, t: Any) -> Any:
    scale = mp.gamma((v + 1) / 2) / mp.sqrt(mp.pi * v) / mp.gamma(v / 2)
    return mp.mpf(1) / 2 + t * scale * mp.hyp2f1(0.5, (v + 1) / 2, 1.5, -t * t / v)


def owens_t(h: Any, a: Any) -> Any:
    return mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mp.pi)


def voigt(x: Any, sigma: Any, gamma: Any) -> Any:
    z = (x + 1j * gamma) / (sigma * mp.sqrt(2))
    return (mp.exp(-z * z) * mp.erfc(-1j * z)).real / (sigma * mp.sqrt(2 * mp.pi))


def scipy(name: str) -> Callable[..., float]:
    """Return SciPy's function, which solvers start from."""
    import scipy.special

    return lambda *args: float(getattr(scipy.special, name)(*args))


BESSEL = (1e-12, 1e-12, 1e-12)
ORDERS = (0.0, 0.5, 1.0, 2.7, 10.0)
#: Of functions that take mpmath seconds at whole orders.
FRACTIONS = (0.5, 2.7, 9.3)
BETA = [
    (0.003, 0.05, 0.3), (0.003, 30.0, 1e-6), (0.05, 0.3, 0.999), (0.05, 400.0, 1e-6), (0.3, 0.3, 0.5),
    (0.3, 2.5, 0.02), (0.3, 0.003, 0.8), (0.3, 30.0, 0.02), (1.0, 1.0, 0.3), (1.0, 0.05, 0.999), (2.5, 0.3, 0.5),
    (2.5, 0.3, 0.999), (2.5, 2.5, 0.5), (2.5, 400.0, 1e-6), (30.0, 0.05, 0.8), (30.0, 30.0, 0.5),
    (30.0, 400.0, 0.02), (30.0, 0.003, 0.999), (400.0, 400.0, 0.5), (400.0, 0.3, 0.999), (400.0, 2.5, 0.999),
    (400.0, 0.003, 0.999), (7000.0, 0.5, 0.9999),
    (1500.0, 700.0, 0.69), (1e-4, 7e3, 1e-7), (2.0, 0.7, 0.0),
]  # fmt: skip

TABLE: dict[str, Exact] = {
    "gamma": Exact(mp.gamma, at(0.1, 0.5, 1.0, 3.7, -0.5, -2.3, 1e-8, 20.0, 150.0)),
    "loggamma": Exact(mp.loggamma, at(0.1, 1.0, 2.0, 5.0, 1e5, 1e-8)),
    "gammaln": Exact(mp.loggamma, at(0.1, 1.0, 2.0, 5.0, 1e5, 1e-8)),
    "digamma": Exact(lambda x: mp.psi(0, x), at(0.1, 5.0, -0.5, -3.3, 1e5, 1e-8)),
    "erf": Exact(mp.erf, at(0.0, 1e-8, 0.5, 3.0, -6.0)),
    "erfc": Exact(mp.erfc, at(-3.0, 0.0, 0.5, 3.0, 10.0, 25.0)),
    "erfinv": Exact(mp.erfinv, at(0.0, 1e-9, 0.5, -0.9, 1 - 1e-10)),
    "erfcinv": Exact(lambda x: mp.erfinv(1 - x), at(1e-10, 0.3, 1.0, 1.9)),
    "erfi": Exact(mp.erfi, at(0.0, 0.5, 3.0, -20.0)),
    "exprel": Exact(lambda x: mp.expm1(x) / x, at(1e-9, 1e-3, 0.5, -0.5, 5.0, -50.0, 500.0)),
    "expi": Exact(mp.ei, at(-20.0, -1.0, -0.1, 0.3725, 1.0, 20.0), bounds=(1e-12, 1e-13, 1e-13)),
    "exp10": Exact(lambda x: mp.mpf(10) ** x, at(-3.0, 0.0, 0.5)),
    "cosm1": Exact(lambda x: -2 * mp.sin(x / 2) ** 2, at(0.0, 1e-8, 0.5, 3.0)),
    "spence": Exact(lambda z: mp.polylog(2, 1 - z).real, at(1e-9, 0.3, 1.0, 1 + 1e-9, 1.0001, 1.1999, 2.0, 10.0, 1e4)),
    "ndtri_exp": Exact(
        inverse(lambda x: mp.log(normal(x)), scipy("ndtri_exp")),
        at(-1e-3, -0.1, -1.0, -10.0, -1e4),
        bounds=(1e-12,) * 3,
    ),
    "wrightomega": Exact(lambda x: mp.lambertw(mp.exp(x)).real, at(-50.0, -1.0, 0.0, 3.0, 100.0, 1e6)),
    "ber": Exact(lambda x: mp.ber(0, x), at(0.1, 1.0, 5.0, 15.0), bounds=(1e-11,) * 3),
    "bei": Exact(lambda x: mp.bei(0, x), at(0.1, 1.0, 5.0, 15.0), bounds=(1e-11,) * 3),
    "beip": Exact(
        lambda x: mp.diff(lambda t: mp.bei(0, t), x), at(1e-8, 1e-3, 0.1, 0.99, 1.01, 5.0), bounds=(1e-13,) * 3
    ),
    "ker": Exact(lambda x: mp.ker(0, x), at(0.1, 1.0, 5.0), bounds=(1e-11,) * 3),
    "kei": Exact(lambda x: mp.kei(0, x), at(0.1, 1.0, 5.0), bounds=(1e-11,) * 3),
    "fresnel:0": Exact(mp.fresnels, at(0.0, 1e-3, 0.5, 2.3, 9.7)),
    "fresnel:1": Exact(mp.fresnelc, at(0.0, 1e-3, 0.5, 2.3, 9.7)),
    "sici:0": Exact(mp.si, at(0.0, 1e-4, 0.1, 1.0, 10.0, 50.0)),
    "sici:1": Exact(mp.ci, at(1e-9, 0.1, 1.0, 10.0, 50.0)),
    "shichi:0": Exact(mp.shi, at(0.0, 1e-9, 1e-4, 0.01, 0.999, 1.0, 10.0, 50.0)),
    "shichi:1": Exact(mp.chi, at(1e-9, 0.1, 1.0, 10.0, 50.0)),
    "airy:0": Exact(mp.airyai, at(-10.0, 0.0, 1.0, 10.0, 50.0)),
    "airy:1": Exact(lambda x: mp.airyai(x, derivative=1), at(-10.0, 1e-9, 1.0, 10.0)),
    "airy:2": Exact(mp.airybi, at(-10.0, 0.0, 1.0, 10.0), bounds=(1e-12,) * 3),
    "airy:3": Exact(lambda x: mp.airybi(x, derivative=1), at(-10.0, 1e-9, 1.0, 10.0), bounds=(1e-12,) * 3),
    "lambertw": Exact(lambda x: mp.lambertw(x).real, at(-0.36, -0.3, 0.0, 1e-9, 1.0, 1e5)),
    "ndtr": Exact(normal, at(-30.0, -5.0, 0.0, 1.0, 8.0)),
    "log_ndtr": Exact(lambda x: mp.log(normal(x)), at(-1e5, -1e3, -30.0, -5.0, -1.0, 0.0, 1.0, 8.0)),
    "ndtri": Exact(lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), at(1e-10, 0.1, 0.5, 0.5 + 1e-9, 0.99)),
    "entr": Exact(lambda x: -x * mp.log(x), at(1e-9, 0.3, 1.0, 5.0)),
    "i0": Exact(lambda x: mp.besseli(0, x), at(0.0, 1e-8, 0.5, 5.0, 50.0, -5.0)),
    "i1": Exact(lambda x: mp.besseli(1, x), at(1e-8, 1e-3, 0.5, 1.01, 5.0, 50.0, -5.0)),
    "i0e": Exact(lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), at(1e-8, 0.5, 5.0, 51.0, -5.0, 1e4, -1e4, 1e9)),
    "i1e": Exact(lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), at(1e-8, 1e-3, 0.5, 5.0, 51.0, -5.0, 1e4, -1e4)),
    "j0": Exact(lambda x: mp.besselj(0, x), at(0.0, 1e-8, 0.5, 5.0, 50.0)),
    "j1": Exact(lambda x: mp.besselj(1, x), at(1e-8, 1e-3, 0.5, 1.01, 5.0, 50.0)),
    "y0": Exact(lambda x: mp.bessely(0, x), at(0.5, 50.0)),
    "y1": Exact(lambda x: mp.bessely(1, x), at(0.5, 50.0)),
    "k0": Exact(lambda x: mp.besselk(0, x), at(0.5, 50.0)),
    "k1": Exact(lambda x: mp.besselk(1, x), at(0.5, 50.0)),
    "k0e": Exact(lambda x: mp.besselk(0, x) * mp.exp(x), at(0.5, 51.0, 1e4)),
    "k1e": Exact(lambda x: mp.besselk(1, x) * mp.exp(x), at(0.5, 51.0, 1e4)),
    "beta": Exact(mp.beta, grid((1e-6, 0.3, 2.5, 40.0), (1e-6, 0.3, 2.5, 40.0)), (0, 1)),
    "betaln": Exact(
        lambda a, b: mp.log(mp.beta(a, b)),
        grid((1e-6, 2.5, 1e5), (1e-6, 0.3, 40.0, 1e5)),
        (0, 1),
        (1e-10, 1e-13, 1e-12),
    ),
    "poch": Exact(mp.rf, grid((0.3, 2.5, 40.0), (1e-8, 0.3, 2.5, 7.0)), (0, 1), (1e-12,) * 3),
    "binom": Exact(mp.binomial, grid((0.3, 2.5, 40.0), (0.3, 2.2, 7.0)), (0, 1), (1e-12,) * 3),
    "powm1": Exact(lambda x, y: x**y - 1, grid((0.3, 1 + 1e-9, 2.5), (1e-9, 0.3, -2.0)), (0, 1), (1e-12,) * 3),
    "rel_entr": Exact(lambda x, y: x * mp.log(x / y), grid((0.3, 1 + 1e-9, 2.4), (0.31, 1.0, 2.5)), (0, 1)),
    "jv": Exact(mp.besselj, grid((*ORDERS, -0.5), (1e-3, 0.4, 3.0, 30.0)), (1,), BESSEL),
    "yv": Exact(mp.bessely, grid(FRACTIONS, (1e-3, 0.4, 3.0, 30.0)), (1,), BESSEL),
    "iv": Exact(mp.besseli, grid(ORDERS, (1e-3, 0.4, 3.0, 30.0)), (1,), BESSEL),
    "kv": Exact(mp.besselk, grid(FRACTIONS, (1e-3, 0.4, 3.0, 30.0)), (1,), BESSEL),
    "ive": Exact(
        lambda v, x: mp.besseli(v, x) * mp.exp(-abs(x)),
        grid(ORDERS, (1e-3, 0.4, 3.0, 1e4)),
        (1,),
        (1e-12, 1e-12, 1e-11),
    ),
    "kve": Exact(
        lambda v, x: mp.besselk(v, x) * mp.exp(x), grid(FRACTIONS, (1e-3, 0.4, 3.0, 1e4)), (1,), (1e-12, 1e-12, 1e-11)
    ),
    "struve": Exact(mp.struveh, grid((-1.0, 0.0, 0.5, 1.0, 2.7), (1e-8, 0.4, 3.0, 30.0)), (1,), (1e-13,) * 3),
    "modstruve": Exact(mp.struvel, grid((-1.0, 0.0, 0.5, 1.0, 2.7), (1e-8, 0.4, 3.0, 20.0)), (1,), (1e-13,) * 3),
    "gammainc": Exact(
        gammainc, grid((1e-3, 0.1, 1.0, 3.3, 50.0), (1e-6, 0.1, 0.9, 1.1, 4.0, 40.0)), (0, 1), (1e-12,) * 3
    ),
    "gammaincc": Exact(
        lambda a, x: mp.gammainc(a, x, regularized=True),
        grid((0.1, 1.0, 3.3, 50.0), (0.9, 4.0, 40.0)),
        (0, 1),
        (1e-12,) * 3,
    ),
    "owens_t": Exact(owens_t, grid((0.0, 0.3, 2.0), (0.1, 0.9, 3.0)), (0, 1), (1e-12,) * 3),
    "hyp0f1": Exact(mp.hyp0f1, grid((0.3, 1.0, 2.7), (-5.0, -1e-9, 0.3, 9.0)), (1,)),
    "stdtr": Exact(student, grid((0.7, 2.0, 30.0), (-20.0, -1.0, 1e-9, 0.4, 3.0)), (0, 1), (1e-11, 1e-10, 1e-10)),
    "eval_hermite": Exact(lambda n, x: mp.hermite(int(n), x), grid((0.0, 1.0, 2.0, 5.0), (-0.7, 0.1, 0.4, 3.0)), (1,)),
    "ellipj:0": Exact(lambda u, m: mp.ellipfun("sn", u, m=m), grid((1e-6, 0.3, 1.2, 5.0), (1e-9, 0.3, 0.99))),
    "ellipj:1": Exact(lambda u, m: mp.ellipfun("cn", u, m=m), grid((1e-6, 0.3, 1.2, 5.0), (1e-9, 0.3, 0.99))),
    "ellipj:2": Exact(lambda u, m: mp.ellipfun("dn", u, m=m), grid((1e-6, 0.3, 1.2, 5.0), (1e-9, 0.3, 0.99))),
    "hyp1f1": Exact(mp.hyp1f1, grid((0.3, 2.7), (0.4, 3.3), (-5.0, 1e-9, 0.4, 20.0)), (2,), (1e-12,) * 3),
    "hyperu": Exact(mp.hyperu, grid((0.3, 2.7), (0.4, 3.3), (0.1, 0.4)), (2,), (1e-9, 1e-6, 1e-6)),
    "hyp2f1": Exact(mp.hyp2f1, grid((0.3, 2.7), (0.4, 1.3), (2.2,), (-5.0, 1e-9, 0.4, 0.95)), (3,), (1e-12,) * 3),
    "zeta": Exact(mp.zeta, grid((1.1, 1.5, 3.0), (0.1, 1.0, 7.3, 1e3)), (0, 1)),
    "voigt_profile": Exact(
        voigt, grid((0.0, 0.3, 5.0, 9.4, 20.0), (0.5, 2.0), (1e-16, 0.1, 1.0)), (0, 1, 2), (1e-13, 1e-11, 1e-9)
    ),
    "boxcox": Exact(lambda x, p: (x**p - 1) / p, grid((0.3, 2.5), (1e-9, 0.4, -2.0)), (0, 1)),
    "inv_boxcox": Exact(lambda y, p: (1 + p * y) ** (1 / p), grid((0.3, 2.5), (1e-9, 1e-4, 0.4, 2.0)), (0, 1)),
    "pseudo_huber": Exact(
        lambda d, r: d * d * (mp.sqrt(1 + (r / d) ** 2) - 1),
        grid((0.3, 2.5), (1e-4, 0.4, 30.0)),
        (0, 1),
        (1e-13, 1e-12, 1e-9),
    ),
    "betainc": Exact(betainc, BETA, (0, 1), (1e-11, 1e-10, 1e-10)),
    "betaincc": Exact(lambda *args: 1 - betainc(*args), BETA[::3], (0, 1), (1e-11, 1e-10, 1e-10)),
    "fdtr": Exact(
        lambda n, d, x: betainc(n / 2, d / 2, n * x / (n * x + d)),
        grid((0.1, 2.0, 30.0), (0.3, 9.0), (0.01, 1.0, 10.0)),
        (0, 1, 2),
        (1e-12, 1e-11, 1e-11),
    ),
    "betaincinv": Exact(
        inverse(betainc, scipy("betaincinv")),
        grid((0.3, 2.5), (0.5, 9.0), (0.1, 0.6)),
        (0, 1, 2),
        (1e-12, 1e-12, 1e-11),
    ),
    "gammaincinv": Exact(
        inverse(gammainc, scipy("gammaincinv")), grid((0.3, 2.5, 40.0), (0.1, 0.6)), (0, 1), (1e-12, 1e-12, 1e-10)
    ),
}
