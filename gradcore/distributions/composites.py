"""Distributions that combine others: independent values taken together, and mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore import functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.core.size import Size
from gradcore.distributions import constraints
from gradcore.distributions.categorical import Categorical
from gradcore.distributions.distribution import Distribution
from gradcore.distributions.transform import sum_rightmost
from gradcore.tensor import Tensor

__all__ = ["Independent", "MixtureSameFamily"]


class Independent(Distribution):
    """A distribution whose last batch dims are treated as dims of one value.

    Parameters
    ----------
    base_distribution : Distribution
    reinterpreted_batch_ndims : int
        The number of these dims.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.distributions import Independent, Normal
    >>> diagonal = Independent(Normal(gradcore.zeros(3), gradcore.ones(3)), 1)
    >>> diagonal.event_shape, diagonal.log_prob(gradcore.zeros(3))
    (torch.Size([3]), tensor(-2.7568))
    """

    arg_constraints: Any = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        event = batch[cut:] + base_distribution.event_shape
        super().__init__(batch[:cut], event, validate_args=validate_args)

    def _batch_shape_of(self, name: str, batch: Size) -> Sequence[int]:
        return (*batch, *self._event_shape[: self.reinterpreted_batch_ndims])

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample  # type: ignore[no-any-return]

    @property
    def has_enumerate_support(self) -> bool:
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        support, dims = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(support, dims) if dims else support  # type: ignore[arg-type]

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)  # type: ignore[no-any-return]

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A mixture of distributions of one family.

    Parameters
    ----------
    mixture_distribution : Categorical
        Distribution of the index of the component from which a value is drawn.
    component_distribution : Distribution
        The components, along the last batch dim.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.distributions import Categorical, MixtureSameFamily, Normal
    >>> weights = Categorical(gradcore.tensor([0.5, 0.5]))
    >>> mixture = MixtureSameFamily(weights, Normal(gradcore.tensor([-1.0, 3.0]), 1.0))
    >>> mixture.mean, mixture.variance
    (tensor(1.), tensor(5.))
    """

    arg_constraints: Any = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        batch = component_distribution.batch_shape[:-1]
        for mixture_size, component_size in zip(
            reversed(mixture_distribution.batch_shape), reversed(batch), strict=False
        ):
            if mixture_size != 1 and component_size != 1 and mixture_size != component_size:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_distribution.batch_shape}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        km, kc = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if km != kc:
            raise ValueError(
                f"`mixture_distribution component` ({km}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({kc})"
            )
        self._num_component = km
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    def _batch_shape_of(self, name: str, batch: Size) -> Sequence[int]:
        return batch if name == "_mixture_distribution" else (*batch, self._num_component)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)  # type: ignore[arg-type]

    @property
    def mixture_distribution(self) -> Categorical:
        """Distribution of the component's index."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """Distribution of the components."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        """Return the probabilities of the components, with dims of size 1 for those of a value."""
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1,) * len(self._event_shape))  # type: ignore[no-any-return]

    def _average(self, values: Tensor) -> Tensor:
        """Return the mean of `values` over the components, weighted by their probabilities."""
        return (self._weights() * values).sum(-1 - len(self._event_shape))

    def _add_component_dim(self, value: Tensor) -> Tensor:
        return value.unsqueeze(-1 - len(self._event_shape))

    @property
    def mean(self) -> Tensor:
        return self._average(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        within = self._average(self._component_distribution.variance)
        between = self._average((self._component_distribution.mean - self._add_component_dim(self.mean)).pow(2))
        return within + between

    def cdf(self, value: Tensor) -> Tensor:
        component_cdf = self._component_distribution.cdf(self._add_component_dim(value))
        return (component_cdf * self._mixture_distribution.probs).sum(-1)  # type: ignore[no-any-return]

    def log_prob(self, value: Tensor) -> Tensor:
        component_log_prob = self._component_distribution.log_prob(self._add_component_dim(self._check_sample(value)))
        return (component_log_prob + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)  # type: ignore[no-any-return]

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            component = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            values = self._component_distribution.sample(sample_shape)
            events = len(self._event_shape)
            index = component.reshape(*component.shape, *(1,) * (events + 1))
            index = index.expand(*component.shape, 1, *self._event_shape)
            return functional.gather(values, component.ndim, index).squeeze(component.ndim)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
