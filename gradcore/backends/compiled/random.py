"""Random numbers of float32 and float64 by the compiled library, bit for bit those of `gradcore.backends.random`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls, as_dense
from gradcore.backends.numpy import threads
from gradcore.backends.random import philox
from gradcore.backends.random.generator import DropoutDraw
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
    arguments_of: Callable[..., tuple[float, ...]], char: str, parameters: tuple[float, ...], signs: tuple[float, ...]
) -> tuple[float, ...]:
    """Return a kernel's arguments. The cache needs the signs of parameters with a zero, as zeros are equal."""
    with np.errstate(all="ignore"):  # a number beyond the range of its dtype is infinite, silently
        return arguments_of(np.float32 if char == "f" else np.float64, *parameters)


def _position(key: int, counter: int) -> AnyArray:
    """Return a key and a counter as six words."""
    return np.frombuffer(key.to_bytes(16, "little") + counter.to_bytes(32, "little"), np.uint64)


class CompiledRandom(CompiledCalls):
    """Random numbers of some distributions."""

    has_dropout_factors = True

    def random_numbers(
        self,
        distribution: Callable[..., AnyArray],
        n: int,
        dtype: DTypeLike,
        key: int,
        counter: int,
        *parameters: float | AnyArray,
    ) -> AnyArray:
        char = np.dtype(dtype).char
        if distribution in _KERNELS and char in "fd":
            name, arguments_of = _KERNELS[distribution]
            if all([type(p) is float or type(p) is int for p in parameters]):  # noqa: C419 (a list is faster)
                signs = () if all(parameters) else tuple([math.copysign(1, p) for p in parameters])
                arguments = _compute_arguments(arguments_of, char, parameters, signs)
                out = np.empty(n, np.bool_ if name == "draw_bernoulli" else dtype)
                self._function(name, char)(_position(key, counter), *arguments, threads.available(), out)
                return out
            if name == "draw_bernoulli" and type(parameters[0]) is np.ndarray and parameters[0].dtype.char == char:
                probabilities, out = as_dense(parameters[0]), np.empty(n, np.bool_)
                if probabilities.shape == (n,):
                    self._function("draw_decisions", char)(
                        _position(key, counter), probabilities, threads.available(), out
                    )
                    return out
        return super().random_numbers(distribution, n, dtype, key, counter, *parameters)

    def dropout_factors(self, draw: DropoutDraw, dtype: DTypeLike) -> AnyArray:
        char = np.dtype(dtype).char
        if char not in "fd":
            return super().dropout_factors(draw, dtype)
        out, position = np.empty(draw.shape, dtype), _position(draw.key, draw.counter)
        (threshold,) = _bernoulli(np.float32, draw.p)
        self._function("draw_factors", char)(position, threshold, draw.scale, threads.available(), out)
        return out

    def random_integers(self, n: int, dtype: DTypeLike, key: int, counter: int, low: int, high: int) -> AnyArray:
        if philox.integer_words(low, high) > 1:
            return super().random_integers(n, dtype, key, counter, low, high)
        out, first = np.empty(n, np.int64), (low + 2**63) % 2**64 - 2**63
        self._function("draw_integers", "l")(_position(key, counter), first, high - low, threads.available(), out)
        return out.astype(dtype, copy=False)
