"""Optimiser steps on CUDA: the formula of a step is compiled to one kernel for all parameters of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.codegen.emit_cuda import CudaTracer, emit_optimizer
from gradcore.backends.codegen.hyperparameters import HyperparameterKernel
from gradcore.backends.codegen.optimizer import OptimizerKernel, OptimizerKernels
from gradcore.backends.codegen.schedule import Input
from gradcore.backends.codegen.trace import compute_dtype
from gradcore.backends.cupy.fusion import CudaFusion
from gradcore.backends.cupy.kernels import NULL, type_name
from gradcore.backends.cupy.multi_tensor import launches
from gradcore.backends.portable.optimizers import Batch, Formula, Optimizers
from gradcore.core.typing import AnyArray

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CudaOptimizers"]

#: Largest number of entries of a cache, which has one for each formula and its options.
_MOST_FORMULAS = 1000

_Compiled = tuple[OptimizerKernel, Callable[..., None]]


class CudaOptimizers(CudaFusion, Optimizers):
    """Optimiser steps on CUDA. Formulas that cannot be fused run as on every backend."""

    is_tensor: Callable[[Any], bool]

    @cached_property
    def _optimizer_kernels(self) -> OptimizerKernels[_Compiled]:
        return self._kernels_of_steps(emit_optimizer)

    @cached_property
    def _captured_kernels(self) -> OptimizerKernels[_Compiled]:
        """Kernels of captured steps, which read hyperparameters from memory."""
        return self._kernels_of_steps(functools.partial(emit_optimizer, in_memory=True))

    def _kernels_of_steps(self, emit: Callable[..., str]) -> OptimizerKernels[_Compiled]:
        # Formulas that give the same source share one compiled kernel.
        sources: dict[str, Callable[..., None]] = {}

        def build(optimizer: OptimizerKernel, dtype: np.dtype[Any]) -> _Compiled:
            source = emit(optimizer, dtype)
            if source not in sources:
                sources[source] = self.compile_kernel(source, optimizer.kernel.name)
            return optimizer, sources[source]

        return OptimizerKernels(lambda: CudaTracer(self.bodies), build)

    @cached_property
    def _hyperparameter_kernels(self) -> dict[Any, HyperparameterKernel]:
        """Kernels of hyperparameters, by options, for steps that the device counts."""
        return {}

    def optimizer_step(self, formula: Formula, batch: Batch, settings: dict[str, Any], found_inf: Any = None) -> None:
        """Update a batch of parameters by one launch for up to 128 parameters, whose addresses are an argument."""
        kernel = self._kernel_of_step(self._optimizer_kernels, formula, batch, settings)
        if kernel is None:
            super().optimizer_step(formula, batch, settings, found_inf)
        else:
            self._launch_step(kernel, batch, settings, found_inf, _numbers(kernel[0], settings))

    def captured_step(self, formula: Formula, batch: Batch, settings: dict[str, Any]) -> tuple[Any, Array]:
        """Return the compiled kernel of a step inside a graph, and the numbers that it reads from memory.

        The kernel is None if the step has none. Each number takes eight bytes, whatever its dtype.
        """
        kernel = self._kernel_of_step(self._captured_kernels, formula, batch, settings)
        if kernel is None or any(map(self.is_tensor, settings.values())):
            return None, np.empty(0)
        parts = [number.tobytes().ljust(8, b"\0") for number in _numbers(kernel[0], settings)]
        return kernel[1], np.frombuffer(b"".join(parts))

    def take_captured_step(self, formula: Formula, batch: Batch, settings: dict[str, Any], numbers: Array) -> None:
        """Run `optimizer_step` inside a graph, with the hyperparameters in the array `numbers`."""
        kernel = self._kernel_of_step(self._captured_kernels, formula, batch, settings)
        if kernel is None:
            raise NotImplementedError("a step without a kernel")
        self._launch_step(kernel, batch, settings, None, [numbers])

    def _kernel_of_step(
        self, kernels: OptimizerKernels[_Compiled], formula: Formula, batch: Batch, settings: dict[str, Any]
    ) -> _Compiled | None:
        arrays = [*batch.params, *batch.grads]
        dtype = arrays[0].dtype
        fits = type_name(dtype) and all(a.dtype == dtype and a.flags.c_contiguous for a in arrays)
        # A step that is being captured has no gradients yet.
        fits = fits and all(p.shape == g.shape for p, g in zip(batch.params, batch.grads, strict=False))
        if not (fits and self.supports_fusion):
            return None
        inputs = {n: Input(v.dtype, is_array=False) if self.is_tensor(v) else v for n, v in settings.items()}
        return kernels.find(formula, dtype, len(batch.states), inputs)

    def _launch_step(
        self, kernel: _Compiled, batch: Batch, settings: dict[str, Any], found_inf: Any, numbers: list[Any]
    ) -> None:
        optimizer, function = kernel
        vectors = [value for value in settings.values() if self.is_tensor(value)]
        skipped = NULL if found_inf is None else found_inf
        rest = (skipped, *(s.reshape(-1) for s in batch.states), *(vectors[i] for i in optimizer.vectors), *numbers)
        addresses = ([self.address(a) for a in group] for group in (batch.params, batch.grads))
        for launch in launches([p.size for p in batch.params], *addresses):
            function((launch.blocks,), (256,), (launch.parts, *rest))

    def step_settings(
        self,
        settings: Callable[..., dict[str, Any]],
        options: dict[str, Any],
        numbers: dict[str, Any],
        dtype: Any,
        found_inf: Any = None,
    ) -> tuple[dict[str, Any], list[AnyArray]]:
        """Return the settings of a step that the device counts, and the former counters.

        One launch computes both, and one updates each counter.
        """
        if self.supports_fusion:
            if len(self._hyperparameter_kernels) >= _MOST_FORMULAS:
                self._hyperparameter_kernels.clear()
            kernel = HyperparameterKernel(settings, options, numbers, compute_dtype(dtype))
            kernel = self._hyperparameter_kernels.setdefault(kernel.key, kernel)
            operands = kernel.operands(options, numbers)
            compute = tuple(np.dtype("float64") if name in numbers else None for name, _ in operands)
            names, values = zip(*operands, strict=True)
            results = self.fusion.run("step_settings", kernel, kernel.formula, names, values, compute)
            if results is not None:
                count = len(numbers)
                former = results[count : 2 * count]
                self._move(numbers, results, former, found_inf)
                return kernel.hyperparameters(results[2 * count :]), former
        return super().step_settings(settings, options, numbers, dtype, found_inf)


def _numbers(optimizer: OptimizerKernel, settings: dict[str, Any]) -> list[Any]:
    """Return the numbers that a kernel takes, as NumPy scalars."""
    return [p.dtype.type(p.scalar.evaluate(settings)) for p in optimizer.kernel.parameters]
