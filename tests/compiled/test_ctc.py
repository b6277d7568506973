"""Compiled kernels of connectionist temporal classification give what NumPy's and the formulas give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcore import get_num_threads, set_num_threads
from gradcore.backends.numpy.backend import NumpyBackend
from tests.backends.recurrent_calls import PORTABLE, TOLERANCE

CALLS: list[tuple[int, int, int, int]] = [(1, 1, 2, 1), (5, 3, 4, 3), (12, 7, 9, 11), (40, 2, 30, 25), (3, 70, 3, 5)]


def arguments(steps: int, batch: int, classes: int, positions: int, dtype: str) -> tuple[Any, ...]:
    """Losses' arguments: labels between blanks, some of them equal, and sequences of several lengths."""
    random = np.random.default_rng(0)
    scores = random.normal(size=(steps, batch, classes))
    log_probs = (scores - np.log(np.exp(scores).sum(2, keepdims=True))).astype(dtype)
    labels = np.zeros((batch, positions), "int64")
    labels[:, 1::2] = random.integers(1, min(classes, 4), (batch, positions // 2))
    counts = random.integers(1, steps + 1, (batch, 1))
    number = random.integers(0, positions // 2 + 1, (batch, 1))
    places = np.arange(positions)
    return log_probs, labels, (places == 2 * number) | (places == 2 * number - 1), counts, 0


def _both(compiled: Any) -> tuple[Any, Any]:
    return compiled, NumpyBackend()


@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [1, 2])
def test_losses_and_gradients(compiled: Any, call: tuple[int, int, int, int], dtype: str, threads: int) -> None:
    *arrays, blank = arguments(*call, dtype)
    before = get_num_threads()
    set_num_threads(threads)
    expected = PORTABLE.ctc_losses(*arrays, blank)
    grad = np.random.default_rng(1).normal(size=len(expected[0])).astype(dtype)
    grad[expected[0] > 1e29] = 0
    wanted = PORTABLE.ctc_losses_backward(grad, None, *arrays, *expected, blank)
    try:
        for backend in _both(compiled):
            losses, alphas = backend.ctc_losses(*arrays, blank)
            np.testing.assert_allclose(losses, expected[0], rtol=TOLERANCE[dtype])
            reached = expected[1] > -1e29
            np.testing.assert_allclose(alphas[reached], expected[1][reached], rtol=TOLERANCE[dtype])
            assert (alphas[~reached] < -1e29).all()
            back = backend.ctc_losses_backward(grad, None, *arrays, *expected, blank)
            np.testing.assert_allclose(back, wanted, rtol=0, atol=5 * TOLERANCE[dtype])
    finally:
        set_num_threads(before)


def test_zeros_and_special_numbers(compiled: Any) -> None:
    *arrays, blank = arguments(9, 3, 5, 5, "float64")
    arrays[3][:] = 9
    arrays[0][4, 0, 1:], arrays[0][5, 1, 0] = -np.inf, np.nan
    for backend in _both(compiled):
        losses, alphas = backend.ctc_losses(*arrays, blank)
        grad = np.where(losses > 1e29, 0.0, 1.0)
        back = backend.ctc_losses_backward(grad, None, *arrays, losses, alphas, blank)
        assert not np.isnan(losses[[0, 2]]).any()
        assert not np.isnan(back[:, [0, 2]]).any()
        assert np.isnan(losses[1])


def test_labels_that_are_no_classes(compiled: Any) -> None:
    *arrays, blank = arguments(5, 3, 4, 3, "float32")
    for label in (4, 1 << 40, -5):
        arrays[1][0, 1] = label
        for backend in _both(compiled):
            with pytest.raises((IndexError, RuntimeError)):
                backend.ctc_losses(*arrays, blank)
