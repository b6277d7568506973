"""Discrete distributions of zeros and ones, and of counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradcore import functional
from gradcore.core.dtypes import finfo
from gradcore.distributions import constraints
from gradcore.distributions.distribution import ExponentialFamily, Parameter, broadcast_all, divide_log1p
from gradcore.distributions.probabilities import WithProbabilities
from gradcore.nn import functional as F
from gradcore.tensor import Tensor
from gradcore.tensor.random import bernoulli, binomial, poisson

__all__ = ["Bernoulli", "Binomial", "Geometric", "NegativeBinomial", "Poisson"]


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, target, reduction="none")


class Bernoulli(WithProbabilities, ExponentialFamily):
    """The Bernoulli distribution: 0 or 1.

    Parameters
    ----------
    probs : float or Tensor, optional
        The probability of 1.
    logits : float or Tensor, optional
        The logarithm of the odds; give either `probs` or `logits`.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Bernoulli(0.25).log_prob(gc.tensor(1.0))
    tensor(-1.3863)
    """

    def __init__(self, probs: Parameter = None, logits: Parameter = None, validate_args: bool | None = None) -> None:
        self._init_probabilities(probs, logits, validate_args)

    support = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        return self.probs  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs)
        return mode.masked_fill(self.probs == 0.5, math.nan)  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)  # type: ignore[no-any-return]

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return bernoulli(self.probs.detach().expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        return -_cross_entropy(*broadcast_all(self.logits, self._check_sample(value)))

    def entropy(self) -> Tensor:
        return _cross_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._whole_numbers(2, expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (functional.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.exp().log1p()


class Geometric(WithProbabilities):
    """The geometric distribution: the number of failures before the first success.

    Parameters
    ----------
    probs : float or Tensor, optional
        The probability of success.
    logits : float or Tensor, optional
        The logarithm of the odds; give either `probs` or `logits`.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Geometric(0.25).mean
    tensor(3.)
    """

    support = constraints.nonnegative_integer

    def __init__(self, probs: Parameter = None, logits: Parameter = None, validate_args: bool | None = None) -> None:
        self._init_probabilities(probs, logits, validate_args)
        if self._validate_args and probs is not None and functional.holds_anywhere(~(self.probs > 0)):
            raise ValueError(
                f"Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of distribution {self!r} to be "
                f"positive but found invalid values:\n{self.probs!r}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        return functional.zeros_like(self.probs)  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs  # type: ignore[no-any-return]

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        probs = self.probs.detach()
        u = functional.rand(*self._extended_shape(sample_shape), dtype=probs.dtype, device=probs.device)
        return (u.clamp(min=finfo(probs.dtype).tiny).log() / (-probs).log1p()).floor()  # type: ignore[no-any-return]

    def log_prob(self, value: Tensor) -> Tensor:
        value, probs = broadcast_all(self._check_sample(value), self.probs)
        return functional.xlog1py(value, -probs.masked_fill((probs == 1) & (value == 0), 0)) + self.probs.log()  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        # softplus(-x) + softplus(x) / exp(x), without a difference of large numbers, and without infinities
        x, odds = self.logits, self.logits.clamp(max=0).exp()
        small = F.softplus(x) * (1 / self.probs.clamp(min=0.5) - 1)
        failures = functional.where(x > 0, small, divide_log1p(odds.new_ones(()), odds))
        return F.softplus(-x) + failures  # type: ignore[no-any-return]


class _OfTrials(WithProbabilities):
    """Base class of distributions of counts of successes, with a number of trials."""

    def _init_trials(
        self, total_count: Parameter, probs: Tensor | None, logits: Tensor | None, validate_args: bool | None
    ) -> None:
        """Initialize with the number of trials and either `probs` or `logits`."""
        self.total_count = total_count
        self._init_probabilities(probs, logits, validate_args)

    def _keep_parameter(self, value: Parameter) -> Tensor:
        total, value = broadcast_all(self.total_count, value)
        self.total_count = total.type_as(value)
        return value  # type: ignore[no-any-return]


class Binomial(_OfTrials):
    """The binomial distribution: the number of successes in a number of trials.

    Parameters
    ----------
    total_count : int or Tensor
        The number of trials.
    probs : Tensor, optional
        The probability of success.
    logits : Tensor, optional
        The logarithm of the odds; give either `probs` or `logits`.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Binomial(10, 0.5).mean
    tensor(5.)
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Parameter = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._init_trials(total_count, probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)  # type: ignore[no-any-return]

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return binomial(self.total_count.detach().expand(shape), self.probs.detach().expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        n, logits = self.total_count, self.logits
        arrangements = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return arrangements + value * logits - n * F.softplus(logits)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        if not bool((self.total_count == self.total_count.max()).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        logs = self.log_prob(self.enumerate_support(False))
        return -(logs.exp() * logs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        trials = int(self.total_count.max())
        if not bool((self.total_count == trials).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return self._whole_numbers(trials + 1, expand)


class NegativeBinomial(_OfTrials):
    """The negative binomial distribution: the number of successes before a number of failures.

    Parameters
    ----------
    total_count : float or Tensor
        The number of failures at which counting stops; need not be an integer.
    probs : Tensor, optional
        The probability of success, below 1.
    logits : Tensor, optional
        The logarithm of the odds; give either `probs` or `logits`.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.NegativeBinomial(2.0, 0.5).mean
    tensor(2.)
    """

    def __init__(
        self,
        total_count: Parameter,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._init_trials(total_count, probs, logits, validate_args)

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()  # type: ignore[no-any-return]

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        rate = functional.log_standard_gamma(self.total_count.detach().expand(shape)) + self.logits.detach()
        return poisson(rate.exp())

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        n = self.total_count
        plain = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        arrangements = (n + value).lgamma() - (1.0 + value).lgamma() - n.lgamma()
        return plain + arrangements.masked_fill(n + value == 0.0, 0.0)  # type: ignore[no-any-return]


class Poisson(ExponentialFamily):
    """The Poisson distribution.

    Parameters
    ----------
    rate : float or Tensor
        The mean.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Poisson(2.0).log_prob(gc.tensor(0.0))
    tensor(-2.)
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Parameter, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return poisson(self.rate.detach().expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        rate, value = broadcast_all(self.rate, self._check_sample(value))
        return functional.xlogy(value, rate) - rate - (value + 1).lgamma()  # type: ignore[no-any-return]

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.exp()
