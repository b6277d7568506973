"""Steps of optimizers as compiled loops: one pass over parameters, gradients and states."""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.compiled.library import builtin
from gradcore.backends.numpy import threads
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.portable.optimizers import Batch, Formula

if TYPE_CHECKING:
    from gradcore.backends.codegen.optimizer import OptimizerKernel, OptimizerKernels

__all__ = ["CompiledSteps"]

#: Elements from which a thread pays off.
_WORTH_A_THREAD = 1 << 15
#: Largest number of arrays of a loop.
_MOST_ARRAYS = 16


class _Batch(ctypes.Structure):
    """The structure of a batch that `gradcore_step` reads."""

    _fields_ = (
        ("params", ctypes.c_int64), ("states", ctypes.c_int64), ("offsets", ctypes.c_void_p),
        ("objects", ctypes.c_void_p),
    )  # fmt: skip


class _Step(ctypes.Structure):
    """The structure of a loop that `gradcore_step` reads."""

    _fields_ = (
        ("loop", ctypes.c_void_p), ("grain", ctypes.c_int64), ("item", ctypes.c_int64), ("arrays", ctypes.c_int64),
        ("positions", ctypes.c_void_p),
    )  # fmt: skip


class _Prepared:
    """The arrays of a batch in the form for `gradcore_step`."""

    def __init__(self, batch: Batch) -> None:
        arrays = *batch.params, *batch.states
        self.offsets = (ctypes.c_int64 * len(batch.offsets))(*batch.offsets)
        self.objects = (ctypes.c_void_p * len(arrays))(*map(id, arrays))
        addresses = ctypes.addressof(self.offsets), ctypes.addressof(self.objects)
        self.batch = _Batch(len(batch.params), len(batch.states), *addresses)
        self.address, self.size = ctypes.addressof(self.batch), batch.offsets[-1]
        self.grads: Any = ctypes.c_void_p * len(batch.params)
        #: If a parameter occurs twice, its steps must run one after another.
        self.in_order = len({id(p) for p in batch.params}) < len(batch.params)


class StepFunction:
    """A loop of the library that makes the step of a batch.

    Parameters
    ----------
    library : CDLL
        The library.
    function : int
        The loop's address.
    optimizer : OptimizerKernel
        The kernel that it computes.
    dtype : dtype
        The dtype of all arrays.
    """

    def __init__(self, library: ctypes.CDLL, function: int, optimizer: OptimizerKernel, dtype: Any) -> None:
        positions = [_position(name) for name in optimizer.arrays]
        self.evaluators = [parameter.scalar.evaluate for parameter in optimizer.kernel.parameters]
        self.numbers: Any = ctypes.c_double * len(self.evaluators)
        self.positions = (ctypes.c_int64 * len(positions))(*positions)
        address = ctypes.addressof(self.positions)
        self.step = _Step(function, _WORTH_A_THREAD, dtype.itemsize, len(positions), address)
        self.address = ctypes.addressof(self.step)
        self.run = builtin(library, "gradcore_step")

    def __call__(self, batch: Batch, settings: dict[str, Any]) -> bool:
        """Make the step.

        Return False, without having changed anything, if arrays are not contiguous, or gradients differ from their
        parameters in shape or dtype.
        """
        prepared = batch.prepared
        if prepared is None:
            prepared = batch.prepared = _Prepared(batch)
        grads = prepared.grads(*map(id, batch.grads))
        numbers = self.numbers(*[evaluate(settings) for evaluate in self.evaluators])
        thread_count = 1 if prepared.in_order else threads.available()
        addresses = ctypes.addressof(grads), ctypes.addressof(numbers)
        return self.run(prepared.size, self.address, prepared.address, thread_count, *addresses)


class CompiledSteps(NumpyBackend):
    """Steps of optimizers by compiled loops."""

    library: ctypes.CDLL

    def _step_all(self, formula: Formula, batch: Batch, settings: dict[str, Any]) -> None:
        dtype = batch.params[0].dtype
        # The formulas of this package are known to only do arithmetic with settings.
        is_own = formula.__module__.startswith("gradcore.optim.")
        if is_own and not self.has_arrays(settings) and formula.__name__ not in self.fused_steps and dtype.char in "fd":
            function = self._step_functions.find(formula, dtype, len(batch.states), settings)
            if function is not None and function(batch, settings):
                return
        super()._step_all(formula, batch, settings)

    @cached_property
    def _step_functions(self) -> OptimizerKernels[StepFunction]:
        # Tracing is imported only when the first step is compiled.
        from gradcore.backends.codegen.emit_cpp import CppTracer, loop_name
        from gradcore.backends.codegen.optimizer import OptimizerKernels

        def build(optimizer: OptimizerKernel, dtype: np.dtype[Any]) -> StepFunction | None:
            loop = getattr(self.library, loop_name(optimizer.kernel), None)
            if loop is None or len(optimizer.arrays) > _MOST_ARRAYS:
                return None
            return StepFunction(self.library, ctypes.cast(loop, ctypes.c_void_p).value or 0, optimizer, dtype)

        return OptimizerKernels(lambda: CppTracer(self.bodies), build)


def _position(name: str) -> int:
    """Return which array of a step a name stands for: the parameter, the gradient or a state."""
    return {"p": 0, "g": 1}[name] if name in "pg" else int(name[1:]) + 2
