"""Distributions based on gamma numbers, whose samples are differentiable with respect to all parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradcore import functional
from gradcore.core.dtypes import finfo
from gradcore.distributions import constraints
from gradcore.distributions.continuous import random
from gradcore.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    Parameter,
    broadcast_all,
    log_beta,
)
from gradcore.tensor import Tensor
from gradcore.tensor.creation import full_like

__all__ = ["Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "StudentT"]


def log_gammas(concentration: Tensor, shape: Sequence[int]) -> Tensor:
    """Return logarithms of gamma numbers with scale 1, with the concentrations expanded to `shape`."""
    return functional.log_standard_gamma(concentration.expand(*shape))  # type: ignore[no-any-return]


class Gamma(ExponentialFamily):
    """The gamma distribution.

    Parameters
    ----------
    concentration : float or Tensor
        The shape.
    rate : float or Tensor
        One over the scale.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore
    >>> shape = gradcore.tensor(2.0, requires_grad=True)
    >>> gradcore.distributions.Gamma(shape, 1.0).rsample((5000,)).mean().backward()
    >>> bool((shape.grad - 1).abs() < 0.1)  # the mean is the shape
    True
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Parameter, rate: Parameter, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        logs = log_gammas(self.concentration, self._extended_shape(sample_shape))
        smallest = math.log(finfo(logs.dtype).tiny)
        return logs.clamp(min=smallest).exp() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        a, rate = self.concentration, self.rate
        self._check_sample(value)
        return functional.xlogy(a, rate) + functional.xlogy(a - 1, value) - rate * value - a.lgamma()  # type: ignore[no-any-return]

    def cdf(self, value: Tensor) -> Tensor:
        return functional.igamma(self.concentration, self.rate * self._check_sample(value))  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return (x + 1).lgamma() - (x + 1) * (-y).log()


class Chi2(Gamma):
    """The chi-squared distribution.

    Parameters
    ----------
    df : float or Tensor
        The degrees of freedom.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Parameter, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2


class Beta(ExponentialFamily):
    """The beta distribution.

    Parameters
    ----------
    concentration1, concentration0 : float or Tensor
        A larger `concentration1` moves values towards 1, a larger `concentration0` towards 0.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Beta(2.0, 2.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Parameter, concentration0: Parameter, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return _mode_of_shares(functional.stack([self.concentration1, self.concentration0], -1))[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        logit = log_gammas(self.concentration1, shape) - log_gammas(self.concentration0, shape)
        info = finfo(logit.dtype)
        return logit.sigmoid().clamp(info.tiny, 1 - info.eps / 2)

    def log_prob(self, value: Tensor) -> Tensor:
        a, b = self.concentration1, self.concentration0
        self._check_sample(value)
        return functional.xlogy(a - 1, value) + functional.xlog1py(b - 1, -value) - log_beta(a, b)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        total = a + b
        return log_beta(a, b) - (a - 1) * a.digamma() - (b - 1) * b.digamma() + (total - 2) * total.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return log_beta(x, y)


def _mode_of_shares(concentration: Tensor) -> Tensor:
    """Return the shares with the largest density. If all concentrations are below 1, the largest has the whole."""
    excess = (concentration - 1).clamp(min=0.0)
    mode = excess / excess.sum(-1, True)
    corner = (concentration < 1).all(-1, keepdim=True)
    one_hot = functional.zeros_like(mode).scatter(-1, concentration.argmax(-1, keepdim=True), 1.0)
    return functional.where(corner, one_hot, mode)  # type: ignore[no-any-return]


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution of shares of a whole.

    Parameters
    ----------
    concentration : Tensor
        The concentration of each share, along the last dim.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Dirichlet(gc.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    _event_dims = {"concentration": 1}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        return _mode_of_shares(self.concentration)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        logs = log_gammas(self.concentration, self._extended_shape(sample_shape))
        return logs.softmax(-1).clamp(min=finfo(logs.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return functional.xlogy(self.concentration - 1.0, value).sum(-1) - self._log_normalizer(self.concentration)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        total = self.concentration.sum(-1)
        digamma_terms = ((self.concentration - 1.0) * self.concentration.digamma()).sum(-1)
        k = self.concentration.shape[-1]
        return self._log_normalizer(self.concentration) - (k - total) * total.digamma() - digamma_terms  # type: ignore[no-any-return]

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class StudentT(Distribution):
    """Student's t distribution.

    Parameters
    ----------
    df : float or Tensor
        The degrees of freedom.
    loc : float or Tensor
        The median.
    scale : float or Tensor
        The scale.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.StudentT(3.0).variance
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(
        self, df: Parameter, loc: Parameter = 0.0, scale: Parameter = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return functional.where(self.df > 1, self.loc, full_like(self.loc, math.nan))  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        df = functional.where(self.df > 2, self.df, 3.0)  # so that gradients are zero, not NaN, where it is infinite
        finite = self.scale.pow(2) * df / (df - 2)
        infinite = functional.where(self.df > 1, full_like(self.df, math.inf), full_like(self.df, math.nan))
        return functional.where(self.df > 2, finite, infinite)  # type: ignore[no-any-return]

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        half = self.df / 2
        scale = (0.5 * (half.log() - log_gammas(half, shape))).exp()  # one over the root of chi-squared over df
        return self.loc + self.scale * random("randn", self, sample_shape, self.df) * scale

    def log_prob(self, value: Tensor) -> Tensor:
        z = (self._check_sample(value) - self.loc) / self.scale
        half = self.df / 2
        normalizer = self.scale.log() + 0.5 * (self.df * math.pi).log() + half.lgamma() - (half + 0.5).lgamma()
        return -(half + 0.5) * (z**2 / self.df).log1p() - normalizer

    def entropy(self) -> Tensor:
        half = self.df / 2
        beta = half.lgamma() + math.lgamma(0.5) - (half + 0.5).lgamma()
        return self.scale.log() + (half + 0.5) * ((half + 0.5).digamma() - half.digamma()) + 0.5 * self.df.log() + beta


class FisherSnedecor(Distribution):
    """The F distribution: the quotient of two chi-squared numbers divided by their degrees of freedom.

    Parameters
    ----------
    df1, df2 : float or Tensor
        The degrees of freedom of numerator and denominator.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.FisherSnedecor(3.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Parameter, df2: Parameter, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        b = functional.where(self.df2 > 2, self.df2, math.nan)  # before the division, so that gradients are zero at 2
        return b / (b - 2)  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return functional.where(self.df1 > 2, mode, full_like(mode, math.nan))  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, functional.where(self.df2 > 4, self.df2, math.nan)
        return 2 * b.pow(2) * (a + b - 2) / (a * (b - 2).pow(2) * (b - 4))  # type: ignore[no-any-return]

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        above, below = (log_gammas(df / 2, shape) - df.log() for df in (self.df1, self.df2))
        return (above - below).clamp(min=math.log(finfo(above.dtype).tiny)).exp()

    def log_prob(self, value: Tensor) -> Tensor:
        a, b = self.df1 / 2, self.df2 / 2
        ratio = self.df1 / self.df2
        self._check_sample(value)
        return a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p() - log_beta(a, b)
