"""Densities and distribution functions, differentiable with respect to SciPy's parameters: shapes, `loc`, `scale`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from numpy.polynomial.laguerre import laggauss

from gradcore import functional as F
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import inexact, refuse_history, tensor_of
from gradcore.scipy.conversion import promote_arguments
from gradcore.scipy.required import scipy_module
from gradcore.tensor import Tensor

__all__ = [
    "CONTINUOUS",
    "DISCRETE",
    "ContinuousDistribution",
    "DiscreteDistribution",
    "FrozenDistribution",
    "dirichlet",
    "multivariate_normal",
]

_LOG_ROOT = math.log(2 * math.pi) / 2

#: A number, an array or a tensor.
ArrayLike: TypeAlias = Any
Formula = Callable[..., ArrayLike]
Support = Callable[..., tuple[ArrayLike, ArrayLike]]


def _bind_parameters(
    settings: dict[str, ArrayLike], shapes: tuple[str, ...], args: tuple[ArrayLike, ...]
) -> list[ArrayLike]:
    """Return the values of the shape parameters, `loc` and `scale` from the arguments of a call."""
    names = (*shapes, "loc", "scale")
    if len(args) > len(names):
        raise TypeError(f"takes {', '.join(names)}, but {len(args)} values were given")
    bound = dict(zip(names, args, strict=False))
    for name, value in settings.items():
        if name not in names or name in bound:
            raise TypeError(f"takes {', '.join(names)}, not {name!r} (again)")
        bound[name] = value
    missing = [name for name in shapes if name not in bound]
    if missing:
        raise TypeError(f"missing shapes: {', '.join(missing)}")
    return [bound.get(name, 1.0 if name == "scale" else 0.0) for name in names]


class _Samples:
    """Samples of a distribution of `scipy.stats`, by the name of the distribution."""

    name: str

    def rvs(self, *args: ArrayLike, **settings: ArrayLike) -> ArrayLike:
        """Draw the numbers that SciPy draws for the same arguments and seed, as a tensor; they have no derivative."""
        values = (args, tuple(settings.values()))
        refuse_history(values, f"{self.name}.rvs()", "samples by rsample() of gradcore.distributions")
        draw = getattr(scipy_module("stats"), self.name).rvs
        numbers = draw(*map(_to_host, args), **{name: _to_host(value) for name, value in settings.items()})
        return tensor_of(numbers)

    def __call__(self, *args: ArrayLike, **settings: ArrayLike) -> FrozenDistribution:
        """Return the distribution with these parameters, whose methods take none, as calls of SciPy's do."""
        return FrozenDistribution(self, args, settings)

    def __reduce__(self) -> tuple[Callable[[str], _Samples], tuple[str]]:
        return _distribution, (self.name,)

    def __repr__(self) -> str:
        return f"<gradcore.scipy.stats.{self.name}>"


def _distribution(name: str) -> _Samples:
    """Return the distribution of that name."""
    found = {**CONTINUOUS, **DISCRETE, dirichlet.name: dirichlet, multivariate_normal.name: multivariate_normal}
    return found[name]


class FrozenDistribution:
    """A distribution with given parameters: ``norm(loc, scale).pdf(x)`` is ``norm.pdf(x, loc, scale)``.

    Attributes
    ----------
    dist : ContinuousDistribution, DiscreteDistribution or a distribution of vectors
    args, kwds : tuple, dict
        The parameters, which may be tensors with a history.

    Examples
    --------
    >>> from gradcore.scipy import stats
    >>> loc = gc.tensor(1.0, requires_grad=True)
    >>> stats.norm(loc, scale=2.0).logpdf(2.0).backward()
    >>> loc.grad
    tensor(0.2500)
    """

    def __init__(self, dist: _Samples, args: tuple[ArrayLike, ...], kwds: dict[str, ArrayLike]) -> None:
        self.dist, self.args, self.kwds = dist, args, kwds

    def rvs(self, size: ArrayLike = 1, random_state: ArrayLike = None) -> ArrayLike:
        """Draw the numbers that SciPy draws for the same arguments and seed, as a tensor; they have no derivative."""
        return self.dist.rvs(*self.args, **self.kwds, size=size, random_state=random_state)

    def __getattr__(self, name: str) -> Callable[..., AnyTensor]:
        method = None if name.startswith("_") else getattr(self.dist, name, None)
        if not callable(method):
            raise AttributeError(f"distributions with parameters have no method {name!r}", name=name, obj=self)
        return lambda *values: method(*values, *self.args, **self.kwds)

    def __repr__(self) -> str:
        arguments = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwds.items())]
        return f"<gradcore.scipy.stats.{self.dist.name}({', '.join(arguments)})>"


