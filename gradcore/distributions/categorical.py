"""Distributions of categories: as indices, as one-hot vectors, and as counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradcore import functional
from gradcore.core import dtypes
from gradcore.core.dtypes import finfo
from gradcore.core.size import Size
from gradcore.distributions import constraints
from gradcore.distributions.discrete import Binomial
from gradcore.distributions.distribution import broadcast_all, lazy_property
from gradcore.distributions.probabilities import WithProbabilities, inside
from gradcore.nn import functional as F
from gradcore.tensor import Tensor
from gradcore.tensor.creation import arange, eye, full_like
from gradcore.tensor.random import multinomial

__all__ = ["Categorical", "Multinomial", "OfCategories", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OfCategories(WithProbabilities):
    """Base class of distributions whose last dim of probabilities is over categories."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _event_dims = {"probs": 1, "logits": 1}

    def _keep_parameter(self, value: Tensor) -> Tensor:
        if value.ndim < 1:
            raise ValueError(f"`{self._given}` parameter must be at least one-dimensional.")
        if self._given == "probs":
            return value / value.sum(-1, True)
        return value - value.logsumexp(-1, True)

    @property
    def _shapes(self) -> tuple[Size, Size]:
        return self._param.shape[:-1], self._param.shape[-1:]

    @property
    def _categorical(self) -> Categorical:
        """Distribution of the categories' indices."""
        return Categorical(**{self._given: self._param}, validate_args=False)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.logits.softmax(-1)  # type: ignore[no-any-return]

    @lazy_property
    def logits(self) -> Tensor:
        """Logarithms of probabilities."""
        return inside(self.probs).log()


class Categorical(OfCategories):
    """The categorical distribution: the index of a category.

    Parameters
    ----------
    probs : Tensor, optional
        Probabilities of the categories along the last dim; they need not sum to 1.
    logits : Tensor, optional
        Logarithms of `probs`; give either `probs` or `logits`.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore
    >>> weather = gradcore.distributions.Categorical(gradcore.tensor([1.0, 3.0]))
    >>> weather.log_prob(gradcore.tensor([0, 1])).exp()
    tensor([0.2500, 0.7500])
    """

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._init_probabilities(probs, logits, validate_args)

    has_enumerate_support = True

    @property
    def _shapes(self) -> tuple[Size, Size]:
        return self._param.shape[:-1], Size()

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def _num_events(self) -> int:
        return self._param.shape[-1]  # type: ignore[no-any-return]

    @property
    def mean(self) -> Tensor:
        return full_like(self._param[..., 0], math.nan)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        return full_like(self._param[..., 0], math.nan)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = Size(sample_shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = multinomial(rows, shape.numel(), True).T
        return drawn.reshape(self._extended_shape(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._check_sample(value).long().unsqueeze(-1)
        value, logs = functional.broadcast_tensors(value, self.logits)
        return logs.gather(-1, value[..., :1]).squeeze(-1)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        return -(self.logits.clamp(min=finfo(self.logits.dtype).min) * self.probs).sum(-1)  # type: ignore[no-any-return]

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._whole_numbers(self._num_events, expand, dtypes.int64)


class OneHotCategorical(OfCategories):
    """The categorical distribution with one-hot vectors as values: 1 at one category, else 0.

    Parameters
    ----------
    probs : Tensor, optional
        Probabilities of the categories along the last dim; they need not sum to 1.
    logits : Tensor, optional
        Logarithms of `probs`; give either `probs` or `logits`.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.OneHotCategorical(gc.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._init_probabilities(probs, logits, validate_args)

    support = constraints.one_hot
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        return self.probs  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        return F.one_hot(self.probs.argmax(-1), self._event_shape[0]).to(self.probs)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)  # type: ignore[no-any-return]

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return F.one_hot(self._categorical.sample(sample_shape), self._event_shape[0]).to(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(self._check_sample(value).argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape(n, *(1,) * len(self._batch_shape), n)
        return values.expand(n, *self._batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` with samples whose gradients are those of the probabilities (straight-through).

    Parameters
    ----------
    probs : Tensor, optional
        Probabilities of the categories along the last dim; they need not sum to 1.
    logits : Tensor, optional
        Logarithms of `probs`; give either `probs` or `logits`.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.OneHotCategoricalStraightThrough(gc.tensor([0.0, 1.0])).rsample()
    tensor([0., 1.])
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())  # type: ignore[no-any-return]


class Multinomial(OfCategories):
    """The multinomial distribution: how often each category is chosen.

    Parameters
    ----------
    total_count : int
        The number of choices.
    probs : Tensor, optional
        Probabilities of the categories along the last dim; they need not sum to 1.
    logits : Tensor, optional
        Logarithms of `probs`; give either `probs` or `logits`.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Multinomial(4, gc.tensor([0.25, 0.75])).mean
    tensor([1., 3.])
    """

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._init_probabilities(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)  # type: ignore[no-any-return]

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = functional.zeros(self._extended_shape(sample_shape), dtype=self._param.dtype, device=drawn.device)
        return counts.scatter_add_(-1, drawn, functional.ones_like(drawn, dtype=counts.dtype))  # type: ignore[no-any-return]

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._check_sample(value))
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        arrangements = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return arrangements + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        counts = arange(n + 1, dtype=self._param.dtype, device=self._param.device)
        counts = counts.reshape(-1, *(1,) * self.probs.ndim)
        logs = Binomial(n, probs=self.probs, validate_args=False).log_prob(counts)
        return n * self._categorical.entropy() - math.lgamma(n + 1) + (logs.exp() * (counts + 1).lgamma()).sum((0, -1))
