"""Transforms of single numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradcore import functional
from gradcore.core.dtypes import finfo
from gradcore.distributions import constraints
from gradcore.distributions.constraints import Constraint
from gradcore.distributions.transform import Transform, sum_rightmost, with_dims
from gradcore.nn import functional as F
from gradcore.tensor import Tensor
from gradcore.tensor.predicates import broadcast_shapes

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
]


class _OfNumbers(Transform):
    """Base class of increasing transforms of single numbers without parameters."""

    bijective = True
    domain: Constraint = constraints.real
    codomain: Constraint = constraints.real
    sign = 1

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__


class ExpTransform(_OfNumbers):
    """The transform ``exp(x)``.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.ExpTransform()(gc.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(_OfNumbers):
    """The transform ``1 / (1 + exp(-x))``.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.SigmoidTransform()(gc.tensor(0.0))
    tensor(0.5000)
    """

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        info = finfo(x.dtype)
        return x.sigmoid().clamp(info.tiny, 1 - info.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        info = finfo(y.dtype)
        y = y.clamp(info.tiny, 1 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_OfNumbers):
    """The transform ``log(1 + exp(x))``.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.SoftplusTransform()(gc.tensor(0.0))
    tensor(0.6931)
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class TanhTransform(_OfNumbers):
    """The transform ``tanh(x)``, whose Jacobian is computed without cancellation.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.TanhTransform()(gc.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """The transform ``|x|``, which is not a bijection. Its inverse returns the positive number.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.AbsTransform()(gc.tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class PowerTransform(Transform):
    """The transform ``x ** exponent`` of positive numbers.

    Parameters
    ----------
    exponent : float or Tensor
    cache_size : int
        1 to cache the last input and output, 0 to compute them again.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.PowerTransform(gc.tensor(2.0))(gc.tensor([1.0, 3.0]))
    tensor([1., 9.])
    """

    bijective = True
    domain = constraints.positive
    codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else functional.as_tensor(exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """The transform ``loc + scale * x``.

    Parameters
    ----------
    loc, scale : float or Tensor
    event_dim : int
        The dims of one value.
    cache_size : int
        1 to cache the last input and output, 0 to compute them again.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.AffineTransform(1.0, 2.0)(gc.tensor([0.0, 1.0]))
    tensor([1., 3.])
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> Constraint:
        return with_dims(constraints.real, self._event_dim)

    codomain = domain

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffineTransform) and all(
            bool((a == b).all()) if isinstance(a == b, Tensor) else a == b
            for a, b in ((self.loc, other.loc), (self.scale, other.scale))
        )

    __hash__ = object.__hash__

    @property
    def sign(self) -> Any:
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x  # type: ignore[no-any-return]

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale  # type: ignore[no-any-return]

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        scale = self.scale
        slope = scale.abs().log() if isinstance(scale, Tensor) else functional.full_like(x, math.log(abs(scale)))
        return sum_rightmost(slope.expand(broadcast_shapes(x.shape, slope.shape)), self._event_dim)  # type: ignore[no-any-return]

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """The cumulative distribution function of a distribution, which makes its values uniform.

    Parameters
    ----------
    distribution : Distribution
        A distribution with `cdf` and `icdf`.
    cache_size : int
        1 to cache the last input and output, 0 to compute them again.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.CumulativeDistributionTransform(gc.distributions.Normal(0.0, 1.0))(gc.tensor(0.0))
    tensor(0.5000)
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Constraint:
        return self.distribution.support  # type: ignore[no-any-return]

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)  # type: ignore[no-any-return]

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)  # type: ignore[no-any-return]

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)  # type: ignore[no-any-return]