def _to_host(value: ArrayLike) -> ArrayLike:
    return value.numpy(force=True) if isinstance(value, Tensor) else getattr(value, "_source", value)


class _Probabilities(_Samples):
    """The methods that a distribution of numbers derives from its distribution function."""

    def _mark_invalid(self, values: ArrayLike, shapes: list[ArrayLike], *scale: ArrayLike) -> ArrayLike:
        """Return `values` with NaN where a shape parameter, or the scale, is outside of its range."""
        checks = [_VALID[self.name](*shapes)] if self.name in _VALID else [shape > 0 for shape in shapes]
        for is_valid in (*checks, *(each > 0 for each in scale)):
            values = F.where(is_valid, values, math.nan)
        return values

    def cdf(self, x: ArrayLike, *args: ArrayLike, **settings: ArrayLike) -> AnyTensor:
        """Return the distribution function."""
        raise NotImplementedError

    def sf(self, x: ArrayLike, *args: ArrayLike, **settings: ArrayLike) -> AnyTensor:
        """Return the survival function, ``1 - cdf(x)``."""
        return 1 - self.cdf(x, *args, **settings)

    def logcdf(self, x: ArrayLike, *args: ArrayLike, **settings: ArrayLike) -> AnyTensor:
        """Return the logarithm of the distribution function."""
        return _log_probability(self.cdf(x, *args, **settings), self.sf(x, *args, **settings))

    def logsf(self, x: ArrayLike, *args: ArrayLike, **settings: ArrayLike) -> AnyTensor:
        """Return the logarithm of the survival function."""
        return _log_probability(self.sf(x, *args, **settings), self.cdf(x, *args, **settings))


def _log_probability(probability: ArrayLike, rest: ArrayLike) -> ArrayLike:
    """Return the logarithm of a probability, by ``rest = 1 - probability`` where it is close to one."""
    use = rest < 0.5
    return F.where(use, F.log1p(-F.where(use, rest, 0.5)), F.log(F.where(use, 0.5, probability)))


def _union(below: ArrayLike, above: ArrayLike) -> ArrayLike:
    """Return where one of two masks is True; None stands for a mask that is False everywhere."""
    return above if below is None else below if above is None else below | above


