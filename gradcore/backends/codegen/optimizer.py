"""Kernels of optimisers: the formula of a step, with the parameter and its states as variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.codegen.expr import MutableExpr, as_output
from gradcore.backends.codegen.scalars import Guard
from gradcore.backends.codegen.schedule import Input, Kernel
from gradcore.backends.codegen.trace import Tracer, trace

__all__ = ["OptimizerKernel", "trace_optimizer"]


class OptimizerKernel(NamedTuple):
    """The kernel of an optimiser's step.

    Attributes
    ----------
    kernel : Kernel
    states : int
        The number of states of a parameter.
    written : tuple of str
        The names of the outputs: the parameter ``p`` or states ``s0``, ``s1``, ...
    vectors : tuple of int
        Which of the hyperparameters that are arrays, with an element for each parameter, the kernel reads.
    guards : sequence of Guard
        The comparisons of hyperparameters for which it is made, where they are symbolic.
    """

    kernel: Kernel
    states: int
    written: tuple[str, ...]
    vectors: tuple[int, ...]
    guards: Sequence[Guard] = ()

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the inputs, then those of the outputs."""
        return *(i.name for i in self.kernel.inputs), *self.written


def trace_optimizer(
    formula: Callable[..., None],
    dtype: np.dtype[Any],
    states: int,
    hyperparameters: dict[str, Any],
    F: Tracer,
    name: str = "",
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
    name = name or f"fused_{formula.__name__}_steps"
    kernel = trace(name, functional, [*inputs, *hyperparameters.items()], F, [dtype] * len(names))
    written = tuple(label for label, result in zip(names, kernel.results, strict=True) if result.is_output)
    vectors = tuple(i.position - len(inputs) for i in kernel.inputs if i.position >= len(inputs))
    return OptimizerKernel(kernel, states, written, vectors)
