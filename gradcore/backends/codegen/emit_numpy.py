"""Emit kernels for NumPy as straight-line Python: one call per expression, with scratch arrays for intermediates."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.codegen.expr import Expr, NotFusible
from gradcore.backends.codegen.schedule import Input, Kernel, assign_buffers
from gradcore.backends.codegen.trace import CpuTracer, trace
from gradcore.core.tracebacks import define

__all__ = ["NumpyFunction", "NumpyTracer", "emit", "trace_tile"]

_FLOATS = np.dtype("f4"), np.dtype("f8")


class NumpyTracer(CpuTracer):
    """Namespace ``F`` that traces formulas for NumPy, with the CPU backend's kernels for large arrays."""

    def supports(self, expr: Expr) -> bool:
        return expr.dtype in _FLOATS if expr.function == "where" else _function(expr.function) is not None

    def clamp(self, x: Any, low: Any = None, high: Any = None) -> Any:
        if isinstance(low, Expr) or isinstance(high, Expr):
            return super().clamp(x, low, high)
        low, high = -np.inf if low is None else low, np.inf if high is None else high
        return self.graph.call_in("clip", x.dtype, x.dtype, x, low, high)

    def relu(self, x: Any) -> Any:
        return self.clamp(x, 0)

    def power(self, x: Any, exponent: Any, value: Any) -> Any:
        raise NotFusible("the backend has a kernel for powers")

    def copysign(self, x: Any, y: Any) -> Any:
        raise NotFusible("the backend has a kernel for signs")

    def hypot(self, x: Any, y: Any) -> Any:
        raise NotFusible("the backend has a kernel for hypotenuses")


def trace_tile(formula: Callable[..., Any], operands: Sequence[Any], bodies: dict[str, Callable[..., Any]]) -> Kernel:
    """Trace a formula ``(F, *operands) -> result`` to a kernel, given example arrays."""
    operands_by_name = [(f"x{i}", Input(o.dtype) if isinstance(o, np.ndarray) else o) for i, o in enumerate(operands)]
    return trace("tile", lambda F, *args: (formula(F, *args),), operands_by_name, NumpyTracer(bodies))


class NumpyFunction(NamedTuple):
    """A kernel compiled to a function of one-dim arrays.

    Attributes
    ----------
    call : callable
        ``call(*inputs, *scratch, *outputs)``, which writes the outputs.
    scratch : tuple of dtype
        The dtypes of scratch arrays, as long as the outputs.
    dtype : dtype
        The dtype of the first output.
    calls : int
        Number of NumPy functions that it calls.
    inputs : tuple of int
        Positions of its inputs among the arrays that were traced.
    pooled : bool
        Whether threads share each of the calls.
    """

    call: Callable[..., None]
    scratch: tuple[np.dtype[Any], ...]
    dtype: np.dtype[Any]
    calls: int
    inputs: tuple[int, ...]
    pooled: bool = False


def emit(
    kernel: Kernel, select: Callable[..., None], pooled: Callable[[Any], Callable[..., Any]] | None = None
) -> NumpyFunction:
    """Compile a kernel.

    Parameters
    ----------
    kernel : Kernel
        A kernel of `trace_tile`.
    select : callable
        ``(condition, x, y, out=...)``: a selection.
    pooled : callable, optional
        Makes of a universal function of NumPy one that threads share.

    Raises
    ------
    NotFusible
        If an output is not computed, is one twice, or has no floats.
    """
    outputs = {id(expr): "out" if n == 0 else f"out{n}" for n, (expr, _) in enumerate(kernel.outputs)}
    if len(outputs) < len(kernel.results) or any(d not in _FLOATS or not e.operands for e, d in kernel.outputs):
        raise NotFusible("there is nothing to compute")
    names: dict[int, str] = {}
    scope: dict[str, Any] = {}
    for expr in kernel.nodes:
        if expr.function == "input":
            names[id(expr)] = f"x{expr.value}"
        elif not expr.operands:
            name = names[id(expr)] = f"c{len(scope)}"
            scope[name] = np.asarray(kernel.scalar(expr), expr.dtype)
    buffers, scratch = assign_buffers(kernel)
    lines = []
    for number, (expr, buffer) in enumerate(zip(kernel.computed, buffers, strict=True)):
        out = names[id(expr)] = outputs[id(expr)] if buffer is None else f"s{buffer}"
        function = f"{expr.function}_{number}"
        called = select if expr.function == "where" else _function(expr.function)
        scope[function] = pooled(called) if pooled is not None and isinstance(called, np.ufunc) else called
        lines.append(f"{function}({', '.join([names[id(o)] for o in expr.operands])}, out={out})")
    arguments = [*(f"x{i.position}" for i in kernel.inputs), *(f"s{n}" for n in range(len(scratch))), *outputs.values()]
    head = f"def {kernel.name}({', '.join(arguments)}):"
    run = define(__name__, kernel.name, [head, *lines], scope)
    inputs = tuple(i.position for i in kernel.inputs)
    dtype, is_pooled = kernel.outputs[0][1], pooled is not None
    return NumpyFunction(run, tuple(scratch), dtype, len(lines), inputs, is_pooled)


def _clip(x: Any, low: Any, high: Any, out: Any) -> None:
    np.clip(x, low, high, out)


def _cast(x: Any, out: Any) -> None:
    np.copyto(out, x, casting="unsafe")


@functools.cache
def _function(name: str) -> Callable[..., Any] | None:
    """Return the callable that computes a function into ``out``, or None."""
    function = {"clip": _clip, "cast": _cast}.get(name) or getattr(np, name, None)
    return function if isinstance(function, np.ufunc) or function in (_clip, _cast) else None
