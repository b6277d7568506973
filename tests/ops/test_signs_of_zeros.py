"""Values of `relu`, `clamp` and extrema, the sign of a zero among them, for all pairs of special numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
import gradcore.nn.functional as F
from gradcore.backends.codegen.emit_numpy import emit, trace_tile
from gradcore.backends.numpy import bits
from gradcore.backends.registry import CPU

NUMBERS = [-0.0, 0.0, math.nan, math.inf, -math.inf, 1.0, -1.0]
BOUNDS = [pair for pair in itertools.product([None, *NUMBERS], repeat=2) if pair != (None, None)]
PAIRS = list(itertools.product(NUMBERS, repeat=2))
DTYPES = [gc.float16, gc.bfloat16, gc.float32, gc.float64]


def bounded(x: float, low: float | None, high: float | None) -> float:
    """Clamp a number, returning it unchanged where it equals a bound, and NaN if a bound is NaN."""
    if math.isnan(x) or any(bound is not None and math.isnan(bound) for bound in (low, high)):
        return math.nan
    if low is not None and x < low:
        x = low
    return high if high is not None and x > high else x


def extremum(name: str, x: float, y: float) -> float:
    """Return the extremum of two numbers, and the first of two zeros."""
    if math.isnan(x) or math.isnan(y):
        return math.nan if name in ("maximum", "minimum") else y if math.isnan(x) else x
    return (max if name in ("maximum", "fmax") else min)(x, y)


EXTREMA = ["maximum", "minimum", "fmax", "fmin"]
Calls = dict[str, tuple[Callable[[Any], Any], tuple[float | None, float | None]]]


def calls() -> Calls:
    """Functions of one tensor, each with the bounds that it keeps elements between."""
    found: Calls = {"relu": (gc.relu, (0.0, None)), "relu_": (lambda x: x.clone().relu_(), (0.0, None))}
    found["relu6"] = F.relu6, (0.0, 6.0)
    for low, high in BOUNDS:
        found[f"clamp({low}, {high})"] = (lambda x, low=low, high=high: x.clamp(low, high)), (low, high)
    for bound in NUMBERS:
        found[f"clamp_min({bound})"] = (lambda x, bound=bound: x.clamp_min(bound)), (bound, None)
        found[f"clamp_max({bound})"] = (lambda x, bound=bound: x.clamp_max(bound)), (None, bound)
    return found


def shown(numbers: Any) -> list[str]:
    return ["nan" if math.isnan(x) else repr(float(x)) for x in numbers]


def either_zero(found: Any, x: Any, y: Any) -> list[str]:
    """Return extrema as texts, zeros without a sign where the operands are zeros of different signs."""
    mixed = [a == b == 0 and math.copysign(1, a) != math.copysign(1, b) for a, b in zip(x, y, strict=True)]
    return ["zero" if m and f == 0 else s for m, f, s in zip(mixed, found, shown(found), strict=True)]


def tensors(dtype: Any, numbers: list[float], repeats: int) -> Iterator[gc.Tensor]:
    """Yield the numbers in a contiguous tensor, in one with gaps, and in one of two dims."""
    x = gc.tensor(numbers, dtype=dtype).repeat(repeats)
    yield x
    yield x.repeat_interleave(2)[::2]
    yield x.reshape(repeats, -1)


@pytest.mark.parametrize("repeats", [1, 6000])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_element_that_equals_a_bound_is_kept(dtype: Any, repeats: int) -> None:
    for name, (function, bounds) in calls().items():
        expected = shown(bounded(x, *bounds) for x in NUMBERS)
        for x in tensors(dtype, NUMBERS, repeats):
            found = function(x).double().reshape(repeats, -1)
            for row in (found[0], found[-1]):
                assert shown(row.tolist()) == expected, name


@pytest.mark.parametrize("repeats", [1, 900])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", EXTREMA)
def test_extrema_of_zeros(name: str, dtype: Any, repeats: int) -> None:
    first, second = (list(each) for each in zip(*PAIRS, strict=True))
    expected = either_zero([extremum(name, *pair) for pair in PAIRS], first, second)
    for x, y in zip(tensors(dtype, first, repeats), tensors(dtype, second, repeats), strict=True):
        found = getattr(gc, name)(x, y).double().reshape(repeats, -1)
        for row in (found[0], found[-1]):
            assert either_zero(row.tolist(), first, second) == expected


@pytest.mark.parametrize("repeats", [1, 900])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_element_that_equals_an_element_of_bounds_is_kept(dtype: Any, repeats: int) -> None:
    for x, y in zip(*(tensors(dtype, list(each), repeats) for each in zip(*PAIRS, strict=True)), strict=True):
        for low, high in [(y, None), (None, y), (y, y)]:
            found = x.clamp(low, high).double().reshape(repeats, -1)
            expected = shown(bounded(a, *(None if each is None else b for each in (low, high))) for a, b in PAIRS)
            for row in (found[0], found[-1]):
                assert shown(row.tolist()) == expected


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_bounds_that_are_arrays_in_tiles(dtype: str) -> None:
    """Formulas that are computed tile by tile, by NumPy: what equals a bound is kept there too, as by whole arrays."""
    x, y = (np.array(each, dtype) for each in zip(*PAIRS, strict=True))
    formulas: list[tuple[Callable[..., Any], Callable[[float], tuple[float | None, float | None]]]] = [
        (lambda K, x, y: K.clamp(x, y, None), lambda y: (y, None)),
        (lambda K, x, y: K.clamp(x, None, y), lambda y: (None, y)),
        (lambda K, x, y: K.clamp(x, y, y), lambda y: (y, y)),
        (lambda K, x, y: K.clamp(x, y, 0.0), lambda y: (y, 0.0)),
    ]
    for formula, bounds in formulas:
        function = emit(trace_tile(formula, (x, y), CPU.backend.bodies), bits.select)
        result = np.empty_like(x)
        scratch = [np.empty(x.size, each) for each in function.scratch]
        function.call(*((x, y)[i] for i in function.inputs), *scratch, result)
        expected = shown(bounded(a, *bounds(b)) for a, b in PAIRS)
        assert shown(result) == shown(formula(CPU.backend, x, y)) == expected
