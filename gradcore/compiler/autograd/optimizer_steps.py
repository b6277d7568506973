"""Optimizer steps within programs: the update formula on arrays, with hyperparameters computed by each call.

The host computes the hyperparameters from the options and the count of steps. It then checks that the step is the
captured one; if not, the optimizer's own `step` runs. The Python target calls the same kernel as the optimizer; the
native target emits the formula as loops of its own.
"""

from __future__ import annotations

import inspect
import operator
from typing import Any

import numpy as np

from gradcore.backends.codegen.scalars import SymbolicScalar, is_number, symbolic
from gradcore.backends.registry import CPU
from gradcore.compiler.capture.arrays import current
from gradcore.compiler.capture.recorder import Recorder
from gradcore.compiler.capture.substitutes import RecordingBackend
from gradcore.compiler.capture.trusted import is_library, namespace_of
from gradcore.compiler.program.passes import optimize
from gradcore.compiler.program.program import Call, Program, Value, map_leaves
from gradcore.compiler.program.storage import address_of
from gradcore.compiler.targets import native
from gradcore.compiler.targets.cuda.steps import DeviceStep
from gradcore.core import config
from gradcore.optim.elementwise import ElementwiseOptimizer
from gradcore.tensor.arrays import note_writes, with_grad
from gradcore.tools.profiler.recording import is_profiling

__all__ = ["PlannedStep", "plan_step"]


#: The largest number of scalars of one formula: hyperparameters and numbers computed from them.
_MOST_NUMBERS = 64


class TracedBatch:
    """The captured update of one batch of parameters.

    Parameters
    ----------
    optimizer : ElementwiseOptimizer
    batch : ParameterBatch
    options : dict
        The group's options, with Python numbers.
    grads : list of array
        The gradients of all parameters.
    program : Program
        The calls of the formula are added to it.
    """

    def __init__(self, optimizer: Any, batch: Any, options: dict[str, Any], grads: list[Any], program: Program) -> None:
        self.batch = batch
        settings = batch.advance(optimizer.hyperparameters, options)[1]
        self.flags = {name: value for name, value in settings.items() if not is_number(value)}
        self.types = [*map(type, settings.values())]
        self.guards: list[Any] = []
        recorder, backend, pairs = Recorder(), RecordingBackend(CPU.backend), list[list[int]]()
        recorder.program = program
        params, states = batch.batch.params, batch.batch.states
        self.dtype = params[0].dtype
        before, current.recorder = current.recorder, recorder
        recorder.start_at(program)
        try:
            self._numbers = np.zeros(_MOST_NUMBERS, self.dtype)  # stored so that its memory stays unique
            numbers = recorder.add_input(self._numbers)
            first = len(program.inputs)
            flat = [recorder.add_input(np.ones_like(s)) for s in states]
            for p, a, b in zip(params, batch.batch.offsets, batch.batch.offsets[1:], strict=False):
                scalars, guards = symbolic(settings)
                self.guards = self.guards or guards  # equal for all parameters
                pair = [recorder.new_stand_in(np.zeros_like(p), is_input=True) for _ in range(2)]  # freed after it
                pairs.append([each.number for each in pair])
                type(optimizer).formula(backend, *pair, *[s[a:b].reshape(p.shape) for s in flat], **scalars)
        finally:
            current.recorder = before
        if recorder.stopped is not None:
            raise NotImplementedError(recorder.stopped)
        program.inputs[first:first] = [n for each in zip(*pairs, strict=True) for n in each]
        arrays = *params, *[grads[i] for i in batch.indices], *states
        _move(program, {n: address_of(array) for n, array in zip(program.inputs[first:], arrays, strict=True)})
        self.evaluators: list[Any] = []
        self._name_scalars(program, numbers)

    def _name_scalars(self, program: Program, numbers: Any) -> None:
        """Replace the scalars of the formula by elements of the array of hyperparameters."""
        elements: dict[Any, Value] = {}
        whole = program.types[numbers.number]
        calls = []

        def element(leaf: Any) -> Any:
            if leaf.__class__ is not SymbolicScalar:
                return leaf
            if leaf.expression not in elements:
                i = len(elements)
                if i >= whole.shape[0]:
                    raise NotImplementedError("a formula with many hyperparameters")
                value = elements[leaf.expression] = Value(1 + max(program.types))
                program.scalars.add(value.number)
                place = whole.address + i * whole.dtype.itemsize
                program.types[value.number] = whole._replace(shape=(), strides=(), address=place)
                calls.append(Call("operator.getitem", operator.getitem, (Value(numbers.number), i), {}, value))
                self.evaluators.append(leaf.evaluate)
            return elements[leaf.expression]

        for call in program.calls:
            named = call._replace(args=map_leaves(element, call.args), named=map_leaves(element, call.named))
            calls.append(named)
        program.calls = calls
        program.types[numbers.number] = whole._replace(shape=(len(elements),))

    def settings(self, optimizer: Any, batch: Any, options: dict[str, Any]) -> tuple[Any, Any] | None:
        """Return the scalar state and hyperparameters of the next step, or None if its formula has changed."""
        scalars, settings = batch.advance(optimizer.hyperparameters, options)
        if [*map(type, settings.values())] != self.types:
            return None
        if any(settings[name] is not value for name, value in self.flags.items()):
            return None
        return (scalars, settings) if all(guard(settings) for guard in self.guards) else None