class ContinuousDistribution(_Probabilities):
    """A continuous distribution of `scipy.stats`: its density and distribution function, with SciPy's arguments.

    Parameters
    ----------
    name : str
    shapes : tuple of str
    log_density : callable
        ``(x, *shapes)``: the logarithm of the standard distribution's density.
    cumulative : callable or None
        ``(x, *shapes)``: the standard distribution function.
    support : callable
        ``(*shapes)``: the lower and the upper bound of the support; None for an infinite one.
    """

    def __init__(
        self, name: str, shapes: tuple[str, ...], log_density: Formula, cumulative: Formula | None, support: Support
    ) -> None:
        self.name, self.shapes = name, shapes
        self._log_density, self._cumulative, self._support = log_density, cumulative, support
        self._survival = _SURVIVAL.get(name)

    def _standard(
        self, x: ArrayLike, args: ArrayLike, settings: ArrayLike
    ) -> tuple[ArrayLike, list[ArrayLike], ArrayLike, ArrayLike, ArrayLike]:
        """Return ``(x - loc) / scale``, the shapes, the scale, and masks of `x` below and above the support.

        Numbers outside of the support, and infinity above a half line, are replaced by one inside, so that gradients
        are finite.
        """
        x, *parameters = (inexact(t) for t in promote_arguments(x, *_bind_parameters(settings, self.shapes, args)))
        *shapes, loc, scale = parameters
        y = (x - loc) / scale
        low, high = self._support(*shapes)
        below = None if low is None else y <= low if self._support is _exclude_zero else y < low
        above = y > high if high is not None else None if low is None else F.isposinf(y)
        inner = 0.5 if low is not None and high is not None else 1.0 if low is not None else -1.0
        outside = _union(below, above)
        if outside is not None:
            y = F.where(outside, inner, y)
        return y, shapes, scale, below, above

    def logpdf(self, x: ArrayLike, *args: ArrayLike, **settings: ArrayLike) -> AnyTensor:
        """Return the logarithm of the density: minus infinity outside of the support."""
        y, shapes, scale, below, above = self._standard(x, args, settings)
        density = self._log_density(y, *shapes) - F.log(scale)
        outside = _union(below, above)
        if outside is not None:
            density = F.where(outside, -math.inf, density)
        return self._mark_invalid(density, shapes, scale)

    def pdf(self, x: ArrayLike, *args: ArrayLike, **settings: ArrayLike) -> AnyTensor:
        """Return the density."""
        return F.exp(self.logpdf(x, *args, **settings))

    def cdf(self, x: ArrayLike, *args: ArrayLike, **settings: ArrayLike) -> AnyTensor:
        """Return the distribution function."""
        if self._cumulative is None:
            raise NotImplementedError(f"{self.name}.cdf is not implemented")
        return self._probability(self._cumulative, (0.0, 1.0), x, args, settings)

    def sf(self, x: ArrayLike, *args: ArrayLike, **settings: ArrayLike) -> AnyTensor:
        """Return the survival function, ``1 - cdf(x)``, without cancellation in the upper tail."""
        if self._survival is None:
            return super().sf(x, *args, **settings)
        return self._probability(self._survival, (1.0, 0.0), x, args, settings)

    def logcdf(self, x: ArrayLike, *args: ArrayLike, **settings: ArrayLike) -> AnyTensor:
        """Return the logarithm of the distribution function."""
        if self.name in _LOG_CUMULATIVE:
            return self._probability(_LOG_CUMULATIVE[self.name], (-math.inf, 0.0), x, args, settings)
        return super().logcdf(x, *args, **settings)

    def logsf(self, x: ArrayLike, *args: ArrayLike, **settings: ArrayLike) -> AnyTensor:
        """Return the logarithm of the survival function."""
        if self.name in _LOG_SURVIVAL:
            return self._probability(_LOG_SURVIVAL[self.name], (0.0, -math.inf), x, args, settings)
        return super().logsf(x, *args, **settings)

    def _probability(
        self, formula: Formula, limits: tuple[float, float], x: ArrayLike, args: ArrayLike, settings: ArrayLike
    ) -> ArrayLike:
        """Return a function of the standard distribution, which has the values `limits` outside of the support."""
        y, shapes, scale, below, above = self._standard(x, args, settings)
        probability = formula(y, *shapes)
        for outside, limit in zip((below, above), limits, strict=True):
            if outside is not None:
                probability = F.where(outside, limit, probability)
        return self._mark_invalid(probability, shapes, scale)


class DiscreteDistribution(_Probabilities):
    """A discrete distribution of `scipy.stats`: its probabilities, with SciPy's arguments."""

    def __init__(
        self,
        name: str,
        shapes: tuple[str, ...],
        log_mass: Formula,
        cumulative: Formula,
        survival: Formula,
        support: Support,
    ) -> None:
        self.name, self.shapes, self._log_mass, self._support = name, shapes, log_mass, support
        self._cumulative, self._survival = cumulative, survival

    def _standard(
        self, k: ArrayLike, args: ArrayLike, settings: ArrayLike
    ) -> tuple[ArrayLike, list[ArrayLike], ArrayLike, ArrayLike]:
        """Return ``k - loc``, the shapes and the bounds of the support."""
        values = _bind_parameters(settings, self.shapes, args)[:-1]
        k, *parameters = (inexact(t) for t in promote_arguments(k, *values))
        *shapes, loc = parameters
        return (k - loc, shapes, *self._support(*shapes))

    def logpmf(self, k: ArrayLike, *args: ArrayLike, **settings: ArrayLike) -> AnyTensor:
        """Return the logarithm of the probability of `k`: minus infinity if `k` cannot occur."""
        k, shapes, low, high = self._standard(k, args, settings)
        outside = (k < low) | (k != F.floor(k))
        if high is not None:
            outside = outside | (k > high)
        mass = F.where(outside, -math.inf, self._log_mass(F.where(outside, low, k), *shapes))
        return self._mark_invalid(F.where(F.isnan(k), k, mass), shapes)

    def pmf(self, k: ArrayLike, *args: ArrayLike, **settings: ArrayLike) -> AnyTensor:
        """Return the probability."""
        return F.exp(self.logpmf(k, *args, **settings))

    def cdf(self, x: ArrayLike, *args: ArrayLike, **settings: ArrayLike) -> AnyTensor:
        """Return the probability of numbers up to `x`, which is constant between integers."""
        return self._probability(self._cumulative, (0.0, 1.0), x, args, settings)

    def sf(self, x: ArrayLike, *args: ArrayLike, **settings: ArrayLike) -> AnyTensor:
        """Return the probability of numbers above `x`."""
        return self._probability(self._survival, (1.0, 0.0), x, args, settings)

    def _probability(
        self, formula: Formula, limits: tuple[float, float], k: ArrayLike, args: ArrayLike, settings: ArrayLike
    ) -> ArrayLike:
        """Return a formula of ``floor(k)`` and the shapes, which has the values `limits` outside of the support."""
        k, shapes, low, high = self._standard(k, args, settings)
        k = F.floor(k)
        below = k < low
        above = F.isposinf(k) if high is None else k >= high
        inner = F.where(below | above, low, k)
        probability = F.where(below, limits[0], F.where(above, limits[1], formula(inner, *shapes)))
        return self._mark_invalid(probability, shapes)


