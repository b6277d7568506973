"""Fusion on CUDA: elementwise calls of one shape, forward and backward, become one generated kernel.

Calls are reordered as far as their dependencies allow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np

from gradcore.backends.codegen.emit_cuda import CudaTracer
from gradcore.backends.codegen.expr import Expr, NotFusible, as_output
from gradcore.backends.codegen.scalars import ScalarParameter
from gradcore.backends.codegen.schedule import Input
from gradcore.backends.codegen.trace import compute_dtype, trace
from gradcore.backends.cupy.fusion import CudaFusion
from gradcore.backends.portable.elementwise import RENAMED, SPECIAL
from gradcore.compiler.program.effects import is_pure
from gradcore.compiler.program.program import Call, Literal, Program, Value, map_leaves, values_in
from gradcore.compiler.targets.grouping import FusedCalls, Grouping, Leaf, call_on_expressions, leaves_of
from gradcore.core import dtypes
from gradcore.core.operators import OPERATORS

__all__ = ["FusedLaunch", "fuse_on_cuda"]

_HALVES = tuple(known.numpy for known in (dtypes.float16, dtypes.bfloat16))
_DTYPES = np.dtype("f4"), np.dtype("f8"), np.dtype(bool), *_HALVES
#: Methods of the backend that run a formula as one kernel, and elementwise methods.
_FUSED = frozenset(["evaluate_formula", "evaluate_step", "fused_forward", "fused_gradients", "rounded_once"])
#: The methods among these with a parameter for the dtype of the result.
_STORED = frozenset(["fused_forward", "fused_gradients", "rounded_once"])
_FORMULAS = frozenset(["evaluate_tiled", "tanh_backward"])
#: Operators for which CuPy and generated kernels return equal bits.
_OPERATORS = frozenset(OPERATORS) - {"floordiv", "lshift", "matmul", "mod", "pos", "rshift"}
#: Functions for which a single call of CuPy returns different bits than a generated kernel.
_LEFT_TO_CUPY = frozenset([*SPECIAL, "exp2"])
#: The largest number of arrays of a kernel, of calls of a group, and of bytes of a copy that is delayed.
_MOST_ARRAYS, _MOST_CALLS, _MOST_COPIED = 48, 200, 1 << 16


class _Collector:
    """Substitute for `gradcore.backends.codegen.launch.Fusion` whose formulas return expressions of a fused kernel."""

    def __init__(self, F: CudaTracer) -> None:
        self.F = F

    def run(
        self, name: str, key: Any, formula: Any, names: object, values: Any, compute: Any = None, stored: Any = None
    ) -> list[Any]:
        arguments: list[Any] = []
        for i, value in enumerate(values):
            if isinstance(value, np.generic):
                value = self.F.graph.constant(value.item(), compute_dtype(value.dtype))
            if isinstance(value, Expr) and compute is not None and compute[i] is not None:
                value = self.F.graph.cast(value, compute_dtype(compute[i]))
            arguments.append(ScalarParameter(value) if value.__class__ is float else value)
        exprs = formula(self.F, *arguments)
        dtypes = [None] * len(exprs) if stored is None else stored
        return [x if d is None else self.F.graph.cast(x, compute_dtype(d)) for x, d in zip(exprs, dtypes, strict=True)]


class _Formulas(CudaFusion):
    """The backend's methods that run formulas, applied to expressions of a fused kernel."""

    array_type = Expr

    def __init__(self, F: CudaTracer, backend: Any) -> None:
        self.fusion = _Collector(F)  # type: ignore[assignment]
        self.bodies, self.elementwise = backend.bodies, backend.elementwise

    def generates(self, operands: Any) -> bool:
        return True


