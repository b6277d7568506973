"""Fourier transforms: values against NumPy, derivatives with sizes, dims and norms, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from tests.ops.directions import check_derivatives, random

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL = ["fft2", "ifft2", "fftn", "ifftn", "rfft2", "irfft2", "rfftn", "irfftn"]
NORMS = [None, "backward", "ortho", "forward"]


def is_real(name: str) -> bool:
    return name.startswith(("rfft", "ihfft"))


def draw(name: str, *shape: int) -> Any:
    return random(np.random.default_rng(0), shape, "float64" if is_real(name) else "complex128")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 3, 4, 7])
@pytest.mark.parametrize("name", ONE)
def test_transforms_of_one_dim(name: str, n: int | None, norm: str | None) -> None:
    x = draw(name, 2, 5)
    function = getattr(gc.fft, name)
    for dim in (-1, 0):
        expected = getattr(np.fft, name)(x, n=n, axis=dim, norm=norm)
        found = function(gc.tensor(x), n=n, dim=dim, norm=norm)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)
        check_derivatives(lambda x, d=dim: function(x, n=n, dim=d, norm=norm), x)


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("name", SEVERAL)
def test_transforms_of_several_dims(name: str, norm: str | None) -> None:
    x = draw(name, 3, 4, 5)
    function, reference = getattr(gc.fft, name), getattr(np.fft, name)
    for s, dim in ((None, (0, 2)), ((4, 3), (2, 0)), ((2, 6), (-1, -2))):
        expected = reference(x, s=s, axes=dim, norm=norm)
        np.testing.assert_allclose(
            function(gc.tensor(x), s=s, dim=dim, norm=norm).numpy(), expected, rtol=1e-12, atol=1e-12
        )
        check_derivatives(lambda x, s=s, d=dim: function(x, s=s, dim=d, norm=norm), x)


def test_transforms_of_mirrored_signals_undo_each_other() -> None:
    x = gc.tensor(draw("rfft", 3, 4, 6))
    half = gc.fft.ihfftn(x)
    np.testing.assert_allclose(gc.fft.hfftn(half, s=x.shape).numpy(), x.numpy(), rtol=1e-12)
    np.testing.assert_allclose(gc.fft.hfft2(gc.fft.ihfft2(x)).numpy(), x.numpy(), rtol=1e-12)
    check_derivatives(lambda x: gc.fft.hfftn(x, dim=(0, 1)), draw("hfft", 3, 4))
    check_derivatives(lambda x: gc.fft.ihfftn(x, dim=(0, 1)), draw("ihfft", 3, 4))


def test_transforms_of_real_numbers_are_whole() -> None:
    x = draw("rfft", 2, 6)
    for name in ("fft", "ifft", "fftn", "ifftn"):
        found = getattr(gc.fft, name)(gc.tensor(x))
        np.testing.assert_allclose(found.numpy(), getattr(np.fft, name)(x), rtol=1e-12, atol=1e-12)
        check_derivatives(getattr(gc.fft, name), x)


@pytest.mark.parametrize(
    ("dtype", "result"),
    [(gc.float32, gc.complex64), (gc.int64, gc.complex64), (gc.complex64, gc.complex64), (gc.float64, gc.complex128)],
)
def test_precision_is_kept(dtype: gc.dtype, result: gc.dtype) -> None:
    assert gc.fft.fft(gc.ones(4, dtype=dtype)).dtype is result


def test_nodes_have_pytorchs_names() -> None:
    x = gc.ones(4, requires_grad=True)
    z = gc.fft.fft(x)
    names = [gc.fft.rfft(x), z, gc.fft.fft(z), gc.fft.ifft(z), gc.fft.irfft(z), gc.fft.hfft(z), gc.fft.ifft(x)]
    assert [t.grad_fn.name() for t in names] == [
        "FftR2CBackward0", "FftR2CBackward0", "FftC2CBackward0", "FftC2CBackward0", "FftC2RBackward0",
        "FftC2RBackward0",
        "ConjBackward0",
    ]  # fmt: skip


def test_orders_of_frequencies() -> None:
    for n in (4, 5):
        np.testing.assert_allclose(gc.fft.fftfreq(n, 0.5).numpy(), np.fft.fftfreq(n, 0.5))
        np.testing.assert_allclose(gc.fft.rfftfreq(n, 0.5).numpy(), np.fft.rfftfreq(n, 0.5))
        x = gc.arange(n)
        assert gc.fft.fftshift(x).tolist() == np.fft.fftshift(np.arange(n)).tolist()
        assert gc.fft.ifftshift(gc.fft.fftshift(x)).tolist() == x.tolist()
    assert gc.fft.fftfreq(4, dtype=gc.float64).dtype is gc.float64


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gc.fft.fft(gc.ones(3), n=0), RuntimeError, r"Invalid number of data points \(0\) specified"),
        (lambda: gc.fft.fft(gc.ones(3), norm="x"), RuntimeError, 'Invalid normalization mode: "x"'),
        (lambda: gc.fft.fft(gc.ones(3), dim=2), IndexError, "Dimension out of range"),
        (
            lambda: gc.fft.rfft(gc.ones(3, dtype=gc.complex64)),
            RuntimeError,
            "rfft expects a real input tensor, but got Complex",
        ),
        (lambda: gc.fft.fftn(gc.ones(3, 3), dim=(0, 0)), RuntimeError, "FFT dims must be unique"),
        (
            lambda: gc.fft.fftn(gc.ones(3, 3), s=(3,), dim=(0, 1)),
            RuntimeError,
            "dim and shape arguments must have the same length",
        ),
        (lambda: gc.fft.rfftn(gc.tensor(1.0)), RuntimeError, "rfftn must transform at least one axis"),
    ],
)
def test_messages(call: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
