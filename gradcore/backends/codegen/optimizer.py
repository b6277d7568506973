"""Kernels of optimizers: the formula of a step, in which the parameter and its states are variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from gradcore.backends.codegen.expr import MutableExpr, NotFusible, as_output
from gradcore.backends.codegen.scalars import Guard, is_number, symbolic
from gradcore.backends.codegen.schedule import Input, Kernel
from gradcore.backends.codegen.trace import Tracer, trace

__all__ = ["OptimizerKernel", "OptimizerKernels", "trace_optimizer"]

_T = TypeVar("_T")
_Formula = Callable[..., None]
#: Largest number of entries of a cache, which has one for each formula and its flags.
_MOST_FORMULAS = 1000


class OptimizerKernel(NamedTuple):
    """The kernel of an optimizer's step.

    Attributes
    ----------
    kernel : Kernel
    states : int
        The number of states of a parameter.
    written : tuple of str
        The names of the outputs: the parameter ``p`` or states ``s0``, ``s1``, ...
    vectors : tuple of int
        The numbers of hyperparameters that the kernel reads and that are arrays, with an element for each parameter.
    """

    kernel: Kernel
    states: int
    written: tuple[str, ...]
    vectors: tuple[int, ...]

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the inputs, then those of the outputs."""
        return *(i.name for i in self.kernel.inputs), *self.written


def trace_optimizer(
    formula: _Formula,
    dtype: np.dtype[Any],
    states: int,
    hyperparameters: dict[str, Any],
    F: Tracer,
) -> OptimizerKernel:
    """Trace ``formula(F, p, g, *states, **hyperparameters)``; a hyperparameter that is an array is given as an `Input`.

    Raises
    ------
    NotFusible
        If it is not an expression of single elements, or the target lacks one of its functions.
    """
    names = ["p", *(f"s{i}" for i in range(states))]

    def functional(F: Tracer, g: Any, p: Any, *rest: Any) -> list[Any]:
        before = (p, *rest[:states])
        variables = [MutableExpr(v) for v in before]
        formula(F, variables[0], g, *variables[1:], **dict(zip(hyperparameters, rest[states:], strict=True)))
        return [v.expr if v.expr is old else as_output(v.expr) for v, old in zip(variables, before, strict=True)]

    inputs = [(label, Input(dtype)) for label in ("g", *names)]
    name = f"fused_{formula.__name__}_steps"
    kernel = trace(name, functional, [*inputs, *hyperparameters.items()], F, [dtype] * len(names))
    output_names = tuple(label for label, result in zip(names, kernel.results, strict=True) if result.is_output)
    vectors = tuple(i.position - len(inputs) for i in kernel.inputs if i.position >= len(inputs))
    return OptimizerKernel(kernel, states, output_names, vectors)


class OptimizerKernels(Generic[_T]):
    """A cache of optimizers' kernels. Other values of the hyperparameters use the same kernel.

    Parameters
    ----------
    tracer : callable
        ``() -> Tracer``: makes the target's namespace.
    build : callable
        ``(OptimizerKernel, dtype) -> function``: compiles a kernel; None if it cannot be.
    """

    def __init__(
        self, tracer: Callable[[], Tracer], build: Callable[[OptimizerKernel, np.dtype[Any]], _T | None]
    ) -> None:
        self._tracer, self._build = tracer, build
        self._known: dict[Any, list[tuple[Sequence[Guard], _T | None]]] = {}

    def find(self, formula: _Formula, dtype: np.dtype[Any], states: int, hyperparameters: dict[str, Any]) -> _T | None:
        """Return the compiled function of a formula (see `trace_optimizer`), or None if it cannot be compiled.

        Formulas of our own do arithmetic with hyperparameters and compare them, which symbolic scalars record. Those of
        users may do anything with floats, and are traced for each value.
        """
        is_own = formula.__module__.startswith("gradcore.optim.")
        key = formula, dtype, states, *[
            float if is_own and is_number(v) else (type(v), v or repr(v)) for v in hyperparameters.values()
        ]  # fmt: skip
        candidates = self._known.get(key)
        if candidates is None:
            if len(self._known) >= _MOST_FORMULAS:  # hyperparameters that change in every step
                self._known.clear()
            candidates = self._known[key] = []
        for guards, function in candidates:
            if all(guard(hyperparameters) for guard in guards):
                return function
        scalars, guards = symbolic(hyperparameters) if is_own else (hyperparameters, [])
        function = None
        with suppress(NotFusible):
            function = self._build(trace_optimizer(formula, dtype, states, scalars, self._tracer()), dtype)
        candidates.append((guards, function))
        return function
