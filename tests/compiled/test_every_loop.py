"""Every loop of the library runs, on arrays that no vector of the CPU divides, next to each other and apart."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradcore as gc
from gradcore.backends.codegen.emit_cpp import trace_loop
from gradcore.backends.compiled.elementwise import CompiledElementwise
from gradcore.compiled import loops

#: A result without dims that differ, one of several threads, rows apart from each other, columns.
LAYOUTS: tuple[Any, ...] = (
    lambda draw: draw(997),
    lambda draw: draw(20_011),
    lambda draw: draw(13, 53)[:, :37],
    lambda draw: draw(67, 19).T[:, 3:],
)


def test_loops_of_operations(compiled: Any) -> None:
    random, found = np.random.default_rng(0), 0
    for formula, operands in loops.calls():
        try:
            if trace_loop(formula, operands, CompiledElementwise.bodies) is None:
                continue
        except (AttributeError, TypeError, ValueError, RuntimeError):  # settings for which the formula raises
            continue
        for layout in LAYOUTS:
            arrays = [
                layout(lambda *shape, like=each: (random.random(shape) * 1.5 + 0.1).astype(like))
                if isinstance(each, np.dtype)
                else each
                for each in operands
            ]
            result = compiled.compute_by_loop(formula, tuple(arrays))
            found += result is not None
            assert result is None or result.shape == np.broadcast_shapes(*[np.shape(a) for a in arrays])
    assert found > 1000


def test_loops_of_optimizers(compiled: Any) -> None:
    for cls, options in loops.optimizers():
        for dtype in (gc.float32, gc.float64):
            params = [gc.ones(n, dtype=dtype, device="compiled", requires_grad=True) for n in (1, 997, 20_011)]
            optimizer = cls(params, **options)
            for _ in range(3):
                for p in params:
                    p.grad = gc.linspace(0.5, 1, len(p), dtype=dtype, device="compiled")
                optimizer.step()
            assert all(bool((p != 1).all()) for p in params)
