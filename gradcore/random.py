"""Random numbers: one counter-based generator whose numbers are the same on every device.

A seed fixes the numbers: the same seed gives the same bits on the CPU and on CUDA, whatever the device.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradcore import dtypes
from gradcore.autograd.batching import enter, leave
from gradcore.autograd.formulas import TENSORS
from gradcore.autograd.graph import wrap
from gradcore.autograd.modes import local
from gradcore.backends import philox, sampling
from gradcore.backends.batching import entered, over
from gradcore.backends.batching.messages import RANDOM
from gradcore.backends.generator import PhiloxState
from gradcore.backends.registry import resolve
from gradcore.creation import from_numpy
from gradcore.creation.filled import sizes
from gradcore.creation.placing import finished
from gradcore.device import DeviceLike
from gradcore.dispatch import check_inplace, write
from gradcore.dispatch.overriding import overridable
from gradcore.dtypes import DTypeLike
from gradcore.tensor import Tensor

__all__ = [
    "Generator",
    "bernoulli",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
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
    "seed",
    "set_rng_state",
]


class Generator:
    """A stream of random numbers with a state of its own.

    Parameters
    ----------
    device : device or str
        Accepted as in PyTorch; the numbers do not depend on it.

    Examples
    --------
    >>> import gradcore
    >>> g = gradcore.Generator().manual_seed(0)
    >>> a = gradcore.rand(3, generator=g)
    >>> b = gradcore.rand(3, generator=g.manual_seed(0))
    >>> bool((a == b).all())
    True
    """

    def __init__(self, device: DeviceLike = "cpu") -> None:
        self.device = resolve(device)
        self._state = PhiloxState(67280421310721)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of a seed; returns the generator."""
        self._state = PhiloxState(int(seed))
        return self

    def seed(self) -> int:
        """Start a stream chosen by the operating system's randomness, and return its seed."""
        chosen = int.from_bytes(os.urandom(8), "little") >> 1
        self.manual_seed(chosen)
        return chosen

    def initial_seed(self) -> int:
        """The seed of the current stream."""
        return self._state.seed

    def get_state(self) -> Tensor:
        """The state (key and counter) as a uint8 tensor."""
        return from_numpy(self._state.to_bytes())

    def set_state(self, new_state: Tensor) -> Generator:
        """Continue from a state that `get_state` returned."""
        if getattr(new_state, "dtype", None) is not dtypes.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        self._state = PhiloxState.from_bytes(new_state.host())
        return self

    def clone_state(self) -> Generator:
        """Another generator that gives the same numbers from here on."""
        other = Generator(self.device)
        other._state = self._state.copy()
        return other

    def __repr__(self) -> str:
        return f"<gradcore.Generator seed={self._state.seed} counter={self._state.counter}>"


