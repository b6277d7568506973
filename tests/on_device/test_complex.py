"""Functions of complex numbers that CuPy computes otherwise than NumPy: no operation leaves them to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.codegen.emit_cuda import OF_COMPLEX
from tests.on_device.comparing import outcome
from tests.on_device.test_operations import computed
from tests.ops.cases import ALL

cupy = pytest.importorskip("cupy")

#: Operations whose quotients are in functions of CuPy and of its libraries.
OF_LIBRARIES = {"det", "linalg_det", "linalg_slogdet", "logdet", "recursive_filter", "slogdet"}
NAMES = sorted({case.op.name for case in ALL} - OF_LIBRARIES)


def functions() -> dict[str, Any]:
    """CuPy's functions of these names."""
    return {name: getattr(cupy, {"divide": "true_divide"}.get(name, name)) for name in OF_COMPLEX}


def launched(function: Any) -> bool:
    """Whether a function of CuPy was run on complex numbers; quotients by a number of Python are left to it."""
    last = function.nin - 1
    return any(
        any(d.kind == "c" for d in (*op.in_types, *op.out_types)) and kinds[last].type is cupy.ndarray
        for _, op, kinds, *_ in function._kernel_memo
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_no_formula_runs_them(name: str, fused: bool) -> None:
    for function in functions().values():
        function._kernel_memo.clear()
    for case in (case for case in ALL if case.op.name == name):
        outcome(computed, case, gc.complex64, False, "cuda")
    assert [n for n, function in functions().items() if launched(function)] == []


def test_a_loss_far_from_zero(fused: bool) -> None:
    x = np.array([100, -100, 1e4, -1e30, 88 + 88j, 0.5 + 100j, -2 - 2j])
    for dtype in (gc.complex64, gc.complex128):
        found = []
        for device in ("cpu", "cuda"):
            given = gc.tensor(x, dtype=dtype, device=device, requires_grad=True)
            target = gc.tensor(np.array([1, 1, 0, 1, 1, 0, 1]), dtype=dtype, device=device)
            out = gc.nn.functional.soft_margin_loss(given[:, None], target[:, None], reduction="none")
            found.append(gc.autograd.grad(out, given, gc.ones_like(out))[0].cpu().numpy())
        assert np.isfinite(found[0]).all()
        np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-30)
