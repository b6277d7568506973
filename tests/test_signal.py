"""Windows against SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import signal

import gradcore as gc

WINDOWS: dict[str, tuple[dict[str, Any], Any]] = {
    "bartlett": ({}, "bartlett"),
    "blackman": ({}, "blackman"),
    "cosine": ({}, "cosine"),
    "exponential": ({"tau": 2.5}, ("exponential", None, 2.5)),
    "gaussian": ({"std": 1.7}, ("gaussian", 1.7)),
    "general_cosine": ({"a": [0.4, 0.5, 0.1]}, ("general_cosine", [0.4, 0.5, 0.1])),
    "general_hamming": ({"alpha": 0.6}, ("general_hamming", 0.6)),
    "hamming": ({}, "hamming"),
    "hann": ({}, "hann"),
    "kaiser": ({"beta": 5.0}, ("kaiser", 5.0)),
    "nuttall": ({}, "nuttall"),
}


@pytest.mark.parametrize("length", [1, 2, 7, 10])
@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str, sym: bool, length: int) -> None:
    own, named = WINDOWS[name]
    found = getattr(gc.signal.windows, name)(length, sym=sym, dtype=gc.float64, **own)
    np.testing.assert_allclose(found.numpy(), signal.get_window(named, length, fftbins=not sym), atol=1e-12)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
@pytest.mark.parametrize("periodic", [True, False])
def test_functions_of_the_root(name: str, periodic: bool) -> None:
    found = getattr(gc, f"{name}_window")(9, periodic, dtype=gc.float64, requires_grad=True)
    assert found.requires_grad
    expected = getattr(gc.signal.windows, name)(9, sym=not periodic, dtype=gc.float64)
    assert found.detach().equal(expected)


def test_parameters_by_position() -> None:
    assert gc.hamming_window(5, False, 0.6, 0.4).equal(gc.signal.windows.general_hamming(5, alpha=0.6))
    assert gc.kaiser_window(5, False, beta=3.0).equal(gc.signal.windows.kaiser(5, beta=3.0))
    with pytest.raises(TypeError, match="takes window_length, periodic, beta"):
        gc.kaiser_window(5, False, 3.0, 4.0)
    with pytest.raises(TypeError, match="takes window_length, periodic"):
        gc.hann_window(5, alpha=3.0)


def test_center_of_a_window_that_is_not_symmetric() -> None:
    found = gc.signal.windows.exponential(4, center=1.0, sym=False)
    np.testing.assert_allclose(found.numpy(), np.exp(-np.abs(np.arange(4) - 1.0)), rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda w: w.hann(-1), ValueError, "hann requires non-negative window length, got M=-1"),
        (
            lambda w: w.hann(3, dtype=gc.float16),
            ValueError,
            "hann expects float32 or float64 dtypes, got: torch.float16",
        ),
        (lambda w: w.gaussian(3, std=0), ValueError, "Standard deviation must be positive, got: 0 instead."),
        (lambda w: w.exponential(3, tau=-1), ValueError, "Tau must be positive, got: -1 instead."),
        (lambda w: w.exponential(3, center=1), ValueError, "Center must be None for symmetric windows"),
        (lambda w: w.kaiser(3, beta=-1), ValueError, "beta must be non-negative, got: -1 instead."),
        (lambda w: w.general_cosine(3, a=[]), ValueError, "Coefficients cannot be empty"),
        (lambda w: w.general_cosine(3, a=1), TypeError, "Coefficients must be a list/tuple"),
        (lambda w: gc.hann_window(-1), RuntimeError, "hann_window requires non-negative window_length"),
        (lambda w: gc.hann_window(3, dtype=gc.int64), RuntimeError, "hann_window expects floating point dtypes"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(gc.signal.windows)
