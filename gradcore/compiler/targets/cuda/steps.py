"""Optimizer steps as calls of programs on CUDA, so that one graph holds the whole training step.

The host computes the hyperparameters, as for eager steps, and chooses the kernels by them. A captured kernel reads
their values from memory of the graph, to which they are copied before each launch. Where the device counts the steps,
options are constants of a graph: other options need another graph.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcore.tensor.arrays import note_writes, with_grad

__all__ = ["DeviceStep", "StepInput"]

#: The largest number of sets of options with a graph, for optimizers that count steps on the device.
_MOST_OPTIONS = 4


class StepInput:
    """The next optimizer step, as an input of a program.

    Parameters
    ----------
    batches : list of _BatchStep

    Attributes
    ----------
    key : tuple
        Everything that a captured step depends on, except hyperparameters and memory.
    values : NumPy array
        The hyperparameters that captured kernels read.
    memory : array or None
        Their copy on the device, within a graph.
    """

    def __init__(self, batches: list[Any]) -> None:
        self.batches = batches
        self.memory: Any = None
        self.key = tuple(each.key for each in batches)
        self.values = np.concatenate([each.values for each in batches])

    def within(self, memory: Any) -> StepInput:
        """Return the same step for a graph, whose kernels read the hyperparameters from `memory`."""
        step_input = StepInput(self.batches)
        step_input.memory = memory
        return step_input


class _BatchStep:
    """The next step of one batch of parameters.

    Parameters
    ----------
    optimizer : ElementwiseOptimizer
    batch : ParameterBatch
    options : dict
        The group's options, with numbers for tensors.
    first : int
        The number of the group's first gradient among those of all groups.
    """

    def __init__(self, optimizer: Any, batch: Any, options: dict[str, Any], first: int) -> None:
        self.batch, self.options, self.scalars = batch, options, None
        self.grads = [first + i for i in batch.indices]
        if batch.state.on_device:
            self.key: Any = tuple(_constants(options))
            self.values = np.empty(0)
            return
        self.scalars, self.settings = batch.advance(optimizer.hyperparameters, options)
        formula, backend = type(optimizer).formula, batch.state.device.backend
        #: `key` is None if no kernel reads hyperparameters from memory.
        self.key, self.values = backend.captured_step(formula, batch.batch, self.settings)

    def take(self, optimizer: Any, grads: list[Any], numbers: Any) -> None:
        """Update the parameters; `numbers` is the graph's hyperparameter memory, None outside of a graph."""
        batch, inner = self.batch, self.batch.batch
        kernels, formula = batch.state.device.kernels, type(optimizer).formula
        inner.grads = [grads[i] for i in self.grads]
        if self.scalars is None:
            key = optimizer.hyperparameters, self.options, batch.scalars, inner.params[0].dtype
            kernels["optimizer_step"](formula, inner, kernels["step_settings"](*key)[0])
        elif numbers is None:
            kernels["optimizer_step"](formula, inner, self.settings)
            batch.keep(self.scalars)
        else:
            batch.state.device.backend.take_captured_step(formula, inner, self.settings, numbers)
        inner.grads = []


#: Optimizers whose options change so often that their steps are not part of a graph.
_LEFT_OUT: weakref.WeakSet[Any] = weakref.WeakSet()


class DeviceStep:
    """The step of an optimizer with elementwise formulas, as one call of a program.

    Parameters
    ----------
    optimizer : ElementwiseOptimizer
        An optimizer that has just taken such a step.
    backend : Backend
    index : int
        The device of the program.

    Attributes
    ----------
    params : list of Tensor
        The parameters with gradients.
    values : list
        The step and state arrays that were prepared for the capture.
    begun : bool
        Whether the next step has already changed state.

    Raises
    ------
    NotImplementedError
        If only the optimizer itself can take the step.
    """

    def __init__(self, optimizer: Any, backend: Any, index: int) -> None:
        self.optimizer, self.begun = optimizer, False
        groups = [with_grad(group["params"]) for group in optimizer.param_groups]
        self._params = [params for params, _ in groups]
        self.params = [p for params in self._params for p in params]
        self._options = set[Any]()
        self._written: list[Any] = []
        self._coming: StepInput | None = None
        if not self.fits() or not hasattr(backend, "captured_step"):
            raise NotImplementedError("a step that is recorded, unscaled, or whose options change often")
        if any(p._device.type != backend.type or p._device.index != index for p in self.params):
            raise NotImplementedError("parameters of another device")
        if any(not g.flags.c_contiguous for _, grads in groups for g in grads):
            raise NotImplementedError("gradients with gaps in memory")
        self.values = self._prepare_inputs()
        batches = self.values[0].batches
        if not batches or any(each.key is None for each in batches):
            raise NotImplementedError("a step without a kernel")
        self._states = len(self.values) - 1

    def fits(self) -> bool:
        """Return whether the program can take the next step of the optimizer."""
        optimizer = self.optimizer
        if len(self._options) > _MOST_OPTIONS:
            _LEFT_OUT.add(optimizer)
        if optimizer._has_other_step() or optimizer in _LEFT_OUT:
            return False
        groups = optimizer.param_groups
        return len(groups) == len(self._params) and not any(group["differentiable"] for group in groups)

    def prepare(self) -> list[Any]:
        """Return the next step and its state arrays, or a list of None if the optimizer must take it itself."""
        self.begun = False
        values = self._prepare_inputs()
        if len(values) != 1 + self._states or any(each.key is None for each in values[0].batches):
            values = [None] * (1 + self._states)
        self._coming = values[0]
        return values

    def _prepare_inputs(self) -> list[Any]:
        """Return the next step and the state arrays that its kernels update."""
        batches, memory, first = list[Any](), list[Any](), 0
        self._written = []
        for group, params in zip(self.optimizer.param_groups, self._params, strict=True):
            if params:
                plan, options = self.optimizer._make_plan(group, params)
                batches += [_BatchStep(self.optimizer, batch, options, first) for batch in plan.batches]
                self._written += plan.written
            first += len(params)
        for each in batches:
            memory += each.batch.batch.states
            if each.scalars is None:
                memory += each.batch.scalars.values()
                self._options.add(each.key)
        return [StepInput(batches), *memory]

    def take(self, coming: StepInput | None, grads: list[Any], *, out: Any) -> None:
        """Take the step: the function that programs call, which writes to `out`."""
        self.begun = coming is None or coming.memory is None
        if coming is None:
            first = 0
            for group, params in zip(self.optimizer.param_groups, self._params, strict=True):
                if params:
                    self.optimizer._step(group, params, grads[first : first + len(params)], None)
                first += len(params)
            return
        start = 0
        try:
            for each in coming.batches:
                stop = start + len(each.values)
                each.take(self.optimizer, grads, None if coming.memory is None else coming.memory[start:stop])
                start = stop
        except Exception:
            note_writes(self._written)  # The batches before it are updated.
            raise

    def finish(self) -> None:
        """Count the writes of the step, as the optimizer would."""
        self.optimizer._opt_called = True
        if self._coming is not None:
            for each in self._coming.batches:
                if each.scalars is not None:
                    each.batch.keep(each.scalars)
            note_writes(self._written)
        self._coming, self._written = None, []


def _constants(options: dict[str, Any]) -> Iterator[Any]:
    """Yield the names and values of the options that become constants of a captured step."""
    for name, option in options.items():
        if name not in ("params", "param_names"):
            parts = option if isinstance(option, tuple) else (option,)
            yield name, *(part.data.ptr if hasattr(part, "data") else repr(part) for part in parts)
