"""Gradients of products whose factor was broadcast: sums of products that are never in memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.numpy import fused_reductions, reductions
from gradcore.backends.numpy.fused_reductions import sums_of_products
from gradcore.backends.registry import CPU

F = CPU.backend
TOLERANCE = {"float32": 2e-6, "float64": 1e-14}
SIZES = [(3000,), (1, 3000), (70, 90), (90, 1), (5, 13, 70), (4, 1, 300), (2, 3, 5, 64), (1,)]


@pytest.fixture(autouse=True, params=[1, 2], ids="{} threads".format)
def _threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(fused_reductions, "_ROWS", 30)
    monkeypatch.setattr(fused_reductions, "_WORTH_A_THREAD", 1000)
    before = gc.get_num_threads()
    gc.set_num_threads(request.param)
    yield
    gc.set_num_threads(before)


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def broadcast_shapes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All shapes that can be broadcast to one."""
    found = list(itertools.product(*((n, 1) for n in shape)))
    return sorted({each[lead:] for each in found for lead in range(len(shape) + 1) if set(each[:lead]) <= {1}})


def agree(found: Any, x: Any, y: Any, shape: tuple[int, ...]) -> None:
    exact = F.sum_to_size(x.astype("longdouble") * y.astype("longdouble"), shape)
    scale = F.sum_to_size(abs(x.astype("longdouble") * y.astype("longdouble")), shape)
    assert (found.dtype, found.shape) == (x.dtype, shape)
    assert (abs(found - exact) <= TOLERANCE[x.dtype.name] * (scale + 1e-3)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_pair_of_shapes(size: tuple[int, ...], dtype: str) -> None:
    x = draw(size, dtype)
    done = 0
    for other, target in itertools.product(broadcast_shapes(size), repeat=2):
        y = draw(other, dtype, 1)
        agree(F.product_to_size(x, y, target), x, y, target)
        done += sums_of_products(F, x, y, target) is not None
    assert done >= 2 or size == (1,)


@pytest.mark.parametrize(
    ("other", "target"), [((70, 90), (90,)), ((70, 90), (70, 1)), ((90,), (70, 1)), ((70, 1), (90,)), ((70, 90), ())]
)
def test_what_is_done_without_the_product(other: tuple[int, ...], target: tuple[int, ...]) -> None:
    x, y = draw((70, 90), "float32"), draw(other, "float32", 1)
    found = sums_of_products(F, x, y, target)
    assert found is not None
    agree(found, x, y, target)


@pytest.mark.parametrize(
    ("size", "other", "target"),
    [((3, 1_000_000), (1_000_000,), (3, 1)), ((1_000_000, 3), (1_000_000, 1), (3,)), ((3, 1_000_000), None, (3, 1)),
     ((100_000, 64), None, (64,)), ((1_000_000,), None, ())],
)  # fmt: skip
def test_long_sums_are_precise(size: Any, other: Any, target: Any) -> None:
    """Of positive numbers that are alike, what is added in turn loses digits with every number."""
    x, y = np.full(size, 0.1, np.float32), np.full(other or size, 0.7, np.float32)
    count = x.size // int(np.prod(target))
    expected = count * float(np.float32(0.1)) * float(np.float32(0.7))
    assert abs(F.product_to_size(x, y, target) / expected - 1).max() < 2e-5


@pytest.mark.parametrize("layout", ["transposed", "every second", "expanded", "reversed"])
def test_other_layouts(layout: str) -> None:
    makers: dict[str, Any] = {
        "transposed": lambda x: np.ascontiguousarray(x.T).T,
        "every second": lambda x: np.repeat(x, 2, 1)[:, ::2],
        "expanded": lambda x: np.broadcast_to(x[:1], x.shape),
        "reversed": lambda x: x[::-1],
    }
    x, y = draw((80, 70), "float64"), draw((80, 70), "float64", 1)
    for a, b in ((makers[layout](x), y), (x, makers[layout](y)), (makers[layout](x), makers[layout](y))):
        for target in ((70,), (80, 1), (), (1, 70)):
            agree(F.product_to_size(a, b, target), a, b, target)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite(value: float) -> None:
    x, y = draw((80, 70), "float64"), draw((80, 70), "float64", 1)
    x[3, 5] = value
    with np.errstate(all="ignore"):
        for target in ((70,), (80, 1), ()):
            expected = F.sum_to_size(x * y, target)
            np.testing.assert_allclose(F.product_to_size(x, y, target), expected, rtol=1e-10)


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64, gc.complex64, gc.float16])
@pytest.mark.parametrize(
    "shapes", [((300, 200), (200,)), ((300, 1), (200,)), ((300, 200), ()), ((20, 30, 90), (30, 1))]
)
def test_gradients(shapes: Any, dtype: gc.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of small arrays' formula; float16 and complex numbers take that themselves."""
    monkeypatch.setattr(type(F), "LARGE", 1000)
    calls: list[Any] = []
    plain = reductions.sums_of_products
    monkeypatch.setattr(reductions, "sums_of_products", lambda *given: (calls.append(given), plain(*given))[1])
    a, b = (gc.randn(shape, dtype=gc.complex128 if dtype.is_complex else gc.float64).to(dtype) for shape in shapes)
    a.requires_grad_()
    b.requires_grad_()
    out = a * b
    grad = gc.randn(out.shape).to(dtype)
    found = gc.autograd.grad(out, (a, b), grad, retain_graph=True)
    assert bool(calls) == (dtype in (gc.float32, gc.float64))
    monkeypatch.setattr(type(F), "LARGE", 1 << 30)
    for first, second in zip(found, gc.autograd.grad(out, (a, b), grad), strict=True):
        gc.testing.assert_close(first, second, rtol=1e-2 if dtype is gc.float16 else 1e-4, atol=1e-2)


def test_second_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(F), "LARGE", 1)
    a, b = gc.randn(6, 5, dtype=gc.float64, requires_grad=True), gc.randn(5, dtype=gc.float64, requires_grad=True)
    assert gc.autograd.gradcheck(lambda a, b: (a * b).sin(), (a, b))
    assert gc.autograd.gradgradcheck(lambda a, b: (a * b).sin(), (a, b))
