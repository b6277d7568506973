"""What distributions share that are given by probabilities or by logits."""

from __future__ import annotations

from typing import Any

from gradcore.creation import arange
from gradcore.distributions.distribution import Distribution, broadcast_all, lazy_property
from gradcore.dtypes import finfo
from gradcore.size import Size
from gradcore.tensor import Tensor

__all__ = ["WithProbabilities", "enumerated", "inside"]


def inside(probs: Tensor) -> Tensor:
    """Probabilities a rounding error away from 0 and 1, so that their logarithms are finite."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)  # type: ignore[no-any-return]


class WithProbabilities(Distribution):
    """A distribution that is given by probabilities or by logits, of which the others are computed."""

    #: Whether the last dim is that of categories, or each number stands for itself.
    _categories = False
    _given: str

    def _give(self, probs: Any, logits: Any, *others: Any) -> tuple[Tensor, ...]:
        """Keep what was given, broadcast against other parameters, which are returned."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        self._given = "logits" if probs is None else "probs"
        value = logits if probs is None else probs
        if self._categories:
            if value.ndim < 1:
                raise ValueError(f"`{self._given}` parameter must be at least one-dimensional.")
            rest: tuple[Tensor, ...] = ()
            value = value / value.sum(-1, True) if logits is None else value - value.logsumexp(-1, True)
        else:
            *rest, value = broadcast_all(*others, value)  # type: ignore[assignment]
        setattr(self, self._given, value)
        return tuple(rest)

    @property
    def _param(self) -> Tensor:
        return getattr(self, self._given)  # type: ignore[no-any-return]

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._param.shape

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.logits.softmax(-1) if self._categories else self.logits.sigmoid()  # type: ignore[no-any-return]

    @lazy_property
    def logits(self) -> Tensor:
        """Logarithms of probabilities, or of odds."""
        p = inside(self.probs)
        return p.log() if self._categories else p.log() - (-p).log1p()


def enumerated(distribution: Any, count: int, expand: bool) -> Tensor:
    """The whole numbers below a count, along a new first dim."""
    like, batch = distribution._param, distribution.batch_shape
    dtype = None if distribution._categories else like.dtype
    values = arange(count, dtype=dtype, device=like.device).reshape(-1, *(1,) * len(batch))
    return values.expand(-1, *batch) if expand else values
