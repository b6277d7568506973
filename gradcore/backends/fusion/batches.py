"""Formulas of optimisers as kernels: all parameters of a batch take their step in one launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.fusion.cells import Cell
from gradcore.backends.fusion.functions import C_TYPES, computed
from gradcore.backends.fusion.programs import Operand, Program, traced

__all__ = ["Steps", "chunk_table", "traced_steps"]

#: Elements that a block goes over.
CHUNK = 1 << 13


class Steps(NamedTuple):
    """The kernel of an optimiser's step.

    Attributes
    ----------
    program : Program
    changed : tuple of str
        What the outputs of the program are: the parameter ``p`` or states ``s0``, ``s1``, ...
    states : int
        How many states there are.
    parameters : tuple of float
        The values of the program's parameters.
    """

    program: Program
    changed: tuple[str, ...]
    states: int
    parameters: tuple[float, ...]

    def source(self, dtype: np.dtype[Any]) -> str:
        """CUDA source of the kernel.

        A block has a row of the table `chunks`: the addresses of a part of a parameter and of its gradient, where its
        states begin, and how many elements it has.
        """
        program, kind = self.program, C_TYPES[dtype.name]
        names = ["p", "g", *(f"s{i}" for i in range(self.states))]
        arguments = ["const i64* chunks", *(f"{kind}* {name}_states" for name in names[2:])]
        arguments += [f"const {C_TYPES[d.name]} p{i}" for i, d in enumerate(program.parameters)]
        lines = ['#include "elementwise.cuh"', "using namespace gradcore;", ""]
        lines += [f'extern "C" __global__ void {program.name}({", ".join(arguments)}) {{']
        lines += ["    const i64* chunk = chunks + 4 * blockIdx.x;"]
        lines += [f"    {kind}* p_array = reinterpret_cast<{kind}*>(chunk[0]);"]
        lines += [f"    const {kind}* g_array = reinterpret_cast<const {kind}*>(chunk[1]);"]
        lines += [f"    {kind}* {name}_array = {name}_states + chunk[2];" for name in names[2:]]
        lines += ["    for (i64 i = threadIdx.x; i < chunk[3]; i += blockDim.x) {"]
        inner = C_TYPES[computed(dtype).name]
        lines += [f"        const {inner} {o.name} = load({o.name}_array[i]);" for o in program.operands]
        lines += [f"        {line}" for line in program.body]
        lines += [
            f"        {name}_array[i] = store<{kind}>({value});"
            for name, (value, _) in zip(self.changed, program.outputs, strict=True)
        ]
        return "\n".join([*lines, "    }", "}", ""])


def traced_steps(
    formula: Callable[..., None],
    dtype: np.dtype[Any],
    states: int,
    settings: dict[str, Any],
    bodies: dict[str, Callable[..., Any]],
) -> Steps:
    """Trace ``formula(F, p, g, *states, **settings)``.

    Raises
    ------
    Unfusable
        If it is not an expression of one element's values.
    """
    names = ["p", *(f"s{i}" for i in range(states))]

    def run(F: Any, g: Any, p: Any, *rest: Any) -> list[Any]:
        cells = [Cell(v) for v in (p, *rest[:states])]
        formula(F, cells[0], g, *cells[1:], **dict(zip(settings, rest[states:], strict=True)))
        return [cell.value for cell in cells]

    operands = [(name, Operand(name, dtype)) for name in ("g", *names)]
    found = traced(
        f"{formula.__name__}_steps", run, [*operands, *settings.items()], bodies, stored=[dtype] * len(names)
    )
    changed = tuple(name for name, (fresh, _) in zip(names, found.results, strict=True) if fresh)
    return Steps(found.program, changed, states, found.parameters)


def chunk_table(addresses: list[int], grads: list[int], sizes: list[int], itemsize: int) -> np.ndarray[Any, Any]:
    """The rows of `chunks` for parameters at these addresses, whose states follow each other."""
    rows = []
    offset = 0
    for address, grad, size in zip(addresses, grads, sizes, strict=True):
        for start in range(0, size, CHUNK):
            moved = start * itemsize
            rows.append((address + moved, grad + moved, offset + start, min(CHUNK, size - start)))
        offset += size
    return np.array(rows, np.int64).reshape(-1, 4)