default_generator = Generator()
default_generator.seed()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator, which serves all devices.

    Parameters
    ----------
    seed : int
        From -2**63 up to 2**128 - 1.

    Returns
    -------
    Generator
        The default generator.
    """
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the operating system, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state, as a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Set the default generator's state."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """Context after which the default generator continues as if nothing had been drawn inside."""
    state = default_generator._state.copy()
    try:
        yield
    finally:
        if enabled:
            default_generator._state = state


# -- drawing ----------------------------------------------------------------------------------------------------------


def _draw(count: int, where: Any, generator: Generator | None) -> Any:
    levels = _levels()
    total = count * math.prod(level.size for level in levels)
    key, counter = (generator or default_generator)._state.draw(total)
    words = where.real.backend.random_words(total, key, counter)
    if not levels:
        return words
    words = _all_words(words).reshape(*(level.size for level in levels), count)
    for level in levels:
        words = entered(words, level, 0)
    return words


def _levels() -> tuple[Any, ...]:
    """The batches whose samples get numbers of their own, the outermost first.

    Raises
    ------
    RuntimeError
        If random numbers are not wanted in one of the running batches.
    """
    batches = local.state.batches
    if any(level.randomness == "error" for level in batches):
        raise RuntimeError(RANDOM)
    return tuple(level for level in batches if level.randomness == "different")


def _for_samples(make: Callable[[tuple[int, ...]], Any], shape: tuple[int, ...]) -> Any:
    """``make(shape)`` for all samples of the running batches at once, as a tensor of one sample."""
    levels = _levels()
    made = make((*(level.size for level in levels), *shape))
    for level in levels:
        made = enter(made, level, 0)
    return made


def _sample(
    distribution: Callable[..., Any],
    shape: tuple[int, ...],
    dtype: dtypes.dtype,
    where: Any,
    generator: Generator | None,
    *parameters: Any,
) -> Any:
    """A tensor of numbers of a distribution."""
    if local.state.batches:
        return _for_samples(
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
    count = int(np.prod(shape, dtype=np.int64))
    if where.type == "meta":
        return TENSORS.empty(shape, dtype=dtype, device=where)
    with where.backend.use_index(where.index):
        place = (generator or default_generator)._state.draw(philox.word_count(count, dtype.numpy))
        array = where.backend.random_numbers(distribution, count, dtype.numpy, *place, *parameters).reshape(shape)
    return wrap(array, where, dtypes.bool_ if distribution is philox.bernoulli else dtype)


def _floating(
    name: str, shape: tuple[int, ...], dtype: Any, device: Any, generator: Generator | None, requires_grad: bool
) -> Any:
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    where = resolve(device)
    if wanted.category < 2:
        raise NotImplementedError(f"\"{name}\" not implemented for '{wanted.scalar_name}'")
    distribution = philox.uniform if name == "rand" else philox.normal
    if wanted.is_complex:
        real = wanted.to_real()
        pairs = _sample(distribution, (*shape, 2), real, where, generator)
        out = TENSORS.view_as_complex(pairs if name == "rand" else pairs * 0.5**0.5)
    else:
        out = _sample(distribution, shape, wanted, where, generator)
    return finished(out, requires_grad)


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
    **named: Any,
) -> Tensor:
    """Numbers from the uniform distribution on [0, 1).

    Parameters
    ----------
    *size : int or sequence of int
        The shape.
    generator : Generator, optional
        By default the default generator.
    dtype, device, requires_grad
        As in `gradcore.zeros`.
    """
    made = _floating(
        "rand", sizes((named["size"],) if "size" in named else size), dtype, device, generator, requires_grad
    )
    return made if out is None else out.copy_(made)  # type: ignore[no-any-return]


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
    **named: Any,
) -> Tensor:
    """Numbers from the normal distribution with mean 0 and variance 1; parameters as in `rand`."""
    made = _floating(
        "randn", sizes((named["size"],) if "size" in named else size), dtype, device, generator, requires_grad
    )
    return made if out is None else out.copy_(made)  # type: ignore[no-any-return]


def _like(name: str) -> Callable[..., Tensor]:
    @overridable
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
        where = input._device if device is None else device
        return _floating(name, input._array.shape, dtype or input._dtype, where, generator, requires_grad)  # type: ignore[no-any-return]

    like.__name__ = like.__qualname__ = f"{name}_like"
    like.__doc__ = f"As `{name}`, with the shape, and by default the dtype and device, of another tensor."
    return like


rand_like, randn_like = _like("rand"), _like("randn")


def _integers(low: int, high: int, shape: tuple[int, ...], dtype: Any, where: Any, generator: Any) -> Any:
    wanted = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if where.type == "meta":
        return TENSORS.empty(shape, dtype=wanted, device=where)
    count = int(np.prod(shape, dtype=np.int64))
    exact = wanted.numpy if wanted.category == 1 else np.dtype(np.int64)
    with where.backend.use_index(where.index):
        words = _draw(count * philox.integer_words(low, high), where, generator)
        array = philox.integers(where.backend.xp, words, exact, low, high).reshape(shape)
        if exact != wanted.numpy:
            array = array.astype(wanted.numpy)
    return wrap(array, over(_levels(), where), wanted)


@overridable
def randint(
    low: int,
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
    """Integers from ``low`` (0 if only one bound is given) to ``high``, exclusive: ``randint(high, size)``."""
    if size is None:
        low, high, size = 0, low, high
    made = finished(_integers(int(low), int(high), sizes((size,)), dtype, resolve(device), generator), requires_grad)
    return made if out is None else out.copy_(made)  # type: ignore[no-any-return]


@overridable
def randint_like(
    input: Tensor, low: int, high: int | None = None, *, generator: Any = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, memory_format: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """As `randint`, with the shape, and by default the dtype and device, of another tensor."""
    low, high = (0, low) if high is None else (low, high)
    where = input._device if device is None else resolve(device)
    return finished(_integers(low, high, input._array.shape, dtype or input._dtype, where, generator), requires_grad)  # type: ignore[no-any-return]


@overridable
def randperm(
    n: int, *, generator: Any = None, dtype: Any = dtypes.int64, device: Any = None, requires_grad: bool = False,
    out: Tensor | None = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A random order of the integers from 0 to ``n - 1``."""
    where, wanted = resolve(device), dtypes.as_dtype(dtype)
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got {n}")
    if where.type == "meta":
        return TENSORS.empty((n,), dtype=wanted, device=where)  # type: ignore[no-any-return]
    with where.backend.use_index(where.index):
        order = sampling.permutation(where.backend.xp, _all_words(_draw(n, where, generator)))
        made = finished(wrap(order.astype(wanted.numpy), over(_levels(), where), wanted), requires_grad)
    return made if out is None else out.copy_(made)  # type: ignore[no-any-return]


