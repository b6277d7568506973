"""Compiled convolutions give what the portable ones give, within the bounds of docs/compiled-kernels.md."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from gradcore import get_num_threads, set_num_threads
from gradcore.backends.compiled import convolution as compiled_convolution
from gradcore.backends.portable.sliding import conv_output_size
from tests.backends.portable_kernels import portable

#: Of the largest number of a result.
TOLERANCE = {"float32": 1e-5, "float64": 1e-13}


class Case(NamedTuple):
    """An input `(N, C, *S)`, a weight `(O, C / groups, *K)`, and the settings."""

    x: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1

    @property
    def output(self) -> tuple[int, ...]:
        settings = self.stride, self.padding, self.dilation
        spatial = map(conv_output_size, self.x[2:], self.weight[2:], *settings)
        return (self.x[0], self.weight[0], *spatial)


CASES = {
    "plain": Case((3, 4, 9, 40), (16, 4, 3, 3), (1, 1), (1, 1), (1, 1)),
    "1d": Case((2, 3, 50), (17, 3, 5), (1,), (2,), (1,)),
    "3d": Case((2, 3, 5, 6, 20), (9, 3, 2, 3, 3), (1, 1, 1), (0, 1, 2), (1, 1, 1)),
    "strided": Case((2, 3, 11, 37), (24, 3, 3, 4), (2, 3), (1, 2), (1, 1)),
    "dilated": Case((2, 3, 12, 30), (8, 3, 3, 2), (1, 1), (2, 0), (2, 3)),
    "strided and dilated": Case((1, 2, 15, 44), (7, 2, 3, 3), (2, 2), (1, 3), (3, 2)),
    "groups": Case((2, 6, 8, 25), (27, 2, 3, 3), (1, 1), (1, 1), (1, 1), 3),
    "depthwise": Case((2, 5, 8, 25), (5, 1, 3, 3), (1, 1), (1, 1), (1, 1), 5),
    "many channels": Case((5, 70, 4, 18), (50, 70, 2, 2), (1, 1), (0, 1), (1, 1)),
    "many rows": Case((1, 2, 700, 9), (8, 2, 3, 3), (1, 1), (1, 1), (1, 1)),
    "gaps": Case((2, 2, 9, 40), (8, 2, 1, 2), (3, 3), (0, 0), (1, 1)),
    "few positions": Case((2, 3, 3, 4), (15, 3, 2, 2), (1, 1), (0, 0), (1, 1)),
    "one position": Case((4, 3, 5, 5), (16, 3, 5, 5), (1, 1), (0, 0), (1, 1)),
}


@pytest.fixture(autouse=True, params=[1, 3])
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = get_num_threads()
    set_num_threads(request.param)
    yield
    set_num_threads(before)


@pytest.fixture
def calls(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the library functions that are called."""
    found: list[str] = []

    def noting(name: str, function: Callable[..., None]) -> Callable[..., None]:
        return lambda *arguments: (found.append(name), function(*arguments))[1]  # type: ignore[func-returns-value]

    for each in ("gradcore_correlate", "gradcore_sum_windows"):
        for char in "fd":
            function = noting(each, compiled._function(each, char))
            monkeypatch.setitem(compiled._functions, (each, char), function)
    return found


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def agree(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1e-3)
    np.testing.assert_allclose(found, expected, 0, TOLERANCE[expected.dtype.name] * scale)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_three_maps(compiled: Any, calls: list[str], case: Case, dtype: str) -> None:
    """The output, and both gradients; also of arrays that are not contiguous."""
    x, weight, grad = draw(case.x, dtype), draw(case.weight, dtype, 1), draw(case.output, dtype, 2)
    settings = case.stride, case.padding, case.dilation, case.groups
    sizes = case.x[2:], case.weight[2:]
    expected = (
        portable(np).conv(x, weight, *settings),
        portable(np).conv_input(grad, weight, sizes[0], *settings),
        portable(np).conv_weight(x, grad, sizes[1], *settings),
    )
    for a, b, c in ((x, weight, grad), [np.asfortranarray(each) for each in (x, weight, grad)]):
        agree(compiled.conv(a, b, *settings), expected[0])
        agree(compiled.conv_input(c, b, sizes[0], *settings), expected[1])
        agree(compiled.conv_weight(a, c, sizes[1], *settings), expected[2])
    assert calls


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_outputs(compiled: Any, calls: list[str], monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """From a single position on, also where few lanes of registers have something to do."""
    monkeypatch.setattr(compiled_convolution, "_USED", 0)
    settings = (1, 1), (0, 0), (1, 1), 1
    for width in range(1, 10):
        x, weight = draw((2, 3, 2, width + 1), dtype), draw((15, 3, 2, 2), dtype, 1)
        agree(compiled.conv(x, weight, *settings), portable(np).conv(x, weight, *settings))
    assert calls == ["gradcore_correlate"] * 9


@pytest.mark.sampled(16)
def test_random_settings(compiled: Any, calls: list[str]) -> None:
    random = np.random.default_rng(5)
    for seed in range(150):
        n = int(random.integers(1, 4))
        kernel, stride, dilation, padding = (
            tuple(map(int, random.integers(low, high, n))) for low, high in ((1, 5), (1, 4), (1, 3), (0, 4))
        )
        more = random.integers(0, 50 if n == 1 else 12, n)
        size = [d * (k - 1) + 1 + int(m) for d, k, m in zip(dilation, kernel, more, strict=True)]
        (images, groups, channels), outputs = map(int, random.integers(1, 4, 3)), int(random.integers(1, 40))
        shapes = (images, channels * groups, *size), (outputs * groups, channels, *kernel)
        case = Case(*shapes, stride, padding, dilation, groups)
        x, weight, grad = draw(case.x, "float32", seed), draw(case.weight, "float32"), draw(case.output, "float32")
        settings = stride, padding, dilation, groups
        agree(compiled.conv(x, weight, *settings), portable(np).conv(x, weight, *settings))
        gradient = portable(np).conv_input(grad, weight, size, *settings)
        agree(compiled.conv_input(grad, weight, size, *settings), gradient)
        gradient = portable(np).conv_weight(x, grad, kernel, *settings)
        agree(compiled.conv_weight(x, grad, kernel, *settings), gradient)
    assert set(calls) == {"gradcore_correlate", "gradcore_sum_windows"}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_for_programs(compiled: Any, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """Programs in C++ pass addresses to C functions, which compute what the built-in functions do."""
    case, char = CASES["many channels"], np.dtype(dtype).char
    x, weight, grad = draw(case.x, dtype), draw(case.weight, dtype, 1), draw(case.output, dtype, 2)
    settings = case.stride, case.padding, case.dilation, case.groups
    kernel = case.weight[2:]
    expected = compiled.conv(x, weight, *settings), compiled.conv_weight(x, grad, kernel, *settings)
    ran = []

    def use(name: str) -> None:
        function = getattr(compiled.library, f"gradcore_program_{name}_{char}")

        def call(threads: int, geometry: Any, *arrays: Any) -> None:
            ran.append(name)
            image, output, *spatial = (step // arrays[-1].itemsize for step in arrays[-1].strides)
            steps = np.array([image, output, *[0] * (3 - len(spatial)), *spatial], np.int64)
            inputs = (geometry, steps, *arrays) if name == "correlate" else (geometry, *arrays)
            function(ctypes.c_int64(threads), *[ctypes.c_void_p(a.ctypes.data) for a in inputs])

        monkeypatch.setitem(compiled._functions, (f"gradcore_{name}", char), call)

    use("correlate")
    use("sum_windows")
    np.testing.assert_array_equal(compiled.conv(x, weight, *settings), expected[0])
    np.testing.assert_array_equal(compiled.conv_weight(x, grad, kernel, *settings), expected[1])
    assert ran == ["correlate", "sum_windows"]


def test_results_do_not_depend_on_threads(compiled: Any) -> None:
    case = CASES["many channels"]
    x, weight, grad = draw(case.x, "float32"), draw(case.weight, "float32", 1), draw(case.output, "float32", 2)
    settings = case.stride, case.padding, case.dilation, case.groups
    found = []
    for threads in (1, 2, 5):
        set_num_threads(threads)
        found.append((compiled.conv(x, weight, *settings), compiled.conv_weight(x, grad, (2, 2), *settings)))
    for others in found[1:]:
        for a, b in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_infinity_stays_where_it_belongs(compiled: Any, calls: list[str], value: float) -> None:
    """Positions between rows are not part of any sum."""
    case = CASES["plain"]
    x, weight, grad = draw(case.x, "float32"), draw(case.weight, "float32", 1), draw(case.output, "float32", 2)
    settings = case.stride, case.padding, case.dilation, case.groups
    x[1, 2, 4, 39] = x[0, 0, 0, 0] = value
    agree(compiled.conv(x, weight, *settings), portable(np).conv(x, weight, *settings))
    x[...], grad[0, 3, 4, 39] = draw(case.x, "float32"), value
    found = compiled.conv_weight(x, grad, (3, 3), *settings)
    agree(found, portable(np).conv_weight(x, grad, (3, 3), *settings))
    assert np.isfinite(np.delete(found, 3, 0)).all()
    assert len(calls) == 2


def test_what_is_left_to_numpy(compiled: Any, calls: list[str]) -> None:
    """Other dtypes, empty arrays, products, and what would leave most lanes of the CPU without work."""
    settings = (1, 1), (0, 0), (1, 1), 1
    for x, weight in [
        (np.ones((2, 3, 5, 5), complex), np.ones((4, 3, 2, 2), complex)),
        (np.ones((0, 3, 5, 5)), np.ones((4, 3, 2, 2))),
        (np.ones((2, 3, 5, 5)), np.ones((16, 3, 1, 1))),
        (np.ones((2, 3, 5, 5)), np.ones((4, 3, 5, 5))),  # one position
    ]:
        agree_all = portable(np).conv(x, weight, *settings)
        np.testing.assert_array_equal(compiled.conv(x, weight, *settings), agree_all)
    x = np.ones((2, 3, 5, 5), np.float32)
    for outputs, kernel in ((2, (2, 2)), (16, (1, 1))):
        grad = np.ones((2, outputs, *(6 - k for k in kernel)), np.float32)
        gradient = portable(np).conv_weight(x, grad, kernel, *settings)
        np.testing.assert_array_equal(compiled.conv_weight(x, grad, kernel, *settings), gradient)
    assert not calls


def test_settings_are_remembered(compiled: Any) -> None:
    case = CASES["strided"]
    x, weight = draw(case.x, "float32"), draw(case.weight, "float32", 1)
    compiled_convolution._geometry.cache_clear()
    for _ in range(3):
        compiled.conv(x, weight, case.stride, case.padding, case.dilation, case.groups)
    assert compiled_convolution._geometry.cache_info()[:2] == (2, 1)