def _everywhere(*shapes: ArrayLike) -> tuple[None, None]:
    return None, None


def _positive(*shapes: ArrayLike) -> tuple[float, None]:
    return 0.0, None


def _exclude_zero(*shapes: ArrayLike) -> tuple[float, None]:
    """Return the support of a distribution whose density is zero at zero, where its formula is not defined."""
    return 0.0, None


def _unit(*shapes: ArrayLike) -> tuple[float, float]:
    return 0.0, 1.0


def _betaln(a: ArrayLike, b: ArrayLike) -> ArrayLike:
    return F.special_of_two(a, b, "betaln")


def _t(x: ArrayLike, df: ArrayLike) -> ArrayLike:
    return F.lgamma((df + 1) / 2) - F.lgamma(df / 2) - F.log(df * math.pi) / 2 - (df + 1) / 2 * F.log1p(x * x / df)


def _f(x: ArrayLike, m: ArrayLike, n: ArrayLike) -> ArrayLike:
    return (
        m / 2 * F.log(m) + n / 2 * F.log(n) + F.xlogy(m / 2 - 1, x) - (m + n) / 2 * F.log(n + m * x)
        - _betaln(m / 2, n / 2)
    )  # fmt: skip


def _gamma(x: ArrayLike, a: ArrayLike) -> ArrayLike:
    return F.xlogy(a - 1, x) - x - F.lgamma(a)


def _beta(x: ArrayLike, a: ArrayLike, b: ArrayLike) -> ArrayLike:
    return F.xlogy(a - 1, x) + F.xlog1py(b - 1, -x) - _betaln(a, b)


def _gumbel(x: ArrayLike) -> ArrayLike:
    """Return the log density of the Gumbel distribution to the left; the clamp makes it minus infinity at infinity."""
    return F.clamp(x, None, 3e38) - F.exp(x)


def _log_laplace(x: ArrayLike) -> ArrayLike:
    """Return the logarithm of the distribution function of the Laplace distribution."""
    tail = -F.abs(x) - math.log(2)
    return F.where(x > 0, F.log1p(-F.exp(tail)), tail)


def _skewnorm(x: ArrayLike, a: ArrayLike) -> ArrayLike:
    """Return the distribution function of the skew normal distribution, without cancellation in the short tail."""
    is_tail = a * x < -2
    h, slope = F.where(is_tail, F.abs(x), 2.0), F.where(is_tail, F.abs(a), 2.0)
    # Owen's function as an integral from `a` to infinity, by Gauss and Laguerre after a change of variables
    nodes, weights = (tensor_of(numbers).to(h) for numbers in laggauss(32))
    squares = F.unsqueeze(slope * slope, -1) + 2 * nodes / F.unsqueeze(h * h, -1)
    integral = F.sum(weights / ((1 + squares) * F.sqrt(squares)), (-1,))
    tail = F.exp(-h * h * (1 + slope * slope) / 2) / (math.pi * h * h) * integral
    tail = F.where(x < 0, tail, 1 - tail)
    return F.where(is_tail, tail, F.ndtr(x) - 2 * F.special_of_two(x, a, "owens_t"))


