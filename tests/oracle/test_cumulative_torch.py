"""Complex `logcumsumexp` of special values against PyTorch."""

import itertools

import numpy as np
import pytest

import gradcore as gc

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

PARTS = (-np.inf, np.inf, np.nan, 1.0, -2.0)


@pytest.mark.parametrize("imaginary", [0.0, 0.5, np.nan])
def test_logcumsumexp_of_special_values(imaginary: float) -> None:
    for parts in itertools.product(PARTS, repeat=3):
        x = np.empty(3, np.complex128)
        x.real, x.imag = parts, (0, imaginary, 0)
        found, expected = gc.logcumsumexp(gc.tensor(x), 0).numpy(), torch.logcumsumexp(torch.tensor(x), 0).numpy()
        np.testing.assert_allclose(found.real, expected.real, err_msg=str(x))
        if np.isfinite(expected).all():
            np.testing.assert_allclose(found, expected, err_msg=str(x))
