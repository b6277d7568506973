"""Distributions of positive numbers, of extremes and of shares, defined as transforms of simpler ones."""

from __future__ import annotations

import math
from typing import Any

from gradcore import functional
from gradcore.core.dtypes import finfo
from gradcore.distributions import constraints
from gradcore.distributions.continuous import Cauchy, Exponential, Normal, Uniform
from gradcore.distributions.distribution import Parameter, broadcast_all
from gradcore.distributions.gammas import Gamma
from gradcore.distributions.number_transforms import AbsTransform, AffineTransform, ExpTransform, PowerTransform
from gradcore.distributions.transformed import TransformedDistribution
from gradcore.distributions.vector_transforms import StickBreakingTransform
from gradcore.tensor import Tensor
from gradcore.tensor.creation import full_like

__all__ = [
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "InverseGamma",
    "Kumaraswamy",
    "LogNormal",
    "LogisticNormal",
    "Pareto",
    "Weibull",
]

EULER = 0.57721566490153286060  # the Euler-Mascheroni constant


class _OfBase(TransformedDistribution):
    """Base class of transformed distributions with the parameters of their base distribution."""

    has_rsample = True

    @property
    def loc(self) -> Tensor:
        """Location of the base distribution."""
        return self.base_dist.loc  # type: ignore[no-any-return]

    @property
    def scale(self) -> Tensor:
        """Scale of the base distribution."""
        return self.base_dist.scale  # type: ignore[no-any-return]


class LogNormal(_OfBase):
    """The log-normal distribution: numbers whose logarithms are normally distributed.

    Parameters
    ----------
    loc, scale : float or Tensor
        Mean and standard deviation of the logarithms.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    arg_constraints = Normal.arg_constraints
    support = constraints.positive

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc  # type: ignore[no-any-return]


class LogisticNormal(TransformedDistribution):
    """The logistic-normal distribution of shares of a whole: normal numbers mapped by `StickBreakingTransform`.

    Parameters
    ----------
    loc, scale : float or Tensor
        Mean and standard deviation of the normal numbers; there is one number less than shares.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.LogisticNormal(gc.zeros(2), gc.ones(2)).sample().shape
    torch.Size([3])
    """

    arg_constraints = Normal.arg_constraints
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the numbers."""
        return self.base_dist.base_dist.loc  # type: ignore[no-any-return]

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the numbers."""
        return self.base_dist.base_dist.scale  # type: ignore[no-any-return]


class _Half(_OfBase):
    """Base class of the absolute values of distributions that are symmetric about 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative

    @property
    def mode(self) -> Tensor:
        return functional.zeros_like(self.scale)  # type: ignore[no-any-return]

    def log_prob(self, value: Tensor) -> Tensor:
        logs = self.base_dist.log_prob(self._check_sample(value)) + math.log(2)
        return functional.where(functional.as_tensor(value) >= 0, logs, -math.inf)  # type: ignore[no-any-return]

    def cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(self._check_sample(value)) - 1  # type: ignore[no-any-return]

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)  # type: ignore[no-any-return]


class HalfNormal(_Half):
    """The half-normal distribution: absolute values of normal numbers with mean 0.

    Parameters
    ----------
    scale : float or Tensor
        The standard deviation of these.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    def __init__(self, scale: Parameter, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The half-Cauchy distribution: absolute values of Cauchy numbers centered at 0.

    Parameters
    ----------
    scale : float or Tensor
        The median.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.HalfCauchy(1.0).log_prob(gc.tensor(1.0))
    tensor(-1.1447)
    """

    def __init__(self, scale: Parameter, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance  # type: ignore[no-any-return]


class Gumbel(TransformedDistribution):
    """The Gumbel distribution, of the largest of many numbers.

    Parameters
    ----------
    loc : float or Tensor
        The mode.
    scale : float or Tensor
        The scale.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = finfo(self.loc.dtype)
        base = Uniform(full_like(self.loc, info.tiny), full_like(self.loc, 1 - info.eps), validate_args=validate_args)
        log = ExpTransform().inv
        flip, shift = AffineTransform(0, -functional.ones_like(self.scale)), AffineTransform(self.loc, -self.scale)
        steps = [log, flip, log, shift]
        super().__init__(base, steps, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        y = (self.loc - self._check_sample(value)) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)


class InverseGamma(TransformedDistribution):
    """The inverse gamma distribution: numbers whose reciprocals are gamma distributed.

    Parameters
    ----------
    concentration, rate : float or Tensor
        The parameters of the gamma distribution.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.InverseGamma(3.0, 2.0).mean
    tensor(1.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Parameter, rate: Parameter, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-functional.ones_like(base.rate)), validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape of the gamma distribution."""
        return self.base_dist.concentration  # type: ignore[no-any-return]

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma distribution."""
        return self.base_dist.rate  # type: ignore[no-any-return]

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        inside = functional.where(a > 1, a, 2.0)  # so that gradients are zero, not NaN, where the mean is infinite
        return functional.where(a > 1, self.rate / (inside - 1), math.inf)  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        inside = functional.where(a > 2, a, 3.0)
        variance = self.rate.square() / ((inside - 1).square() * (inside - 2))
        return functional.where(a > 2, variance, math.inf)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy distribution, which resembles the beta distribution but has a simple distribution function.

    Parameters
    ----------
    concentration1, concentration0 : float or Tensor
        A larger `concentration1` moves values towards 1, a larger `concentration0` towards 0.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Kumaraswamy(2.0, 1.0).mean
    tensor(0.6667)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Parameter, concentration0: Parameter, validate_args: bool | None = None) -> None:
        a, b = self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(full_like(a, 0), full_like(a, 1), validate_args=validate_args)
        steps = [PowerTransform(1 / b), AffineTransform(1.0, -1.0), PowerTransform(1 / a)]
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        """Return the mean of the `n`-th power."""
        b, at = self.concentration0, 1 + n / self.concentration1
        return b * (at.lgamma() + b.lgamma() - (at + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)).pow(1 / a)
        return mode.masked_fill((a < 1) | (b < 1), math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return (1 - 1 / b) + (1 - 1 / a) * ((b + 1).digamma() + EULER) - a.log() - b.log()


class Pareto(TransformedDistribution):
    """The Pareto distribution: a power law above a bound.

    Parameters
    ----------
    scale : float or Tensor
        The lower bound.
    alpha : float or Tensor
        The exponent with which the density falls.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Parameter, alpha: Parameter, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)  # the mean is infinite up to 1
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)  # the variance is infinite up to 2
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """The Weibull distribution, of the time until a failure.

    Parameters
    ----------
    scale : float or Tensor
        The factor of the values.
    concentration : float or Tensor
        The shape: above 1, failures become more likely with time.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Weibull(1.0, 1.0).mean
    tensor(1.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Parameter, concentration: Parameter, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(functional.ones_like(self.scale), validate_args=validate_args)
        steps = [PowerTransform(self.concentration.reciprocal()), AffineTransform(0, self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        return (1 + n / self.concentration).lgamma().exp()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (self._moment(2) - self._moment(1).pow(2))

    def entropy(self) -> Tensor:
        k = self.concentration
        return EULER * (1 - k.reciprocal()) + (self.scale / k).log() + 1
