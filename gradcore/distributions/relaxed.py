"""Continuous relatives of discrete distributions, whose samples have gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradcore.distributions import constraints
from gradcore.distributions.continuous import random
from gradcore.distributions.distribution import Parameter, broadcast_all
from gradcore.distributions.number_transforms import ExpTransform, SigmoidTransform
from gradcore.distributions.probabilities import WithProbabilities, inside
from gradcore.distributions.transformed import TransformedDistribution
from gradcore.tensor import Tensor

__all__ = ["ExpRelaxedCategorical", "LogitRelaxedBernoulli", "RelaxedBernoulli", "RelaxedOneHotCategorical"]


class LogitRelaxedBernoulli(WithProbabilities):
    """The logits of `RelaxedBernoulli`.

    Parameters
    ----------
    temperature : Tensor
        The lower, the nearer to 0 and 1.
    probs : float or Tensor, optional
        The probability of 1.
    logits : float or Tensor, optional
        The logarithm of its odds; one of both must be given.
    validate_args : bool, optional
        Whether parameters and values are checked.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    _shared = ("temperature",)
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Parameter,
        probs: Parameter = None,
        logits: Parameter = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._give(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        p = inside(self.probs)
        u = inside(random("rand", self, sample_shape, p))
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature  # type: ignore[no-any-return]

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        t = self.temperature
        distance = logits - value * t
        log_t = t.log() if isinstance(t, Tensor) else math.log(t)
        return log_t + distance - 2 * distance.exp().log1p()  # type: ignore[no-any-return]


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1, the nearer to these the lower the temperature.

    Parameters
    ----------
    temperature : Tensor
        The lower, the nearer to 0 and 1.
    probs : float or Tensor, optional
        The probability of 1.
    logits : float or Tensor, optional
        The logarithm of its odds; one of both must be given.
    validate_args : bool, optional
        Whether parameters and values are checked.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        temperature: Parameter,
        probs: Parameter = None,
        logits: Parameter = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Parameter:
        """How far values are from 0 and 1."""
        return self.base_dist.temperature

    @property
    def probs(self) -> Tensor:
        """The probability of 1."""
        return self.base_dist.probs  # type: ignore[no-any-return]

    @property
    def logits(self) -> Tensor:
        """The logarithm of its odds."""
        return self.base_dist.logits  # type: ignore[no-any-return]


class ExpRelaxedCategorical(WithProbabilities):
    """The logarithms of `RelaxedOneHotCategorical`.

    Parameters
    ----------
    temperature : Tensor
        The lower, the nearer to one category.
    probs : Tensor, optional
        Of the categories, along the last dim; they need not sum to 1.
    logits : Tensor, optional
        Logarithms of these; one of both must be given.
    validate_args : bool, optional
        Whether parameters and values are checked.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _event_dims = {"probs": 1, "logits": 1}
    _categories = True
    _shared = ("temperature",)
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Parameter,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._give(probs, logits)
        super().__init__(self._param.shape[:-1], self._param.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        u = inside(random("rand", self, sample_shape, self.logits))
        return ((self.logits - (-u.log()).log()) / self.temperature).log_softmax(-1)  # type: ignore[no-any-return]

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        t, n = self.temperature, self._event_shape[0]
        log_t = t.log() if isinstance(t, Tensor) else math.log(t)
        return (logits - value * t).log_softmax(-1).sum(-1) + math.lgamma(n) + (n - 1) * log_t  # type: ignore[no-any-return]


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors on the simplex, the nearer to a corner the lower the temperature.

    Parameters
    ----------
    temperature : Tensor
        The lower, the nearer to one category.
    probs : Tensor, optional
        Of the categories, along the last dim; they need not sum to 1.
    logits : Tensor, optional
        Logarithms of these; one of both must be given.
    validate_args : bool, optional
        Whether parameters and values are checked.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self,
        temperature: Parameter,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Parameter:
        """How far values are from a corner."""
        return self.base_dist.temperature

    @property
    def probs(self) -> Tensor:
        """Of the categories."""
        return self.base_dist.probs  # type: ignore[no-any-return]

    @property
    def logits(self) -> Tensor:
        """Logarithms of these."""
        return self.base_dist.logits  # type: ignore[no-any-return]
