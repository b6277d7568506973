"""Replacement of kernels by the NumPy functions that they dispatch to for these shapes and strides.

The properties that a kernel would inspect are known before a program runs. The functions are those that the kernels
call, so results are bitwise equal.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends.base import SMALL
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.numpy.matmul import MANY, NumpyProducts
from gradcore.backends.numpy.reductions import NumpyReductions
from gradcore.backends.numpy.row_blocks import ones
from gradcore.backends.portable.products import Products
from gradcore.backends.registry import CPU
from gradcore.compiler.program.program import ArrayType, Call, Literal, Program, Value
from gradcore.compiler.program.storage import span_of
from gradcore.core.operators import BASIC

__all__ = ["use_numpy"]


def use_numpy(program: Program) -> Program:
    """Replace kernels that only dispatch to NumPy functions by direct calls of these."""
    if program.backend is not None or program.symbols:
        return program
    return _Specializing(program).run()


#: The largest number of columns, and of elements, of a result that is computed column by column.
_MOST_COLUMNS, _LEAST, _MOST = 8, 1 << 11, 1 << 17
_BY_COLUMNS = {each.operation: each.ufunc for each in BASIC.values()}


class _Specializing:
    """The pass of `use_numpy` over one program."""

    def __init__(self, program: Program) -> None:
        self.program, self.found = program, program.copy()
        self.transposes: dict[Any, Any] = {}
        #: Values whose views have known offsets, see `_owners`.
        self.owners = _owners(program)

    def run(self) -> Program:
        """Return the program with kernels replaced by NumPy's functions where a rule applies."""
        backend = type(CPU.backend)
        for call in self.program.calls:
            kind, _, name = call.name.partition(".")
            if kind in ("kernels", "backend") and name in _BY_COLUMNS:
                call = self.compute_by_columns(call, _BY_COLUMNS[name])
            owner, rule = _RULES.get(name, (None, None))
            is_own = kind == "xp" and owner is None
            if owner is not None and kind in ("kernels", "backend"):
                is_own = getattr(backend, name, None) is getattr(owner, name, None)
            if rule is None or not is_own or call.named or not self._applies(rule, call):
                self.found.calls.append(call)
        return self.found

    def _applies(self, rule: Any, call: Call) -> bool:
        """Return whether a rule has replaced the call."""
        if type(call.results) is not Value or not call.args:
            return False
        first, *others = map(self.program.type_of, call.args[:2])
        return first is not None and rule(self, call, first, *(others or [None]))

    def add(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], result: Any) -> Any:
        """Add a call; `result` is its value, or the type of a new one."""
        value = self.found.new_value(result) if type(result) is ArrayType else result
        self.found.calls.append(Call(name, function, args, {}, value))
        return value

    def transpose(self, leaf: Any, known: ArrayType) -> Any:
        """Return the transpose of a matrix argument, adding a call if needed."""
        if leaf not in self.transposes:
            if type(leaf) is Literal:
                self.transposes[leaf] = self.found.new_literal(self.program.literals[leaf.number].T)
            else:
                new_type = _transpose_type(known)
                value = self.transposes[leaf] = self.add("method.transpose", np.ndarray.transpose, (leaf,), new_type)
                self.found.types[value.number] = new_type  # The result is a view.
        return self.transposes[leaf]

    # -- rules: whether they have added calls in the place of one -----------------------------------------------------

    def product(self, call: Call, a: ArrayType, b: ArrayType | None) -> bool:
        return b is not None and _is_dot(a, b) and self.dot(call, *call.args)

    def times_adjoint(self, call: Call, a: ArrayType, b: ArrayType | None) -> bool:
        if b is None or not _is_dot(a, _transpose_type(b)):
            return False
        return self.dot(call, call.args[0], self.transpose(call.args[1], b))

    def adjoint_times(self, call: Call, a: ArrayType, b: ArrayType | None) -> bool:
        if b is None or not _is_dot(_transpose_type(a), b):
            return False
        return self.dot(call, self.transpose(call.args[0], a), call.args[1])

    def linear(self, call: Call, x: ArrayType, weight: ArrayType | None) -> bool:
        """Replace a linear layer by a product and an addition to it in place."""
        bias = self.program.type_of(call.args[2]) if len(call.args) > 2 else None
        if weight is None or len(weight.shape) != 2 or not _is_dot(x, _transpose_type(weight)):
            return False
        if bias is not None and (bias.dtype is not x.dtype or bias.shape != weight.shape[:1]):
            return False
        self.dot(call, call.args[0], self.transpose(call.args[1], weight))
        if bias is not None:
            product = self.program.types[call.results.number]
            value = self.add("operator.iadd", operator.iadd, (call.results, call.args[2]), product)
            self.found.types[value.number] = product  # The sum has the memory of the product.
        return True

    def dot(self, call: Call, a: Any, b: Any) -> bool:
        """Add the product of two matrices."""
        self.add("method.dot", np.ndarray.dot, (a, b), call.results)
        return True

    def swap(self, call: Call, x: ArrayType, _: ArrayType | None) -> bool:
        """Replace the exchange of two dims by NumPy's."""
        if x.shape:
            self.add("method.swapaxes", np.ndarray.swapaxes, call.args, call.results)
        return bool(x.shape)

    def sum_to_size(self, call: Call, x: ArrayType, _: ArrayType | None) -> bool:
        """Replace a sum over rows by a product with ones."""
        if len(x.shape) != 2 or (*call.args[1:], x.shape[1:])[0] != x.shape[1:]:
            return False
        if x.dtype.char not in "fd" or x.size >= SMALL:
            return False
        return self.dot(call, self.found.new_literal(ones(x.shape[0], x.dtype)), call.args[0])

    def broadcast(self, call: Call, x: ArrayType, _: ArrayType | None) -> bool:
        """Replace a broadcast by one call that makes the view from the array that owns the memory."""
        types, number = self.program.types, call.results.number
        kind = types[number]
        owner = types.get(kind.memory)
        if owner is None or kind.memory == number or number in self.program.outputs or not x.size:
            return False
        if kind.memory not in self.owners or not owner.is_dense:
            return False
        start, (low, high) = kind.address - owner.address, span_of(kind.shape, kind.strides, x.dtype.itemsize)
        if start < 0 or start + high > owner.nbytes or low < 0 or not kind.size:
            return False
        where = Value(kind.memory), start, kind.strides
        self.add("xp.ndarray", np.ndarray, (kind.shape, kind.dtype, *where), call.results)
        return True

    def compute_by_columns(self, call: Call, function: np.ufunc) -> Call:
        """Return the call, computed column by column if it is arithmetic with a short row that broadcasting repeats."""
        kinds = [self.program.type_of(each) for each in call.args]
        result = self.program.types.get(call.results.number) if type(call.results) is Value else None
        kernels: Any = CPU.kernels
        if result is None or call.named or len(kinds) != 2 or kernels.small[call.last_name] is not function:
            return call
        width = result.shape[-1] if len(result.shape) > 2 else 0
        types = [each for each in kinds if each is not None and each.dtype is result.dtype and len(each.shape) > 1]
        types = [each for each in types if each.shape[-1] == width and width in range(2, _MOST_COLUMNS + 1)]
        repeated = any(each.shape[-2] != result.shape[-2] for each in types)
        is_large = _LEAST <= result.size <= _MOST and result.dtype.char in "fd"
        pays = len(types) == 2 and repeated and is_large and result.is_dense
        return call._replace(function=_ByColumns(function, result)) if pays else call


