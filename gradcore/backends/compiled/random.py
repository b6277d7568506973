"""Random numbers of float32 and float64 by the compiled library, bit for bit those of `gradcore.backends.random`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls
from gradcore.backends.numpy import threads
from gradcore.backends.random import philox

__all__ = ["CompiledRandom"]


def _uniform(real: Any, low: float = 0.0, high: float = 1.0) -> tuple[Any, ...]:
    first, end = real(low), real(high)
    return first, end - first, np.nextafter(end, first)


def _normal(real: Any, mean: float = 0.0, std: float = 1.0) -> tuple[Any, ...]:
    return real(mean), real(std)


def _exponential(real: Any, rate: float = 1.0) -> tuple[Any, ...]:
    return (real(rate),)


def _bernoulli(real: Any, p: float) -> tuple[Any, ...]:
    return (int(np.ceil(real(p) * real(2.0 ** (31 if real is np.float32 else 53)))),)


#: The name of the kernel of each distribution, and the function that computes its arguments from the parameters.
_KERNELS: dict[Any, tuple[str, Callable[..., tuple[Any, ...]]]] = {
    philox.uniform: ("draw_uniform", _uniform),
    philox.normal: ("draw_normal", _normal),
    philox.exponential: ("draw_exponential", _exponential),
    philox.bernoulli: ("draw_bernoulli", _bernoulli),
}


class CompiledRandom(CompiledCalls):
    """Random numbers of the distributions whose parameters are numbers."""

    def random_numbers(
        self, distribution: Callable[..., Any], n: int, dtype: Any, key: Any, counter: int, *parameters: Any
    ) -> Any:
        name, arguments_of = _KERNELS.get(distribution, ("", None))
        char = np.dtype(dtype).char
        if arguments_of is None or char not in "fd" or not all(type(each) in (int, float) for each in parameters):
            return super().random_numbers(distribution, n, dtype, key, counter, *parameters)
        position = np.frombuffer(key.to_bytes(16, "little") + counter.to_bytes(32, "little"), np.uint64)
        with np.errstate(all="ignore"):  # a number beyond the range of its dtype is infinite, silently
            arguments = arguments_of(np.float32 if char == "f" else np.float64, *parameters)
        out = np.empty(n, np.bool_ if name == "draw_bernoulli" else dtype)
        self._function(name, char)(position, *arguments, threads.available(), out)
        return out
