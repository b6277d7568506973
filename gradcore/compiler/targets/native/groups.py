"""Fusion of loops: adjacent loops and reductions over one shape become one loop, as far as aliasing allows."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.codegen import emit_cpp
from gradcore.backends.codegen.cpp import Dialect
from gradcore.backends.codegen.expr import Expr, NotFusible
from gradcore.backends.codegen.schedule import Input, Kernel, schedule
from gradcore.backends.codegen.trace import compute_dtype
from gradcore.backends.registry import CPU
from gradcore.compiler.targets.native.steps import Loop, Reduction, Step, View, clashes, overlap

__all__ = ["DIALECT", "Group", "TracedGroup", "group_steps", "store_as", "trace_group", "tracer"]

#: Functions of the C library, and the number of elements above which NumPy is as fast if they are not vectorized.
_LIBRARY = {
    "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh",
    "cosh": "cosh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "exp2": "exp2", "log2": "log2",
    "log10": "log10", "cbrt": "cbrt", "power": "power", "arctan2": "atan2",
}  # fmt: skip
_SLOW_ABOVE = 1 << 12
#: All functions that generated loops may call.
DIALECT = Dialect(emit_cpp.CPU.real | _LIBRARY, None, emit_cpp.CPU.where)
#: The largest number of expressions of one group, and the number of expressions that a function counts as.
_MOST, _FUNCTION = 240, 8


class _Tracer(emit_cpp.CppTracer):
    """The namespace in which formulas are traced for native segments."""

    target = "native programs"

    def supports(self, expr: Expr) -> bool:
        if expr.function == "cast" and expr.operands[0].dtype.kind == "f" and expr.dtype.kind in "iu":
            return False  # The result of a conversion out of range is undefined in C++.
        if expr.function == "power" and expr.dtype.kind != "f":
            return False
        return DIALECT.supports(expr)

    def check(self, exprs: Sequence[Expr]) -> None:
        """Raise `NotFusible` for expressions without a C++ form."""
        for expr in self.graph._known.values():
            if expr.operands and not self.supports(expr):
                raise NotFusible(f"there is no {expr.function}")


def tracer() -> _Tracer:
    """Return a namespace for formulas, with a new expression graph."""
    return _Tracer(CPU.backend.bodies)


def store_as(F: Any, expr: Expr, dtype: np.dtype[Any]) -> Expr:
    """Return the expression rounded to the dtype that it is stored in."""
    if compute_dtype(dtype) == dtype:
        return F.graph.cast(expr, dtype)  # type: ignore[no-any-return]
    if expr.dtype not in (np.dtype(bool), np.dtype(np.float32)):
        raise NotFusible("it would be rounded twice")
    return F.graph.round_to(F.graph.cast(expr, np.dtype(np.float32)), dtype)  # type: ignore[no-any-return]


class Group:
    """Loops and reductions over one shape, to be fused.

    Parameters
    ----------
    step : Loop or Reduction
        The first step of the group.
    relation : int
        See `_relate_steps`.
    """

    def __init__(self, step: Loop | Reduction, relation: int = 0) -> None:
        self.shape, self.relations = step.shape, {relation}
        self.steps: list[Loop | Reduction] = [step]
        self.dims: tuple[int, ...] | None = step.dims if isinstance(step, Reduction) else None
        self.fallible = False

    @property
    def reads(self) -> list[View]:
        return [r for step in self.steps for r in step.reads]

    @property
    def writes(self) -> list[View]:
        return [w for step in self.steps for w in step.writes]

    def takes(self, step: Step, relation: int, given: frozenset[int]) -> bool:
        """Return whether a step can join the group, element by element, after the steps in it."""
        if not isinstance(step, (Loop, Reduction)) or step.shape != self.shape or len(self.steps) >= _MOST:
            return False
        if isinstance(step, Reduction) and self.dims not in (None, step.dims):
            return False
        if relation not in self.relations and math.prod(self.shape) > 1:
            return False
        for r in step.reads:
            if any(r != w and overlap(r, w, given) for w in self.writes):
                return False
        views = [*self.reads, *self.writes]
        return not any(w != v and overlap(w, v, given) for w in step.writes for v in views)

    def add(self, step: Loop | Reduction, relation: int) -> None:
        self.steps.append(step)
        self.relations.add(relation)
        if isinstance(step, Reduction):
            self.dims = step.dims


def _relate_steps(steps: list[Step]) -> list[int]:
    """Return a number for each step: equal for loops over one shape that share arrays, directly or through others."""
    parents = [*range(len(steps))]
    first_users: dict[Any, int] = {}

    def top(i: int) -> int:
        while parents[i] != i:
            parents[i] = i = parents[parents[i]]
        return i

    for i, step in enumerate(steps):
        if isinstance(step, (Loop, Reduction)):
            for v in (*step.reads, *step.writes):
                if any(v.strides):  # A single number may be shared by unrelated loops.
                    parents[top(i)] = top(first_users.setdefault((step.shape, v.memory, v.offset), i))
    return [*map(top, parents)]


def group_steps(steps: list[Step], given: frozenset[int], made: Collection[int]) -> list[Any]:
    """Return groups and kernels in a valid order of execution.

    The memories in `given`, inputs, may share elements. A step that writes to a memory outside of `made` never moves in
    front of a step that may fail, because a segment that fails is repeated.
    """
    out: list[Any] = []
    for step, relation in zip(steps, _relate_steps(steps), strict=True):
        joined_group = None
        if isinstance(step, (Loop, Reduction)):
            for each in reversed(out[-24:]):
                if isinstance(each, Group) and each.takes(step, relation, given):
                    joined_group = each
                    break
                if clashes(each, step, given) or (each.fallible and any(w.memory not in made for w in step.writes)):
                    break
        if joined_group is None:
            out.append(Group(step, relation) if isinstance(step, (Loop, Reduction)) else step)
        elif isinstance(step, (Loop, Reduction)):
            joined_group.add(step, relation)
    return out


class TracedGroup(NamedTuple):
    """A group as expressions of one kernel.

    Attributes
    ----------
    kernel : Kernel
        The expressions of the group; its outputs are those of `stores`, followed by those of `reductions`.
    loads : list of View
        The views of the kernel's inputs.
    stores : list of View
    reductions : list of Reduction
    shape : tuple of int
    """

    kernel: Kernel
    loads: list[View]
    stores: list[View]
    reductions: list[Reduction]
    shape: tuple[int, ...]


def trace_group(group: Group, kept: Any, constants: dict[int, Any]) -> TracedGroup:
    """Trace the formulas of a group; `kept` tells which memories are read later and must be stored."""
    F = tracer()
    inputs: list[View] = []
    loaded: dict[View, Expr] = {}
    stores: dict[View, Expr] = {}
    reductions: list[tuple[Reduction, Expr]] = []

    def read(view: View) -> Expr:
        result = loaded.get(view)
        if result is None and view.memory in constants:
            result = F.graph.constant(constants[view.memory].item(), compute_dtype(view.dtype))
        if result is None:
            result = loaded[view] = F.graph.input(len(inputs), compute_dtype(view.dtype))
            inputs.append(view)
        return result

    for step in group.steps:
        exprs = [read(r) for r in step.reads]
        if isinstance(step, Reduction):
            reductions.append((step, exprs[0]))
            continue
        for view, expr in zip(step.writes, step.formula(F, *exprs), strict=True):
            loaded[view] = stores[view] = store_as(F, expr, view.dtype)
    stores = {v: e for v, e in stores.items() if kept(v.memory)}
    outputs = [(e, v.dtype) for v, e in stores.items()] + [(e, e.dtype) for _, e in reductions]
    kernel_inputs = [Input(v.dtype, name=f"x{i}", position=i) for i, v in enumerate(inputs)]
    kernel = schedule("loop", kernel_inputs, F.graph, outputs, [])
    loads = [inputs[i.position] for i in kernel.inputs]
    return TracedGroup(kernel, loads, list(stores), [r for r, _ in reductions], group.shape)


def is_slow(traced: TracedGroup) -> bool:
    """Return whether NumPy's vectorized functions would be faster than the scalar functions of the C library."""
    size = int(np.prod(traced.shape, dtype=np.int64))
    return size > _SLOW_ABOVE and any(e.function in _LIBRARY for e in traced.kernel.computed)
