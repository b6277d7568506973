"""Tensors of evenly spaced numbers, and of the indices of a triangle."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from gradcore import functional
from gradcore.backends.registry import resolve
from gradcore.core import dtypes
from gradcore.core.errors import warn
from gradcore.core.typing import NUMPY
from gradcore.dispatch.settings import converting
from gradcore.ops.declare.annotations import Number
from gradcore.ops.declare.checks import check_fits, cpp_type, no_kernel
from gradcore.ops.declare.shapes import check_elements
from gradcore.tensor import Tensor, is_differentiated
from gradcore.tensor.creation.factory import OutOptions, compute_on_device, convert_array, factory, from_host
from gradcore.tensor.creation.filled import make_filled

__all__ = ["arange", "eye", "linspace", "logspace", "range", "tril_indices", "triu_indices"]

#: The largest number of elements that `arange` and `range` compute with.
_MOST_NUMBERS = 2**63 - 1


@factory
def eye(
    n: int,
    m: int | None = None,
    **options: Unpack[OutOptions],
) -> Tensor:
    """Return a matrix with ones on the diagonal and zeros elsewhere, `n` by `m` (`n` by `n` if `m` is None).

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    for name, value in (("n", n), ("m", m)):
        if value is not None and value < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    out_dtype = _dtype(options)
    return compute_on_device(lambda xp: xp.eye(n, m, dtype=out_dtype.numpy), options.get("device"), out_dtype)  # type: ignore[no-any-return]


def _dtype(options: OutOptions) -> dtypes.dtype:
    dtype = options.get("dtype")
    return dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)


def _sequence_dtype(values: Sequence[Any], dtype: Any) -> dtypes.dtype:
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    return dtypes.int64 if all(isinstance(v, int) for v in values) else dtypes.get_default_dtype()


def _numbers(*values: Any) -> list[Any]:
    """Return the values of bounds that may be tensors, without their history."""
    _check_bounds(*values)
    return [v.detach().item() if isinstance(v, Tensor) else v for v in values]


def _bounds(function: str, start: Any, end: Any, step: Any) -> tuple[Any, Any, Any]:
    """Return both bounds and the step of a sequence; the first bound is 0 if only one is given."""
    if end is None and start is None:
        raise TypeError(f"{function}() missing required argument: 'end'")
    return (0, start, step) if end is None else (0 if start is None else start, end, step)


#: Numbers up to this size fit every dtype of floating-point numbers.
_FITS = 65504


def _convert_bounds(dtype: dtypes.dtype, *values: Any) -> tuple[Any, ...]:
    """Return the values as Python numbers of `dtype`, cut off if it is one of integers; see `check_fits`."""
    convert = {dtypes.INTEGER: int, dtypes.FLOATING: float}.get(dtype.category, complex)
    if convert is float and all(type(v) in (int, float) and -_FITS <= v <= _FITS for v in values):
        return tuple(map(float, values))
    # Sizes stay symbolic.
    return tuple(convert(check_fits(v, dtype)) if type(v) in (int, float, complex, bool) else v for v in values)


def _are_words(first: float, last: float, by: float) -> bool:
    """Return whether the bounds and the step are integers that fit int64, so that nothing is to be converted."""
    most = _MOST_NUMBERS
    return (
        (isinstance(first, int) and isinstance(last, int) and isinstance(by, int))
        and (-most <= first <= most and -most <= last <= most and -most <= by <= most)
    )  # fmt: skip


#: The dtypes in which `arange` and `range` compute, by the category of the result's dtype; half precision in float32.
_COMPUTED_IN = {dtypes.INTEGER: dtypes.int64, dtypes.FLOATING: dtypes.float64}


def _computation_dtype(function: str, dtype: dtypes.dtype) -> dtypes.dtype:
    if dtype.category not in _COMPUTED_IN:
        raise no_kernel(f"{function}_cpu", dtype)
    return dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else _COMPUTED_IN[dtype.category]


def _check_progression(first: float, last: float, by: float) -> None:
    """Raise if no sequence from `first` to `last` has steps of `by`."""
    if not (by > 0 or by < 0):  # also for NaN
        raise RuntimeError("step must be nonzero")
    if not ((isinstance(first, int) or math.isfinite(first)) and (isinstance(last, int) or math.isfinite(last))):
        raise RuntimeError(f"unsupported range: {first:g} -> {last:g}")
    if first > last if by > 0 else first < last:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def _check_length(count: float) -> None:
    if count > _MOST_NUMBERS:
        raise RuntimeError("invalid size, possible overflow?")