class FusedLaunch(FusedCalls):
    """A group of elementwise calls as one generated kernel."""

    def __init__(self, calls: list[Call], inputs: list[Any], outputs: list[int], program: Program) -> None:
        self.calls, self.outputs = calls, outputs
        backend = program.backend
        types: list[Any] = [program.type_of(leaf) for leaf in inputs]
        operands = [(f"x{i}", Input(kind.dtype)) for i, kind in enumerate(types)]

        def formula(F: Any, *args: Any) -> list[Any]:
            values = {(type(leaf), leaf.number): expr for leaf, expr in zip(inputs, args, strict=True)}
            formulas = _Formulas(F, backend)
            loaded = {id(expr): kind.dtype for expr, kind in zip(args, types, strict=True)}

            def plain(leaf: Any) -> Any:
                if type(leaf) in (Value, Literal):
                    return values[type(leaf), leaf.number]
                return ScalarParameter(leaf) if type(leaf) is float else leaf

            for call in calls:
                results = _trace_call(call, F, formulas, plain)
                has_several = type(call.results) in (list, tuple)
                pairs = zip(call.results, results, strict=True) if has_several else [(call.results, results)]
                for result, expr in pairs:
                    if type(result) is Value:
                        dtype = program.types[result.number].dtype
                        if not isinstance(expr, Expr) or expr.dtype != compute_dtype(dtype):
                            raise NotFusible("its results would have other dtypes")
                        rounds = dtype in _HALVES and loaded.get(id(expr)) != dtype
                        values[Value, result.number] = F.graph.round_to(expr, dtype) if rounds else expr
            results = [values[Value, n] for n in outputs]
            if any(expr.function == "input" for expr in results):
                raise NotFusible("a result is an unchanged operand")
            return results

        stored = [program.types[n].dtype for n in outputs]
        self.kernel = trace("group", formula, operands, CudaTracer(backend.bodies), stored)
        self._launch = backend.fusion.launcher(self.kernel)

    @property
    def summary(self) -> str:
        """Description of the size, for `explain`."""
        return f"one kernel of {len(self.kernel.computed)} steps"

    def __call__(self, *arrays: Any) -> list[Any]:
        return self.call_in_profile(self._launch, list(arrays))


def _rounds_once(call: Call, operands: list[Any]) -> bool:
    """Return whether a call on 16-bit floats computes in float32 and rounds only the result."""
    kind, _, name = call.name.partition(".")
    if name == "astype":
        return bool(operands[0].dtype != "f8")
    is_single_function = kind == "operator" or (kind in ("kernels", "backend") and name in RENAMED)
    return name in _STORED or (is_single_function and len(operands) == len(call.args) and not call.named)


def _trace_call(call: Call, F: Any, formulas: _Formulas, plain: Any) -> Any:
    """Return the expressions of a call's results."""
    name = call.last_name
    args, named = map_leaves(plain, call.args), map_leaves(plain, call.named)
    if call.name == "method.copy":
        return as_output(args[0])
    if name == "astype":
        return F.graph.cast(args[0], compute_dtype(np.dtype(args[1])))
    if name in _FUSED:
        return getattr(formulas, name)(*args, **named)
    return call_on_expressions(call, F, args, named)


def fuse_on_cuda(program: Program, refused: list[str] | None = None) -> Program:
    """Fuse groups of elementwise calls into one kernel each.

    Parameters
    ----------
    program : Program
    refused : list of str, optional
        Receives why elementwise calls are not part of a group.
    """
    if program.index is None or not getattr(program.backend, "supports_fusion", False):
        return program
    return _Grouping(program, [] if refused is None else refused).run()


