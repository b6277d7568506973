"""Optimisers on CUDA: the formula of a step as one kernel for all parameters of a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from gradcore.backends.codegen.advances import Advance
from gradcore.backends.codegen.batches import Steps, traced_steps
from gradcore.backends.codegen.expressions import Unfusable
from gradcore.backends.codegen.functions import computed
from gradcore.backends.codegen.programs import Operand
from gradcore.backends.cupy.kernels import C_NAMES, NULL, CudaKernels
from gradcore.backends.cupy.multi_tensor import launches
from gradcore.backends.portable.optimizers import Batch, Formula, Optimizers

__all__ = ["CudaOptimizers"]

#: Formulas with settings that are remembered.
_MOST_STEPS = 1000


class CudaOptimizers(CudaKernels, Optimizers):
    """Steps of optimisers; what cannot be fused runs as on every backend."""

    fuses: Any
    fusion: Any
    address: Callable[[Any], int]
    is_tensor: Callable[[Any], bool]
    bodies: dict[str, Callable[..., Any]]

    @cached_property
    def _steps(self) -> dict[Any, Any]:
        """Traced formulas by dtype and settings, and kernels by their source."""
        return {}

    @cached_property
    def _advances(self) -> dict[Any, Advance]:
        """How settings follow from steps that the device counts, by options."""
        return {}

    def optimizer_step(self, formula: Formula, batch: Batch, settings: dict[str, Any], found_inf: Any = None) -> None:
        """One launch for all parameters (or for 128 of them), whose addresses are an argument of the kernel."""
        arrays = [*batch.params, *batch.grads]
        dtype = arrays[0].dtype
        fits = dtype.name in C_NAMES and all(a.dtype == dtype and a.flags.c_contiguous for a in arrays)
        described = {
            name: Operand(name, value.dtype, False) if self.is_tensor(value) else value
            for name, value in settings.items()
        }
        steps = self._traced_steps(formula, dtype, len(batch.states), described) if fits and self.fuses else None
        if steps is None:
            super().optimizer_step(formula, batch, settings, found_inf)
            return
        source = steps.source(dtype)
        kernel = self._steps.get(source)
        if kernel is None:
            kernel = self._steps[source] = self.compile_kernel(source, steps.program.name)
        vectors = [value for value in settings.values() if self.is_tensor(value)]
        numbers = [kind.type(v) for v, kind in zip(steps.parameters, steps.program.parameters, strict=True)]
        skipped = NULL if found_inf is None else found_inf
        rest = (skipped, *(s.reshape(-1) for s in batch.states), *(vectors[i] for i in steps.vectors), *numbers)
        addresses = ([self.address(a) for a in group] for group in (batch.params, batch.grads))
        for launch in launches([p.size for p in batch.params], *addresses):
            kernel((launch.blocks,), (256,), (launch.parts, *rest))

    def step_settings(
        self,
        settings: Callable[..., dict[str, Any]],
        options: dict[str, Any],
        numbers: dict[str, Any],
        dtype: Any,
        found_inf: Any = None,
    ) -> dict[str, Any]:
        """The settings of a step where the device counts the steps: one launch, and one for each number."""
        if self.fuses:
            if len(self._advances) >= _MOST_STEPS:
                self._advances.clear()
            plan = Advance(settings, options, numbers, computed(dtype))
            plan = self._advances.setdefault(plan.key, plan)
            double = np.dtype("float64")
            operands = plan.operands(options, numbers)
            wide = tuple(double if name in numbers else None for name, _ in operands)
            found = self.fusion.run("step_settings", plan, plan.formula, operands, wide)
            if found is not None:
                self._move(numbers, found, found_inf)
                return plan.settings(found[len(numbers) :])
        return super().step_settings(settings, options, numbers, dtype, found_inf)

    def _traced_steps(
        self, formula: Formula, dtype: np.dtype[Any], states: int, settings: dict[str, Any]
    ) -> Steps | None:
        """The kernel for these settings, in which an `Operand` stands for an array; None if there is none."""
        key = formula, dtype, states, tuple((name, type(value), value) for name, value in settings.items())
        if key not in self._steps:
            if len(self._steps) >= _MOST_STEPS:  # settings that change in every step
                self._steps.clear()
            try:
                self._steps[key] = traced_steps(formula, dtype, states, settings, self.bodies)
            except Unfusable:
                self._steps[key] = None
        return self._steps[key]  # type: ignore[no-any-return]
