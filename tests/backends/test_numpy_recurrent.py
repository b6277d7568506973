"""NumPy's kernels of recurrent layers give what the portable ones give."""

import numpy as np
import pytest

from gradcore.backends.numpy.backend import NumpyBackend
from tests.backends.recurrent_calls import KINDS, SHAPES, compare

BACKEND = NumpyBackend()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_results_and_gradients(kind, shape):
    compare(BACKEND, kind, shape, "float64")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("used", ["result", "states"])
def test_gradients_of_some_outputs(kind, used):
    compare(BACKEND, kind, SHAPES[7], "float32", used)


@pytest.mark.parametrize("kind", KINDS)
def test_gates_that_are_open_or_closed(kind):
    with np.errstate(over="ignore"):
        compare(BACKEND, kind, SHAPES[3], "float32", scale=30.0)
