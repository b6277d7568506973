"""Random numbers: the words of Philox 4x64-10, and functions from words to numbers.

Philox (J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) maps a 128-bit key and a
256-bit counter to a block of four 64-bit words. Word i of the stream (key, counter) is word ``i % 4`` of the
block at ``counter + i // 4``, modulo 2**256; key and counter are cut into 64-bit pieces with the lowest
first. On the CPU the words come from NumPy's C implementation, on CUDA from ``cuda/philox.cu``: the same
words.

A distribution is a pure function ``f(xp, words, dtype, ...)`` from an array of words to a flat array of
numbers. It is defined by operations that are exact or rounded once (see `exact`), so equal words give equal
bits on every device.

======================================  ======================================
numbers                                 words for one number
======================================  ======================================
float16, bfloat16, float32              1/2, the low half of a word first
float64                                 1
`integers`                              `integer_words`: 1, or 2 for more than 2**32 values
`permutation`                           1 for an element
`multinomial`                           1 for a sample; without replacement 1 for a category
`poisson`                               as many as it asks for
======================================  ======================================

Below, h is an unsigned integer of b bits, the half word (b = 32) or the word (b = 64) that becomes the
number. float16 and bfloat16 numbers are computed in float32 and rounded once at the end.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.core.typing import NUMPY

from . import exact
from .exact import FLOAT32, FLOAT64, Array, Format
from .generator import COUNTER_BITS, WORDS_PER_BLOCK

TILE = 16384
"""Words that are worked on at a time, so that intermediate arrays stay in the cache of a CPU."""

_MASK32, _MASK64 = 2**32 - 1, 2**64 - 1
_UNIFORM_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


class _Source(threading.local):
    """NumPy's generator and its current position, so that consecutive draws need not set its state."""

    def __init__(self) -> None:
        self.philox: Any = None
        self.place: tuple[int, int] | None = None

    def move(self, key: int, counter: int) -> None:
        """Set the position of the next block to (key, counter)."""
        if self.philox is None:  # not before the first draw: importing numpy.random takes a while
            self.philox = np.random.Philox(key=0)
        before = (counter - 1) % 2**COUNTER_BITS  # NumPy increments the counter before it computes a block.
        self.philox.state = {
            "bit_generator": "Philox",
            "state": {"counter": _pieces(before, 4), "key": _pieces(key, 2)},
            "buffer": np.zeros(WORDS_PER_BLOCK, np.uint64),
            "buffer_pos": WORDS_PER_BLOCK,
            "has_uint32": 0,
            "uinteger": 0,
        }


_source = _Source()


def _pieces(value: int, count: int) -> np.ndarray:
    return np.array([value >> 64 * i & _MASK64 for i in range(count)], np.uint64)


def words(n: int, key: int, counter: int) -> np.ndarray:
    """Return the first `n` words of the stream (key, counter), as a NumPy array of uint64."""
    blocks = -(-n // WORDS_PER_BLOCK)
    source = _source
    if source.place != (key, counter):
        source.move(key, counter)
    source.place = None  # unknown, should the next line be interrupted
    result: np.ndarray = source.philox.random_raw(blocks * WORDS_PER_BLOCK)
    source.place = key, (counter + blocks) % 2**COUNTER_BITS
    return result[:n]


class WordStream:
    """The first `size` words of a stream, which are computed when a slice is read.

    A distribution reads them tile by tile, so that no array of all words is made.
    """

    __slots__ = ("counter", "key", "size")

    def __init__(self, size: int, key: int, counter: int) -> None:
        self.size, self.key, self.counter = size, key, counter

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice) -> np.ndarray:
        start, stop, _ = part.indices(self.size)
        blocks, skip = divmod(start, WORDS_PER_BLOCK)
        return words(max(stop - start, 0) + skip, self.key, (self.counter + blocks) % 2**COUNTER_BITS)[skip:]