_ROOT_2 = math.sqrt(2)

#: Where the shape parameters of a distribution are valid, unless all have to be positive.
_VALID: dict[str, Formula] = {
    "skewnorm": lambda a: F.isfinite(a),
    "poisson": lambda mu: mu >= 0,
    "bernoulli": lambda p: (p >= 0) & (p <= 1),
    "binom": lambda n, p: (n >= 0) & (n == F.floor(n)) & (p >= 0) & (p <= 1),
    "geom": lambda p: (p > 0) & (p <= 1),
    "nbinom": lambda n, p: (n > 0) & (p > 0) & (p <= 1),
}

#: Name, shape parameters, log density, distribution function and support of each distribution.
_TABLE: list[tuple[str, str, Formula, Formula | None, Support]] = [
    ("norm", "", lambda x: -x * x / 2 - _LOG_ROOT, lambda x: F.ndtr(x), _everywhere),
    ("uniform", "", lambda x: 0 * x, lambda x: x, _unit),
    ("expon", "", lambda x: -x, lambda x: -F.expm1(-x), _positive),
    ("gamma", "a", _gamma, lambda x, a: F.igamma(a, x), _positive),
    ("beta", "a b", _beta, lambda x, a, b: F.special_of_three(a, b, x, "betainc"), _unit),
    ("t", "df", _t, lambda x, df: F.special_of_two(df, x, "stdtr"), _everywhere),
    ("cauchy", "", lambda x: -math.log(math.pi) - F.log1p(x * x),
     lambda x: F.atan2(F.ones_like(x), -x) / math.pi, _everywhere),
    ("laplace", "", lambda x: -F.abs(x) - math.log(2),
     lambda x: F.where(x > 0, 1 - F.exp(-F.abs(x)) / 2, F.exp(-F.abs(x)) / 2), _everywhere),
    ("logistic", "", lambda x: F.logsigmoid(x) + F.logsigmoid(-x), lambda x: F.sigmoid(x), _everywhere),
    ("lognorm", "s", lambda x, s: -((F.log(x) / s) ** 2) / 2 - F.log(s * x) - _LOG_ROOT,
     lambda x, s: F.ndtr(F.log(x) / s), _exclude_zero),
    ("chi2", "df", lambda x, df: _gamma(x / 2, df / 2) - math.log(2), lambda x, df: F.igamma(df / 2, x / 2), _positive),
    ("chi", "df", lambda x, df: (1 - df / 2) * math.log(2) - F.lgamma(df / 2) + F.xlogy(df - 1, x) - x * x / 2,
     lambda x, df: F.igamma(df / 2, x * x / 2), _positive),
    ("f", "dfn dfd", _f, lambda x, m, n: F.special_of_three(m / 2, n / 2, m * x / (m * x + n), "betainc"), _positive),
    ("gumbel_r", "", lambda x: _gumbel(-x), lambda x: F.exp(-F.exp(-x)), _everywhere),
    ("gumbel_l", "", lambda x: _gumbel(x), lambda x: -F.expm1(-F.exp(x)), _everywhere),
    ("weibull_min", "c", lambda x, c: F.log(c) + F.xlogy(c - 1, x) - x**c, lambda x, c: -F.expm1(-(x**c)), _positive),
    ("pareto", "b", lambda x, b: F.log(b) - (b + 1) * F.log(x), lambda x, b: 1 - x ** (-b), lambda b: (1.0, None)),
    ("invgamma", "a", lambda x, a: -(a + 1) * F.log(x) - F.lgamma(a) - 1 / x, lambda x, a: F.igammac(a, 1 / x),
     _exclude_zero),
    ("halfnorm", "", lambda x: -x * x / 2 + math.log(2) - _LOG_ROOT, lambda x: F.erf(x / _ROOT_2), _positive),
    ("halfcauchy", "", lambda x: math.log(2 / math.pi) - F.log1p(x * x), lambda x: 2 / math.pi * F.atan(x), _positive),
    ("rayleigh", "", lambda x: F.log(x) - x * x / 2, lambda x: -F.expm1(-x * x / 2), _positive),
    ("maxwell", "", lambda x: math.log(2 / math.pi) / 2 + 2 * F.log(x) - x * x / 2,
     lambda x: F.igamma(F.full_like(x, 1.5), x * x / 2), _positive),
    ("skewnorm", "a", lambda x, a: math.log(2) - x * x / 2 - _LOG_ROOT + F.log_ndtr(a * x),
     lambda x, a: _skewnorm(x, a), _everywhere),
    ("powerlaw", "a", lambda x, a: F.log(a) + F.xlogy(a - 1, x), lambda x, a: x**a, _unit),
    ("invgauss", "mu", lambda x, mu: -_LOG_ROOT - 1.5 * F.log(x) - ((x - mu) / mu) ** 2 / (2 * x), None,
     _exclude_zero),
    ("gennorm", "beta", lambda x, b: F.log(b / 2) - F.lgamma(1 / b) - F.abs(x) ** b, None, _everywhere),
]  # fmt: skip

