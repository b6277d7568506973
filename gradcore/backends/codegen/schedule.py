"""Scheduling: order the expressions of a kernel topologically, and assign intermediates to scratch buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.codegen.expr import Expr, ExprGraph
from gradcore.backends.codegen.scalars import ScalarParameter

__all__ = ["Input", "Kernel", "Parameter", "Result", "assign_buffers", "schedule", "topological_order"]


class Input(NamedTuple):
    """An input of a kernel: an array, or a scalar whose value is known at launch only.

    Attributes
    ----------
    dtype : dtype
        The dtype in memory.
    is_array : bool
    compute : dtype or None
        A dtype that elements are converted to first.
    name : str
        The operand's name in the formula.
    position : int
        The position among the arrays and scalars of the call.
    """

    dtype: np.dtype[Any]
    is_array: bool = True
    compute: np.dtype[Any] | None = None
    name: str = ""
    position: int = 0


class Parameter(NamedTuple):
    """A scalar parameter of a kernel: its position in the graph, its dtype and its value."""

    position: int
    dtype: np.dtype[Any]
    scalar: ScalarParameter


class Result(NamedTuple):
    """A result of a formula: an output of the kernel (its position), or an input returned as it is."""

    is_output: bool
    position: int


class Kernel(NamedTuple):
    """An elementwise kernel: scheduled expressions, inputs and outputs.

    Attributes
    ----------
    name : str
    inputs : tuple of Input
        The inputs that are read.
    parameters : tuple of Parameter
        The parameters that are read.
    nodes : tuple of Expr
        The expressions, leaves included, each after its operands.
    computed : tuple of Expr
        Expressions that are not leaves, which are the array operations of the formula.
    outputs : tuple of (Expr, dtype)
        Expressions that are written, and their dtypes in memory.
    results : tuple of Result
        The results of the formula.
    """

    name: str
    inputs: tuple[Input, ...]
    parameters: tuple[Parameter, ...]
    nodes: tuple[Expr, ...]
    computed: tuple[Expr, ...]
    outputs: tuple[tuple[Expr, np.dtype[Any]], ...]
    results: tuple[Result, ...]

    def scalar(self, leaf: Expr) -> Any:
        """Return the number of a constant or of a parameter."""
        return leaf.graph.parameters[leaf.value][0] if leaf.function == "parameter" else leaf.value

    @property
    def arrays(self) -> list[Input]:
        """The inputs that are arrays."""
        return [i for i in self.inputs if i.is_array]

    @property
    def dtypes(self) -> list[np.dtype[Any]]:
        """The dtypes of the inputs and the outputs in memory."""
        return [i.dtype for i in self.inputs] + [dtype for _, dtype in self.outputs]

    def __str__(self) -> str:
        """Return the nodes, numbered in order."""
        leaves = {("input", i.position): i.name for i in self.inputs}
        leaves |= {("parameter", p.position): repr(p.scalar) for p in self.parameters}
        numbers = {id(expr): f"%{n}" for n, expr in enumerate(self.nodes)}
        lines = [f"{self.name}({', '.join(f'{i.name}: {i.dtype}' for i in self.inputs)}):"]
        for expr in self.nodes:
            operands = [numbers[id(o)] for o in expr.operands]
            leaf = leaves.get((expr.function, expr.value), repr(expr.value))
            lines.append(f"    {numbers[id(expr)]}: {expr.dtype} = {expr.function} {' '.join(operands) or leaf}")
        returned = ", ".join(f"{numbers[id(expr)]}: {dtype}" for expr, dtype in self.outputs)
        return "\n".join([*lines, f"    return {returned}"])


def schedule(
    name: str,
    inputs: Sequence[Input],
    graph: ExprGraph,
    outputs: Sequence[tuple[Expr, np.dtype[Any]]],
    results: Sequence[Result],
) -> Kernel:
    """Return the kernel that computes these outputs: dead expressions, inputs and parameters are left out."""
    nodes = topological_order([expr for expr, _ in outputs])
    input_positions = sorted([expr.value for expr in nodes if expr.function == "input"])
    parameter_positions = sorted([expr.value for expr in nodes if expr.function == "parameter"])
    return Kernel(
        name=name,
        inputs=tuple([inputs[i] for i in input_positions]),
        parameters=tuple([Parameter(i, graph.parameters[i][1], graph.parameters[i][0]) for i in parameter_positions]),
        nodes=tuple(nodes),
        computed=tuple([expr for expr in nodes if expr.operands]),
        outputs=tuple(outputs),
        results=tuple(results),
    )


def topological_order(roots: Sequence[Expr]) -> list[Expr]:
    """Return the expressions that the roots depend on, each after its operands."""
    order: list[Expr] = []
    seen: set[int] = set()
    stack: list[Any] = [*reversed(roots)]
    while stack:
        expr = stack.pop()
        if expr.__class__ is tuple:  # The operands are in `order` already.
            order.append(expr[0])
        elif id(expr) not in seen:
            seen.add(id(expr))
            if expr.operands:
                stack.append((expr,))
                stack += reversed(expr.operands)
            else:
                order.append(expr)
    return order


def assign_buffers(kernel: Kernel) -> tuple[list[int | None], list[np.dtype[Any]]]:
    """Scratch buffers by liveness: a buffer is free again after the last use of the value in it.

    Returns
    -------
    list of int or None
        For each of `kernel.computed` the number of the buffer that it is written to; outputs have none.
    list of dtype
        The dtypes of the buffers.
    """
    outputs = {id(expr) for expr, _ in kernel.outputs}
    last_use = {id(operand): expr for expr in kernel.computed for operand in expr.operands}
    buffers: dict[int, int] = {}
    dtypes: list[np.dtype[Any]] = []
    free: list[int] = []
    for expr in kernel.computed:
        dead = sorted({buffers[id(o)] for o in expr.operands if id(o) in buffers and last_use[id(o)] is expr})
        # A selection must not write to a buffer that it reads.
        unavailable = dead if expr.function == "where" else []
        free += [buffer for buffer in dead if buffer not in unavailable]
        if id(expr) not in outputs:
            buffer = next((b for b in reversed(free) if dtypes[b] == expr.dtype), len(dtypes))
            if buffer == len(dtypes):
                dtypes.append(expr.dtype)
            else:
                free.remove(buffer)
            buffers[id(expr)] = buffer
        free += unavailable
    return [buffers.get(id(expr)) for expr in kernel.computed], dtypes