class _Grouping(Grouping):
    """Fusion pass that groups elementwise calls of one shape, and delays calls that need an open group."""

    keeps_errors = False  # The device raises errors later.

    def __init__(self, program: Program, refused: list[str]) -> None:
        super().__init__(program, refused, waits=True)
        self.copied = Counter(n for call in program.calls if call.name == "method.copy" for n in call.read)
        #: The results of calls that are in no group.
        self.alone = set[int]()

    def key(self, call: Call) -> tuple[int, ...] | None:
        """Return the shape of an elementwise call's results, or None for other calls."""
        shape = self._shape(call)
        if shape is None:
            self.alone.update(call.outputs)
        return shape

    def joins(self, group: Collection[Call], call: Call) -> bool:
        leaves = {leaf for each in (*group, call) for leaf in leaves_of(each)}
        return len(group) < _MOST_CALLS and len(leaves) <= _MOST_ARRAYS

    def sort(self, positions: list[int]) -> list[int]:
        """Return the positions with those of copies last, so that a group contains many copies."""
        return sorted(positions, key=lambda i: self.program.calls[i].name == "method.copy")

    def _shape(self, call: Call) -> tuple[int, ...] | None:
        """Return the shape of an elementwise call's results, or None for other calls."""
        kind, _, name = call.name.partition(".")
        is_fusible = name in _FUSED or name in _FORMULAS or name == "astype" or self._is_single_copy(call)
        if kind in ("kernels", "backend"):
            is_fusible = is_fusible or name in self.program.backend.elementwise or name in RENAMED
        is_fusible = is_fusible or (kind == "operator" and name in _OPERATORS)
        results: list[Any] = [self.program.types.get(n) for n in values_in(call.results)]
        if not is_fusible or name in _LEFT_TO_CUPY or not results or None in results or not is_pure(call):
            return None
        refusal = self._refusal(call, results)
        if refusal is not None:
            self.refused.append(f"{call!r}: {refusal}")
            return None
        return results[0].shape  # type: ignore[no-any-return]

    def _is_single_copy(self, call: Call) -> bool:
        """Return whether a call only copies a small array that no group computes."""
        if call.name != "method.copy" or len(call.args) != 1 or call.named or len(call.read) != 1:
            return False
        (n,) = call.read
        array_type = self.program.types.get(n)
        if array_type is None or n not in self.alone or array_type.dtype not in _DTYPES or array_type.dtype.kind != "f":
            return False
        return array_type.is_dense and array_type.nbytes <= _MOST_COPIED and self.copied[n] == 1

    def _refusal(self, call: Call, results: list[Any]) -> str | None:
        """Return the reason why an elementwise call cannot be part of a group, or None if it can."""
        shape = results[0].shape
        numbers = {*values_in(call.results)}
        if any(t.shape != shape or t.memory not in numbers or not t.is_dense for t in results):
            return "a result is a view, or not contiguous"
        if not results[0].size:
            return "it has no elements"
        leaves = leaves_of(call)
        if any(type(leaf) is Literal and isinstance(self.program.literals[leaf.number], np.ndarray) for leaf in leaves):
            return "an array is the CPU's"
        operands: list[Any] = [self.program.type_of(leaf) for leaf in leaves]
        if None in operands:
            return "it is given a number that is drawn"
        if any(t.dtype not in _DTYPES for t in (*results, *operands)):
            return "it computes other numbers than floats and bools"
        if any(t.dtype in _HALVES for t in (*results, *operands)) and not _rounds_once(call, operands):
            return "16-bit floats may be rounded in between"
        try:
            broadcasts = np.broadcast_shapes(shape, *(t.shape for t in operands)) == shape
        except ValueError:
            broadcasts = False
        return None if broadcasts else "its operands have other shapes"

    def fuse(self, calls: list[Call], inputs: list[Leaf], outputs: list[int]) -> tuple[FusedLaunch, list[Leaf]]:
        """Return a kernel for a group, and its arguments."""
        inputs = self._order_operands(inputs, self.program.types[outputs[0]])
        return FusedLaunch(calls, inputs, outputs, self.program), inputs

    def _order_operands(self, inputs: list[Leaf], result: Any) -> list[Leaf]:
        """Return the operands, starting with those whose memory order the kernel's results follow."""
        types: list[Any] = [self.program.type_of(leaf) for leaf in inputs]
        full_size = [t.shape == result.shape and all(t.strides) for t in types]
        dense = [w and t.is_dense for w, t in zip(full_size, types, strict=True)]
        if any(full_size) and not any(dense):
            raise NotFusible("its operands lie in another order in memory")
        return [leaf for _, leaf in sorted(zip(dense, inputs, strict=True), key=lambda pair: not pair[0])]
