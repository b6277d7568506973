"""Tensor methods that fill a tensor with random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore import functional
from gradcore.autograd.modes import local
from gradcore.backends.random import philox
from gradcore.backends.vmap.messages import RANDOM_INPLACE
from gradcore.core import dtypes
from gradcore.dispatch import check_inplace, write
from gradcore.dispatch.settings import setting
from gradcore.ops.declare.checks import no_kernel
from gradcore.ops.declare.table import camel_case
from gradcore.tensor import Tensor
from gradcore.tensor.random.drawing import check_bounds, depending, different_levels, integers, sample
from gradcore.tensor.random.functions import bernoulli, check_probability, multinomial
from gradcore.tensor.random.generator import Generator

__all__ = ["METHODS"]


def _fill(self: Tensor, numbers: Any, node: str, *parameters: Tensor) -> Tensor:
    """Write drawn numbers to a tensor. The gradients of its former content and of the parameters are zero."""
    check_inplace(self, local.state)
    if local.state.batches and not set(different_levels()) <= set(self._device.levels):
        raise RuntimeError(RANDOM_INPLACE)
    numbers = numbers if numbers._dtype is self._dtype else numbers.to(self._dtype)
    return write(self, depending(node, numbers, self, *parameters))  # type: ignore[no-any-return]


def _filler(
    distribution: Callable[..., Any], doc: str, check: Callable[..., None] | None = None, **defaults: float
) -> Callable[..., Tensor]:
    """Return a method that fills a tensor with numbers from a distribution with these default parameters."""

    def fill(self: Tensor, *values: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
        unknown = set(kwargs) - set(defaults)
        if unknown or len(values) > len(defaults):
            raise TypeError(
                f"{fill.__name__}() takes {', '.join(defaults)} and generator, but got {sorted(unknown) or values}"
            )
        if "p" in defaults and not (values or kwargs):
            raise TypeError(f'{fill.__name__}() missing 1 required positional arguments: "p"')
        arguments = defaults | dict(zip(defaults, values, strict=False)) | kwargs
        parameters = [setting(fill.__name__, each, "float").take(value) for each, value in arguments.items()]
        if check is not None:
            check(*parameters)
        dtype, shape = self._dtype, self._array.shape
        if distribution is philox.geometric and dtype.category == dtypes.INTEGER:  # numbers of trials
            dtype = dtypes.float64
        if not dtype.is_differentiable:
            raise no_kernel(fill.__name__, dtype)
        if dtype.is_complex:
            parts = sample(distribution, (*shape, 2), dtype.to_real(), self._device, generator, *parameters)
            return _fill(self, functional.view_as_complex(parts), node)
        return _fill(self, sample(distribution, shape, dtype, self._device, generator, *parameters), node)

    fill.__doc__ = doc
    node = f"{camel_case(distribution.__name__)}Backward0"
    return fill


def _check_uniform(low: float, high: float) -> None:
    if not low <= high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")


def _check_std(mean: float, std: float) -> None:
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


def _check_log_std(mean: float, std: float) -> None:
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")


def _check_width(median: float, sigma: float) -> None:
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")


def _check_rate(rate: float) -> None:
    if not rate > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate}")


def _check_geometric(p: float) -> None:
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")


def _random_(self: Tensor, *bounds: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
    """Fill with random integers: over the range of the dtype, below one bound, or between two bounds."""
    if len(bounds) > 2 or kwargs.keys() - {"from", "to"} or (bounds and "from" in kwargs):
        raise TypeError(f"random_() takes from, to and generator, but got {(*bounds, *kwargs)}")
    values = [*bounds, *(kwargs[name] for name in ("from", "to") if name in kwargs)]
    *start, end = values or [None]
    (low,) = [setting("random_", "from", "int").take(v) for v in start] or [0]
    if end is not None:
        high = setting("random_", "to", "int").take(end)
    else:
        if self._dtype.is_floating_point:
            largest = 2 ** {2: 8 if self._dtype is dtypes.bfloat16 else 11, 4: 24, 8: 53}[self._dtype.itemsize]
        else:
            largest = 1 if self._dtype is dtypes.bool_ else int(np.iinfo(self._dtype.numpy).max)
        high = largest + 1
    if end is not None:
        check_bounds(low, high, self._dtype)
    result = integers(low, high, self._array.shape, dtypes.int64, self._device, generator)
    return _fill(self, result, f"RandomBackward{(2, 1, 0)[len(values)]}")


def _bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with zeros and ones: each is one with probability `p`, a number or a tensor."""
    if isinstance(p, Tensor):
        result = bernoulli(p.detach().expand(self._array.shape).clone(), generator=generator)
        return _fill(self, result, "BernoulliBackward1", p)
    p = setting("bernoulli_", "p", "float").take(p)
    check_probability(p)
    result = sample(philox.bernoulli, self._array.shape, dtypes.float32, self._device, generator, p)
    return _fill(self, result, "BernoulliBackward2")


def _bernoulli(self: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """See `gradcore.bernoulli`."""
    return bernoulli(self, p, generator=generator)


def _multinomial(
    self: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """See `gradcore.multinomial`."""
    return multinomial(self, num_samples, replacement, generator=generator)


#: The methods by name.
METHODS: dict[str, Callable[..., Tensor]] = {
    "bernoulli": _bernoulli,
    "bernoulli_": _bernoulli_,
    "cauchy_": _filler(philox.cauchy, "Fill with Cauchy numbers.", _check_width, median=0.0, sigma=1.0),
    "exponential_": _filler(philox.exponential, "Fill with exponential numbers.", _check_rate, lambd=1.0),
    "geometric_": _filler(philox.geometric, "Fill with geometric numbers.", _check_geometric, p=0.5),
    "log_normal_": _filler(philox.log_normal, "Fill with log-normal numbers.", _check_log_std, mean=1.0, std=2.0),
    "multinomial": _multinomial,
    "normal_": _filler(philox.normal, "Fill with normal numbers.", _check_std, mean=0.0, std=1.0),
    "random_": _random_,
    "uniform_": _filler(
        philox.uniform, "Fill with numbers from [low, high).", _check_uniform, **{"from": 0.0, "to": 1.0}
    ),
}