def word_count(n: int, dtype: Any) -> int:
    """Return the number of words for `n` floating-point numbers of `dtype`."""
    return -(-n // _per_word(dtype))


def _per_word(dtype: Any) -> int:
    return 1 if np.dtype(dtype).itemsize == 8 else 2


def _tile_draws(distribution: Callable[..., Array]) -> Callable[..., Array]:
    """Make a distribution run on one tile of words after the other, for NumPy.

    Array parameters are cut into the same tiles.
    """

    def cut(parameter: Any, part: slice) -> Any:
        return parameter[part] if getattr(parameter, "ndim", 0) else parameter

    @functools.wraps(distribution)
    def call(xp: Any, words: Array, dtype: Any, *args: Any, **kwargs: Any) -> Array:
        with np.errstate(all="ignore"):  # a number beyond the range of its dtype is infinite, silently
            if xp is not NUMPY or len(words) <= TILE:
                return distribution(xp, words[:], dtype, *args, **kwargs)
            tiles, step, end = -(-len(words) // TILE), TILE * _per_word(dtype), 0
            for i in range(tiles):
                part = slice(i * step, (i + 1) * step)
                tile_args = [cut(value, part) for value in args]
                tile_kwargs = {name: cut(value, part) for name, value in kwargs.items()}
                values = distribution(xp, words[i * TILE : (i + 1) * TILE], dtype, *tile_args, **tile_kwargs)
                if i == 0:
                    result = np.empty(tiles * len(values), values.dtype)
                result[end : end + len(values)] = values
                end += len(values)
            return result[:end]

    return call


def _lanes(words: Array, dtype: np.dtype) -> tuple[Array, Format]:
    """Return an unsigned integer h for each number, and the format in which the numbers are computed."""
    if dtype.itemsize == 8:
        return words, FLOAT64
    halves = words.view(np.uint32)
    return (halves if sys.byteorder == "little" else halves.reshape(-1, 2)[:, ::-1].reshape(-1)), FLOAT32


def _magnitude(h: Array, form: Format) -> Array:
    """Return the signed integer h, or its complement if it is negative, so that the sign bit is removed."""
    k = h.view(form.signed)
    return k ^ (k >> (form.bits - 1))


def _with_sign_of(h: Array, values: Array, form: Format) -> Array:
    """Return the positive `values` with the sign bit of h."""
    bits = values.view(form.unsigned)
    bits |= h & form.unsigned(1 << (form.bits - 1))
    return values


def _affine(values: Array, scale: float, shift: float, dtype: np.dtype) -> Array:
    """Return ``values * scale + shift``, rounded after each operation, as `dtype`."""
    real = values.dtype.type
    if scale != 1:
        values *= real(scale)
    if shift != 0:
        values += real(shift)
    return values.astype(dtype, copy=False)


@_tile_draws
def uniform(xp: Any, words: Array, dtype: Any, low: float = 0.0, high: float = 1.0) -> Array:
    """Return uniform random numbers in [low, high).

    u = (h >> (b - d)) / 2**d with d = 11 (float16), 8 (bfloat16), 24 (float32) or 53 (float64) bits, then
    ``min(u * (high - low) + low, the number next to high)``; low and high are rounded to `dtype` first.

    Parameters
    ----------
    xp : module
        The array library.
    words : array or WordStream
        Two numbers come from a word, one for float64.
    dtype : dtype
        float16, bfloat16, float32 or float64.
    low, high : float
        The bounds; ``high - low`` has to be finite.

    Returns
    -------
    array
        The numbers, one-dimensional.

    Examples
    --------
    >>> uniform(np, words(2, key=7, counter=0), np.float32)
    array([0.6967611 , 0.9007596 , 0.12864143, 0.7774632 ], dtype=float32)
    """
    dtype = np.dtype(dtype)
    h, form = _lanes(words, dtype)
    digits = _UNIFORM_BITS[dtype.name]
    values = (h >> (form.bits - digits)).view(form.signed).astype(form.real)
    values *= 2.0**-digits
    if (low, high) != (0, 1):
        start, end = dtype.type(low), dtype.type(high)
        largest = form.real(np.nextafter(end, start))
        values *= form.real(end) - form.real(start)
        values += form.real(start)
        values = xp.minimum(values, largest)
    return values.astype(dtype, copy=False)


@_tile_draws
def normal(xp: Any, words: Array, dtype: Any, mean: float = 0.0, std: float = 1.0) -> Array:
    """Return normal random numbers.

    The inverse of the distribution function at (h + 1/2) / 2**b, where h is read as a signed integer and 1/2
    is added: `exact.normal_quantile` of the magnitude, with the sign of h. Then ``z * std + mean``. The
    largest magnitude is 6.3 from half a word and 9.2 from a word.

    Parameters
    ----------
    xp, words, dtype
        As for `uniform`.
    mean, std : float
        Mean and standard deviation.

    Returns
    -------
    array
        The numbers, one-dimensional.
    """
    dtype = np.dtype(dtype)
    h, form = _lanes(words, dtype)
    values = _with_sign_of(h, exact.normal_quantile(xp, _magnitude(h, form)), form)
    return _affine(values, std, mean, dtype)


@_tile_draws
def log_normal(xp: Any, words: Array, dtype: Any, mean: float = 1.0, std: float = 2.0) -> Array:
    """Return exponentials of normal random numbers, ``exp(z * std + mean)``. Parameters are as for `normal`."""
    dtype = np.dtype(dtype)
    real = FLOAT64.real if dtype.itemsize == 8 else FLOAT32.real
    return exact.exp(xp, normal(xp, words, real, mean, std)).astype(dtype, copy=False)


def _standard_exponential(h: Array, form: Format) -> Array:
    k = (h >> 1).view(form.signed)
    scale = 1 - form.bits
    return exact.minus_log_complement(exact.midpoints(k, scale), exact.midpoints(np.iinfo(form.signed).max - k, scale))


@_tile_draws
def exponential(xp: Any, words: Array, dtype: Any, rate: float = 1.0) -> Array:
    """Return exponential random numbers: ``-log(1 - v) / rate`` with v = ((h >> 1) + 1/2) / 2**(b - 1), never 0.

    Parameters
    ----------
    xp, words, dtype
        As for `uniform`.
    rate : float
        Positive; the mean is ``1 / rate``.

    Returns
    -------
    array
        The numbers, one-dimensional.
    """
    dtype = np.dtype(dtype)
    h, form = _lanes(words, dtype)
    values = _standard_exponential(h, form)
    if rate != 1:
        values /= form.real(rate)
    return values.astype(dtype, copy=False)


@_tile_draws
def cauchy(xp: Any, words: Array, dtype: Any, median: float = 0.0, scale: float = 1.0) -> Array:
    """Return Cauchy random numbers: ``tan(pi * q) * scale + median`` with q = (h + 1/2) / 2**b, h read as signed.

    Beyond 1/4 the tangent is ``1 / tan(pi * (1/2 - q))``.

    Parameters
    ----------
    xp, words, dtype
        As for `uniform`.
    median, scale : float
        Median, and half the distance between the quartiles.

    Returns
    -------
    array
        The numbers, one-dimensional.
    """
    dtype = np.dtype(dtype)
    h, form = _lanes(words, dtype)
    k = _magnitude(h, form)
    distance = xp.minimum(k, np.iinfo(form.signed).max - k)
    tangent = exact.tan_pi(exact.midpoints(distance, -form.bits))
    values = exact.select(-(k >> (form.bits - 2)), 1 / tangent, tangent)
    return _affine(_with_sign_of(h, values, form), scale, median, dtype)


@_tile_draws
def bernoulli(xp: Any, words: Array, dtype: Any, p: Any) -> Array:
    """Return True with probability p: ``(h >> s) < p * 2**d`` with d = 31 and s = 1 (float64: d = 53 and s = 11).

    The probability is p rounded up to a multiple of 2**-d: p = 0 and p = 1 are certain.

    Parameters
    ----------
    xp, words
        As for `uniform`.
    dtype : dtype
        The dtype of `p`, which determines the number of bits of a decision.
    p : float or array
        Between 0 and 1. An array is one-dimensional and holds one probability for each decision; the last
        half word may be left over.

    Returns
    -------
    array of bool
        The decisions, one-dimensional.
    """
    h, form = _lanes(words, np.dtype(dtype))
    digits = 31 if form is FLOAT32 else 53
    if getattr(p, "ndim", 0):
        threshold = xp.ceil(p.astype(form.real) * 2.0**digits).astype(form.unsigned)
        h = h[: len(threshold)]
    else:
        threshold = form.unsigned(np.ceil(form.real(p) * 2.0**digits))
    return (h >> (form.bits - digits)) < threshold


@_tile_draws
def geometric(xp: Any, words: Array, dtype: Any, p: Any) -> Array:
    """Return the number of trials up to the first success: ``max(1, ceil(e / -log(1 - p)))``, e exponential.

    Parameters
    ----------
    xp, words, dtype
        As for `uniform`.
    p : float or array
        Probability of success, 0 < p < 1; an array as for `bernoulli`.

    Returns
    -------
    array
        The whole numbers, one-dimensional, as floating-point numbers.
    """
    dtype = np.dtype(dtype)
    h, form = _lanes(words, dtype)
    if getattr(p, "ndim", 0):
        h, p = h[: len(p)], xp.asarray(p, form.real)
    else:  # on the host: the device gets a number
        p = form.real(p)
    values = _standard_exponential(h, form)
    values /= exact.minus_log_complement(p, 1 - p)
    return xp.maximum(xp.ceil(values), 1).astype(dtype, copy=False)


def integer_words(low: int, high: int) -> int:
    """Return the number of words for a random integer in [low, high): 1, or 2 for more than 2**32 values."""
    if not low < high <= low + 2**64:
        raise ValueError(f"expected from 1 to 2**64 integers in [low, high), but got low={low} and high={high}")
    return 1 if high - low <= 2**32 else 2


@_tile_draws
def integers(xp: Any, words: Array, dtype: Any, low: int, high: int) -> Array:
    """Return random integers in [low, high), without rejection: ``low + floor(w * (high - low) / 2**64)``.

    With more than 2**32 values it is ``low + floor(w * (high - low) / 2**128)``, w being two words, the
    higher first. The bias: the probability of a value differs from 1 / (high - low) by less than 2**-64; with
    two words by less than 2**-64 times itself.

    Parameters
    ----------
    xp : module
        The array library.
    words : array or WordStream
        `integer_words` for each integer.
    dtype : dtype
        Any that holds the integers.
    low, high : int
        The bounds.

    Returns
    -------
    array
        The integers, one-dimensional.

    Examples
    --------
    >>> integers(np, words(5, key=7, counter=0), np.int8, -3, 4)
    array([ 3,  2,  3, -3,  3], dtype=int8)
    """
    dtype = np.dtype(dtype)
    span = high - low
    if integer_words(low, high) == 1:
        values = (words >> 32) * span
        values += ((words & _MASK32) * span) >> 32
        values >>= 32
    elif span == 2**64:
        values = words[::2].copy()
    else:
        upper, lower = words[::2], words[1::2]
        product = upper * np.uint64(span)
        carry = product + multiply_high(lower, span) < product
        values = multiply_high(upper, span) + carry
    values += np.uint64(low & _MASK64)
    return (values if dtype.kind == "u" else values.view(np.int64)).astype(dtype, copy=False)


def multiply_high(a: Array, b: Array | int) -> Array:
    """Return the upper 64 bits of the product of 64-bit unsigned integers."""
    a_low, a_high = a & _MASK32, a >> 32
    b_low, b_high = b & _MASK32, b >> 32
    middle = a_high * b_low + (a_low * b_low >> 32)
    upper = a_low * b_high + (middle & _MASK32)
    return a_high * b_high + (middle >> 32) + (upper >> 32)