class PlannedStep:
    """The step of an optimizer with elementwise formulas, as a part of a program.

    Parameters
    ----------
    optimizer : ElementwiseOptimizer
        An optimizer that has just taken such a step.
    cpp : str, optional
        See `gradcore.compiler.targets.native.runnable`.

    Attributes
    ----------
    params : list of list of Tensor
        The parameters with gradients, of each group.
    program : Program
    run : callable
        Function of the arrays of each batch: hyperparameters, parameters, gradients and states.

    Raises
    ------
    NotImplementedError
        If only the optimizer itself can take the step.
    """

    def __init__(self, optimizer: Any, cpp: str | None) -> None:
        self.optimizer = optimizer
        formulas, self.program = Program(), Program()
        self.params: list[list[Any]] = []
        self.batches: list[list[TracedBatch]] = []
        for group in optimizer.param_groups:
            params, grads = with_grad(group["params"])
            if group["differentiable"] or not params:
                raise NotImplementedError("a step that is recorded, or of no parameters")
            plan, options = optimizer._make_plan(group, params)
            first_params = [batch.batch.params[0] for batch in plan.batches]
            if any(type(p) is not np.ndarray or p.dtype.char not in "fd" for p in first_params):
                raise NotImplementedError("parameters that are not the CPU's, or of other dtypes")
            if any(batch.state.on_device for batch in plan.batches):
                raise NotImplementedError("states on a device")
            self.params.append(params)
            self.batches.append([TracedBatch(optimizer, batch, options, grads, formulas) for batch in plan.batches])
        self.program.inputs, self.program.types = [*formulas.inputs], {**formulas.types}
        self.program.calls = [Call("optimizer.step", self._take, (), {}, None)]
        self.program.native = optimize(formulas)
        self.run = native.runnable(self.program, cpp)
        self._pending: list[Any] = []
        self._written: list[Any] = []

    def arrays(self) -> list[tuple[list[Any], int]]:
        """Return, for each batch, its parameters and its number of states."""
        return [
            ([params[i] for i in traced.batch.indices], len(traced.batch.batch.states))
            for params, batches in zip(self.params, self.batches, strict=True)
            for traced in batches
        ]

    def prepare(self) -> list[Any] | None:
        """Return hyperparameters and states by batch for `take`, or None to use the optimizer's `step`."""
        optimizer, groups, pending, writes = self.optimizer, self.optimizer.param_groups, list[Any](), list[Any]()
        if is_profiling() or len(groups) != len(self.params) or optimizer._has_other_step():
            return None
        for group, captured, batches in zip(groups, self.params, self.batches, strict=True):
            try:
                params, grads = with_grad(group["params"])
            except NotImplementedError:  # Sparse gradients are no arrays.
                return None
            if len(params) != len(captured) or not all(map(operator.is_, params, captured)) or group["differentiable"]:
                return None
            plan, options = optimizer._make_plan(group, params)
            if len(plan.batches) != len(batches):
                return None
            for batch, traced in zip(plan.batches, batches, strict=True):
                settings = traced.settings(optimizer, batch, options) if _are_alike(batch, traced.batch) else None
                if settings is None:
                    return None
                pending.append((batch, traced, grads, *settings))
            writes += plan.written
        values = []
        for batch, traced, _, _, settings in pending:
            numbers = np.array([evaluate(settings) for evaluate in traced.evaluators], traced.dtype)
            values += [numbers, *batch.batch.states]
        self._pending, self._written = pending, writes
        return values

    def take(self, *arrays: Any) -> None:
        """Take the prepared step, and count it: a batch whose update fails is not counted.

        Parameters
        ----------
        *arrays
            See `run`.
        """
        try:
            self.run(*arrays)
            for batch, _, _, scalars, _ in self._pending:
                batch.keep(scalars)
            self.optimizer._opt_called = True
        finally:
            note_writes(self._written)
            self._pending = self._written = []

    def _take(self) -> None:
        """Take the step by calling the backend's kernel."""
        optimizer, pending = self.optimizer, self._pending
        while pending:
            batch, _, grads, scalars, settings = pending[0]
            batch.batch.grads = [grads[i] for i in batch.indices]
            try:
                CPU.kernels["optimizer_step"](type(optimizer).formula, batch.batch, settings, None)
            finally:
                batch.batch.grads = []
            batch.keep(scalars)
            del pending[0]


