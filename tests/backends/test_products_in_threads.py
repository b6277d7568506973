"""Work with products of matrices is shared among threads, in which BLAS works alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gradcore import get_num_threads, set_num_threads
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.numpy.matmul import spread_products
from gradcore.backends.numpy.openblas import NUMPY
from gradcore.backends.registry import CPU


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = get_num_threads()
    set_num_threads(2)
    yield
    set_num_threads(before)


def blas_threads() -> int | None:
    blas = NUMPY.library
    return None if blas is None else blas[0]()


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_every_part_is_done_once(count: int) -> None:
    done = np.zeros(count)

    def work(start: int, stop: int) -> None:
        done[start:stop] += 1

    spread_products(work, count)
    assert (done == 1).all()


def test_blas_works_alone_meanwhile() -> None:
    if NUMPY.library is None:
        pytest.skip("NumPy has another BLAS")
    before = blas_threads()
    seen: list[int | None] = []

    def work(start: int, stop: int) -> None:
        seen.append(blas_threads())
        spread_products(lambda i, j: seen.append(blas_threads()), 2)

    spread_products(work, 2)
    assert set(seen) == {1}
    assert blas_threads() == before


def test_errors_arrive_and_blas_has_its_threads_again() -> None:
    before = blas_threads()

    def work(start: int, stop: int) -> None:
        raise ArithmeticError("in a thread")

    with pytest.raises(ArithmeticError, match="in a thread"):
        spread_products(work, 2)
    assert blas_threads() == before


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("value", [1.0, np.inf])
def test_images_are_shared(groups: int, value: float) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((5, 16, 40, 41)), rng.standard_normal((64, 16 // groups, 3, 3))
    x[2, 3, 20, 20] = value
    settings = ((2, 1), (1, 0), (1, 2), groups)

    def results() -> list[np.ndarray]:
        out = CPU.backend.conv(x, weight, *settings)
        finite = np.where(np.isfinite(out), out, 0)
        return [
            out,
            CPU.backend.conv_input(finite, weight, (40, 41), *settings),
            CPU.backend.conv_weight(x, finite, (3, 3), *settings),
        ]

    with np.errstate(all="ignore"):
        shared = results()
        set_num_threads(1)
        alone = results()
    for a, b in zip(shared, alone, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_batches_are_shared() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 5, 100, 60)), rng.standard_normal((3, 5, 60, 200))
    np.testing.assert_allclose(CPU.backend.matmul(a, b), np.einsum("hijk,hikl->hijl", a, b), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("layouts", ["CC", "CF", "FC", "FF", "strided"])
@pytest.mark.parametrize("shape", [(200, 130, 190), (300, 230, 190), (330, 4000, 40), (20, 400, 1700), (5, 300_000, 6)])
def test_large_products(shape: tuple[int, int, int], layouts: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    rows, inner, columns = shape
    a, b = (rng.standard_normal(s).astype(dtype) for s in ((rows, inner), (inner, columns)))
    expected = a.astype("complex128") @ b.astype("complex128")
    if layouts == "strided":
        a, b = (np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2] for x in (a, b))
    else:
        a, b = (np.asarray(x, order=order) for x, order in zip((a, b), layouts, strict=True))  # type: ignore[call-overload]
    found = CPU.backend.matmul(a, b)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, atol=inner**0.5 * (3e-5 if dtype == "float32" else 1e-12))


@pytest.mark.parametrize(
    "shapes", [((12, 90, 80), (12, 80, 100)), ((2, 15, 90, 80), (2, 15, 80, 50)), ((7, 300, 80), (80, 90))]
)
def test_large_batches(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (np.random.default_rng(0).standard_normal(shape) for shape in shapes)
    np.testing.assert_allclose(CPU.backend.matmul(a, b), np.einsum("...ij,...jk->...ik", a, b), atol=1e-9)
    a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    np.testing.assert_allclose(CPU.backend.matmul(a, b), np.einsum("...ij,...jk->...ik", a, b), atol=1e-9)


@pytest.mark.parametrize("size", [8, 64, 300])
def test_mismatch(size: int) -> None:
    a, b = np.ones((size, size)), np.ones((size + 1, size))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        CPU.backend.matmul(a, b)


def test_a_single_product_is_left_to_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    if NUMPY.library is None:
        pytest.skip("NumPy has another BLAS")
    seen: list[int | None] = []

    class Watched(np.ndarray):
        def dot(self, *others):  # type: ignore[no-untyped-def]
            seen.append(blas_threads())
            return self.view(np.ndarray).dot(*others)

    NumpyBackend().matmul(np.ones((400, 400), np.float32).view(Watched), np.ones((400, 400), np.float32))
    assert seen == [2]


@pytest.mark.parametrize(
    "work",
    [
        lambda F, x: F.matmul(x.reshape(4, 100, 400), x.reshape(4, 400, 100)),
        lambda F, x: F.sum_over(x.reshape(40, 4, 1000), (0,)),
        lambda F, x: F.sum_over(x, (1,)),
        lambda F, x: F.sum_over(x),
        lambda F, x: F.softmax_along(x[:100], 1),
        lambda F, x: F.attention(*x[:300].reshape(3, 2, 50, 400), None, 0.1),
    ],
    ids=["batch", "columns", "rows", "all", "softmax", "attention"],
)
def test_blas_uses_no_threads_of_its_own(work, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would keep cores busy that gradcore's own need."""
    if NUMPY.library is None:
        pytest.skip("NumPy has another BLAS")
    seen: list[int | None] = []
    dot = np.ndarray.dot

    class Watched(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, out=None, **named):  # type: ignore[no-untyped-def]
            if ufunc is np.matmul:
                seen.append(blas_threads())
            plain = [x.view(np.ndarray) if isinstance(x, Watched) else x for x in inputs]
            if out is not None:
                named["out"] = tuple(x.view(np.ndarray) if isinstance(x, Watched) else x for x in out)
            result = getattr(ufunc, method)(*plain, **named)
            return result.view(Watched) if isinstance(result, np.ndarray) else result

        def dot(self, *others):  # type: ignore[no-untyped-def]
            seen.append(blas_threads())
            return dot(self.view(np.ndarray), *others)

    work(NumpyBackend(), np.ones((400, 400), np.float32)[:400].view(Watched))
    assert seen
    assert set(seen) == {1}
