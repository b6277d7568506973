"""Functions that return tensors of random numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcore import functional
from gradcore.autograd.batch_dims import add_batch_dim, remove_batch_dim
from gradcore.autograd.modes import local
from gradcore.autograd.variables import wrap
from gradcore.backends.random import gammas, philox, sampling
from gradcore.backends.random.generator import DropoutDraw, PhiloxState
from gradcore.backends.registry import resolve
from gradcore.backends.vmap import all_samples, batched_device
from gradcore.core import dtypes
from gradcore.core.device import DeviceLike
from gradcore.core.dtypes import DTypeLike
from gradcore.dispatch import copy_to_out
from gradcore.dispatch.settings import converting, setting
from gradcore.dispatch.torch_function import overridable
from gradcore.ops.declare.checks import check_fits, check_implemented, no_kernel
from gradcore.ops.declare.geometry import broadcast_shape
from gradcore.tensor import Tensor
from gradcore.tensor.creation.factory import options_of_out, with_requires_grad
from gradcore.tensor.creation.filled import given_sizes, sizes
from gradcore.tensor.random.drawing import all_words, depending, different_levels, draw, integers, sample
from gradcore.tensor.random.generator import Generator, default_generator

__all__ = [
    "bernoulli",
    "bernoulli_mask",
    "binomial",
    "check_probability",
    "draw_dropout",
    "dropout_noise",
    "dropped_by_kernel",
    "log_standard_gamma",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
]


def _floating(
    name: str, shape: tuple[int, ...], dtype: Any, device: Any, generator: Generator | None, requires_grad: bool
) -> Any:
    out_dtype = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    target = resolve(device)
    if not out_dtype.is_differentiable:
        raise no_kernel(name, out_dtype)
    distribution = philox.uniform if name == "rand" else philox.normal
    if out_dtype.is_complex:
        real = out_dtype.to_real()
        pairs = sample(distribution, (*shape, 2), real, target, generator)
        out = functional.view_as_complex(pairs if name == "rand" else pairs * 0.5**0.5)
    else:
        out = sample(distribution, shape, out_dtype, target, generator)
    return with_requires_grad(out, requires_grad)


@overridable
def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
    **kwargs: Any,
) -> Tensor:
    """Return numbers from the uniform distribution on [0, 1).

    Parameters
    ----------
    *size : int or sequence of int
        The shape.
    generator : Generator, optional
        By default the default generator.
    dtype, device, requires_grad
        As in `gradcore.zeros`.

    Examples
    --------
    >>> import gradcore as gc
    >>> x = gc.rand(2, 3)
    >>> x.shape, bool(((x >= 0) & (x < 1)).all())
    (torch.Size([2, 3]), True)
    """
    shape = sizes(given_sizes("rand", size, kwargs), "rand")
    dtype, device = options_of_out(out, dtype, device)
    result = _floating("rand", shape, dtype, device, generator, requires_grad)
    return result if out is None else copy_to_out(out, result)  # type: ignore[no-any-return]


@overridable
def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
    **kwargs: Any,
) -> Tensor:
    """Return numbers from the normal distribution with mean 0 and variance 1; the parameters are those of `rand`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.randn(2, 3, dtype=gc.float64).dtype
    torch.float64
    """
    shape = sizes(given_sizes("randn", size, kwargs), "randn")
    dtype, device = options_of_out(out, dtype, device)
    result = _floating("randn", shape, dtype, device, generator, requires_grad)
    return result if out is None else copy_to_out(out, result)  # type: ignore[no-any-return]


def _like(name: str) -> Callable[..., Tensor]:
    def like(
        input: Tensor,
        *,
        generator: Generator | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
        requires_grad: bool = False,
        layout: Any = None,
        memory_format: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        target = input._device if device is None else device
        return _floating(name, input._array.shape, dtype or input._dtype, target, generator, requires_grad)  # type: ignore[no-any-return]

    like.__name__ = like.__qualname__ = f"{name}_like"
    like.__doc__ = (
        f"Return the result of `{name}` with the shape, and by default the dtype and device, of another tensor."
    )
    return overridable(like)


rand_like, randn_like = _like("rand"), _like("randn")


@overridable
def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return random integers from ``low`` (default 0) to ``high``, exclusive: ``randint(high, size)``.

    Examples
    --------
    >>> import gradcore as gc
    >>> x = gc.randint(0, 10, (2, 3))
    >>> x.shape, x.dtype
    (torch.Size([2, 3]), torch.int64)
    """
    if size is None:
        low, high, size = 0, low, high
    elif low is None or high is None:
        low, high = 0, low if high is None else high
    low, high = (setting("randint", name, "int").take(value) for name, value in (("low", low), ("high", high)))
    shape = sizes((setting("randint", "size", "Sequence[int]").take(size),), "randint")
    dtype, device = options_of_out(out, dtype, device)
    result = with_requires_grad(integers(low, high, shape, dtype, resolve(device), generator), requires_grad)
    return result if out is None else copy_to_out(out, result)  # type: ignore[no-any-return]