#: Survival functions of the distributions for which ``1 - cdf(x)`` would lose digits in the upper tail.
_SURVIVAL: dict[str, Formula] = {
    "norm": lambda x: F.ndtr(-x),
    "expon": lambda x: F.exp(-x),
    "gamma": lambda x, a: F.igammac(a, x),
    "beta": lambda x, a, b: F.special_of_three(a, b, x, "betaincc"),
    "t": lambda x, df: F.special_of_two(df, -x, "stdtr"),
    "cauchy": lambda x: F.atan2(F.ones_like(x), x) / math.pi,
    "laplace": lambda x: F.where(x > 0, F.exp(-F.abs(x)) / 2, 1 - F.exp(-F.abs(x)) / 2),
    "logistic": lambda x: F.sigmoid(-x),
    "lognorm": lambda x, s: F.ndtr(-F.log(x) / s),
    "chi2": lambda x, df: F.igammac(df / 2, x / 2),
    "chi": lambda x, df: F.igammac(df / 2, x * x / 2),
    "f": lambda x, m, n: F.special_of_three(n / 2, m / 2, n / (m * x + n), "betainc"),
    "gumbel_r": lambda x: -F.expm1(-F.exp(-x)),
    "gumbel_l": lambda x: F.exp(-F.exp(x)),
    "weibull_min": lambda x, c: F.exp(-(x**c)),
    "pareto": lambda x, b: x ** (-b),
    "invgamma": lambda x, a: F.igamma(a, 1 / x),
    "halfnorm": lambda x: F.erfc(x / _ROOT_2),
    "halfcauchy": lambda x: 2 / math.pi * F.atan2(F.ones_like(x), x),
    "rayleigh": lambda x: F.exp(-x * x / 2),
    "maxwell": lambda x: F.igammac(F.full_like(x, 1.5), x * x / 2),
    "skewnorm": lambda x, a: _skewnorm(-x, -a),
}

#: Logarithms of distribution and survival functions that are finite where the functions themselves round to zero.
_LOG_CUMULATIVE: dict[str, Formula] = {
    "norm": lambda x: F.log_ndtr(x),
    "gumbel_r": lambda x: -F.exp(-x),
    "laplace": lambda x: _log_laplace(x),
    "logistic": lambda x: F.logsigmoid(x),
    "lognorm": lambda x, s: F.log_ndtr(F.log(x) / s),
}
_LOG_SURVIVAL: dict[str, Formula] = {
    "norm": lambda x: F.log_ndtr(-x),
    "expon": lambda x: -x,
    "gumbel_l": lambda x: -F.exp(x),
    "halfnorm": lambda x: F.where(x < 1, F.log1p(-F.erf(x / _ROOT_2)), math.log(2) + F.log_ndtr(-x)),
    "laplace": lambda x: _log_laplace(-x),
    "logistic": lambda x: F.logsigmoid(-x),
    "lognorm": lambda x, s: F.log_ndtr(-F.log(x) / s),
    "weibull_min": lambda x, c: -(x**c),
    "pareto": lambda x, b: -b * F.log(x),
    "rayleigh": lambda x: -x * x / 2,
}

CONTINUOUS = {
    name: ContinuousDistribution(name, tuple(shapes.split()), density, cumulative, support)
    for name, shapes, density, cumulative, support in _TABLE
}
"""The continuous distributions, by their names in `scipy.stats`."""


def _log_binomial(n: ArrayLike, k: ArrayLike) -> ArrayLike:
    return -F.log(n + 1) - _betaln(n - k + 1, k + 1)