class _ByColumns:
    """A binary function that computes its result column by column."""

    nin, nout = 2, 1

    def __init__(self, function: np.ufunc, result: ArrayType) -> None:
        self.function, self.shape, self.dtype = function, result.shape, result.dtype

    def __call__(self, x: Any, y: Any, out: Any = None) -> Any:
        out = np.empty(self.shape, self.dtype) if out is None else out
        for k in range(self.shape[-1]):
            self.function(x[..., k], y[..., k], out[..., k])
        return out


def _transpose_type(known: ArrayType) -> ArrayType:
    """Return the type of the transposed array."""
    return known._replace(shape=known.shape[::-1], strides=known.strides[::-1])


def _owners(program: Program) -> set[int]:
    """Return the values whose views have the same offsets in each run as in the captured one."""
    inputs, uses = {*program.inputs}, Counter(program.types[n].memory for n in program.inputs if n in program.types)
    computed = (n for call in program.calls for n in call.outputs)
    return {n for n in (*program.inputs, *computed) if uses[n] == (n in inputs)}


def _is_dot(a: ArrayType, b: ArrayType) -> bool:
    """Return whether `NumpyProducts.matmul` of two arrays is ``a.dot(b)``."""
    if not (len(a.shape) == 2 == len(b.shape) and a.dtype is b.dtype and a.dtype.char in "fd"):
        return False
    rows, inner = a.shape
    copied = rows >= 48 and b.strides[1] > b.strides[0] and 512 <= b.size <= 8192
    return inner == b.shape[0] and inner != 1 and rows * b.size <= MANY and not copied


#: Rules by kernel name: the class that defines the kernel, unless a user has replaced it, and the replacement.
_RULES: dict[str, tuple[Any, Any]] = {
    "mm": (Products, _Specializing.product), "matmul": (NumpyProducts, _Specializing.product),
    "times_adjoint": (Products, _Specializing.times_adjoint), "adjoint_times": (Products, _Specializing.adjoint_times),
    "linear": (Products, _Specializing.linear), "transpose": (Products, _Specializing.swap),
    "sum_rows": (NumpyProducts, _Specializing.sum_to_size),
    "sum_to_size": (NumpyReductions, _Specializing.sum_to_size), "expand": (NumpyBackend, _Specializing.broadcast),
    "broadcast_to": (None, _Specializing.broadcast),
}  # fmt: skip
