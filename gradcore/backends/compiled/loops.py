"""Elementwise formulas as loops of C++: traced as for CUDA, written down for the CPU.

A loop goes once through memory. It takes contiguous arrays; `elementwise.cpp` brings others into that form, a few
elements at a time. A formula becomes a loop only if all of its functions are in `elements.h`, where they are written so
that the compiler can use all lanes of the CPU.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.codegen.batches import traced_steps
from gradcore.backends.codegen.expressions import Unfusable
from gradcore.backends.codegen.functions import C_TYPES, FUNCTION_NAMES
from gradcore.backends.codegen.programs import Operand, Program, Traced, traced
from gradcore.backends.compiled.symbols import Guard, StepTracer, symbols_of
from gradcore.backends.compiled.tracer import LoopTracer

__all__ = ["StepLoop", "is_exact", "is_single_step", "loop_name", "loop_source", "step_loop", "traced_loop"]

#: Dtypes of operands and of results.
DTYPES = frozenset(map(np.dtype, ("f4", "f8", "?")))

#: The functions of `elements.h`.
KNOWN = {
    "cast", "ceil", "copysign", "erf", "exp", "expm1", "floor", "is_finite", "is_infinite", "is_nan", "larger", "log",
    "log1p", "magnitude", "maximum", "minimum", "rint", "smaller", "sqrt", "tanh", "times_log", "times_log1p", "trunc",
    "truth",
}  # fmt: skip

#: Those whose results may differ from NumPy's in the last places.
NOT_EXACT = {"erf", "exp", "expm1", "log", "log1p", "tanh", "times_log", "times_log1p"}

#: Of zeros of both signs, NumPy's may give either: alone, they are left to it.
EXTREMA = {"larger", "maximum", "minimum", "smaller"}

_SELECTION = re.compile(r"= (\S+) \? (\S+) : (\S+);")
_CALLED = re.compile(r"\b([a-z_]\w*)(?=[(<])")


def traced_loop(
    formula: Callable[..., Any], operands: Sequence[Any], bodies: dict[str, Callable[..., Any]]
) -> Traced | None:
    """A formula ``(F, *operands) -> result`` as a program; None if it is not to be a loop.

    Parameters
    ----------
    formula : callable
    operands : sequence
        The dtype of an array, or a setting.
    bodies : dict
        The bodies of operations by name.
    """
    described = [(f"x{i}", Operand(f"x{i}", o) if isinstance(o, np.dtype) else o) for i, o in enumerate(operands)]
    if any(isinstance(o, Operand) and o.dtype not in DTYPES for _, o in described):
        return None
    try:
        found = traced("loop", lambda F, *given: (formula(F, *given),), described, bodies, tracer=LoopTracer)
    except Unfusable:
        return None
    return found if found.results[0][0] and _is_possible(found.program) else None


def _is_possible(program: Program) -> bool:
    if program.outputs[0][1].kind != "f" or not program.operands or not _is_known(program):
        return False
    return program.functions > 1 or not _called(program) & EXTREMA


def is_single_step(program: Program) -> bool:
    """Whether a program is one function of NumPy, but for selections, at which NumPy is slow."""
    return program.functions < 2 and " ? " not in program.body[0]


def is_exact(program: Program) -> bool:
    """Whether the result is that of NumPy bit for bit."""
    return not _called(program) & NOT_EXACT


def _is_known(program: Program) -> bool:
    return not _called(program) - KNOWN


def _called(program: Program) -> set[str]:
    return {name for line in program.body for name in _CALLED.findall(line)} & FUNCTION_NAMES


class StepLoop(NamedTuple):
    """An optimiser's step as a program.

    Attributes
    ----------
    program : Program
    names : tuple of str
        The arrays that it reads, then those that it writes: ``p``, ``g``, ``s0``, ``s1``, ...
    parameters : list of Symbol
    guards : list of Guard
        What settings have in common for which the program is the same.
    """

    program: Program
    names: tuple[str, ...]
    parameters: list[Any]
    guards: list[Guard]


def step_loop(
    formula: Callable[..., None],
    dtype: np.dtype[Any],
    states: int,
    settings: dict[str, Any],
    bodies: dict[str, Callable[..., Any]],
) -> StepLoop | None:
    """The formula of an optimiser's step, ``formula(F, p, g, *states, **settings)``; None if it is not to be a loop."""
    symbols, guards = symbols_of(settings)
    try:
        found = traced_steps(formula, dtype, states, symbols, bodies, tracer=StepTracer)
    except Unfusable:
        return None
    if not _is_known(found.program):
        return None
    names = (*(o.name for o in found.program.operands), *found.changed)
    return StepLoop(found.program._replace(name="loop"), names, list(found.parameters), guards)


# -- C++ -------------------------------------------------------------------------------------------------------------


def loop_name(program: Program) -> str:
    """A name that is the same for equal loops, and for no others."""
    text = "\n".join(_lines(program, "loop"))
    return f"loop_{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def loop_source(program: Program) -> str:
    """The loop as a function ``(n, arrays, parameters)``; the arrays are the operands', then the results'."""
    return "\n".join([*_lines(program, loop_name(program)), ""])


def _lines(program: Program, name: str) -> list[str]:
    outputs = program.outputs
    types = [C_TYPES[o.dtype.name] for o in program.operands]
    lines = [f'extern "C" void {name}(i64 n, void* const* arrays, const double* parameters) {{']
    lines += [
        f"    const {kind}* {o.name}_array = static_cast<const {kind}*>(arrays[{i}]);"
        for i, (o, kind) in enumerate(zip(program.operands, types, strict=True))
    ]
    for i, (_, dtype) in enumerate(outputs):
        kind = C_TYPES[dtype.name]
        lines.append(f"    {kind}* r{i}_array = static_cast<{kind}*>(arrays[{len(types) + i}]);")
    for i, dtype in enumerate(program.parameters):
        kind = C_TYPES[dtype.name]
        lines.append(f"    const {kind} p{i} = static_cast<{kind}>(parameters[{i}]);")
    lines += ["#pragma omp simd", "    for (i64 i = 0; i < n; ++i) {"]
    lines += [
        f"        const {kind} {o.name} = {o.name}_array[i];" for o, kind in zip(program.operands, types, strict=True)
    ]
    lines += ["        " + _SELECTION.sub(r"= chosen(\1, \2, \3);", line) for line in program.body]
    lines += [f"        r{i}_array[i] = {value};" for i, (value, _) in enumerate(outputs)]
    return [*lines, "    }", "}"]
