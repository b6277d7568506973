"""Steps of optimisers as one kernel for all parameters, executed on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.fusion.batches import CHUNK, chunk_table
from tests.cuda.conftest import Fused

OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda p: gc.optim.SGD(p, lr=0.1),
    "SGD with everything": lambda p: gc.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "SGD upwards": lambda p: gc.optim.SGD(p, lr=0.1, momentum=0.5, dampening=0.3, maximize=True),
    "Adam": lambda p: gc.optim.Adam(p, lr=0.01),
    "Adam with everything": lambda p: gc.optim.Adam(p, lr=0.01, weight_decay=0.1, amsgrad=True, maximize=True),
    "AdamW": lambda p: gc.optim.AdamW(p, lr=0.01),
    "Adamax": lambda p: gc.optim.Adamax(p, lr=0.01, weight_decay=0.1),
    "NAdam": lambda p: gc.optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: gc.optim.RAdam(p, lr=0.01),
    "Adagrad": lambda p: gc.optim.Adagrad(p, lr=0.1),
    "Adadelta": lambda p: gc.optim.Adadelta(p, lr=1.0),
    "RMSprop": lambda p: gc.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
}
SHAPES = [(3, 4), (5,), (), (2, CHUNK // 2 + 3), (1, 1)]


def trained(device: str, optimizer: str, dtype: Any, steps: int = 7) -> list[Any]:
    rng = np.random.default_rng(0)
    start = [rng.standard_normal(shape) for shape in SHAPES]
    params = [gc.tensor(a, dtype=dtype, device=device, requires_grad=True) for a in start]
    made = OPTIMIZERS[optimizer](params)
    for step in range(steps):
        for i, (p, a) in enumerate(zip(params, start, strict=True)):
            p.grad = gc.tensor(np.cos((step + 1) * a + i), dtype=dtype, device=device)
        made.step()
    states = [made.state[p] for p in params]
    kept = [v for state in states for v in state.values() if isinstance(v, gc.Tensor) and v.ndim]
    return [t.detach().cpu().double().numpy() for t in (*params, *kept)]


@pytest.mark.parametrize(
    ("optimizer", "dtype"),
    [
        *((name, "float32") for name in OPTIMIZERS),
        *(("Adam with everything", dtype) for dtype in ("float64", "float16", "bfloat16")),
        *(("SGD with everything", dtype) for dtype in ("float64", "float16", "bfloat16")),
    ],
)
def test_steps_are_those_of_the_cpu(fused: Fused, optimizer: str, dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    kind = getattr(gc, dtype)
    tolerance = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 2e-5, "float64": 1e-12}[dtype]
    there = fused(lambda: trained("strict:0", optimizer, kind))
    for a, b in zip(trained("cpu", optimizer, kind), there, strict=True):
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)
    assert fused.batch.sources
    assert all("_steps" in name for name in fused.batch.sources)


def test_all_parameters_are_one_launch(fused: Fused) -> None:
    launched: list[str] = []

    def run() -> None:
        params = [gc.ones(3, device="strict:0", requires_grad=True) for _ in range(20)]
        optimizer = gc.optim.Adam(params)
        for p in params:
            p.grad = gc.ones_like(p)
        optimizer.step()
        launched.clear()
        kernel = fused.batch.library.get("fused_adam_steps_0")
        if kernel is not None:
            fused.batch.library["fused_adam_steps_0"] = lambda *a: (launched.append("adam"), kernel(*a))[1]
        optimizer.step()

    fused(run)
    assert launched == ["adam"]
    assert list(fused.batch.sources) == ["fused_adam_steps_0"]  # other step sizes need no other kernel


def test_parameters_that_are_not_contiguous(fused: Fused) -> None:
    def run(device: str) -> Any:
        p = gc.ones(3, 4, device=device).t().requires_grad_()
        p.grad = gc.ones(4, 3, device=device)
        gc.optim.SGD([p], lr=0.5).step()
        return p.detach().cpu().numpy()

    np.testing.assert_array_equal(fused(lambda: run("strict:0")), np.full((4, 3), 0.5))
    assert not fused.batch.sources


def test_the_table_of_chunks() -> None:
    table = chunk_table([1000, 2000], [50_000, 70_000], [CHUNK + 2, 3], 4)
    assert table.tolist() == [
        [1000, 50_000, 0, CHUNK], [1000 + 4 * CHUNK, 50_000 + 4 * CHUNK, CHUNK, 2], [2000, 70_000, CHUNK + 2, 3],
    ]  # fmt: skip
    assert chunk_table([], [], [], 4).shape == (0, 4)
