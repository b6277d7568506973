"""Random numbers of float32 and float64 by the compiled library, bit for bit those of `gradcore.backends.random`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls
from gradcore.backends.numpy import threads
from gradcore.backends.random import philox
from gradcore.core.typing import AnyArray

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["CompiledRandom"]

Real: TypeAlias = type[np.float32] | type[np.float64]


def _uniform(real: Real, low: float = 0.0, high: float = 1.0) -> tuple[float, ...]:
    first, end = real(low), real(high)
    return float(first), float(end - first), float(np.nextafter(end, first))


def _normal(real: Real, mean: float = 0.0, std: float = 1.0) -> tuple[float, ...]:
    return float(real(mean)), float(real(std))


def _exponential(real: Real, rate: float = 1.0) -> tuple[float, ...]:
    return (float(real(rate)),)


def _bernoulli(real: Real, p: float) -> tuple[int, ...]:
    return (int(np.ceil(real(p) * real(2.0 ** (31 if real is np.float32 else 53)))),)


#: The name of the kernel of each distribution, and the function that computes its arguments from the parameters.
_KERNELS: dict[object, tuple[str, Callable[..., tuple[float, ...]]]] = {
    philox.uniform: ("draw_uniform", _uniform),
    philox.normal: ("draw_normal", _normal),
    philox.exponential: ("draw_exponential", _exponential),
    philox.bernoulli: ("draw_bernoulli", _bernoulli),
}


@functools.lru_cache(256)
def _compute_arguments(
    arguments_of: Callable[..., tuple[float, ...]], char: str, *parameters: float
) -> tuple[float, ...]:
    with np.errstate(all="ignore"):  # a number beyond the range of its dtype is infinite, silently
        return arguments_of(np.float32 if char == "f" else np.float64, *parameters)


class CompiledRandom(CompiledCalls):
    """Random numbers of the distributions whose parameters are numbers."""

    def random_numbers(
        self,
        distribution: Callable[..., AnyArray],
        n: int,
        dtype: DTypeLike,
        key: int,
        counter: int,
        *parameters: object,
    ) -> AnyArray:
        char = np.dtype(dtype).char
        if distribution not in _KERNELS or char not in "fd" or not all(type(p) in (int, float) for p in parameters):
            return super().random_numbers(distribution, n, dtype, key, counter, *parameters)
        name, arguments_of = _KERNELS[distribution]
        position = np.frombuffer(key.to_bytes(16, "little") + counter.to_bytes(32, "little"), np.uint64)
        # Zeros of both signs are equal, but may have different arguments.
        compute = _compute_arguments if all(parameters) else _compute_arguments.__wrapped__
        arguments = compute(arguments_of, char, *parameters)
        out = np.empty(n, np.bool_ if name == "draw_bernoulli" else dtype)
        self._function(name, char)(position, *arguments, threads.available(), out)
        return out
