"""Distributions on a circle and on the unit interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gradcore import functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.core import dtypes
from gradcore.core.dtypes import finfo
from gradcore.distributions import constraints
from gradcore.distributions.continuous import open_uniform
from gradcore.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    Parameter,
    broadcast_all,
    divide_expm1,
    divide_log1p,
    polynomial,
)
from gradcore.distributions.probabilities import WithProbabilities, inside
from gradcore.functions.special import i0e, i1e
from gradcore.nn import functional as F
from gradcore.tensor import Tensor

__all__ = ["ContinuousBernoulli", "VonMises"]

#: The concentration beyond which the distribution is a normal one, to eight digits.
_NARROW = 1e8


class VonMises(Distribution):
    """The von Mises distribution of angles.

    Parameters
    ----------
    loc : Tensor
        The mean angle.
    concentration : Tensor
        The concentration of the angles around the mean.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.VonMises(0.0, 1.0).variance
    tensor(0.5536)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Parameter, concentration: Parameter, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean angle."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        """The circular variance, from 0 to 1."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        k = self.concentration
        aligned = k * ((self._check_sample(value) - self.loc).cos() - 1)
        return aligned - math.log(2 * math.pi) - i0e(k).log()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw angles from -pi to pi.

        They are drawn by rejection from a wrapped Cauchy distribution (D. J. Best and N. I. Fisher, Applied Statistics
        28, 1979).
        """
        shape = self._extended_shape(sample_shape)
        with no_grad():
            k = self.concentration.to(dtypes.float64).expand(shape)
            todo = (k >= 0) & (k <= _NARROW)
            angle = functional.zeros_like(k)
            if not bool(todo.all()):
                angle = functional.where(
                    todo, angle, functional.randn(*shape, dtype=k.dtype, device=k.device) / k.sqrt()
                )
            k = k.clamp(min=1e-300)
            tau = 1 + (1 + 4 * k**2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = functional.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))
            while bool(todo.any()):
                u1, u2, u3 = functional.rand(3, *shape, dtype=k.dtype, device=k.device).clamp(min=1e-300)
                z = (math.pi * u1).cos()
                f = ((1 + r * z) / (r + z)).clamp(-1, 1)
                c = k * (r - f)
                accepted = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                angle = functional.where(todo & accepted, (u3 - 0.5).sign() * f.acos(), angle)
                todo = todo & ~accepted
            wrapped = (angle + math.pi + self.loc) % (2 * math.pi) - math.pi
            return wrapped.to(self.loc.dtype)  # type: ignore[no-any-return]


class ContinuousBernoulli(WithProbabilities, ExponentialFamily):
    """The continuous Bernoulli distribution on [0, 1], with a density proportional to ``p**x * (1 - p)**(1 - x)``.

    Parameters
    ----------
    probs : float or Tensor, optional
        The parameter p, between 0 and 1.
    logits : float or Tensor, optional
        The logarithm of the odds; give either `probs` or `logits`.
    lims : pair of float
        Accepted for compatibility with PyTorch. Taylor series replace formulas that cancel where they are accurate.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.ContinuousBernoulli(0.5).mean
    tensor(0.5000)
    """

    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Parameter = None,
        logits: Parameter = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._init_probabilities(probs, logits, validate_args)

    @property
    def _p(self) -> Tensor:
        return inside(self.probs)

    @property
    def _log_odds(self) -> Tensor:
        return self._p.log() - (-self._p).log1p()

    def _log_norm(self) -> Tensor:
        """Return the logarithm of the normalization constant."""
        x = self._log_odds
        return F.softplus(x) - self._log_normalizer(x)

    @property
    def mean(self) -> Tensor:
        series = [1 / 2, 1 / 12, 0, -1 / 720, 0, 1 / 30240, 0, -1 / 1209600, 0, 1 / 47900160]
        return _expand_near_zero(self._log_odds, lambda x: -1 / (-x).expm1() - 1 / x, series)

    @property
    def variance(self) -> Tensor:
        series = [1 / 12, 0, -1 / 240, 0, 1 / 6048, 0, -1 / 172800, 0, 1 / 5322240]
        return _expand_near_zero(self._log_odds, lambda x: x.pow(-2) - (2 * (x / 2).sinh()).pow(-2), series)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(open_uniform(self, sample_shape, self._param))

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._check_sample(value))
        return self._log_norm() - F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def cdf(self, value: Tensor) -> Tensor:
        odds, x = self._log_odds, self._check_sample(value)
        probability = divide_expm1(x, odds) / divide_expm1(functional.ones_like(odds), odds)
        return functional.where(x <= 0, 0.0, functional.where(x >= 1, 1.0, probability))  # type: ignore[no-any-return]

    def icdf(self, value: Tensor) -> Tensor:
        odds = self._log_odds
        return divide_log1p(value * divide_expm1(functional.ones_like(odds), odds), odds)

    def entropy(self) -> Tensor:
        log_p, log_q = self._p.log(), (-self._p).log1p()
        return self.mean * (log_q - log_p) - self._log_norm() - log_q

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return divide_expm1(functional.ones_like(x), x).log()


def _expand_near_zero(x: Tensor, formula: Callable[[Tensor], Tensor], series: Sequence[float]) -> Tensor:
    """Return a formula of the log-odds, near zero, where its terms cancel, by the coefficients of its Taylor series.

    The coefficients fall like powers of 2 pi.
    """
    near = x.abs() < 2 * math.pi * finfo(x.dtype).eps ** (1 / len(series))
    value = formula(functional.where(near, 1.0, x))
    return functional.where(near, polynomial(functional.where(near, x, 0.0), series), value)  # type: ignore[no-any-return]
