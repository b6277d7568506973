"""Optimisers on CUDA: the formula of a step as one kernel for all parameters of a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from gradcore.backends.cupy_kernels import C_NAMES, CudaKernels
from gradcore.backends.fusion.batches import Steps, chunk_table, traced_steps
from gradcore.backends.fusion.expressions import Unfusable
from gradcore.backends.optimizers import Batch, Formula, Optimizers

__all__ = ["CudaOptimizers"]

#: Formulas with settings that are remembered.
_MOST_STEPS = 1000


class CudaOptimizers(CudaKernels, Optimizers):
    """Steps of optimisers; what cannot be fused runs as on every backend."""

    fuses: Any
    address: Callable[[Any], int]
    bodies: dict[str, Callable[..., Any]]

    @cached_property
    def _steps(self) -> dict[Any, Any]:
        """Traced formulas by dtype and settings, and kernels by their source."""
        return {}

    def optimizer_step(self, formula: Formula, batch: Batch, settings: dict[str, Any]) -> None:
        """One launch for all parameters, which the kernel finds in a table of their addresses."""
        arrays = [*batch.params, *batch.grads]
        dtype = arrays[0].dtype
        fits = dtype.name in C_NAMES and all(a.dtype == dtype and a.flags.c_contiguous for a in arrays)
        steps = self._traced_steps(formula, dtype, len(batch.states), settings) if fits and self.fuses else None
        if steps is None:
            super().optimizer_step(formula, batch, settings)
            return
        addresses, grads = ([self.address(a) for a in group] for group in (batch.params, batch.grads))
        chunks = chunk_table(addresses, grads, [p.size for p in batch.params], dtype.itemsize)
        if not len(chunks):
            return
        source = steps.source(dtype)
        kernel = self._steps.get(source)
        if kernel is None:
            kernel = self._steps[source] = self.compile_kernel(source, steps.program.name)
        numbers = [kind.type(v) for v, kind in zip(steps.parameters, steps.program.parameters, strict=True)]
        states = [s.reshape(-1) for s in batch.states]
        kernel((len(chunks),), (256,), (self.xp.asarray(chunks), *states, *numbers))

    def _traced_steps(
        self, formula: Formula, dtype: np.dtype[Any], states: int, settings: dict[str, Any]
    ) -> Steps | None:
        key = formula, dtype, states, tuple((name, type(value), value) for name, value in settings.items())
        if key not in self._steps:
            if len(self._steps) >= _MOST_STEPS:  # settings that change in every step
                self._steps.clear()
            try:
                self._steps[key] = traced_steps(formula, dtype, states, settings, self.bodies)
            except Unfusable:
                self._steps[key] = None
        return self._steps[key]  # type: ignore[no-any-return]
