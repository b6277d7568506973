"""Conversion of the generator's random words to tensors. Samples of a batch (vmap) may get different numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore import functional
from gradcore.autograd.batch_dims import add_batch_dim
from gradcore.autograd.modes import local
from gradcore.autograd.variables import wrap
from gradcore.backends.random import philox
from gradcore.backends.vmap import batched_device, wrap_batch
from gradcore.backends.vmap.messages import RANDOM
from gradcore.core import dtypes
from gradcore.core.errors import raise_if_out_of_memory
from gradcore.tensor.random.generator import Generator, default_generator

__all__ = ["all_words", "depending", "different_levels", "draw", "draw_for_samples", "drawn_like", "integers", "sample"]


def depending(node: str, numbers: Any, *parameters: Any) -> Any:
    """Return drawn numbers as a tensor that depends on `parameters`: a node called `node` gives them zero gradients."""
    return functional.drawn(numbers, *parameters, name=node) if any(t.requires_grad for t in parameters) else numbers


def draw(count: int, where: Any, generator: Generator | None) -> Any:
    """Draw `count` random words on a device. If samples of a batch differ, each sample gets as many."""
    levels = different_levels()
    total = count * math.prod(level.size for level in levels)
    backend = where.real.backend
    words = backend.random_words(total, *backend.reserve_words((generator or default_generator)._state, total))
    if not levels:
        return words
    words = all_words(words).reshape(*(level.size for level in levels), count)
    for level in levels:
        words = wrap_batch(words, level, 0)
    return words


def different_levels() -> tuple[Any, ...]:
    """Return the batch levels whose samples get different numbers, the outermost first.

    Raises
    ------
    RuntimeError
        If random numbers are not wanted in one of the running batches.
    """
    batches = local.state.batches
    if not batches:
        return ()
    if any(level.randomness == "error" for level in batches):
        raise RuntimeError(RANDOM)
    return tuple(level for level in batches if level.randomness == "different")


def draw_for_samples(make: Callable[[tuple[int, ...]], Any], shape: tuple[int, ...]) -> Any:
    """Return ``make(shape)`` for all samples of the current batches, as a batched tensor."""
    levels = different_levels()
    result = make((*(level.size for level in levels), *shape))
    for level in levels:
        result = add_batch_dim(result, level, 0)
    return result


def sample(
    distribution: Callable[..., Any],
    shape: tuple[int, ...],
    dtype: dtypes.dtype,
    where: Any,
    generator: Generator | None,
    *parameters: Any,
) -> Any:
    """Return a tensor of numbers of a distribution."""
    if local.state.batches:
        return draw_for_samples(
            lambda full: _sample_one(distribution, full, dtype, where.real, generator, *parameters), shape
        )
    return _sample_one(distribution, shape, dtype, where, generator, *parameters)


def _sample_one(
    distribution: Callable[..., Any],
    shape: tuple[int, ...],
    dtype: dtypes.dtype,
    where: Any,
    generator: Generator | None,
    *parameters: Any,
) -> Any:
    count = math.prod(shape)
    if where.type == "meta":
        return functional.empty(shape, dtype=dtype, device=where)
    with where.backend.use_index(where.index):
        words = philox.word_count(count, dtype.numpy)
        stream_position = where.backend.reserve_words((generator or default_generator)._state, words)
        try:
            array = where.backend.random_numbers(distribution, count, dtype.numpy, *stream_position, *parameters)
        except MemoryError as error:
            raise_if_out_of_memory(error, distribution.__name__)
            raise
        array = array.reshape(shape)
    return wrap(array, where, dtypes.bool_ if distribution is philox.bernoulli else dtype)


def all_words(words: Any) -> Any:
    """Return the words as one array, also if they are generated in parts."""
    return words[:] if isinstance(words, philox.WordStream) else words


def check_bounds(low: int, high: int, dtype: dtypes.dtype) -> None:
    """Raise an error if the bounds of random integers do not fit into a dtype."""
    if dtype.is_differentiable or (dtype is dtypes.int64 and -(2**63) <= low < high <= 2**63):
        return
    least, most = (0, 1) if dtype.category == 0 else (dtypes.iinfo(dtype).min, dtypes.iinfo(dtype).max)
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if not least <= bound <= most:
            kind = CPP_INTEGERS.get(dtype.name, dtype.name)
            raise RuntimeError(f"{name} is out of bounds for {kind}")


_INT64 = np.dtype(np.int64)
#: The C++ types of dtypes in PyTorch's messages.
CPP_INTEGERS = {"uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long"}


def integers(low: int, high: int, shape: tuple[int, ...], dtype: Any, where: Any, generator: Any) -> Any:
    """Return a tensor of integers from `low` to `high`, exclusive."""
    out_dtype = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    check_bounds(low, high, out_dtype)
    if where.type == "meta":
        return functional.empty(shape, dtype=out_dtype, device=where)
    count, words_of_one = math.prod(shape), philox.integer_words(low, high)
    exact = out_dtype.numpy if out_dtype.category == 1 else _INT64
    backend = where.backend
    with backend.use_index(where.index):
        try:
            if local.state.batches:
                words = draw(count * words_of_one, where, generator)
                array = philox.integers(backend.xp, words, exact, low, high)
            else:
                place = backend.reserve_words((generator or default_generator)._state, count * words_of_one)
                array = backend.random_integers(count, exact, *place, low, high)
            array = array.reshape(shape)
            if exact != out_dtype.numpy:
                array = array.astype(out_dtype.numpy)
        except MemoryError as error:
            raise_if_out_of_memory(error, "randint")
            raise
    return wrap(array, batched_device(different_levels(), where), out_dtype)


def drawn_like(distribution: str, like: Any, *parameters: Any) -> Any:
    """Return numbers from a distribution of `philox`, with the shape, dtype and device of another tensor."""
    return sample(getattr(philox, distribution), like._array.shape, like._dtype, like._device, None, *parameters)
