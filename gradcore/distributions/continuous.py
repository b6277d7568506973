"""Continuous distributions whose samples are functions of uniform or normal numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradcore import functional
from gradcore.core.dtypes import finfo
from gradcore.core.size import Size
from gradcore.distributions import constraints
from gradcore.distributions.distribution import (
    LOG_2PI,
    Distribution,
    ExponentialFamily,
    Parameter,
    broadcast_all,
    divide_expm1,
    divide_log1p,
)
from gradcore.tensor import Tensor
from gradcore.tensor.creation import full_like

__all__ = ["Cauchy", "Exponential", "GeneralizedPareto", "Laplace", "Normal", "Uniform"]


def random(kind: str, distribution: Distribution, sample_shape: Sequence[int], like: Tensor) -> Tensor:
    """Return uniform (``"rand"``) or normal (``"randn"``) numbers in the shape of a distribution's samples."""
    shape = distribution._extended_shape(sample_shape)
    return getattr(functional, kind)(*shape, dtype=like.dtype, device=like.device)  # type: ignore[no-any-return]


def open_uniform(distribution: Distribution, sample_shape: Sequence[int], like: Tensor) -> Tensor:
    """Return uniform numbers between 0 and 1, excluding both."""
    info = finfo(like.dtype)
    return random("rand", distribution, sample_shape, like).clamp(info.tiny, 1 - info.eps / 2)


class _LocationScale(Distribution):
    """Base class of distributions of real numbers with location and scale, symmetric about their mode."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def _init_location(self, loc: Parameter, scale: Parameter, validate_args: bool | None) -> None:
        """Initialize with location and scale, broadcast against each other."""
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mode(self) -> Tensor:
        return self.loc


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution.

    Parameters
    ----------
    loc : float or Tensor
        The mean.
    scale : float or Tensor
        The standard deviation.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore
    >>> mean = gradcore.tensor(1.0, requires_grad=True)
    >>> normal = gradcore.distributions.Normal(mean, 2.0)
    >>> normal.log_prob(gradcore.tensor(1.0))
    tensor(-1.6121, grad_fn=<SubBackward0>)
    >>> normal.rsample((1000,)).mean().backward()
    >>> gradcore.allclose(mean.grad, gradcore.tensor(1.0))
    True
    """

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        self._init_location(loc, scale, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale**2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.loc + random("randn", self, sample_shape, self.loc) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        z = (self._check_sample(value) - self.loc) / self.scale
        return -0.5 * z * z - self.scale.log() - LOG_2PI / 2

    def cdf(self, value: Tensor) -> Tensor:
        return 0.5 * (1 + ((self._check_sample(value) - self.loc) / (self.scale * math.sqrt(2))).erf())

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + LOG_2PI / 2 + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.loc / self.scale**2, -0.5 / self.scale**2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return -0.25 * x**2 / y + 0.5 * (-math.pi / y).log()


class Laplace(_LocationScale):
    """The Laplace distribution: an exponential one to both sides.

    Parameters
    ----------
    loc : float or Tensor
        The mean.
    scale : float or Tensor
        The mean absolute distance from `loc`.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Laplace(0.0, 1.0).log_prob(gc.tensor(0.0))
    tensor(-0.6931)
    """

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        self._init_location(loc, scale, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale**2

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(open_uniform(self, sample_shape, self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        return -(2 * self.scale).log() - (self._check_sample(value) - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        t = self._check_sample(value) - self.loc
        return 0.5 - 0.5 * t.sign() * (-t.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        t = value - 0.5
        return self.loc - self.scale * t.sign() * (-2 * t.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """The Cauchy distribution, which has no mean.

    Parameters
    ----------
    loc : float or Tensor
        The median.
    scale : float or Tensor
        Half of the width at half of the largest density.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Cauchy(0.0, 1.0).log_prob(gc.tensor(0.0))
    tensor(-1.1447)
    """

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        self._init_location(loc, scale, validate_args)

    @property
    def mean(self) -> Tensor:
        return full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(open_uniform(self, sample_shape, self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        z = (self._check_sample(value) - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (z * z).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return ((self._check_sample(value) - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Exponential(ExponentialFamily):
    """The exponential distribution.

    Parameters
    ----------
    rate : float or Tensor
        One over the mean.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Exponential(2.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Parameter, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return functional.zeros_like(self.rate)  # type: ignore[no-any-return]

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return functional.empty(shape, dtype=self.rate.dtype, device=self.rate.device).exponential_() / self.rate  # type: ignore[no-any-return]

    def log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * self._check_sample(value)

    def cdf(self, value: Tensor) -> Tensor:
        return 1 - (-self.rate * self._check_sample(value)).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return -(-x).log()


class Uniform(Distribution):
    """The uniform distribution.

    Parameters
    ----------
    low, high : float or Tensor
        The bounds; values are below `high`.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Uniform(0.0, 2.0).mean
    tensor(1.)
    """

    has_rsample = True

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    def __init__(self, low: Parameter, high: Parameter, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.low + random("rand", self, sample_shape, self.low) * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        inside = ((self.low <= value) & (value < self.high)).type_as(self.low)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        return ((self._check_sample(value) - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class GeneralizedPareto(Distribution):
    """The generalized Pareto distribution, of excesses over a threshold.

    Parameters
    ----------
    loc : float or Tensor
        The threshold.
    scale : float or Tensor
        The scale of the excesses over the threshold.
    concentration : float or Tensor
        The heaviness of the tail; if it is negative, values have an upper bound.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.GeneralizedPareto(0.0, 1.0, 0.5).mean
    tensor(2.)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(
        self, loc: Parameter, scale: Parameter, concentration: Parameter, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        upper = functional.where(
            self.concentration < 0, self.loc - self.scale / self.concentration, full_like(self.loc, math.inf)
        )
        return constraints.interval(self.loc, upper)

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(random("rand", self, sample_shape, self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._z(self._check_sample(value))
        return -self.scale.log() - (1 + self.concentration) * divide_log1p(z, self.concentration)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of values above `value`."""
        return -divide_log1p(self._z(self._check_sample(value)), self.concentration)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return the logarithm of `cdf`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * divide_expm1(-(-value).log1p(), self.concentration)

    @property
    def mean(self) -> Tensor:
        k = self.concentration
        inside = functional.where(k < 1, k, functional.zeros_like(k))
        return functional.where(k < 1, self.loc + self.scale / (1 - inside), full_like(k, math.inf))  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        inside = functional.where(k < 0.5, k, functional.zeros_like(k))
        value = self.scale**2 / ((1 - inside) ** 2 * (1 - 2 * inside))
        return functional.where(k < 0.5, value, full_like(k, math.inf))  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        return (self.scale.log() + self.concentration + 1).expand(Size(self._batch_shape))