def _move(program: Program, addresses: dict[int, int]) -> None:
    """Set the addresses of input arrays, and of views into them, to those of the arrays passed in this call."""
    types = program.types
    moved = {n: address - types[n].address for n, address in addresses.items()}
    for n, array_type in types.items():
        types[n] = array_type._replace(address=array_type.address + moved.get(array_type.memory, 0))


def _are_alike(batch: Any, other: Any) -> bool:
    """Return whether two batches have parameters and states of the same kind in the same order."""
    if batch is other:
        return True
    shapes, other_shapes = ([s.shape for s in each.batch.states] for each in (batch, other))
    return batch.indices == other.indices and shapes == other_shapes


def plan_step(optimizer: Any, cpp: str | None, is_first: bool, backend: Any = None, index: int | None = None) -> Any:
    """Return the optimizer's step as a `PlannedStep` (CPU) or `DeviceStep` (CUDA), or None.

    None means that the program calls the optimizer's `step`: for optimizers without an elementwise formula, and if the
    optimizer's own step is as fast. It is as fast as the Python target and, if the program has computed nothing before
    the step (`is_first`), as CUDA and as C++ with compiled kernels. The program then needs no guards of the parameters.
    """
    cls = type(optimizer)
    is_known = isinstance(optimizer, ElementwiseOptimizer) and is_library(namespace_of(cls))
    if not is_known or inspect.unwrap(cls.step) is not inspect.unwrap(ElementwiseOptimizer.step):
        return None
    try:
        if backend is not None:
            has_gradients = any(with_grad(group["params"])[0] for group in optimizer.param_groups)
            takes_own = is_first or not has_gradients
            return None if index is None or takes_own else DeviceStep(optimizer, backend, index)
        is_as_fast = is_first and hasattr(CPU.backend, "library")
        if is_as_fast or (config.COMPILE_CPP if cpp is None else cpp) == "0" or optimizer._has_other_step():
            return None
        return None if cls.formula.__name__ in CPU.backend.fused_steps else PlannedStep(optimizer, cpp)
    except NotImplementedError:
        return None