def _all_words(words: Any) -> Any:
    return words[:] if isinstance(words, philox.WordStream) else words


@overridable
def normal(
    mean: Any,
    std: Any = 1.0,
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
    """Numbers from normal distributions with the given means and standard deviations (numbers or tensors)."""
    tensors = [v for v in (mean, std) if isinstance(v, Tensor)]
    if isinstance(std, Tensor):
        if std._dtype.is_complex:
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if TENSORS.holds_anywhere(std < 0):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if not tensors:
        made = mean + std * randn(sizes((size,)), generator=generator, dtype=dtype, device=device)
        made = finished(made, requires_grad)
    else:
        shape = np.broadcast_shapes(*(t._array.shape for t in tensors))
        drawn = randn(shape, generator=generator, dtype=tensors[0]._dtype, device=tensors[0]._device)
        made = (drawn * std + mean).detach()
    return made if out is None else out.copy_(made)  # type: ignore[no-any-return]


@overridable
def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Any = None) -> Tensor:
    """Zeros and ones, one with the probability that `input` holds (or with `p`)."""
    if not input._dtype.is_floating_point and p is None:
        raise RuntimeError("bernoulli expects a floating-point tensor of probabilities")
    where, shape = input._device, input._array.shape
    if p is None:
        if TENSORS.holds_anywhere(~((input >= 0) & (input <= 1))):
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        if local.state.batches:
            made = (rand(shape, device=where.real, generator=generator) < input.detach()).to(input._dtype)
            return made if out is None else out.copy_(made)
        wide = input.detach().to(dtypes.float32) if input._dtype.is_reduced else input.detach()
        probability = wide.reshape(-1)._array if where.type != "meta" else 0.5
    else:
        _check_probability(p)
        probability = p
    made = _sample(
        philox.bernoulli,
        shape,
        input._dtype if input._dtype.category == 2 else dtypes.float32,
        where,
        generator,
        probability,
    )
    made = made.to(input._dtype)
    return made if out is None else out.copy_(made)  # type: ignore[no-any-return]


def _check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")


