"""Steps of optimisers by loops are those of the formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.codegen.optimizer import OptimizerKernels
from tests.cuda.test_optimizer_kernels import OPTIMIZERS

MORE: dict[str, Any] = {
    **OPTIMIZERS,
    "SGD with another momentum": lambda p: gc.optim.SGD(p, lr=0.3, momentum=0.123),
    "Adam with other betas": lambda p: gc.optim.Adam(p, lr=0.02, betas=(0.5, 0.6), eps=1e-3),
    "AdamW with amsgrad": lambda p: gc.optim.AdamW(p, lr=0.01, amsgrad=True),
    "Adam that counts in arrays": lambda p: gc.optim.Adam(p, lr=0.01, capturable=True),
    "ASGD": lambda p: gc.optim.ASGD(p, lr=0.1),
    "Rprop": lambda p: gc.optim.Rprop(p, lr=0.1),
}
#: For whose options the library has loops.
HAVE_LOOPS = [
    name for name in MORE if "everything" not in name and name not in ("SGD upwards", "Adam that counts in arrays")
]
SHAPES = [(3, 4), (5,), (), (300, 401), (1, 1)]


def trained(device: str, optimizer: str, dtype: Any, transposed: bool = False) -> list[Any]:
    rng = np.random.default_rng(0)
    start = [rng.standard_normal(shape) for shape in SHAPES]
    params = [gc.tensor(a, dtype=dtype, device=device) for a in start]
    params = [(p.t().contiguous().t() if transposed and p.ndim == 2 else p).requires_grad_() for p in params]
    made = MORE[optimizer](params)
    for step in range(7):
        made.param_groups[0]["lr"] *= 0.9  # numbers may change from step to step
        for i, (p, a) in enumerate(zip(params, start, strict=True)):
            p.grad = gc.tensor(np.cos((step + 1) * a + i), dtype=dtype, device=device)
        made.step()
    states = [made.state[p] for p in params]
    kept = [v for state in states for v in state.values() if isinstance(v, gc.Tensor) and v.ndim]
    return [t.detach().cpu().double().numpy() for t in (*params, *kept)]


@pytest.fixture
def compute_by_loop(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each step had a loop."""
    had: list[bool] = []
    find = OptimizerKernels.find

    def noting(self: Any, *call: Any) -> Any:
        found = find(self, *call)
        had.append(found is not None)
        return found

    monkeypatch.setattr(OptimizerKernels, "find", noting)
    return had


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("optimizer", MORE)
def test_steps_are_those_of_numpy(compute_by_loop: list[bool], optimizer: str, dtype: str) -> None:
    kind, tolerance = getattr(gc, dtype), {"float32": 2e-6, "float64": 1e-14}[dtype]
    for a, b in zip(trained("cpu", optimizer, kind), trained("compiled", optimizer, kind), strict=True):
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)
    assert compute_by_loop.count(True) >= 5 or optimizer not in HAVE_LOOPS


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_other_dtypes_and_layouts(compiled: Any, dtype: str) -> None:
    kind, tolerance = getattr(gc, dtype), {"float16": 1e-2, "float32": 2e-6}[dtype]
    there = trained("compiled", "Adam", kind, True)
    for a, b in zip(trained("cpu", "Adam", kind, True), there, strict=True):
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


def test_a_number_that_decides_is_another_loop(compute_by_loop: list[bool]) -> None:
    """Momentum of zero is another formula than momentum: the loop of one is not taken for the other."""
    results = []
    for momentum in (0.9, 0.0, 0.9):
        p = gc.ones(20_000, device="compiled", requires_grad=True)
        optimizer = gc.optim.SGD([p], lr=0.1, momentum=momentum)
        for _ in range(3):
            p.grad = gc.ones_like(p)
            optimizer.step()
        results.append(p[0].item())
    assert results == pytest.approx([1 - 0.1 * (1 + 1.9 + 2.71), 0.7, 1 - 0.1 * (1 + 1.9 + 2.71)])
    assert sum(compute_by_loop) >= 6


def test_formulas_of_others_are_left_alone(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user's formula does with its settings is not known."""
    monkeypatch.setattr(OptimizerKernels, "find", lambda *_: pytest.fail("looked for a loop"))

    def formula(F: Any, p: Any, g: Any, lr: float) -> None:
        p -= g * lr

    from gradcore.backends.portable.optimizers import Batch

    batch = Batch([np.ones(5, "f4")], [])
    batch.grads = [np.ones(5, "f4")]
    compiled.optimizer_step(formula, batch, {"lr": 0.5})
    np.testing.assert_array_equal(batch.params[0], 0.5)
