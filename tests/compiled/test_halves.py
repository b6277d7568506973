"""Loops of float32 on arrays of halves against NumPy's kernels and the conversions around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.compiled.halves import CompiledHalves

OPERATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sums": lambda x, y, z: (x + y, x - y, 1 - x),
    "products": lambda x, y, z: (x * y, x * 2.5, x * gc.tensor(2.0, device=x.device), gc.addcmul(x, x, y)),
    "functions": lambda x, y, z: (x.square(), -x, x.abs(), x.relu(), x.clamp(-1, 1), x**2, gc.lerp(x, y, 0.3)),
    "float32": lambda x, y, z: (x * z, z + y),
}
LEFT: dict[str, Callable[[Any, Any, Any], Any]] = {
    "integers": lambda x, y, z: (x * gc.arange(x.numel(), device=x.device).reshape(x.shape),),
    "masks": lambda x, y, z: (gc.where(z > 0, x, y),),
    "layouts": lambda x, y, z: (x[:, ::2] + y[:, ::2],),
    "broadcast": lambda x, y, z: (x + y[:1],),
    "comparisons": lambda x, y, z: (x > y,),
    "settings": lambda x, y, z: (gc.add(x, y, alpha=2.25),),
}


def operands(dtype: Any, device: str) -> list[Any]:
    random = np.random.default_rng(0)
    x, y, z = (random.standard_normal((67, 47), dtype=np.float32) * 3 for _ in range(3))
    x[0, :5] = np.nan, np.inf, -np.inf, 1e-7, 65504
    y[1, :3] = 0, -0.0, 3e38
    return [gc.tensor(a, device=device).to(kind) for a, kind in ((x, dtype), (y, dtype), (z, gc.float32))]


@pytest.fixture
def loops(compiled: Any, new_kernels: None, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that collects the loops that run on halves."""
    found: list[Any] = []
    run = CompiledHalves._run_on_halves
    monkeypatch.setattr(compiled, "LARGE", 1000)

    def noting(self: Any, *args: Any) -> None:
        found.append(args[0])
        run(self, *args)

    monkeypatch.setattr(CompiledHalves, "_run_on_halves", noting)
    return found


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16], ids=str)
@pytest.mark.parametrize("name", [*OPERATIONS, *LEFT])
def test_results_are_the_same(loops: list[Any], name: str, dtype: Any, threads: int) -> None:
    before = gc.get_num_threads()
    gc.set_num_threads(threads)
    try:
        function = OPERATIONS.get(name) or LEFT[name]
        results = function(*operands(dtype, "compiled"))
        count = len(loops)
        for found, expected in zip(results, function(*operands(dtype, "cpu")), strict=True):
            assert found.dtype is expected.dtype
            assert gc.equal(found.float().cpu().isnan(), expected.float().isnan())
            assert gc.equal(found.float().cpu().nan_to_num(), expected.float().nan_to_num())
        assert count == (len(results) if name in OPERATIONS else 0)
    finally:
        gc.set_num_threads(before)


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16], ids=str)
def test_gradients_are_the_same(loops: list[Any], dtype: Any) -> None:
    for device in ("compiled", "cpu"):
        x, y, _ = (t.nan_to_num(0, 1, -1).requires_grad_() for t in operands(dtype, device))
        (x * y + x.tanh()).float().sum().backward()
        if device == "compiled":
            found = [x.grad.cpu(), y.grad.cpu()]
    assert loops
    assert gc.equal(found[1], y.grad)
    assert gc.allclose(found[0].float(), x.grad.float(), rtol=1e-2)