def bernoulli_mask(shape: Sequence[int], p: float, device: Any, generator: Generator | None = None) -> Tensor:
    """A bool tensor that is True with probability `p`: what dropout keeps."""
    where = resolve(device)
    return _sample(philox.bernoulli, tuple(shape), dtypes.float32, where, generator, p).to(dtypes.bool_)  # type: ignore[no-any-return]


@overridable
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None, out: Any = None
) -> Tensor:
    """Indices drawn with probabilities proportional to `input`, row by row.

    Parameters
    ----------
    input : Tensor
        Weights, of shape (categories,) or (rows, categories): not negative, finite, in each row some positive.
    num_samples : int
        How many to draw from each row.
    replacement : bool
        Whether an index may be drawn again.

    Raises
    ------
    RuntimeError
        If the weights or the number of samples are not usable.
    """
    if input._array.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not input._dtype.is_floating_point:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {input._dtype.scalar_name}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    where, weights = over(_levels(), input._device), input._array
    if not replacement and num_samples > weights.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    shape = (*weights.shape[:-1], num_samples)
    if where.type == "meta":
        return TENSORS.empty(shape, dtype=dtypes.int64, device=where)  # type: ignore[no-any-return]
    xp = where.backend.xp
    with where.backend.use_index(where.index):
        rows = weights.reshape((1, -1)) if weights.ndim == 1 else weights
        if TENSORS.holds_anywhere(wrap(~(xp.isfinite(rows) & (rows >= 0)), where)):
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if TENSORS.holds_anywhere(wrap(rows.sum(axis=1) <= 0, where)):
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
        count = rows.shape[0] * (num_samples if replacement else rows.shape[1])
        words = _all_words(_draw(count, where, generator))
        words = xp.array(words) if where.levels else words  # for each sample, whether or not its own
        made = wrap(sampling.multinomial(xp, words, rows, num_samples, replacement).reshape(shape), where)
    return made if out is None else out.copy_(made)  # type: ignore[no-any-return]


@overridable
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers from Poisson distributions whose rates `input` holds."""
    where = input._device
    if TENSORS.holds_anywhere(~(input >= 0)):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    levels = _levels()
    if set(where.levels) - set(levels):
        raise RuntimeError("vmap: poisson of batched rates needs randomness='different'")
    for level in reversed(levels):
        input = leave(input, level, 0)
    if levels:
        return _for_samples(lambda full: _poisson(input, generator), input._array.shape[len(levels) :])  # type: ignore[no-any-return]
    return _poisson(input, generator)


def _poisson(input: Tensor, generator: Generator | None) -> Tensor:
    where = input._device
    rate = input.detach().to(dtypes.float64).reshape(-1)._array
    with where.backend.use_index(where.index):
        draw = (generator or default_generator)._state.draw
        words = where.backend.random_words
        counts = sampling.poisson(where.backend.xp, lambda n: _all_words(words(n, *draw(n))), rate)
        return wrap(counts.reshape(input._array.shape).astype(input._dtype.numpy), where, input._dtype)  # type: ignore[no-any-return]


# -- in place ---------------------------------------------------------------------------------------------------------


def _fill(self: Tensor, made: Any) -> Tensor:
    check_inplace(self, local.state)
    return write(self, made if made._dtype is self._dtype else made.to(self._dtype))  # type: ignore[no-any-return]


def _working(self: Tensor, name: str) -> dtypes.dtype:
    if self._dtype.category < 2:
        raise NotImplementedError(f"\"{name}\" not implemented for '{self._dtype.scalar_name}'")
    return self._dtype


def _filler(
    name: str, distribution: Callable[..., Any], doc: str, *defaults: tuple[str, float]
) -> Callable[..., Tensor]:
    names = [n for n, _ in defaults]

    def fill(self: Tensor, *values: Any, generator: Generator | None = None, **named: Any) -> Tensor:
        given = dict(defaults) | dict(zip(names, values, strict=False))
        unknown = set(named) - set(names)
        if unknown or len(values) > len(names):
            raise TypeError(f"{name}() takes {', '.join(names)} and generator, but got {sorted(unknown) or values}")
        given.update(named)
        if name in _CHECKS:
            _CHECKS[name](*given.values())
        dtype = _working(self, name)
        if dtype.is_complex:
            parts = (*self._array.shape, 2)
            made = TENSORS.view_as_complex(
                _sample(distribution, parts, dtype.to_real(), self._device, generator, *given.values())
            )
        else:
            made = _sample(distribution, self._array.shape, dtype, self._device, generator, *given.values())
        return _fill(self, made)

    fill.__name__, fill.__qualname__, fill.__doc__ = name, f"Tensor.{name}", doc
    return fill


def _check_uniform(low: float, high: float) -> None:
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")


def _check_std(mean: float, std: float) -> None:
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


def _check_rate(rate: float) -> None:
    if rate <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate}")


def _check_geometric(p: float) -> None:
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")


_CHECKS: dict[str, Callable[..., None]] = {
    "uniform_": _check_uniform,
    "normal_": _check_std,
    "exponential_": _check_rate,
    "geometric_": _check_geometric,
}


def _random_(self: Tensor, *bounds: Any, generator: Generator | None = None, **named: Any) -> Tensor:
    """Fill with random integers: from 0 to the dtype's largest, to a bound (exclusive), or between two bounds."""
    values = [*bounds, *named.values()]
    if len(values) == 2:
        low, high = values
    elif values:
        low, high = 0, values[0]
    else:
        if self._dtype.category == 2:
            largest = 2 ** {2: 8 if self._dtype is dtypes.bfloat16 else 11, 4: 24, 8: 53}[self._dtype.itemsize]
        else:
            largest = 1 if self._dtype is dtypes.bool_ else int(np.iinfo(self._dtype.numpy).max)
        low, high = 0, largest + 1
    return _fill(self, _integers(int(low), int(high), self._array.shape, dtypes.int64, self._device, generator))


