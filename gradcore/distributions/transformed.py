"""Distributions of transformed random values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradcore.autograd.grad_mode import no_grad
from gradcore.core.size import Size
from gradcore.distributions import constraints
from gradcore.distributions.composites import Independent
from gradcore.distributions.distribution import Distribution
from gradcore.distributions.transform import ComposeTransform, Transform, sum_rightmost
from gradcore.tensor import Tensor

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of a random value from a base distribution after transforms.

    Parameters
    ----------
    base_distribution : Distribution
        The distribution of the values before the transforms.
    transforms : Transform or list of Transform
        Applied one after the other.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.distributions import Normal, TransformedDistribution
    >>> from gradcore.distributions.transforms import ExpTransform
    >>> log_normal = TransformedDistribution(Normal(0.0, 1.0), [ExpTransform()])
    >>> log_normal.log_prob(gradcore.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: Any = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = _as_list(transforms)
        transform = ComposeTransform(self.transforms)
        base, inner = base_distribution, transform.domain.event_dim
        shape = (*base.batch_shape, *base.event_shape)
        if len(shape) < inner:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {inner}, but got {Size(shape)}."
            )
        after = transform.forward_shape(shape)
        before = tuple(transform.inverse_shape(after))
        event = len(base.event_shape)
        if shape != before:
            base = base.expand(before[: len(before) - event])
        self.base_dist: Any = Independent(base, inner - event) if inner > event else base
        cut = len(after) - transform.codomain.event_dim - max(event - inner, 0)
        super().__init__(after[:cut], after[cut:], validate_args=validate_args)

    def _batch_shape_of(self, name: str, batch: Size) -> Sequence[int]:
        shape = ComposeTransform(self.transforms).inverse_shape(batch + self._event_shape)
        return shape[: len(shape) - len(self.base_dist.event_shape)]

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample  # type: ignore[no-any-return]

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self._event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            x = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                x = transform(x)
            return x  # type: ignore[no-any-return]

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        x = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x  # type: ignore[no-any-return]

    def log_prob(self, value: Tensor) -> Tensor:
        y = self._check_sample(value)
        dims = len(self._event_shape)
        total: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            total = total - sum_rightmost(transform.log_abs_det_jacobian(x, y), dims - transform.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))  # type: ignore[no-any-return]

    def _orient(self, probability: Tensor) -> Tensor:
        """Convert a probability between base and values: it becomes ``1 - probability`` if the transforms decrease."""
        sign = math.prod(transform.sign for transform in self.transforms)
        return probability if isinstance(sign, int) and sign == 1 else sign * (probability - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value, closed=True)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._orient(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        value = self.base_dist.icdf(self._orient(value))
        for transform in self.transforms:
            value = transform(value)
        return value


def _as_list(transforms: Any) -> list[Transform]:
    if isinstance(transforms, Transform):
        return [transforms]
    if isinstance(transforms, (list, tuple)) and all(isinstance(t, Transform) for t in transforms):
        return list(transforms)
    raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
