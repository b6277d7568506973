"""Continuous relaxations of discrete distributions, whose samples have gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradcore.distributions import constraints
from gradcore.distributions.categorical import OfCategories
from gradcore.distributions.continuous import random
from gradcore.distributions.distribution import Parameter, broadcast_all
from gradcore.distributions.number_transforms import ExpTransform, SigmoidTransform
from gradcore.distributions.probabilities import WithProbabilities, inside
from gradcore.distributions.transformed import TransformedDistribution
from gradcore.tensor import Tensor

__all__ = ["ExpRelaxedCategorical", "LogitRelaxedBernoulli", "RelaxedBernoulli", "RelaxedOneHotCategorical"]


class _WithTemperature(WithProbabilities):
    """Base class of distributions with a temperature and probabilities."""

    _shared = ("temperature",)
    has_rsample = True

    def _init_temperature(
        self, temperature: Parameter, probs: Parameter, logits: Parameter, validate_args: bool | None
    ) -> None:
        """Initialize with a temperature, and either `probs` or `logits`."""
        self.temperature = temperature
        self._init_probabilities(probs, logits, validate_args)

    @property
    def _log_temperature(self) -> Tensor | float:
        t = self.temperature
        return t.log() if isinstance(t, Tensor) else math.log(t)


class _Relaxed(TransformedDistribution):
    """Base class of transformed distributions with the parameters of their base distribution."""

    has_rsample = True

    @property
    def temperature(self) -> Parameter:
        """Temperature: the lower it is, the nearer the values are to 0 and 1."""
        return self.base_dist.temperature

    @property
    def probs(self) -> Tensor:
        """The probabilities of the base."""
        return self.base_dist.probs  # type: ignore[no-any-return]

    @property
    def logits(self) -> Tensor:
        """The logits of the base."""
        return self.base_dist.logits  # type: ignore[no-any-return]


class LogitRelaxedBernoulli(_WithTemperature):
    """The distribution of the logits of `RelaxedBernoulli` values.

    Parameters
    ----------
    temperature : Tensor
        The lower, the nearer to 0 and 1.
    probs : float or Tensor, optional
        The probability of 1.
    logits : float or Tensor, optional
        The logarithm of the odds; give either `probs` or `logits`.
    validate_args : bool, optional
        Whether parameters and values are checked.
    """

    def __init__(
        self,
        temperature: Parameter,
        probs: Parameter = None,
        logits: Parameter = None,
        validate_args: bool | None = None,
    ) -> None:
        self._init_temperature(temperature, probs, logits, validate_args)

    support = constraints.real

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        p = inside(self.probs)
        u = inside(random("rand", self, sample_shape, p))
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature  # type: ignore[no-any-return]

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._check_sample(value))
        distance = logits - value * self.temperature
        return self._log_temperature + distance - 2 * distance.exp().log1p()  # type: ignore[no-any-return]


class RelaxedBernoulli(_Relaxed):
    """The relaxed Bernoulli distribution of numbers between 0 and 1. At low temperatures they are near to 0 or 1.

    Parameters
    ----------
    temperature : Tensor
        The lower, the nearer to 0 and 1.
    probs : float or Tensor, optional
        The probability of 1.
    logits : float or Tensor, optional
        The logarithm of the odds; give either `probs` or `logits`.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.RelaxedBernoulli(gc.tensor(0.5), probs=gc.tensor([0.3])).rsample().shape
    torch.Size([1])
    """

    arg_constraints = LogitRelaxedBernoulli.arg_constraints
    support = constraints.unit_interval

    def __init__(
        self,
        temperature: Parameter,
        probs: Parameter = None,
        logits: Parameter = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(_WithTemperature, OfCategories):
    """The distribution of the logarithms of `RelaxedOneHotCategorical` values.

    Parameters
    ----------
    temperature : Tensor
        The lower, the nearer to one category.
    probs : Tensor, optional
        Probabilities of the categories along the last dim; they need not sum to 1.
    logits : Tensor, optional
        Logarithms of `probs`; give either `probs` or `logits`.
    validate_args : bool, optional
        Whether parameters and values are checked.
    """

    def __init__(
        self,
        temperature: Parameter,
        probs: Parameter = None,
        logits: Parameter = None,
        validate_args: bool | None = None,
    ) -> None:
        self._init_temperature(temperature, probs, logits, validate_args)

    support = constraints.real_vector

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        u = inside(random("rand", self, sample_shape, self.logits))
        return ((self.logits - (-u.log()).log()) / self.temperature).log_softmax(-1)  # type: ignore[no-any-return]

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._check_sample(value))
        n = self._event_shape[0]
        logs = (logits - value * self.temperature).log_softmax(-1).sum(-1)
        return logs + math.lgamma(n) + (n - 1) * self._log_temperature  # type: ignore[no-any-return]


class RelaxedOneHotCategorical(_Relaxed):
    """The relaxed one-hot distribution of vectors on the simplex. At low temperatures they are near to its corners.

    Parameters
    ----------
    temperature : Tensor
        The lower, the nearer to one category.
    probs : Tensor, optional
        Probabilities of the categories along the last dim; they need not sum to 1.
    logits : Tensor, optional
        Logarithms of `probs`; give either `probs` or `logits`.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.RelaxedOneHotCategorical(gc.tensor(0.5), probs=gc.tensor([0.3, 0.7])).rsample().shape
    torch.Size([2])
    """

    arg_constraints = ExpRelaxedCategorical.arg_constraints
    support = constraints.simplex

    def __init__(
        self,
        temperature: Parameter,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
