"""NumPy's random numbers as tensors: ``import gradcore.numpy.random as npr``.

The numbers are those that NumPy draws for the same seed, as tensors on `gradcore.get_default_device()`. They are not
differentiable with respect to the parameters of a distribution; use `gradcore.distributions` for such samples.

Examples
--------
>>> import numpy
>>> import gradcore.numpy.random as npr
>>> npr.seed(0)
>>> x = npr.randn(2, 3)
>>> numpy.random.seed(0)
>>> bool((x == numpy.random.randn(2, 3)).all())
True
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.numpy.conversion import refuse_history, tensor_of
from gradcore.tensor import Tensor

__all__ = ["Generator", "RandomState", "default_rng"]


def _call(function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call a NumPy random function, and convert the arrays it returns to tensors."""
    refuse_history((args, tuple(named.values())), f"numpy.random.{function.__name__}()")
    if function.__name__ == "shuffle" and isinstance(args[0], Tensor):
        order = np.arange(len(args[0]))
        function(order)
        args[0].copy_(args[0][tensor_of(order)])
        return None
    result = function(*map(_to_host, args), **{name: _to_host(value) for name, value in named.items()})
    return tensor_of(result.copy()) if isinstance(result, np.ndarray) else result


def _to_host(value: Any) -> Any:
    return value.numpy(force=True) if isinstance(value, Tensor) else value


class _Source:
    """Wrapper of a NumPy random generator, whose methods return tensors."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._source, name)
        return (lambda *args, **kwargs: _call(method, args, kwargs)) if callable(method) else method

    def __repr__(self) -> str:
        return f"{self._source!r} of gradcore"


class RandomState(_Source):
    """NumPy's `RandomState`, whose methods return tensors."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(np.random.RandomState(seed))


class Generator(_Source):
    """NumPy's `Generator`, whose methods return tensors."""

    def __init__(self, bit_generator: Any) -> None:
        super().__init__(np.random.Generator(bit_generator))


def default_rng(seed: Any = None) -> Generator:
    """Return a generator with the bit generator of `numpy.random.default_rng`."""
    return Generator(np.random.default_rng(seed).bit_generator)


def __getattr__(name: str) -> Any:
    result = getattr(np.random, name)
    if name.startswith("_") or isinstance(result, type) or not callable(result):
        return result
    return lambda *args, **kwargs: _call(result, args, kwargs)


def __dir__() -> list[str]:
    return sorted(np.random.__all__)
