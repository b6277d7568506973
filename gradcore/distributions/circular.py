"""Distributions on a circle and on the unit interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradcore import functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.core import dtypes
from gradcore.distributions import constraints
from gradcore.distributions.continuous import open_uniform
from gradcore.distributions.distribution import Distribution, ExponentialFamily, Parameter, broadcast_all
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
        Bounds of the interval around 1/2 in which Taylor series replace formulas that cancel.
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
        self._lims = lims
        self._init_probabilities(probs, logits, validate_args)

    @property
    def _p(self) -> Tensor:
        return inside(self.probs)

    @property
    def _outside(self) -> Tensor:
        """Return where the closed formula is accurate, and not the series around 1/2."""
        return (self._p <= self._lims[0]) | (self._p > self._lims[1])

    @property
    def _cut(self) -> Tensor:
        """Return the probabilities, replaced by another value where the closed formula is inaccurate."""
        return functional.where(self._outside, self._p, self._lims[0])  # type: ignore[no-any-return]

    @property
    def _log_odds(self) -> Tensor:
        p = self._cut
        return p.log() - (-p).log1p()

    def _choose(self, formula: Tensor, series: Tensor) -> Tensor:
        return functional.where(self._outside, formula, series)  # type: ignore[no-any-return]

    def _log_norm(self) -> Tensor:
        """Return the logarithm of the normalization constant."""
        x = (self._p - 0.5).pow(2)
        formula = self._log_odds.abs().log() - (2 * self._cut - 1).abs().log()
        return self._choose(formula, math.log(2) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Tensor:
        p, x = self._cut, self._p - 0.5
        return self._choose(p / (2 * p - 1) - 1 / self._log_odds, 0.5 + (1 / 3 + 16 / 45 * x.pow(2)) * x)

    @property
    def variance(self) -> Tensor:
        p, x = self._cut, (self._p - 0.5).pow(2)
        formula = p * (p - 1) / (1 - 2 * p).pow(2) + 1 / self._log_odds.pow(2)
        return self._choose(formula, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(open_uniform(self, sample_shape, self._param))

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._check_sample(value))
        return self._log_norm() - F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def cdf(self, value: Tensor) -> Tensor:
        odds, x = self._log_odds, self._check_sample(value)
        probability = self._choose((odds * x).expm1() / odds.expm1(), x + self._small_odds * x * (x - 1) / 2)
        return functional.where(x <= 0, 0.0, functional.where(x >= 1, 1.0, probability))  # type: ignore[no-any-return]

    def icdf(self, value: Tensor) -> Tensor:
        odds = self._log_odds
        series = value + self._small_odds * value * (1 - value) / 2
        return self._choose((value * odds.expm1()).log1p() / odds, series)

    @property
    def _small_odds(self) -> Tensor:
        """Return the logarithm of the odds near 1/2."""
        return 4 * (self._p - 0.5)

    def entropy(self) -> Tensor:
        log_p, log_q = self._p.log(), (-self._p).log1p()
        return self.mean * (log_q - log_p) - self._log_norm() - log_q

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        near = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = functional.where(near, x, self._lims[0] - 0.5)
        return functional.where(near, (cut.exp() - 1).abs().log() - cut.abs().log(), 0.5 * x + x.pow(2) / 24)  # type: ignore[no-any-return]