@overridable
@converting
def randint_like(
    input: Tensor, low: int | None = None, high: int | None = None, *, generator: Any = None, dtype: Any = None,
    device: Any = None, requires_grad: bool = False, layout: Any = None, memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return random integers as `randint` does, with the shape and by default the dtype and device of `input`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.randint_like(gc.zeros(2, 3), 10).shape
    torch.Size([2, 3])
    """
    if low is None or high is None:
        low, high = 0, low if high is None else high
    if high is None:
        raise TypeError("randint_like() missing required argument: 'high'")
    target = input._device if device is None else resolve(device)
    drawn = integers(low, high, input._array.shape, dtype or input._dtype, target, generator)
    return with_requires_grad(drawn, requires_grad)  # type: ignore[no-any-return]


@overridable
@converting
def randperm(
    n: int, *, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    out: Tensor | None = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return a random permutation of the integers from 0 to ``n - 1``.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.randperm(4).sort().values
    tensor([0, 1, 2, 3])
    """
    dtype, device = options_of_out(out, dtype, device)
    target, index_dtype = resolve(device), dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got {n}")
    if index_dtype.category == 1:
        check_fits(max(n - 1, 0), index_dtype)
    if target.type == "meta":
        return functional.empty((n,), dtype=index_dtype, device=target)  # type: ignore[no-any-return]
    with target.backend.use_index(target.index):
        order = sampling.permutation(target.backend.xp, all_words(draw(n, target, generator)))
        result = with_requires_grad(
            wrap(order.astype(index_dtype.numpy), batched_device(different_levels(), target), index_dtype),
            requires_grad,
        )
    return result if out is None else copy_to_out(out, result)  # type: ignore[no-any-return]


@overridable
@converting
def normal(
    mean: Tensor | float = 0.0,
    std: Tensor | float = 1.0,
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return numbers from normal distributions with the given means and standard deviations (numbers or tensors).

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.normal(0.0, 1.0, size=(2, 3)).shape
    torch.Size([2, 3])
    >>> gc.normal(gc.tensor([1.0, 2.0]), gc.tensor([0.0, 0.0]))
    tensor([1., 2.])
    """
    dtype, device = options_of_out(out, dtype, device)
    if size is not None:
        mean, std = (setting("normal", name, "float").take(v) for name, v in (("mean", mean), ("std", std)))
    tensors = [v for v in (mean, std) if isinstance(v, Tensor)]
    if isinstance(std, Tensor):
        if std._dtype.is_complex:
            raise RuntimeError("normal expects standard deviation to be non-complex")
        _refuse_where(std < 0, "normal expects all elements of std >= 0.0")
    elif not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if not tensors:
        result = mean + std * randn(
            sizes((() if size is None else size,), "normal"), generator=generator, dtype=dtype, device=device
        )
        result = with_requires_grad(result, requires_grad)
    else:
        shape = broadcast_shape([t._array.shape for t in tensors])
        drawn = randn(shape, generator=generator, dtype=tensors[0]._dtype, device=tensors[0]._device)
        result = (drawn * std + mean).detach()
        if out is None:
            number = 3 if len(tensors) == 2 else 1 if isinstance(mean, Tensor) else 2
            return depending(f"NormalBackward{number}", result, *tensors)  # type: ignore[no-any-return]
    return result if out is None else copy_to_out(out, result)


@overridable
@converting
def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Any = None) -> Tensor:
    """Return zeros and ones: each is one with the probability in `input` (or with probability `p`).

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.bernoulli(gc.tensor([0.0, 1.0, 1.0]))
    tensor([0., 1., 1.])
    """
    if not input._dtype.is_floating_point and p is None:
        raise no_kernel("bernoulli_tensor_cpu_p_", input._dtype)
    device, shape = input._device, input._array.shape
    if p is None:
        _refuse_where(~((input >= 0) & (input <= 1)), "Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        if local.state.batches:
            result = (rand(shape, device=device.real, generator=generator) < input.detach()).to(input._dtype)
            return depending("BernoulliBackward0", result, input) if out is None else copy_to_out(out, result)  # type: ignore[no-any-return]
        probabilities = input.detach().to(dtypes.float32) if input._dtype.is_reduced else input.detach()
        probability = probabilities.reshape(-1)._array if device.type != "meta" else 0.5
    else:
        check_probability(p)
        probability = p
    result = sample(
        philox.bernoulli,
        shape,
        input._dtype if input._dtype.is_floating_point else dtypes.float32,
        device,
        generator,
        probability,
    )
    result = result.to(input._dtype)
    if out is not None:
        return copy_to_out(out, result)  # type: ignore[no-any-return]
    return depending("BernoulliBackward0", result, input) if p is None else result  # type: ignore[no-any-return]


def _refuse_where(wrong: Any, message: str) -> None:
    """Raise an error if any element of a mask is True. During a graph capture it is raised when the host next waits."""
    device = wrong._device.real
    if device.type != "meta" and device.backend.is_capturing():
        with device.backend.use_index(device.index):
            device.backend.check_bounds(all_samples(wrong._array).astype(np.int64), 1, 0, message=message)
    elif functional.holds_anywhere(wrong):
        raise RuntimeError(message)


def _refuse_capture(name: str, parameters: Tensor) -> None:
    """Raise an error during a graph capture, because these numbers are drawn repeatedly until accepted."""
    device = parameters._device.real
    if device.type != "meta" and device.backend.is_capturing():
        raise RuntimeError(
            f"{name} numbers cannot be captured in a CUDA graph: how many random words they take depends on the words"
        )


def check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")


def bernoulli_mask(shape: Sequence[int], p: float, device: Any, generator: Generator | None = None) -> Tensor:
    """Return a bool tensor that is True with probability `p`, such as the elements that dropout keeps."""
    target = resolve(device)
    return sample(philox.bernoulli, tuple(shape), dtypes.float32, target, generator, p).to(dtypes.bool_)  # type: ignore[no-any-return]


def dropout_noise(input: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
    """Return random factors of dropout in the dtype of `input`: zeros with probability `p`, else ``1 / (1 - p)``."""
    device, dtype = input._device, input._dtype
    backend = device.backend
    if not backend.has_dropout_factors or dtype.numpy.char not in "fd" or local.state.batches:
        return bernoulli_mask(shape, 1 - p, device.real).to(dtype).div_(1 - p)
    words = philox.word_count(math.prod(shape), np.dtype(np.float32))
    place = backend.reserve_words(default_generator._state, words)
    array = backend.dropout_factors(_dropout_draw(shape, p, dtype, place), dtype.numpy)
    return wrap(array, device, dtype)  # type: ignore[no-any-return]


def _dropout_draw(shape: tuple[int, ...], p: float, dtype: dtypes.dtype, place: tuple[object, int]) -> DropoutDraw:
    """Return the decisions of a dropout that draws from `place`, which `reserve_words` has returned."""
    real = np.float64 if dtype.itemsize == 8 else np.float32
    return DropoutDraw(shape, 1 - p, float(real(1) / real(1 - p)), *place)


def dropped_by_kernel(input: Tensor, p: float) -> Tensor | None:
    """Return the dropout of `input`, computed by one kernel, or None if the device has none or the call is batched.

    It draws the same numbers as `bernoulli_mask`.
    """
    device, x = input._device, input._array
    with device.backend.use_index(device.index):
        drawn = draw_dropout(input, x.shape, p)
        if drawn is None:
            return None
        array, kept_mask = device.backend.dropout(x, drawn.p, drawn.scale, drawn.key, drawn.counter)
    result, mask = wrap(array, device, input._dtype), wrap(kept_mask, device, dtypes.bool_)
    return functional.record_dropout(result, input, mask, drawn.scale)  # type: ignore[no-any-return]


def draw_dropout(like: Tensor, shape: tuple[int, ...], p: float) -> DropoutDraw | None:
    """Draw which elements a dropout of probability `p` keeps, for kernels that compute the decisions themselves.

    Return None, and draw nothing, if the device of `like` has no such kernels for its dtype, or the call is batched.
    The decisions are those of `bernoulli_mask`.
    """
    device, count = like._device, math.prod(shape)
    can_draw = device.backend.has_dropout and like._dtype.is_floating_point and not local.state.batches
    if not can_draw or not count or p >= 1:
        return None
    with device.backend.use_index(device.index):
        words = philox.word_count(count, np.dtype("float32"))
        place = device.backend.reserve_words(default_generator._state, words)
    return _dropout_draw(tuple(shape), p, like._dtype, place)


@overridable
@converting
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None, out: Any = None
) -> Tensor:
    """Draw indices with probabilities proportional to `input`, row by row.

    Parameters
    ----------
    input : Tensor
        Weights, of shape (categories,) or (rows, categories): not negative, finite, in each row some positive.
    num_samples : int
        The number of indices to draw from each row.
    replacement : bool
        Whether an index may be drawn again.

    Raises
    ------
    RuntimeError
        If the weights or the number of samples are not usable.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.multinomial(gc.tensor([0.0, 1.0, 0.0]), 3, replacement=True)
    tensor([1, 1, 1])
    """
    if input._array.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not input._dtype.is_floating_point:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {input._dtype.scalar_name}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    device, weights = batched_device(different_levels(), input._device), input._array
    if not replacement and num_samples > weights.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    shape = (*weights.shape[:-1], num_samples)
    if device.type == "meta":
        return functional.empty(shape, dtype=dtypes.int64, device=device)  # type: ignore[no-any-return]
    xp = device.backend.xp
    with device.backend.use_index(device.index):
        rows = weights.reshape((1, -1)) if weights.ndim == 1 else weights
        unusable, empty = ~(xp.isfinite(rows) & (rows >= 0)), rows.sum(axis=1) <= 0
        _refuse_where(wrap(unusable, device), "probability tensor contains either `inf`, `nan` or element < 0")
        _refuse_where(wrap(empty, device), "invalid multinomial distribution (sum of probabilities <= 0)")
        count = rows.shape[0] * (num_samples if replacement else rows.shape[1])
        words = all_words(draw(count, device, generator))
        # All samples get words, the same or different ones.
        words = xp.array(words) if device.levels else words
        drawn = sampling.multinomial(xp, words, rows, num_samples, replacement)
        result = wrap(drawn.reshape(shape).copy(), device)
    return result if out is None else copy_to_out(out, result)  # type: ignore[no-any-return]


@overridable
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return numbers from Poisson distributions with the rates in `input`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.poisson(gc.tensor([0.0, 0.0]))
    tensor([0., 0.])
    """
    check_implemented("poisson_cpu", input, "bi")
    _refuse_capture("poisson", input)
    if functional.holds_anywhere(~(input >= 0)):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return depending("PoissonBackward0", _draw_for_each(sampling.poisson, input, generator), input)  # type: ignore[no-any-return]


def log_standard_gamma(shape: Tensor, generator: Generator | None = None) -> Tensor:
    """Return logarithms of gamma numbers with scale 1, differentiable with respect to their shapes."""
    _refuse_capture("gamma", shape)
    return functional.log_gamma_drawn(shape, _draw_for_each(gammas.log_gamma, shape, generator))  # type: ignore[no-any-return]


@overridable
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw the number of successes in `count` trials, each with the probability `prob`.

    Parameters
    ----------
    count : Tensor
        Whole numbers, of the dtype of `prob`.
    prob : Tensor
        Between 0 and 1.
    generator : Generator, optional
        By default the default generator.

    Returns
    -------
    Tensor
        Result of the broadcast shape of the tensors.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.binomial(gradcore.tensor([5.0, 5.0]), gradcore.tensor([0.0, 1.0]))
    tensor([0., 5.])
    """
    if not count._dtype.is_floating_point or count._dtype is not prob._dtype:
        raise ValueError(
            "binomial only supports floating-point dtypes of one kind for count and prob, but got "
            f"{count._dtype.scalar_name} and {prob._dtype.scalar_name}"
        )
    _refuse_capture("binomial", count)
    n, p = functional.broadcast_tensors(count.detach().to(dtypes.float64), prob.detach().to(dtypes.float64))
    total = functional.zeros_like(n)
    # The median of n uniform numbers has a beta distribution. If it is below p, so is half of the numbers, and only the
    # other half remains to be counted; otherwise only the lower half does.
    for _ in range(int(n.max()).bit_length() if n.numel() and not n.is_meta else 0):
        middle = functional.floor((n + 1) / 2)
        first = log_standard_gamma(functional.clamp(middle, 1, None), generator)
        second = log_standard_gamma(functional.clamp(n + 1 - middle, 1, None), generator)
        threshold = functional.sigmoid(first - second)
        is_below = (threshold <= p) & (n > 0)
        total = total + functional.where(is_below, middle, 0)
        n, p = (
            functional.where(is_below, n - middle, functional.clamp(middle - 1, 0, None)),
            functional.clamp(functional.where(is_below, (p - threshold) / (1 - threshold), p / threshold), 0, 1),
        )
    return depending("BinomialBackward0", total.to(count._dtype), count, prob)  # type: ignore[no-any-return]


def _draw_for_each(sampler: Callable[..., Any], input: Tensor, generator: Generator | None) -> Tensor:
    """Draw a number for each parameter in `input`, with a sampler that takes as many random words as it needs."""
    if input.is_meta:
        return functional.empty_like(input)  # type: ignore[no-any-return]
    device = input._device
    different = different_levels()
    shared = [level for level in device.levels if level not in different]
    parameters = input.detach().to(dtypes.float64)
    for level in reversed(different):
        # Samples with the same parameters also get different numbers.
        parameters = remove_batch_dim(parameters, level, 0)
    for level in reversed(shared):
        parameters = remove_batch_dim(parameters, level, 0)
    count = math.prod(level.size for level in shared)
    rows = parameters.reshape(count, parameters.numel() // max(count, 1))
    result = _row_by_row(sampler, rows, generator or default_generator).reshape(parameters.shape).to(input._dtype)
    for level in (*shared, *different):
        result = add_batch_dim(result, level, 0)
    return result


def _row_by_row(sampler: Callable[..., Any], rows: Tensor, generator: Generator) -> Tensor:
    """Draw numbers for each row of parameters. All rows start at the same offset of the random stream."""
    backend, parameters, state = rows._device.backend, rows._array, generator._state
    states = [state if len(parameters) == 1 else state.copy() for _ in range(len(parameters))]

    def draw(at: PhiloxState, n: int) -> Any:
        return all_words(backend.random_words(n, *at.draw(n)))

    with backend.use_index(rows._device.index):
        numbers = backend.xp.empty_like(parameters)
        for row, (parameter, at) in enumerate(zip(parameters, states, strict=True)):
            numbers[row] = sampler(backend.xp, functools.partial(draw, at), parameter)
    if states:
        state.assign(max(states, key=lambda s: s.counter))
    return wrap(numbers, rows._device, rows._dtype)  # type: ignore[no-any-return]
