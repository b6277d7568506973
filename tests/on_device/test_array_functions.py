"""NumPy's and CuPy's functions of tensors on the device: results stay there, and equal those of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
import gradcore.numpy as gnp
from tests.numpy_calls import CALLS, METHODS, drawn, lines

EXPRESSIONS = [
    f"np.{name}({call})" for text in (CALLS, METHODS) for name, calls in lines(text).items() for call in calls
]
#: Made of numbers or of the host's memory.
HOST = ("from_dlpack", "frombuffer", "fromfile", "fromstring", "fromiter", "einsum_path", "empty")
LOOSE = ("argpartition", "unique_values", "linalg.eig", "linalg.qr", "linalg.svd", "linalg.eigh")


def _tensors(value: Any) -> list[gc.Tensor]:
    if isinstance(value, gc.Tensor):
        return [value]
    return [t for each in value for t in _tensors(each)] if isinstance(value, (tuple, list)) else []


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_results_are_those_of_the_cpu(expression: str, device: str) -> None:
    name = expression[3 : expression.index("(")]
    if name in HOST or "np.array" in expression or "np.eye" in expression or "where=" in expression:
        pytest.skip("has arrays on the host among its arguments")

    def run(where: str) -> list[gc.Tensor]:
        values = {k: v if k in ("A0", "F64") else gc.tensor(v, device=where) for k, v in drawn().items()}
        with gc.device(where):
            return _tensors(eval(expression, {"np": gnp, **values}))

    found, wanted = run(device), run("cpu")
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.device.type == gc.device(device).type
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if name not in LOOSE:
            digits = {2: 1e-2, 4: 1e-4}.get(theirs.dtype.itemsize, 1e-7) if theirs.dtype.is_floating_point else 1e-7
            a, b = (t.detach().cpu().resolve_conj().numpy() for t in (ours, theirs))
            np.testing.assert_allclose(a, b, rtol=digits, atol=digits)


def test_cupys_universal_functions_are_recorded(device: str) -> None:
    cupy = pytest.importorskip("cupy")
    x = gc.tensor([0.5, 1.0], device=device, requires_grad=True)
    y = cupy.sin(x)
    assert isinstance(y, gc.Tensor)
    assert y.device == x.device
    y.sum().backward()
    assert gc.allclose(x.grad, x.detach().cos())
    assert cupy.add(cupy.ones(2, dtype="f4"), x).requires_grad
    assert cupy.exp(x, dtype="f8").dtype is gc.float64
    double = cupy.ElementwiseKernel("T x", "T y", "y = x * 2", "gradcore_test_double")
    assert isinstance(double(x.detach()), cupy.ndarray)
    for call in (lambda: double(x), lambda: cupy.concatenate([x, x]), lambda: cupy.cumsum(x), lambda: cupy.asarray(x)):
        with pytest.raises((RuntimeError, TypeError)):
            call()
