"""Work with products of matrices is shared among threads, in which BLAS works alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gradcore import get_num_threads, set_num_threads
from gradcore.backends.numpy.openblas import NUMPY
from gradcore.backends.numpy.products_in_threads import spread_products
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
