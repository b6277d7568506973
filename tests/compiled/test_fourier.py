"""Fourier transforms of many lines: sizes, numbers of lines, layouts, dims, norms, weights, threads and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft

import gradcore as gc
from gradcore import set_num_threads
from gradcore.backends.compiled import calls
from gradcore.backends.numpy.backend import NumpyBackend
from tests.compiled.conftest import Ran

PLAIN = NumpyBackend()
#: Sizes of complex lines, with each radix as the first, as a later and as the last one.
SIZES = [1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 16, 24, 25, 27, 32, 40, 60, 64, 100, 128, 240, 512]
#: Numbers of lines: full parts of 16, and incomplete registers of each width.
LINES = [16, 17, 19, 24, 31, 33]
NORMS = ["backward", "forward", "ortho"]
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "columns": lambda x: np.asfortranarray(x),
    "every second": lambda x: np.repeat(x, 2, -1)[..., ::2],
    "repeated": lambda x: np.broadcast_to(x[:1], x.shape),
    "unaligned": lambda x: np.frombuffer(b"0" + x.tobytes(), x.dtype, offset=1).reshape(x.shape),
}


def draw(shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else x).astype(dtype)


def assert_close(found: Any, expected: Any, tolerance: float) -> None:
    """Compare with a result in double precision, by the norm of the errors of each array."""
    assert found.shape == expected.shape
    assert found.flags.c_contiguous
    assert np.linalg.norm(found - expected) <= tolerance * np.linalg.norm(expected)


@pytest.mark.parametrize("char", "fd")
def test_sizes(compiled: Any, ran: Ran, char: str) -> None:
    real, complex_ = ("float32", "complex64") if char == "f" else ("float64", "complex128")
    tolerance = 2e-7 if char == "f" else 6e-16
    for i, n in enumerate(SIZES):
        lines = LINES[i % len(LINES)]
        z, x, half = draw((lines, n), complex_), draw((lines, 2 * n), real), draw((lines, n + 1), complex_)
        exact = z.astype("D"), x.astype("d"), half.astype("D")
        columns = np.ascontiguousarray(z.T)
        assert_close(compiled.fft_c2c(z, (1,), "backward", True), scipy.fft.fft(exact[0]), tolerance)
        assert_close(compiled.fft_c2c(z, (1,), "backward", False), scipy.fft.ifft(exact[0]), tolerance)
        assert_close(compiled.fft_c2c(columns, (0,), "ortho", True), scipy.fft.fft(exact[0], norm="ortho").T, tolerance)
        assert_close(
            compiled.fft_c2c(columns, (0,), "ortho", False), scipy.fft.ifft(exact[0], norm="ortho").T, tolerance
        )
        assert_close(compiled.fft_r2c(x, (1,), "forward", True), scipy.fft.rfft(exact[1], norm="forward"), tolerance)
        assert_close(compiled.fft_r2c(x, (1,), "ortho", False), scipy.fft.fft(exact[1], norm="ortho"), tolerance)
        assert_close(
            compiled.fft_c2r(half, (1,), "forward", 2 * n),
            scipy.fft.irfft(exact[2], norm="forward", n=2 * n),
            tolerance,
        )
    names = [("complex_transforms", char)] * 4 + [("half_spectra", char)] * 2 + [("real_lines", char)]
    assert ran == names * len(SIZES)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((20, 12), (1,)),
        ((3, 16, 24), (1, 2)),
        ((3, 16, 24), (2, 1)),
        ((2, 10, 3, 36), (1, 3)),
        ((4, 5, 6, 34), (0, 1, 2)),
    ],
)
def test_dims_and_norms(compiled: Any, ran: Ran, shape: tuple[int, ...], dims: tuple[int, ...], norm: str) -> None:
    z = draw(shape, "complex128")
    for forward in (True, False):
        expected = PLAIN.fft_c2c(z, dims, norm, forward)
        assert_close(compiled.fft_c2c(z, dims, norm, forward), expected, 1e-15)
    assert {name for name, _ in ran} == {"complex_transforms"}
    ran.clear()
    if dims[-1] != len(shape) - 1:
        return
    x = draw((*shape[:-1], 36), "float64")
    half = draw((*shape[:-1], 19), "complex128")
    for name, value, *settings in (
        ("fft_r2c", x, True), ("fft_r2c", x, False), ("fft_doubled", x), ("fft_c2r", half, 36),
        ("fft_mirrored", half, 36),
    ):  # fmt: skip
        kept = value.copy()
        expected = getattr(PLAIN, name)(value, dims, norm, *settings)
        assert_close(getattr(compiled, name)(value, dims, norm, *settings), expected, 1e-15)
        np.testing.assert_array_equal(value, kept)
    assert ("half_spectra", "d") in ran
    assert ("real_lines", "d") in ran


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(compiled: Any, ran: Ran, layout: str) -> None:
    z, x = LAYOUTS[layout](draw((18, 9), "complex64")), LAYOUTS[layout](draw((18, 20), "float32"))
    assert_close(compiled.fft_c2c(z, (1,), "backward", True), PLAIN.fft_c2c(z, (1,), "backward", True), 3e-7)
    assert_close(compiled.fft_r2c(x, (1,), "backward", True), PLAIN.fft_r2c(x, (1,), "backward", True), 3e-7)
    assert_close(compiled.fft_c2r(z, (1,), "backward", 16), PLAIN.fft_c2r(z, (1,), "backward", 16), 3e-7)
    assert [name for name, _ in ran] == ["complex_transforms", "half_spectra", "real_lines"]


@pytest.mark.parametrize(
    ("kernel", "shape", "dtype", "arguments"),
    [
        ("fft_c2c", (20, 14), "complex64", ((1,), "ortho", True)),
        ("fft_c2c", (15, 16), "complex64", ((1,), "ortho", True)),
        ("fft_c2c", (20, 16, 3), "complex64", ((1,), "ortho", True)),
        ("fft_c2c", (0, 16), "complex64", ((1,), "ortho", True)),
        ("fft_c2c", (16, 1 << 14), "complex64", ((1,), "ortho", True)),
        ("fft_r2c", (20, 15), "float32", ((1,), "ortho", True)),
        ("fft_r2c", (20, 15), "float32", ((1,), "ortho", False)),
        ("fft_r2c", (16, 20), "float32", ((0,), "ortho", True)),
        ("fft_r2c", (20, 16, 8), "float16", ((2,), "ortho", True)),
        ("fft_c2r", (20, 8), "complex64", ((1,), "ortho", 15)),
        ("fft_c2r", (20, 9), "complex64", ((1,), "ortho", 12)),
        ("fft_c2r", (9, 20), "complex64", ((0,), "ortho", 16)),
    ],
)
def test_others_are_left_to_scipy(
    compiled: Any, ran: Ran, kernel: str, shape: tuple[int, ...], dtype: str, arguments: tuple[Any, ...]
) -> None:
    x = draw(shape, dtype) if 0 not in shape else np.empty(shape, dtype)
    try:
        expected = getattr(PLAIN, kernel)(x, *arguments)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)):
            getattr(compiled, kernel)(x, *arguments)
    else:
        found = getattr(compiled, kernel)(x, *arguments)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    assert not ran


def test_imaginary_parts_without_a_mirror_image_have_no_effect(compiled: Any, ran: Ran) -> None:
    half = draw((16, 9), "complex128")
    changed = half.copy()
    changed[:, [0, -1]] += 3j
    for name in ("fft_c2r", "fft_mirrored"):
        kernel = getattr(compiled, name)
        np.testing.assert_array_equal(kernel(changed, (1,), "ortho", 16), kernel(half, (1,), "ortho", 16))
    assert len(ran) == 4


def test_numbers_without_a_mirror_image_have_no_signed_zeros(compiled: Any, ran: Ran) -> None:
    x = np.concatenate([-np.ones((16, 16)), draw((16, 16), "float64"), np.full((16, 16), np.inf)])
    for name, *settings in (("fft_r2c", True), ("fft_doubled",)):
        edges = getattr(compiled, name)(x, (1,), "ortho", *settings)[:, [0, -1]].imag
        np.testing.assert_array_equal(edges, 0)
        assert not np.signbit(edges).any()
    assert len(ran) == 2


def test_a_line_that_is_not_finite_leaves_others_unchanged(compiled: Any) -> None:
    x = draw((18, 32), "float32")
    expected = compiled.fft_r2c(x, (1,), "ortho", True)
    for value in (np.inf, np.nan):
        x[5, 3] = value
        found = compiled.fft_r2c(x, (1,), "ortho", True)
        assert not np.isfinite(found[5]).any()
        np.testing.assert_array_equal(np.delete(found, 5, 0), np.delete(expected, 5, 0))


def test_several_threads(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "WORTH_A_THREAD", 256)
    x, before, results = draw((9, 40, 24), "float64"), gc.get_num_threads(), []
    for number in (1, 2, 3):
        set_num_threads(number)
        z = compiled.fft_r2c(x, (1, 2), "backward", True)
        results.append((z, compiled.fft_c2r(z, (1, 2), "backward", 24), compiled.fft_c2c(z, (1,), "ortho", False)))
    set_num_threads(before)
    for other in results[1:]:
        for found, expected in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("norm", NORMS)
def test_derivatives_of_operations(compiled: Any, ran: Ran, norm: str) -> None:
    x = gc.tensor(draw((16, 32), "float64"), device="compiled", requires_grad=True)
    w = gc.tensor(draw((16, 17), "float64"), device="compiled", requires_grad=True)

    def filtered(x: Any, w: Any) -> Any:
        return gc.fft.irfft2(gc.fft.rfft2(x, norm=norm) * w, norm=norm)

    def spectrum(x: Any) -> Any:
        return abs(gc.fft.fft2(gc.fft.fft(x, norm=norm), norm=norm))

    for function, arguments in ((filtered, (x, w)), (spectrum, (x,))):
        assert gc.autograd.gradcheck(function, arguments, fast_mode=True)
        assert gc.autograd.gradgradcheck(function, arguments, fast_mode=True)
    assert {name for name, _ in ran} >= {"complex_transforms", "half_spectra", "real_lines"}