def _is_differentiated(start: object, end: object, options: OutOptions) -> bool:
    """Return whether numbers between these bounds are differentiated; those of integers are not."""
    dtype = options.get("dtype")
    if dtype is not None and not dtypes.as_dtype(dtype).is_differentiable:
        return False
    return any(isinstance(v, Tensor) and is_differentiated(v) for v in (start, end))


def _check_bounds(*values: object) -> None:
    for v in values:
        if isinstance(v, Tensor) and v._array.ndim:
            raise RuntimeError(f"linspace only supports 0-dimensional start and end tensors, but got {v.ndim} dim(s)")


def _moving(start: Any, end: Any, steps: int, options: OutOptions) -> Tensor:
    """Return evenly spaced numbers that are differentiable by their bounds."""
    _check_bounds(start, end)
    shares = linspace(0, 1, steps, dtype=options.get("dtype"), device=options.get("device"))
    result: Tensor = start * (1 - shares) + end * shares
    return result


@factory
def arange(
    start: Number | None = None,
    end: Number | None = None,
    step: Number = 1,
    **options: Unpack[OutOptions],
) -> Tensor:
    """Return the numbers from `start` (0 if only one bound is given) to `end`, exclusive, in steps of `step`.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    first, last, by = _bounds("arange", start, end, step)
    out_dtype = _sequence_dtype((first, last, by), options.get("dtype"))
    computation_dtype = _computation_dtype("arange", out_dtype)
    _check_progression(first, last, by)
    has_fraction = isinstance(first, float) or isinstance(last, float) or isinstance(by, float)
    if out_dtype is dtypes.int64 and (has_fraction or not _are_words(first, last, by)):
        # PyTorch computes the length after it has cut off fractions.
        first, last, by = _convert_bounds(out_dtype, first, last, by)
        if by == 0:
            raise RuntimeError("step must be nonzero")
        has_fraction = False
    is_whole = out_dtype.category == dtypes.INTEGER and not has_fraction
    length = -(-(last - first) // by) if is_whole else (last - first) / by
    _check_length(length)
    count = length if is_whole else math.ceil(length)
    check_elements((count,))
    if out_dtype is not dtypes.int64:
        first, by = _convert_bounds(computation_dtype, first, by)
    kind = np.int64 if not out_dtype.is_differentiable and isinstance(by, int) else np.float64

    def numbers(xp: Any) -> Any:
        result = xp.arange(count, dtype=kind)
        result = result if by == 1 else result * by
        starts_at_zero = first == 0 and by > 0  # negative steps begin with -0.0, to which the first number is added
        return convert_array(result if starts_at_zero else first + result, out_dtype)

    return compute_on_device(numbers, options.get("device"), out_dtype)  # type: ignore[no-any-return]


@factory
def range(
    start: Number | None = None,
    end: Number | None = None,
    step: Number = 1,
    **options: Unpack[OutOptions],
) -> Tensor:
    """Return the numbers from `start` to `end`, inclusive; `arange` excludes the end."""
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end)."
    )
    first, last, by = _bounds("range", start, end, step)
    out_dtype = _dtype(options)
    converted = _convert_bounds(_computation_dtype("range", out_dtype), first, last, by)
    _check_progression(first, last, by)
    first, last, by = converted
    _check_progression(first, last, by)
    length = (last - first) // by if out_dtype.category == dtypes.INTEGER else (last - first) / by
    _check_length(length + 1)
    count = math.floor(length) + 1
    check_elements((count,))

    def numbers(xp: Any) -> Any:
        return convert_array(first + xp.arange(count) * by, out_dtype)

    return compute_on_device(numbers, options.get("device"), out_dtype)  # type: ignore[no-any-return]


#: Classes of the bounds between which numbers are computed without `numpy.linspace`.
_REAL = frozenset((int, float))


def _space_evenly(xp: Any, start: Any, end: Any, steps: int, dtype: dtypes.dtype) -> Any:
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    low, high = _convert_bounds(dtype, start, end)
    is_integer = dtype.category == dtypes.INTEGER
    if is_integer or not all(map(cmath.isfinite, (low, high))):
        # From both ends, as in PyTorch: values that are whole come out exactly, and infinities at the same places.
        step, places = (high - low) / max(steps - 1, 1), xp.arange(steps, dtype=np.float64)
        is_front = places < (steps // 2 if steps > 1 else 1)
        return xp.where(is_front, low + step * places, high - step * (steps - 1 - places))
    exact = np.complex128 if dtype.is_complex else np.float64
    if xp is NUMPY and type(start) in _REAL and type(end) in _REAL and steps > 1:
        # These are the steps of `numpy.linspace`, whose handling of arrays takes longer.
        step = (float(end) - float(start)) / (steps - 1)
        if step and math.isfinite(step):
            values = np.arange(steps, dtype=np.float64)
            values *= step
            values += float(start)
            values[-1] = end
            return values
    first, last = np.asarray(start, exact), np.asarray(end, exact)
    return xp.linspace(first, last, steps, dtype=exact)


@factory
def linspace(
    start: Tensor | Number,
    end: Tensor | Number,
    steps: int,
    **options: Unpack[OutOptions],
) -> Tensor:
    """Return `steps` evenly spaced numbers from `start` to `end`, both included.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    if _is_differentiated(start, end, options):
        return _moving(start, end, steps, options)
    start, end = _numbers(start, end)
    out_dtype = _spaced_dtype("linspace", start, end, options.get("dtype"))

    def numbers(xp: Any) -> Any:
        values = _space_evenly(xp, start, end, steps, out_dtype)
        return convert_array(xp.trunc(values) if not out_dtype.is_differentiable else values, out_dtype)

    return compute_on_device(numbers, options.get("device"), out_dtype, exact=True)  # type: ignore[no-any-return]