def _beta_part(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> ArrayLike:
    return F.special_of_three(a, b, x, "betainc")


DISCRETE = {
    name: DiscreteDistribution(name, tuple(shapes.split()), mass, cumulative, survival, support)
    for name, shapes, mass, cumulative, survival, support in (
        ("poisson", "mu", lambda k, mu: F.xlogy(k, mu) - F.lgamma(k + 1) - mu, lambda k, mu: F.igammac(k + 1, mu),
         lambda k, mu: F.igamma(k + 1, mu), lambda mu: (0, None)),
        ("bernoulli", "p", lambda k, p: F.xlogy(k, p) + F.xlog1py(1 - k, -p), lambda k, p: 1 - p + 0 * k,
         lambda k, p: p + 0 * k, lambda p: (0, 1)),
        ("binom", "n p", lambda k, n, p: _log_binomial(n, k) + F.xlogy(k, p) + F.xlog1py(n - k, -p),
         lambda k, n, p: _beta_part(F.where(k < n, n - k, 1), k + 1, 1 - p),
         lambda k, n, p: _beta_part(k + 1, F.where(k < n, n - k, 1), p), lambda n, p: (0, n)),
        ("geom", "p", lambda k, p: F.xlog1py(k - 1, -p) + F.log(p), lambda k, p: -F.expm1(k * F.log1p(-p)),
         lambda k, p: F.exp(k * F.log1p(-p)), lambda p: (1, None)),
        ("nbinom", "n p", lambda k, n, p: F.lgamma(n + k) - F.lgamma(k + 1) - F.lgamma(n) + n * F.log(p)
         + F.xlog1py(k, -p), lambda k, n, p: _beta_part(n, k + 1, p), lambda k, n, p: _beta_part(k + 1, n, 1 - p),
         lambda n, p: (0, None)),
    )
}  # fmt: skip
"""The discrete distributions, by their names in `scipy.stats`."""


class _MultivariateNormal(_Samples):
    """The multivariate normal distribution, of vectors along the last dim of `x`."""

    name = "multivariate_normal"

    def logpdf(
        self, x: ArrayLike, mean: ArrayLike = None, cov: ArrayLike = 1, allow_singular: bool = False
    ) -> AnyTensor:
        """Compute the log density, as `scipy.stats.multivariate_normal.logpdf`.

        It is differentiable with respect to `x`, `mean` and `cov`; for a singular covariance, within the subspace
        that it spans.

        Examples
        --------
        >>> from gradcore.scipy import stats
        >>> mean = gc.tensor([0.0, 1.0], dtype=gc.float64, requires_grad=True)
        >>> stats.multivariate_normal.logpdf([1.0, 1.0], mean, [[2.0, 0.0], [0.0, 1.0]]).backward()
        >>> mean.grad
        tensor([0.5000, 0.0000], dtype=torch.float64)
        """
        x, mean, cov = _bind_normal(mean, cov, x)
        n = cov.shape[-1]
        if x.ndim < 2:
            x = F.reshape(x, (-1, 1) if n == 1 else (1, -1))
        if x.shape[-1] not in (1, n):
            raise ValueError(f"the last dim of 'x' must have length {n}, but x.shape = {tuple(x.shape)}")
        gap, outside = x - mean, None
        if allow_singular:
            basis, kernel, tolerance = _range_and_kernel(cov)
            if kernel.shape[1]:
                outside = F.linalg_norm(F.matmul(gap.detach(), kernel), 2, -1) > tolerance
                cov = F.matmul(F.matmul(basis.T, cov), basis)
                gap = F.matmul(gap, basis)
                n = basis.shape[1]
        factor = F.linalg_cholesky(cov)
        gap = F.unsqueeze(gap, -1)
        whitened = F.linalg_solve_triangular(F.expand(factor, (*gap.shape[:-2], n, n)), gap, upper=False)
        squares = F.sum(F.squeeze(whitened, -1) ** 2, (-1,))
        density = -squares / 2 - n * _LOG_ROOT - F.sum(F.log(F.diagonal(factor)), (-1,))
        return F.squeeze(density if outside is None else F.where(outside, -math.inf, density))

    def entropy(self, mean: ArrayLike = None, cov: ArrayLike = 1) -> AnyTensor:
        """Compute the differential entropy, as `scipy.stats.multivariate_normal.entropy`."""
        _, cov = _bind_normal(mean, cov)
        logs = F.log(F.diagonal(F.linalg_cholesky(cov)))
        return cov.shape[-1] * (0.5 + _LOG_ROOT) + F.sum(logs, (-1,))

    def pdf(self, x: ArrayLike, mean: ArrayLike = None, cov: ArrayLike = 1, allow_singular: bool = False) -> AnyTensor:
        """Return the density."""
        return F.exp(self.logpdf(x, mean, cov, allow_singular))


def _bind_normal(mean: ArrayLike, cov: ArrayLike, *x: ArrayLike) -> list[AnyTensor]:
    """Return the points `x`, the mean as a vector, and the covariance as a matrix, in one dtype.

    A number or a vector for the covariance is its diagonal, as in SciPy.
    """
    *points, vector, cov = (inexact(t) for t in promote_arguments(*x, 0.0 if mean is None else mean, cov))
    n = vector.numel() if mean is not None else cov.shape[0] if cov.ndim > 1 else 1
    mean = F.expand(vector, (n,)) if mean is None else F.reshape(vector, (1,)) if n == 1 else vector
    if tuple(mean.shape) != (n,):
        raise ValueError(f"Array 'mean' must be a vector of length {n}.")
    if cov.ndim > 2:
        raise ValueError(f"Array 'cov' must be at most two-dimensional, but cov.ndim = {cov.ndim}")
    if tuple(cov.shape) not in ((), (n,), (n, n)):
        raise ValueError(f"Dimension mismatch: array 'cov' is of shape {tuple(cov.shape)}, but 'mean' has length {n}.")
    return [*points, mean, cov if cov.ndim == 2 else F.diag_embed(F.expand(cov, (n,)))]


def _range_and_kernel(cov: ArrayLike) -> tuple[Any, Any, float]:
    """Return bases of the range and the kernel of a covariance, and the distance at which a point is in the range.

    Eigenvalues and distances are neglected below SciPy's limit, which depends on the largest eigenvalue.
    """
    values, vectors = F.linalg_eigh(cov.detach())
    precision = 1e3 if cov.dtype is dtypes.float32 else 1e6
    limit = precision * dtypes.finfo(cov.dtype).eps * float(F.amax(F.abs(values)))
    if float(F.amin(values)) < -limit:
        raise ValueError("The input matrix must be symmetric positive semidefinite.")
    used = values > limit
    return vectors[:, used], vectors[:, ~used], limit * 1e3


class _Dirichlet(_Samples):
    """The Dirichlet distribution, of probabilities that sum to one along the first dim of `x`."""

    name = "dirichlet"

    def logpdf(self, x: ArrayLike, alpha: ArrayLike) -> AnyTensor:
        """Compute the log density, as `scipy.stats.dirichlet.logpdf`; the last probability of `x` may be left out.

        That the probabilities sum to one is not checked, as differences of the density are needed next to such points.
        It is NaN for negative probabilities and parameters that are not positive.
        """
        x, alpha = (inexact(t) for t in promote_arguments(x, alpha))
        if alpha.ndim != 1:
            raise ValueError(f"Parameter vector 'a' must be one dimensional, but a.shape = {tuple(alpha.shape)}.")
        if x.ndim and x.shape[0] + 1 == alpha.shape[0]:
            x = F.cat([x, F.unsqueeze(1 - F.sum(x, (0,)), 0)], 0)
        if not x.ndim or x.shape[0] != alpha.shape[0]:
            raise ValueError(
                "Vector 'x' must have either the same number of entries as, or one entry fewer than, "
                f"parameter vector 'a', but alpha.shape = {tuple(alpha.shape)} and x.shape = {tuple(x.shape)}."
            )
        shaped = F.reshape(alpha, (-1,) + (1,) * (x.ndim - 1))
        density = F.sum(F.xlogy(shaped - 1, x), (0,)) + F.lgamma(F.sum(alpha)) - F.sum(F.lgamma(alpha))
        return F.squeeze(F.where(F.all(alpha > 0) & F.all(x >= 0, 0), density, math.nan))

    def pdf(self, x: ArrayLike, alpha: ArrayLike) -> AnyTensor:
        """Return the density."""
        return F.exp(self.logpdf(x, alpha))


multivariate_normal = _MultivariateNormal()
dirichlet = _Dirichlet()
