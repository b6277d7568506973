"""The same comparisons on a GPU, where there is one: generated kernels, own kernels, steps of optimisers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends import registry
from gradcore.ops.declare.table import Op
from tests.cuda.test_fused_kernels import CASES, ELEMENTWISE, UNKNOWN, compare
from tests.cuda.test_optimizer_kernels import OPTIMIZERS, trained
from tests.cuda.test_own_kernels import CALLS, drawn

pytestmark = pytest.mark.cuda


@pytest.fixture(autouse=True)
def _gpu() -> Iterator[None]:
    if not gc.cuda.is_available():
        pytest.skip(f"no CUDA device: {registry.unavailable('cuda')}")
    yield
    gc.cuda.synchronize()


def _on_device(backend: Any, value: Any) -> Any:
    return backend.from_host(value) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_generated_kernels(op: Op) -> None:
    backend = registry.find("cuda")
    for case in (case for case in CASES if case.op is op):
        with np.errstate(all="ignore"):
            try:
                expected = case.expected()
            except OverflowError:  # a bound that the dtype has not, which is refused before
                continue
            slopes = case.expected_gradients() if case.differentiable and op.name not in UNKNOWN else None
        found = case.fused(backend, [_on_device(backend, a) for a in case.args])
        if found is not None:
            compare(backend.to_host(found), expected, case.label)
        if slopes is not None:
            with np.errstate(all="ignore"):
                grad, values = case.values()
            values = {n: _on_device(backend, v) for n, v in values.items()}
            pieces = case.fused_gradients(backend, (_on_device(backend, grad), values))
            for piece, slope in zip(pieces or (), slopes if pieces else (), strict=True):
                compare(backend.to_host(piece), slope, case.label)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_kernels_of_rows(name: str, dtype: str) -> None:
    data = drawn(dtype, 4 if "strided" in name else 40, 6)
    results = []
    for device in ("cpu", "cuda"):
        x = gc.tensor(data, device=device, requires_grad=True)
        y = CALLS[name](x)
        (slope,) = gc.autograd.grad(y, x, gc.tensor(drawn(dtype, *y.shape, seed=1), device=device))
        results.append([t.detach().cpu().double().numpy() for t in (y, slope)])
    tolerance = {"float16": 5e-3, "bfloat16": 5e-2, "float32": 1e-5, "float64": 1e-12}[dtype]
    for here, there in zip(*results, strict=True):
        np.testing.assert_allclose(there, here, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_of_optimizers(optimizer: str) -> None:
    for here, there in zip(trained("cpu", optimizer, gc.float32), trained("cuda", optimizer, gc.float32), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-4)