def _spaced_dtype(function: str, start: Any, end: Any, dtype: Any) -> dtypes.dtype:
    any_complex = isinstance(start, complex) or isinstance(end, complex)
    if dtype is None:
        return dtypes.default_complex() if any_complex else dtypes.get_default_dtype()
    out_dtype = dtypes.as_dtype(dtype)
    if any_complex and not out_dtype.is_complex:
        inferred = cpp_type(dtypes.default_complex())
        raise RuntimeError(
            f"torch.{function}(): inferred dtype {inferred} can't be safely cast to passed dtype "
            f"{out_dtype.scalar_name}"
        )
    if out_dtype is dtypes.bool_:
        raise no_kernel(f"{function}_cpu", out_dtype)
    return out_dtype


@factory
def logspace(
    start: Tensor | Number,
    end: Tensor | Number,
    steps: int,
    base: float = 10.0,
    **options: Unpack[OutOptions],
) -> Tensor:
    """Return `steps` numbers, evenly spaced on a logarithmic scale from ``base**start`` to ``base**end``.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    if _is_differentiated(start, end, options):
        return functional.pow(base, _moving(start, end, steps, options))  # type: ignore[no-any-return]
    start, end = _numbers(start, end)
    out_dtype = _spaced_dtype("logspace", start, end, options.get("dtype"))

    def numbers(xp: Any) -> Any:
        if steps == 1 and out_dtype.category == dtypes.INTEGER:  # PyTorch does not cut off a single exponent.
            return convert_array(xp.full(1, float(base) ** start), out_dtype)
        return convert_array(xp.power(base, _space_evenly(xp, start, end, steps, out_dtype)), out_dtype)

    return compute_on_device(numbers, options.get("device"), out_dtype, exact=True)  # type: ignore[no-any-return]


def _triangle(lower: bool, row: int, col: int, offset: int, dtype: Any, device: Any) -> Any:
    for name, value in (("row", row), ("col", col)):
        if value < 0:
            raise RuntimeError(f"{name} must be non-negative, got {value}")
    check_elements((row, col))
    offset = max(-row, min(offset, col))  # NumPy's functions compute with 64 bits
    out_dtype = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    if resolve(device).type == "meta":
        lower_count = int(np.clip(np.arange(row) + offset + (1 if lower else 0), 0, col).sum())
        return make_filled("empty", (2, lower_count if lower else row * col - lower_count), out_dtype, device, False)
    rows = (np.tril_indices if lower else np.triu_indices)(row, offset, col)
    return from_host(np.stack(rows).astype(out_dtype.numpy), device, out_dtype)


@converting
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """Return the row and column indices (2 by n) of the lower triangle of a `row` by `col` matrix.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _triangle(True, row, col, offset, dtype, device)  # type: ignore[no-any-return]


@converting
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """Return the row and column indices (2 by n) of the upper triangle of a `row` by `col` matrix.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _triangle(False, row, col, offset, dtype, device)  # type: ignore[no-any-return]