def _bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with zeros and ones, one with probability `p` (a number, or a tensor of probabilities)."""
    if isinstance(p, Tensor):
        made = bernoulli(p.expand(self._array.shape).clone(), generator=generator)
    else:
        _check_probability(p)
        made = _sample(philox.bernoulli, self._array.shape, dtypes.float32, self._device, generator, p)
    return _fill(self, made.to(self._dtype))


def _methods() -> dict[str, Callable[..., Any]]:
    return {
        "uniform_": _filler(
            "uniform_", philox.uniform, "Fill with numbers from [low, high).", ("from_", 0.0), ("to", 1.0)
        ),
        "normal_": _filler("normal_", philox.normal, "Fill with normal numbers.", ("mean", 0.0), ("std", 1.0)),
        "log_normal_": _filler(
            "log_normal_", philox.log_normal, "Fill with log-normal numbers.", ("mean", 1.0), ("std", 2.0)
        ),
        "cauchy_": _filler("cauchy_", philox.cauchy, "Fill with Cauchy numbers.", ("median", 0.0), ("sigma", 1.0)),
        "exponential_": _filler("exponential_", philox.exponential, "Fill with exponential numbers.", ("lambd", 1.0)),
        "geometric_": _filler("geometric_", philox.geometric, "Fill with geometric numbers.", ("p", 0.5)),
        "random_": _random_,
        "bernoulli_": _bernoulli_,
        "bernoulli": lambda self, p=None, *, generator=None: bernoulli(self, p, generator=generator),
        "multinomial": lambda self, num_samples, replacement=False, *, generator=None: multinomial(
            self, num_samples, replacement, generator=generator
        ),
    }


for _name, _method in _methods().items():
    if _method.__name__ == "<lambda>":
        _method.__name__, _method.__qualname__ = _name, f"Tensor.{_name}"
        _method.__doc__ = f"See `gradcore.{_name}`."
    setattr(Tensor, _name, _method)
TENSORS.bernoulli_mask = bernoulli_mask
TENSORS.rand, TENSORS.randn = rand, randn
