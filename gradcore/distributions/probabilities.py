"""Base class of distributions with the parameters `probs` or `logits`."""

from __future__ import annotations

from gradcore.core import dtypes
from gradcore.core.dtypes import finfo
from gradcore.core.size import Size
from gradcore.distributions import constraints
from gradcore.distributions.distribution import Distribution, Parameter, broadcast_all, lazy_property
from gradcore.tensor import Tensor
from gradcore.tensor.creation import arange

__all__ = ["WithProbabilities", "inside"]


def inside(probs: Tensor) -> Tensor:
    """Return probabilities clamped away from 0 and 1 by a rounding error, so that their logarithms are finite."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


class WithProbabilities(Distribution):
    """Base class of distributions given by probabilities or logits. The other parameter is computed."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    _given: str

    def _init_probabilities(self, probs: Parameter, logits: Parameter, validate_args: bool | None) -> None:
        """Initialize with either `probs` or `logits`."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        self._given = "logits" if probs is None else "probs"
        setattr(self, self._given, self._keep_parameter(logits if probs is None else probs))
        batch, event = self._shapes
        super().__init__(batch, event, validate_args=validate_args)

    def _keep_parameter(self, value: Parameter) -> Tensor:
        """Return the given parameter in the form in which it is stored."""
        return broadcast_all(value)[0]

    @property
    def _shapes(self) -> tuple[Size, Size]:
        """Return the batch shape and the event shape."""
        return self._param.shape, Size()

    @property
    def _param(self) -> Tensor:
        return getattr(self, self._given)  # type: ignore[no-any-return]

    @property
    def param_shape(self) -> Size:
        """Shape of the given parameter."""
        return self._param.shape

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.logits.sigmoid()  # type: ignore[no-any-return]

    @lazy_property
    def logits(self) -> Tensor:
        """Logarithms of odds."""
        p = inside(self.probs)
        return p.log() - (-p).log1p()

    def _whole_numbers(self, count: int, expand: bool, dtype: dtypes.dtype | None = None) -> Tensor:
        """Return the integers below `count` along a new first dim, by default in the parameter's dtype."""
        batch = self._batch_shape
        values = arange(count, dtype=dtype or self._param.dtype, device=self._param.device)
        values = values.reshape(-1, *(1,) * len(batch))
        return values.expand(-1, *batch) if expand else values
