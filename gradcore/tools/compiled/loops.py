"""Formulas that are compiled as C++ loops: elementwise operations, their derivatives, and optimizer steps."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from gradcore import optim
from gradcore.backends.base import Backend
from gradcore.backends.codegen.emit_cpp import CppTracer, emit, loop_name, trace_loop
from gradcore.backends.codegen.expr import NotFusible
from gradcore.backends.codegen.optimizer import trace_optimizer
from gradcore.backends.codegen.scalars import symbolic
from gradcore.backends.codegen.schedule import Kernel
from gradcore.backends.compiled.elementwise import Forward
from gradcore.ops.declare.samples import Bools, Floats, Ints, Values
from gradcore.ops.declare.table import OPS, Op
from gradcore.optim.elementwise import ElementwiseOptimizer
from gradcore.optim.flat_state import HOST
from gradcore.tensor.creation import ones

__all__ = ["calls", "optimizers", "sources"]

_DTYPES = np.dtype("f4"), np.dtype("f8")
_BOOL = np.dtype(bool)

#: Options with which optimisers are often used, beside their defaults.
_OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"momentum": 0.9, "dampening": 0.1}, {"amsgrad": True},
    {"centered": True}, {"centered": True, "momentum": 0.9}, {"momentum": 0.9, "weight_decay": 0.01},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}, {"amsgrad": True, "weight_decay": 0.01},
    {"weight_decay": 0.01}, {"decoupled_weight_decay": True, "weight_decay": 0.01}, {"maximize": True},
)  # fmt: skip


def sources() -> dict[str, str]:
    """Return the C++ sources of all loops, by name."""
    results: dict[str, str] = {}
    for kernel in (*_operations(), *_steps()):
        results[loop_name(kernel)] = emit(kernel)
    return results


# -- operations ------------------------------------------------------------------------------------------------------


def calls() -> Iterator[tuple[Any, list[Any]]]:
    """Yield formulas of operations, with the dtypes of arrays and the settings that they are called with."""
    for op in OPS.values():
        if op.kind == "elementwise":
            for settings in _settings_of(op):
                for dtype in _DTYPES:
                    yield from _formulas(op, dtype, settings)


def _operations() -> Iterator[Kernel]:
    for formula, operands in calls():
        kernel = _trace(formula, operands)
        if kernel is not None:
            yield kernel


def _trace(formula: Any, operands: list[Any]) -> Kernel | None:
    """Trace a formula to a kernel, or return None if it raises for these settings."""
    try:
        return trace_loop(formula, operands, Backend.bodies)
    except (AttributeError, TypeError, ValueError, RuntimeError):  # settings for which the formula raises
        return None


def _settings_of(op: Op) -> list[dict[str, Any]]:
    """Return the settings to compile an operation for: its defaults, and those of its test calls."""
    parameters = [p for i, p in enumerate(op.parameters) if i not in op.tensors]
    defaults = {p.name: p.default for p in parameters}
    result = [] if any(value is inspect.Parameter.empty for value in defaults.values()) else [defaults]
    for case in op.samples() if op.samples is not None else ():
        arguments = {**dict(zip(op.names, case.args, strict=False)), **case.settings}
        chosen = {name: arguments.get(name, default) for name, default in defaults.items()}
        described = any(isinstance(v, (Floats, Bools, Ints, Values)) for v in chosen.values())
        if chosen not in result and not described and inspect.Parameter.empty not in chosen.values():
            result.append(chosen)
    return result


def _formulas(op: Op, dtype: Any, settings: dict[str, Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Yield the forward formula and the derivatives, with the dtypes and settings that they are called with."""
    values: dict[str, Any] = dict(settings)
    for i in op.tensors:
        values[op.names[i]] = _BOOL if i in op.keeps_dtype else dtype
    yield Forward(op.kernel), [values[name] for name in op.names]
    values[op.outputs[0]] = dtype
    for formula in (op.vjps or op.differentials).values():
        if all(name in values for name in formula.names):
            yield formula.function, [dtype, *(values[name] for name in formula.names)]


# -- optimisers ------------------------------------------------------------------------------------------------------


def optimizers() -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield optimizer classes, with options to compile them for."""
    for cls in vars(optim).values():
        if isinstance(cls, type) and issubclass(cls, ElementwiseOptimizer):
            parameters = inspect.signature(cls).parameters
            yield from ((cls, options) for options in _OPTIONS if all(name in parameters for name in options))


def _steps() -> Iterator[Kernel]:
    for cls, options in optimizers():
        yield from _steps_of(cls, options)


def _steps_of(cls: Any, options: dict[str, Any]) -> Iterator[Kernel]:
    """Yield the first two steps of an optimizer. The first one may differ from all others."""
    optimizer = cls([ones(1, requires_grad=True)], **options)
    (group,) = optimizer.param_groups
    states, counters = len(optimizer.tensor_state(group)), optimizer.scalar_state(group)
    for settings in [optimizer.hyperparameters(HOST, group, counters) for _ in range(2)]:
        for dtype in _DTYPES:
            with suppress(NotFusible):
                scalars, _ = symbolic(settings)
                yield trace_optimizer(cls.formula, dtype, states, scalars, CppTracer(Backend.bodies)).kernel
