"""Fourier transforms that are shared among threads are those of one thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gradcore import get_num_threads, set_num_threads
from gradcore.backends.numpy import fourier
from gradcore.backends.numpy.threads import spread
from gradcore.backends.registry import CPU


@pytest.fixture(autouse=True)
def _three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(fourier, "_MANY", 1)
    before = get_num_threads()
    set_num_threads(3)
    yield
    set_num_threads(before)


@pytest.mark.parametrize(
    ("shape", "dims"),
    [((7, 12), (1,)), ((12, 7), (0,)), ((4, 6, 8), (1, 2)), ((4, 6, 8), (0, 2)), ((9, 8), (0, 1)), ((1, 30), (1,))],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_to_one_thread(shape: tuple[int, ...], dims: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(dtype)
    z = (x + 1j * rng.standard_normal(shape)).astype("complex64" if dtype == "float32" else "complex128")

    def results() -> list[np.ndarray]:
        backend = CPU.backend
        return [
            backend.fft_c2c(z, dims, "backward", True),
            backend.fft_c2c(z, dims, "ortho", False),
            backend.fft_r2c(x, dims, "backward", True),
            backend.fft_r2c(x, dims, "forward", False),
            backend.fft_c2r(z, dims, "backward", 2 * shape[dims[-1]] - 2),
        ]

    shared = results()
    set_num_threads(1)
    for found, expected in zip(shared, results(), strict=True):
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)


def test_large_transforms_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except in a thread that does a part of something already, and where there is one."""
    counts: list[int | None] = []

    def transformed(self: Any, name: str, x: Any, dims: Any, norm: str, workers: int | None, s: Any = None) -> Any:
        counts.append(workers)
        return np.fft.rfftn(x, axes=dims)

    monkeypatch.setattr(fourier.NumpyFourier, "_apply_transform", transformed)

    def transform(*_: object) -> None:
        assert CPU.backend.fft_r2c(np.ones((5, 6, 4)), (2,), "backward", True).shape == (5, 6, 3)

    transform()
    set_num_threads(1)
    transform()
    assert counts == [3, None]
    set_num_threads(2)
    spread(transform, 2)
    assert counts[2:].count(None) == 2
    monkeypatch.setattr(fourier, "_MANY", 121)
    transform()
    assert counts[4:] == [None]
