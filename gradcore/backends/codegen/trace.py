"""Tracing: ``F`` on expressions, with which a formula runs once to become a kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcore.backends.codegen.expr import Expr, ExprGraph, NotFusible, unwrap
from gradcore.backends.codegen.scalars import ScalarParameter
from gradcore.backends.codegen.schedule import Input, Kernel, Result, schedule
from gradcore.backends.portable import approximations
from gradcore.backends.portable.elementwise import RENAMED, SPECIAL, Elementwise
from gradcore.core import dtypes

__all__ = ["CpuTracer", "Formula", "Tracer", "compute_dtype", "trace"]

#: ``formula(F, *operands) -> results``.
Formula = Callable[..., Sequence[Any]]


def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that elements of a dtype are computed in: float32 for the 16-bit floats."""
    entry = dtypes.FROM_NUMPY.get(dtype)
    return np.dtype("float32") if entry is not None and entry.is_reduced else dtype


class _NumpyNamespace:
    """NumPy's namespace, as far as elementwise kernels use it, on expressions."""

    inf, nan, pi = np.inf, np.nan, np.pi

    def __init__(self, graph: ExprGraph) -> None:
        self._graph = graph

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        def function(*operands: Any, out: Any = None) -> Expr:
            return self._graph.call(name, *operands)

        return function

    def dtype(self, dtype: Any) -> np.dtype[Any]:
        return np.dtype(dtype)

    def where(self, condition: Expr, x: Any, y: Any) -> Expr:
        return self._graph.where(condition, x, y)

    def zeros_like(self, x: Expr) -> Expr:
        return self._graph.constant(0, x.dtype)

    def ones_like(self, x: Expr) -> Expr:
        return self._graph.constant(1, x.dtype)

    def real(self, x: Expr) -> Expr:
        return x.real

    def imag(self, x: Expr) -> Expr:
        return x.imag


class _SpecialNamespace:
    """The namespace of scipy.special on expressions."""

    def __init__(self, graph: ExprGraph) -> None:
        self._graph = graph

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        def function(*operands: Any) -> Expr:
            dtype = np.result_type(np.float32, *(o.dtype if isinstance(o, Expr) else o for o in operands))
            return self._graph.call_in(name, dtype, dtype, *operands)

        return function


class Tracer(Elementwise):
    """A namespace for formulas in which arrays are expressions.

    Each target has a subclass: `supports` says which functions it has, and its methods express those that it lacks by
    others.

    Parameters
    ----------
    bodies : dict
        The operations' bodies by name.
    """

    #: Name of the target in error messages.
    target = "any target"
    host_scalars = False
    upcasts = False
    #: Whether inputs are converted to a different dtype for the computation.
    widens = False

    def __init__(self, bodies: dict[str, Callable[..., Any]]) -> None:
        self.graph = ExprGraph()
        self.xp: Any = _NumpyNamespace(self.graph)
        self.special = _SpecialNamespace(self.graph)
        self._bodies = bodies

    def __getattr__(self, name: str) -> Any:
        if name in RENAMED:
            return getattr(self.xp, RENAMED[name])
        if name in SPECIAL:
            return getattr(self.special, SPECIAL[name])
        if name in self._bodies:
            return functools.partial(self._bodies[name], self)
        raise NotFusible(f"{name} is not elementwise")

    def supports(self, expr: Expr) -> bool:
        """Return whether the target has the function of an expression that is no leaf."""
        return True

    def complex(self, real: Any, imag: Any) -> Expr:
        """``real + 1j * imag``."""
        dtype = real.dtype if isinstance(real, Expr) else imag.dtype
        result = np.dtype("complex64" if dtype == "float32" else "complex128")
        return self.graph.call_in("complex", np.dtype(f"float{result.itemsize * 4}"), result, real, imag)

    def nan_to_num(self, x: Any, *numbers: Any) -> Any:
        if self.widens:
            raise NotFusible("the limits are those of a dtype that is not computed in")
        return super().nan_to_num(x, *numbers)

    def nextafter(self, x: Any, y: Any) -> Any:
        if self.widens:
            raise NotFusible("the neighbours are those of a dtype that is not computed in")
        return super().nextafter(x, y)

    def new_zeros(self, x: Any, shape: Any) -> Any:
        raise NotFusible("the formula makes an array of another shape")


class CpuTracer(Tracer):
    """Namespace ``F`` for the CPU's targets. Special functions are `gradcore.backends.portable.approximations`."""

    target = "the CPU"

    def __getattr__(self, name: str) -> Any:
        if name in approximations.DTYPES:
            return functools.partial(self.approximate, name)
        return super().__getattr__(name)

    def approximate(self, name: str, x: Expr) -> Any:
        """Return a special function composed of elementary functions."""
        if x.dtype.char not in approximations.DTYPES[name]:
            raise NotFusible(f"{name} of {x.dtype} is SciPy's")
        return getattr(approximations, name)(self, x)

    def reciprocal(self, x: Any) -> Any:
        return 1 / x


def trace(
    name: str,
    formula: Formula,
    operands: Sequence[tuple[str, Any]],
    F: Tracer,
    stored: Sequence[np.dtype[Any] | None] | None = None,
) -> Kernel:
    """Trace a formula to a kernel.

    Parameters
    ----------
    name : str
        The kernel's name.
    formula : callable
        ``(F, *operands) -> results``.
    operands : sequence of (str, operand)
        The operands with their names: an `Input` for an array or a NumPy scalar, anything else as it is. Floats become
        parameters of the kernel.
    F : Tracer
        The target's namespace; a new one for each formula.
    stored : sequence of dtype or None, optional
        The dtypes that results are converted to at the end; by default they keep their own.

    Raises
    ------
    NotFusible
        If the formula is not an expression of single elements, or the target lacks one of its functions.
    """
    inputs: list[Input] = []
    arguments: list[Any] = []
    for label, operand in operands:
        if isinstance(operand, Input):
            expr = F.graph.input(len(inputs), compute_dtype(operand.dtype))
            F.widens |= expr.dtype != operand.dtype
            inputs.append(operand._replace(name=label, position=len(inputs)))
            arguments.append(expr if operand.compute is None else F.graph.cast(expr, compute_dtype(operand.compute)))
        else:
            arguments.append(ScalarParameter(operand) if operand.__class__ is float else operand)
    expressions = [unwrap(result) for result in formula(F, *arguments)]
    results: list[Result] = []
    outputs: list[tuple[Expr, np.dtype[Any]]] = []
    for expr, target_dtype in zip(expressions, stored or [None] * len(expressions), strict=True):
        if not isinstance(expr, Expr):
            raise NotFusible("a result of the formula does not depend on its operands")
        if expr.function == "input" and target_dtype in (None, inputs[expr.value].dtype):
            results.append(Result(False, expr.value))
        else:
            results.append(Result(True, len(outputs)))
            dtype = expr.dtype if target_dtype is None else target_dtype
            outputs.append((F.graph.cast(expr, compute_dtype(dtype)), dtype))
    kernel = schedule(name, inputs, F.graph, outputs, results)
    for expr in kernel.computed:
        if not F.supports(expr):
            raise NotFusible(f"there is no {expr.function} on {F.target}")
    return kernel
