"""Random numbers by kernels of the library: the bits of NumPy's formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.random import philox
from gradcore.backends.random.generator import DropoutDraw

PARAMETERS: dict[Any, list[tuple[Any, ...]]] = {
    philox.uniform: [(), (0.0, 1.0), (-3.0, 5.0), (1e-40, 1.0), (-1e38, 2e38), (2, 7)],
    philox.normal: [(), (3.0, 2.0), (-1.0, 0.0), (0.0, 1e-42), (0, 1e38), (1e38, 1e38)],
    philox.exponential: [(), (3.5,), (1e-30,), (1e30,), (2,)],
    philox.bernoulli: [(0.0,), (1.0,), (0.3,), (1e-9,), (1,)],
}
CASES = [(distribution, parameters) for distribution, each in PARAMETERS.items() for parameters in each]
#: The start of a stream, a counter whose first and second words overflow, and the last but one.
COUNTERS = [0, 1 << 100, (1 << 128) - 3, (1 << 256) - 2]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("distribution", "parameters"), CASES, ids=lambda each: getattr(each, "__name__", str(each)))
def test_numbers_are_those_of_numpy(compiled: Any, distribution: Any, parameters: Any, dtype: str) -> None:
    for counter in COUNTERS:
        for n in (0, 1, 7, 8, 9, 255, 257, 20_000):
            arguments = distribution, n, np.dtype(dtype), (5 << 64) + (1 << 63) + n, counter, *parameters
            found, expected = compiled.random_numbers(*arguments), NumpyBackend.random_numbers(compiled, *arguments)
            assert (found.dtype, found.tobytes()) == (expected.dtype, expected.tobytes())


def test_numbers_do_not_depend_on_the_threads(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr("gradcore.backends.numpy.threads.available", lambda n=threads: n)
        found.append(compiled.random_numbers(philox.normal, 100_003, np.dtype("f4"), 7, 3).tobytes())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 9, 257, 20_000])
def test_decisions_by_an_array_of_probabilities_are_those_of_numpy(compiled: Any, dtype: str, n: int) -> None:
    probabilities = np.random.default_rng(n).random(2 * n).astype(dtype)[::2]
    probabilities[: n // 4] **= 20  # also tiny ones
    probabilities[n // 2 :: 5], probabilities[n // 2 + 1 :: 5] = 0, 1
    for counter in COUNTERS:
        arguments = philox.bernoulli, n, np.dtype(dtype), (5 << 64) + n, counter, probabilities
        found, expected = compiled.random_numbers(*arguments), NumpyBackend.random_numbers(compiled, *arguments)
        assert (found.dtype, found.tobytes()) == (expected.dtype, expected.tobytes())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.7])
def test_factors_of_dropout_are_those_of_numpy(compiled: Any, dtype: str, p: float) -> None:
    for shape in (1,), (3, 5), (100, 201):
        scale = float(np.dtype(dtype).type(1) / np.dtype(dtype).type(1 - p))
        draw = DropoutDraw(shape, 1 - p, scale, (5 << 64) + 7, COUNTERS[1])
        found = compiled.dropout_factors(draw, np.dtype(dtype))
        expected = NumpyBackend.dropout_factors(compiled, draw, np.dtype(dtype))
        assert (found.dtype, found.shape, found.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


BOUNDS = [(0, 1), (-3, 4), (0, 2**32), (-(2**63), -(2**63) + 2**32), (2**63 - 5, 2**63), (2**64 - 9, 2**64), (0, 2**40)]


@pytest.mark.parametrize(("low", "high"), BOUNDS)
@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8", "uint64"])
def test_integers_are_those_of_numpy(compiled: Any, low: int, high: int, dtype: str) -> None:
    for counter in COUNTERS:
        for n in (0, 1, 5, 255, 20_000):
            arguments = n, np.dtype(dtype), (5 << 64) + n, counter, low, high
            found, expected = compiled.random_integers(*arguments), NumpyBackend.random_integers(compiled, *arguments)
            assert (found.dtype, found.tobytes()) == (expected.dtype, expected.tobytes())
