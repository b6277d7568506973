"""Formulas of optimisers as kernels: all parameters of a batch take their step in one launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.codegen.cells import Cell
from gradcore.backends.codegen.expressions import fresh
from gradcore.backends.codegen.functions import C_TYPES, computed
from gradcore.backends.codegen.programs import Operand, Program, traced
from gradcore.backends.codegen.tracer import Tracer

__all__ = ["Steps", "traced_steps"]


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
    vectors : tuple of int
        Which of the settings that are arrays, with an element for each parameter, the kernel takes.
    """

    program: Program
    changed: tuple[str, ...]
    states: int
    parameters: tuple[float, ...]
    vectors: tuple[int, ...]

    def source(self, dtype: np.dtype[Any]) -> str:
        """CUDA source of the kernel.

        A block has a part of a parameter, whose address and that of its gradient are in `parts`. Where `found_inf` is
        given and larger than 0, the step is left out.
        """
        program, kind, inner = self.program, C_TYPES[dtype.name], C_TYPES[computed(dtype).name]
        states = [f"s{i}" for i in range(self.states)]
        arrays, vectors = ([o for o in program.operands if o.is_array == wanted] for wanted in (True, False))
        arguments = ["const Parts parts", "const float* found_inf", *(f"{kind}* {name}_states" for name in states)]
        arguments += [f"const {C_TYPES[o.dtype.name]}* {o.name}_values" for o in vectors]
        arguments += [f"const {C_TYPES[d.name]} p{i}" for i, d in enumerate(program.parameters)]
        lines = ['#include "elementwise.cuh"', '#include "parts.cuh"', "using namespace gradcore;", ""]
        lines += [f'extern "C" __global__ void {program.name}({", ".join(arguments)}) {{']
        lines += ["    if (found_inf && *found_inf > 0) return;"]
        lines += ["    const i32 array = parts.array();", "    const Elements elements(parts, array);"]
        for place, name in enumerate(("p", "g")):
            const = "const " if name == "g" else ""
            address = f"reinterpret_cast<{const}{kind}*>(parts.addresses[{place}][array])"
            lines += [f"    {const}{kind}* {name}_array = {address} + elements.begin;"]
        lines += [f"    {kind}* {s}_array = {s}_states + parts.start[array] + elements.begin;" for s in states]
        lines += [f"    const {inner} {o.name} = {o.name}_values[parts.first + array];" for o in vectors]
        lines += ["    for (i64 i = threadIdx.x; i < elements.count; i += blockDim.x) {"]
        lines += [f"        const {inner} {o.name} = load({o.name}_array[i]);" for o in arrays]
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
    tracer: Callable[..., Tracer] = Tracer,
) -> Steps:
    """Trace ``formula(F, p, g, *states, **settings)``; a setting that is an array is given as an `Operand`.

    `tracer` makes the namespace for the formula.

    Raises
    ------
    Unfusable
        If it is not an expression of one element's values.
    """
    names = ["p", *(f"s{i}" for i in range(states))]

    def run(F: Any, g: Any, p: Any, *rest: Any) -> list[Any]:
        before = (p, *rest[:states])
        cells = [Cell(v) for v in before]
        formula(F, cells[0], g, *cells[1:], **dict(zip(settings, rest[states:], strict=True)))
        return [value if cell.value is value else fresh(cell.value) for cell, value in zip(cells, before, strict=True)]

    operands = [(name, Operand(name, dtype)) for name in ("g", *names)]
    found = traced(
        f"{formula.__name__}_steps", run, [*operands, *settings.items()], bodies, [dtype] * len(names), tracer
    )
    changed = tuple(name for name, (fresh, _) in zip(names, found.results, strict=True) if fresh)
    vectors = tuple(i - len(operands) for i in found.used if i >= len(operands))
    return Steps(found.program, changed, states, found.parameters, vectors)
