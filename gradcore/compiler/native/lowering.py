"""Lowering: the calls of a program as steps on views of memory, where there are native ones for them."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends.codegen.cpp import C_TYPES
from gradcore.backends.codegen.expr import Expr, NotFusible
from gradcore.backends.portable.elementwise import RENAMED, SPECIAL
from gradcore.backends.registry import CPU
from gradcore.compiler.effects import Effects, written
from gradcore.compiler.native.images import Images
from gradcore.compiler.native.steps import Kernel, Loop, Reduction, Step, Unsupported, View, contiguous_strides
from gradcore.compiler.program import ArrayType, Call, Literal, Program, Value, values_in

__all__ = ["DTYPES", "Lowering"]

#: Dtypes of what native parts compute with.
DTYPES = frozenset(map(np.dtype, ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")))
#: Functions whose results are arguments, or views of them, where they share their memory; else copies of them.
_VIEWS = {
    "T", "astype", "broadcast_to", "clone", "conj", "contiguous", "copy", "diagonal", "expand", "expanded",
    "getitem", "hermitian", "mT", "narrow", "permute", "real", "reshape", "select", "slice_of", "split", "squeeze",
    "swapaxes", "to", "transpose", "unbind", "unsafe_view", "unsqueeze", "view", "view_shape",
}  # fmt: skip
#: Those of them that copy elements in the order of the result's dims, and those that copy them one after the other.
_COPIES = frozenset(["astype", "clone", "conj", "contiguous", "copy", "to"])
_EXPANDING = frozenset(["broadcast_to", "expand", "expanded"])
_RESHAPES = frozenset(["reshape", "view", "unsafe_view", "view_shape"])
#: Elementwise functions beside those of operations and of NumPy.
_ELEMENTWISE = {
    "add", "sub", "mul", "truediv", "neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "eq", "ne", "and", "or",
    "xor", "iadd", "isub", "imul", "itruediv", "where", "relu", "clamp", "sigmoid", "pow", "div",
    "evaluate_tiled", "masked_fill_number", "half_weighted", "rsqrt", "logical_and", "gelu_slope",
    "activation_backward",
}  # fmt: skip
_OPERATORS = {"and": operator.and_, "or": operator.or_}
_FILLS = {"zeros": 0, "ones": 1, "zeros_like": 0, "ones_like": 1, "new_zeros": 0}
#: Reductions: kind, and the names of their parameters after the array.
_REDUCTIONS = {
    "sum": "sum", "sum_over": "sum", "mean": "mean", "mean_over": "mean", "sum_rows": "sum", "sum_to_size": "sum",
    "amax": "max", "amin": "min", "max_over": "max", "min_over": "min", "max": "max", "min": "min",
}  # fmt: skip
_OF_ROWS = frozenset(["softmax", "log_softmax"])
#: Multiplications in a product for which one written here is at least as fast as BLAS.
_SMALL_PRODUCT = 1 << 15
#: Products of a batch, which become a loop.
_MOST_PRODUCTS = 1 << 10
#: Elements of rows that are worth a thread.
_SMALL_ROWS = 1 << 15


class Lowering(Images):
    """The steps of a program's calls.

    Parameters
    ----------
    program : Program
    blas : bool
        Whether there is a BLAS to call.

    Attributes
    ----------
    views : dict
        The `View` of each value.
    constants : dict
        The number that all elements of a memory are.
    temporary : set of int
        Memories that are no values: steps of one call use them.
    """

    def __init__(self, program: Program, blas: bool) -> None:
        self.program, self.blas = program, blas
        self.views: dict[int, View] = {}
        self.constants: dict[int, Any] = {}
        self.temporary: set[int] = set()
        self._effects = Effects(program)
        for n in program.inputs:
            self._own(n)

    def _own(self, number: int) -> View:
        kind = self.program.types[number]
        view = self.views[number] = View(number, 0, kind.shape, kind.strides, kind.dtype)
        return view

    def temporary_view(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> View:
        """A contiguous view of a memory of its own."""
        number = self.program.new_value(ArrayType(shape, dtype, contiguous_strides(shape, dtype.itemsize), -1)).number
        self.temporary.add(number)
        return self._own(number)

    def follow(self, call: Call) -> None:
        """Take note of the results of a call that Python makes."""
        for n in call.made:
            if n in self.program.types and n not in self.views:
                self._result(call, n)

    def _result(self, call: Call, number: int) -> View:
        """The view of a result: in a memory of its own, or in that of an argument."""
        kind = self.program.types[number]
        bases = {}
        for n in call.read:
            if n in self.views and self.program.types[n].memory == kind.memory:
                bases[self.views[n].memory] = n
        if len(bases) > 1:
            raise Unsupported("a view of one of several arguments that share memory")
        if not bases:
            expands = call.name.rpartition(".")[2] in _EXPANDING and self._effects.is_constant(number)
            if expands and kind.memory not in self.views:  # which was a copy of the argument, or is part of the program
                view = self.views[number] = self._view(call.args[0]).broadcast(kind.shape)
                return view
            return self._own(number)
        n = next(iter(bases.values()))
        moved = kind.address - self.program.types[n].address
        base = self.views[n]
        view = self.views[number] = View(base.memory, base.offset + moved, kind.shape, kind.strides, kind.dtype)
        return view

    # -- calls ----------------------------------------------------------------------------------------------------

    def steps(self, call: Call) -> list[Step]:
        """The steps of a call; none if it makes views only.

        Raises
        ------
        Unsupported
            If Python has to make it.
        """
        before = dict(self.views)
        try:
            return self._steps(call)
        except Exception as error:  # of a formula that is given expressions, whatever it is
            self.views = before
            raise Unsupported(str(error)) from None

    def _steps(self, call: Call) -> list[Step]:
        _, _, name = call.name.rpartition(".")
        if name not in _WRITERS and (written(call) != [] or "out" in call.named):
            raise Unsupported("it writes in place")
        numbers = list(call.made)
        if any(self.program.types[n].dtype not in DTYPES for n in (*numbers, *values_in(call.args))):
            raise Unsupported("the dtype")
        known = set(self.views)
        results = [self.views[n] if n in known else self._result(call, n) for n in numbers]
        own = [n for n in numbers if n not in known and self.views[n].memory == n]
        if name in _VIEWS and not own:
            return []
        handler = getattr(self, f"_lower_{name}", None)
        if handler is not None:
            found: list[Step] = handler(call, results)
            return found
        if name in _FILLS or name == "full":
            return self._fill(call, results[0], call.args[1] if name == "full" else _FILLS[name])
        if name in _VIEWS:
            return self._copy(call, name, results)
        if name in _REDUCTIONS and call.name.partition(".")[0] in ("kernels", "backend", "method"):
            return self._reduce(call, _REDUCTIONS[name], results[0])
        if name in _OF_ROWS:
            return self._rows(call, name, results)
        return [self._loop(call, name, results)]

    def _view(self, argument: Any) -> View:
        if type(argument) is Literal:
            return self._literal(argument.number)
        if type(argument) is not Value:
            raise Unsupported("an argument that is no array")
        return self.views[argument.number]

    def _literal(self, number: int) -> View:
        """The view of an array that is part of the program: its memory has a negative number."""
        array = self.program.literals[number]
        if array.dtype not in DTYPES:
            raise Unsupported("the dtype")
        return View(-1 - number, 0, array.shape, array.strides, array.dtype)

    def _constant(self, argument: Any) -> Any:
        """The number that an argument is, for all its elements; None if it is none."""
        memory = self._view(argument).memory
        if memory >= 0:
            return self.constants.get(memory)
        array = self.program.literals[-1 - memory]
        return array.reshape(-1)[0] if array.size == 1 else None

    # -- loops ----------------------------------------------------------------------------------------------------

    def _loop(self, call: Call, name: str, results: list[View]) -> Step:
        kind = call.name.partition(".")[0]
        names = CPU.backend.elementwise.keys() | RENAMED.keys() | SPECIAL.keys() | _ELEMENTWISE
        if kind == "xp":
            names = names | set(RENAMED.values())
        if name not in names or len(results) != 1:
            raise Unsupported(name)
        reads: list[View] = []
        places: list[tuple[bool, Any]] = []
        given = [*call.args, *call.named.values()]
        for argument in given:
            if type(argument) in (Value, Literal):
                number = self._constant(argument)
                if number is None:
                    places.append((True, len(reads)))
                    reads.append(self._view(argument))
                else:
                    places.append((False, number))
            elif any(True for _ in values_in(argument)):
                raise Unsupported("lists of arrays")
            else:
                places.append((False, argument))
        out = results[0]
        keys, positional = list(call.named), len(call.args)
        shape = np.broadcast_shapes(*[r.shape for r in reads]) if reads else ()
        scalars = all(place[0] for place in places if isinstance(place[1], np.generic))
        if shape != out.shape and not (name[0] == "i" and name[1:] in _ELEMENTWISE) and (reads or not scalars):
            full = np.broadcast_shapes(shape, *[_shape_of(self, each) for each in given])
            if full != out.shape:
                raise Unsupported("the shape of the result")
        function = _function_of(kind, name)
        if name == "evaluate_tiled":
            positional, places, of_settings = positional - 1, places[1:], places[0][1]
            function = lambda F, *given: of_settings(F, *given)  # noqa: E731

        def formula(F: Any, *exprs: Expr) -> list[Expr]:
            found = [exprs[v] if is_array else _operand(F, v) for is_array, v in places]
            expr = function(F, *found[:positional], **dict(zip(keys, found[positional:], strict=True)))
            if not isinstance(expr, Expr):
                expr = F.graph.constant(expr, out.dtype)
            if name[0] == "i" and name[1:] in _ELEMENTWISE:
                expr = F.graph.cast(expr, out.dtype)
            if expr.dtype != out.dtype:
                raise NotFusible(f"{name} gives {expr.dtype} in the place of {out.dtype}")
            return [expr]

        return self._checked(Loop([out], reads, formula))

    def _checked(self, loop: Loop) -> Loop:
        """A loop whose formula can be traced."""
        from gradcore.compiler.native.groups import tracer

        F = tracer()
        F.check(loop.formula(F, *[F.graph.input(i, r.dtype) for i, r in enumerate(loop.reads)]))
        if any(r.size and w.memory == r.memory and r != w for r in loop.reads for w in loop.writes):
            raise Unsupported("it reads another part of what it writes")
        if not all(w.is_injective for w in loop.writes):
            raise Unsupported("it writes to elements more than once")
        return loop

    def _filled(self, out: View, value: Any) -> list[Step]:
        return [Loop([out], [], lambda F: [F.graph.constant(value, out.dtype)])]

    def _fill(self, call: Call, out: View, value: Any) -> list[Step]:
        if type(value) in (Value, Literal):
            value = self._constant(value)
            if value is None:
                raise Unsupported("filled by an array")
        number = out.dtype.type(value).item()
        if self._effects.is_constant(out.memory):
            self.constants[out.memory] = out.dtype.type(number)
        return self._filled(out, number)

    def _moved(self, out: View, x: View) -> Loop:
        """A copy, in the dtype of what is written."""
        return self._checked(Loop([out], [x], lambda F, e: [F.graph.cast(e, out.dtype)]))

    def _copy(self, call: Call, name: str, results: list[View]) -> list[Step]:
        out = results[0]
        if len(results) != 1 or name not in _COPIES | _RESHAPES:
            raise Unsupported("the copy")
        number = self._constant(call.args[0])
        if number is not None and out.memory == call.made[0]:
            return self._fill(call, out, number)
        x = self._view(call.args[0])
        if name in _RESHAPES and x.shape != out.shape:
            if not out.is_contiguous:
                raise Unsupported("the copy's order")
            out = out.reshaped(x.shape)
        if x.shape != out.shape:
            raise Unsupported("the copy's shape")
        return [self._moved(out, x)]

    def _lower_empty(self, call: Call, results: list[View]) -> list[Step]:
        return []

    _lower_empty_like = _lower_empty

    def _write(self, out: View, value: Any) -> list[Step]:
        if type(value) in (Value, Literal):
            number = self._constant(value)
            if number is None:
                x = self._view(value)
                lead = len(x.shape) - len(out.shape)
                if lead > 0 and all(n == 1 for n in x.shape[:lead]):
                    x = x._replace(shape=x.shape[lead:], strides=x.strides[lead:])
                return [self._moved(out, x)]
            value = number.item()
        if not isinstance(value, (bool, int, float)):
            raise Unsupported("what is written")
        return self._filled(out, np.asarray(value).astype(out.dtype).item())

    def _lower_setitem(self, call: Call, results: list[View]) -> list[Step]:
        target, index, value = call.args
        if any(True for _ in values_in(index)) or not _is_basic(index):
            raise Unsupported("the index")
        return self._write(self._view(target).indexed(index), value)

    def _lower_copy_into(self, call: Call, results: list[View]) -> list[Step]:
        return self._write(self._view(call.args[0]), call.args[1])

    def _lower_getitem_backward(self, call: Call, results: list[View]) -> list[Step]:
        grad, _, index = call.args
        if any(True for _ in values_in(index)) or not _is_basic(index):
            raise Unsupported("the index")
        out = results[0]
        return [*self._filled(out, 0), *self._write(out.indexed(index), grad)]

    def _lower_cat(self, call: Call, results: list[View]) -> list[Step]:
        arrays, dim = call.args
        steps, start, out = [], 0, results[0]
        dim %= len(out.shape)
        for each in arrays:
            n = self._view(each).shape[dim]
            steps += self._write(out.indexed((slice(None),) * dim + (slice(start, start + n),)), each)
            start += n
        return steps

    def _lower_stack(self, call: Call, results: list[View]) -> list[Step]:
        arrays, dim = call.args
        out = results[0]
        dim %= len(out.shape)
        return [s for i, a in enumerate(arrays) for s in self._write(out.indexed((slice(None),) * dim + (i,)), a)]

    # -- reductions -------------------------------------------------------------------------------------------------

    def _reduce(self, call: Call, kind: str, out: View) -> list[Step]:
        x, name = self._view(call.args[0]), call.name.rpartition(".")[2]
        rest = dict(zip(("dim", "keepdim", "dtype"), call.args[1:], strict=False)) | call.named
        if len(call.results if isinstance(call.results, tuple) and type(call.results) is not Value else [0]) != 1:
            raise Unsupported("several results")
        if call.name.startswith("method") and len(call.args) > 2:
            raise Unsupported("settings of a method")
        if name == "sum_rows":
            dims = tuple(range(len(x.shape) - 1))
        elif name == "sum_to_size":
            dims = _dims_summed(x.shape, out.shape)
        else:
            given = rest.get("dim", rest.get("dims", rest.get("axis")))
            given = range(len(x.shape)) if given is None or given == () else given
            given = (given,) if isinstance(given, int) else given if x.shape else ()
            dims = tuple(d % max(len(x.shape), 1) for d in given) if x.shape else ()
        if rest.get("dtype") is not None and name not in ("sum_rows", "sum_to_size"):
            raise Unsupported("the dtype")
        if (kind != "sum" and (x.dtype != out.dtype or not x.size)) or (kind == "mean" and x.dtype.kind != "f"):
            raise Unsupported("the dtype")
        if kind == "sum" and x.dtype != out.dtype and (x.dtype.kind not in "biu" or out.dtype != np.int64):
            raise Unsupported("the dtype")
        if kind in ("max", "min") and (x.dtype.kind not in "fiu" or x.size > 1 << 13):
            raise Unsupported("what is large")
        return self._reduced(kind, out, x, dims)

    def _reduced(self, kind: str, out: View, x: View, dims: tuple[int, ...]) -> list[Step]:
        """A reduction over dims, with or without these dims in the result."""
        kept = [n for d, n in enumerate(x.shape) if d not in dims]
        if math.prod(kept) != out.size:
            raise Unsupported("the shape of the result")
        if len(kept) != len(out.shape):  # with dims of one element in the places of those reduced
            lead = len(x.shape) - len(out.shape)
            where = [d - lead for d in range(len(x.shape)) if d not in dims]
            strides = tuple(out.strides[d] for d in where) if min(where, default=0) >= 0 else ()
            if len(strides) != len(kept) or [out.shape[d] for d in where] != kept:
                raise Unsupported("the shape of the result")
            out = out._replace(shape=tuple(kept), strides=strides)
        if out.shape != tuple(kept):
            raise Unsupported("the shape of the result")
        if not dims:
            return [self._moved(out, x)]
        divisor = math.prod(x.shape[d] for d in dims) if kind == "mean" else 1
        return [Reduction("sum" if kind == "mean" else kind, out, x, dims, divisor)] if x.size else self._filled(out, 0)

    def _reduced_product(self, kind: str, out: View, x: View, y: View, dims: tuple[int, ...]) -> list[Step]:
        product = self.temporary_view(np.broadcast_shapes(x.shape, y.shape), out.dtype)
        return [
            self._checked(Loop([product], [x, y], lambda F, a, b: [a * b])),
            *self._reduced(kind, out, product, dims),
        ]

    def _lower_product_to_size(self, call: Call, results: list[View]) -> list[Step]:
        x, y = map(self._view, call.args[:2])
        if x.dtype != results[0].dtype or y.dtype != x.dtype:
            raise Unsupported("the dtype")
        return self._reduced_product("sum", results[0], x, y, _dims_summed(x.shape, results[0].shape))

    def _lower_linalg_vector_norm(self, call: Call, results: list[View]) -> list[Step]:
        x, order, dim, *_ = (*call.args, *(2, None)[len(call.args) - 1 :])
        a, out = self._view(x), results[0]
        if (
            order != 2
            or call.named.get("dtype") is not None
            or not a.size
            or a.dtype.kind != "f"
            or a.dtype != out.dtype
        ):
            raise Unsupported("the norm")
        dims = tuple(range(len(a.shape))) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
        dims = tuple(d % len(a.shape) for d in dims) if a.shape else ()
        root = self._checked(Loop([out], [out], lambda F, e: [F.xp.sqrt(e)]))
        return [*self._reduced_product("sum", out, a, a, dims), root]

    # -- products ---------------------------------------------------------------------------------------------------

    def _product(self, out: View, a: View, b: View) -> list[Step]:
        if not (a.dtype == b.dtype == out.dtype and a.dtype.char in "fd"):
            raise Unsupported("the dtype")
        if len(a.shape) == 1:
            a = a._replace(shape=(1, *a.shape), strides=(a.dtype.itemsize * a.shape[0], *a.strides))
            out = out._replace(
                shape=(*out.shape[:-1], 1, *out.shape[-1:]), strides=(*out.strides[:-1], 0, *out.strides[-1:])
            )
        if len(b.shape) == 1:
            b = b._replace(shape=(*b.shape, 1), strides=(*b.strides, b.dtype.itemsize))
            out = out._replace(shape=(*out.shape, 1), strides=(*out.strides, out.dtype.itemsize))
        if len(a.shape) > 2 and len(b.shape) == 2 and a.is_contiguous and out.is_contiguous:
            a = a.reshaped((math.prod(a.shape[:-1]), a.shape[-1]))
            out = out.reshaped((a.shape[0], out.shape[-1]))
        if len(a.shape) > 2 or len(b.shape) > 2:
            batch = out.shape[:-2]
            if math.prod(batch) > _MOST_PRODUCTS:
                raise Unsupported("many products")
            a, b = a.broadcast((*batch, *a.shape[-2:])), b.broadcast((*batch, *b.shape[-2:]))
            return [s for i in np.ndindex(batch) for s in self._product(out.indexed(i), a.indexed(i), b.indexed(i))]
        (height, inner), width, size = a.shape, b.shape[1], out.dtype.itemsize
        if any(s % size for v in (a, b, out) for s in v.strides) or out.shape != (height, width):
            raise Unsupported("the strides")
        if width != 1 and out.strides[1] != size:
            raise Unsupported("the strides of a product")
        if not out.size or not inner:
            return self._filled(out, 0)
        (a0, a1), (b0, b1), o0 = _steps(a), _steps(b), out.strides[0] // size
        kind = C_TYPES[out.dtype.name]
        if width == 1:  # then columns are rows
            b1 = 1 if inner == 1 or b0 == 1 else b1
        small = height * inner * width <= _SMALL_PRODUCT and inner * width * size <= 1 << 15
        if small:
            text = (
                f"small_product<{kind}, {height}, {inner}, {width}, {a0}, {a1}, {b0}, {b1}, {o0}>({{0}}, {{1}}, {{2}})"
            )
            return [Kernel(text, [out], [a, b])]
        if not self.blas:
            raise Unsupported("there is no BLAS")
        (at, lead_a), (bt, lead_b) = _blas(a), _blas(b)
        if height > 1 and o0 < width:
            raise Unsupported("the strides of a product")
        numbers = f"{at}, {bt}, {height}, {inner}, {width}, {{0}}, {{1}}, {lead_a}, {{2}}, {lead_b}, {max(o0, width)}"
        return [Kernel(f"large_product<{kind}>({numbers})", [out], [a, b], lasting=True)]

    def _lower_mm(self, call: Call, results: list[View]) -> list[Step]:
        a, b = call.args
        return self._product(results[0], self._view(a), self._view(b))

    _lower_matmul = _lower_bmm = _lower_batched_matmul = _lower_mv = _lower_mm

    def _lower_times_adjoint(self, call: Call, results: list[View]) -> list[Step]:
        a, b = map(self._view, call.args)
        return self._product(results[0], a, _transposed(b))

    def _lower_adjoint_times(self, call: Call, results: list[View]) -> list[Step]:
        a, b = map(self._view, call.args)
        return self._product(results[0], _transposed(a), b)

    def _lower_addmm(self, call: Call, results: list[View]) -> list[Step]:
        summand, a, b, beta, alpha = (*call.args, 1, 1)[:5]
        if beta != 1 or alpha != 1 or call.named:
            raise Unsupported("factors of a product")
        out = results[0]
        return [*self._product(out, self._view(a), self._view(b)), self._added(out, self._view(summand))]

    def _added(self, out: View, x: View) -> Loop:
        return self._checked(Loop([out], [out, x], lambda F, y, b: [y + b]))

    def _lower_outer(self, call: Call, results: list[View]) -> list[Step]:
        a, b = map(self._view, call.args)
        column = a._replace(shape=(*a.shape, 1), strides=(*a.strides, 0))
        return [self._checked(Loop(results, [column, b], lambda F, x, y: [x * y]))]

    def _lower_dot(self, call: Call, results: list[View]) -> list[Step]:
        a, b = map(self._view, call.args)
        if len(a.shape) == len(b.shape) == 1 and a.dtype == b.dtype:
            return self._product(results[0], a, b)
        raise Unsupported("the shapes of a product")

    def _lower_contract(self, call: Call, results: list[View]) -> list[Step]:
        a, b, of_a, of_b, of_out = call.args
        shared = {*of_a} & {*of_b}
        batch, inner = [n for n in of_out if n in shared], [n for n in of_a if n in shared and n not in of_out]
        rows, columns = ([n for n in of_out if n in labels and n not in shared] for labels in (of_a, of_b))
        if len({*of_a, *of_b}) != len(batch) + len(inner) + len(rows) + len(columns):
            raise Unsupported("sums of one factor")
        x, y = (
            _regrouped(self._view(a), of_a, batch, rows, inner),
            _regrouped(self._view(b), of_b, batch, inner, columns),
        )
        out = _regrouped(results[0], of_out, batch, rows, columns)
        if out.strides[-1] != out.dtype.itemsize and out.shape[-1] != 1:
            return self._product(_transposed(out), _transposed(y), _transposed(x))
        return self._product(out, x, y)

    def _lower_linear(self, call: Call, results: list[View]) -> list[Step]:
        x, weight, bias = (*call.args, None)[:3]
        w, out = self._view(weight), results[0]
        steps = self._product(out, self._view(x), w._replace(shape=w.shape[::-1], strides=w.strides[::-1]))
        return steps if bias is None else [*steps, self._added(out, self._view(bias))]

    def _lower_attention(self, call: Call, results: list[View]) -> list[Step]:
        query, key, value, mask, scale, causal = (*call.args, None, 1.0, False)[:6]
        out, weights = results
        q, k, v = map(self._view, (query, key, value))
        if call.named or q.dtype.char not in "fd" or not (weights.size and weights.is_contiguous):
            raise Unsupported("attention")
        scaled = self.temporary_view(q.shape, q.dtype)
        steps: list[Step] = [self._scaled(scaled, q, scale), *self._product(weights, scaled, _transposed(k))]
        if causal:
            seen = self._literal(self.program.new_literal(np.tri(*weights.shape[-2:], dtype=bool)).number)
            formula = lambda F, x, s: [F.where(s, x, F.graph.constant(-math.inf, x.dtype))]  # noqa: E731
            steps.append(self._checked(Loop([weights], [weights, seen], formula)))
        if mask is not None:
            steps.append(self._added(weights, self._view(mask)))
        steps.append(_of_rows(f"softmax_or_zero<{C_TYPES[weights.dtype.name]}>", [weights], [weights]))
        return [*steps, *self._product(out, weights, v)]

    def _scaled(self, out: View, x: View, scale: float) -> Loop:
        return self._checked(Loop([out], [x], lambda F, e: [e * scale]))

    def _lower_attention_backward(self, call: Call, results: list[View]) -> list[Step]:
        grad, grad_weights, query, key, value, weights, scale, _, needs = call.args
        if grad is None or grad_weights is not None or needs[3] or len(results) != sum(map(bool, needs)):
            raise Unsupported("the gradients")
        g, q, k, v, w = map(self._view, (grad, query, key, value, weights))
        if not (w.size and w.is_contiguous) or w.dtype.char not in "fd":
            raise Unsupported("attention")
        steps: list[Step] = []
        left = iter(results)
        to_query, to_key, to_value = (next(left) if need else None for need in needs[:3])
        if to_value is not None:
            steps += self._product(to_value, _transposed(w), g)
        scores = self.temporary_view(w.shape, w.dtype)
        steps += self._product(scores, g, _transposed(v))
        steps.append(_of_rows(f"softmax_backward<{C_TYPES[w.dtype.name]}>", [scores], [scores, w]))
        for out, a, b in ((to_query, scores, k), (to_key, _transposed(scores), q)):
            if out is not None:
                steps += [*self._product(out, a, b), self._scaled(out, out, scale)]
        return steps

    # -- rows -----------------------------------------------------------------------------------------------------

    def _rows(self, call: Call, function: str, results: list[View]) -> list[Step]:
        x, (out,) = self._view(call.args[0]), results
        dim = call.args[1] if len(call.args) > 1 and not call.named and call.args[2:] in ((), (None,)) else None
        if not _is_last(x, dim) or not (x.is_contiguous and out.is_contiguous and x.dtype == out.dtype):
            raise Unsupported("rows")
        return [_of_rows(f"{function}<{C_TYPES[x.dtype.name]}>", [out], [x])]

    def _back_rows(self, function: str, call: Call, out: View) -> list[Step]:
        grad, y, dim = call.args
        given = [self._view(grad), self._view(y)]
        if not _is_last(given[1], dim) or any(v.dtype != out.dtype or v.shape != out.shape for v in given):
            raise Unsupported("rows")
        if not all(v.is_contiguous for v in (*given, out)):
            raise Unsupported("rows")
        return [_of_rows(f"{function}<{C_TYPES[out.dtype.name]}>", [out], given)]

    def _lower_softmax_backward(self, call: Call, results: list[View]) -> list[Step]:
        return self._back_rows("softmax_backward", call, results[0])

    def _lower_log_softmax_backward(self, call: Call, results: list[View]) -> list[Step]:
        return self._back_rows("log_softmax_backward", call, results[0])

    def _lower_native_layer_norm(self, call: Call, results: list[View]) -> list[Step]:
        x, weight, bias, ndims, eps = call.args
        a = self._view(x)
        given = [a, *(self._view(each) for each in (weight, bias) if each is not None)]
        rows, n = _norm_rows(a, ndims, [*given, *results])
        places = iter(range(4, 6))
        names = [f"{{{next(places)}}}" if each is not None else "nullptr" for each in (weight, bias)]
        kind = C_TYPES[a.dtype.name]
        numbers = f"{{0}}, {{1}}, {{2}}, {{3}}, {names[0]}, {names[1]}, {rows}, {n}, {float(eps)!r}, threads"
        return [Kernel(f"normed_rows<{kind}>({numbers})", results, given, lasting=a.size >= _SMALL_ROWS)]

    def _lower_layer_norm_backward(self, call: Call, results: list[View]) -> list[Step]:
        args = tuple(call.args[0]) if len(call.args) == 1 else call.args
        grad, grad_mean, grad_var, x, weight, mean, var, eps, needs, ndims = args
        if grad is None or grad_mean is not None or grad_var is not None or len(results) != sum(map(bool, needs)):
            raise Unsupported("rows")
        a = self._view(x)
        given = [self._view(each) for each in (grad, x, weight, mean, var) if each is not None]
        rows, n = _norm_rows(a, ndims, [*given, *results])
        places = iter(range(len(results) + len(given)))
        names = [f"{{{next(places)}}}" if need else "nullptr" for need in needs]
        names += [f"{{{next(places)}}}" if each is not None else "nullptr" for each in (grad, x, weight, mean, var)]
        kind = C_TYPES[a.dtype.name]
        text = f"normed_rows_back<{kind}>({', '.join(names)}, {rows}, {n}, {float(eps)!r}, threads)"
        return [Kernel(text, results, given, lasting=a.size >= _SMALL_ROWS)]

    def _lower_softmax_nll(self, call: Call, results: list[View]) -> list[Step]:
        x, target, weight, reduction, ignore_index = call.args
        a, t = self._view(x), self._view(target)
        _check_classes(a, t, weight, reduction, ignore_index)
        if not all(each.is_contiguous for each in results):
            raise Unsupported("rows")
        rows, n = a.shape
        places = ", ".join(f"{{{i}}}" for i in range(6))
        text = f"cross_entropy({places}, {rows}, {n}, {_word(reduction == 'mean')}, threads)"
        return [Kernel(text, results, [a, t], fallible=True, lasting=a.size >= _SMALL_ROWS)]

    def _lower_softmax_nll_backward(self, call: Call, results: list[View]) -> list[Step]:
        grad, grad_powers, grad_total, target, weight, number, powers, total, reduction, ignore_index = call.args
        p, t = self._view(powers), self._view(target)
        _check_classes(p, t, weight, reduction, ignore_index)
        given = [self._view(grad), t, self._view(number), p, self._view(total)]
        if grad_powers is not None or grad_total is not None or not results[0].is_contiguous or given[0].size != 1:
            raise Unsupported("rows")
        if given[0].dtype != p.dtype or not given[4].is_contiguous:
            raise Unsupported("rows")
        rows, n = p.shape
        places = ", ".join(f"{{{i}}}" for i in range(6))
        text = f"cross_entropy_back({places}, {rows}, {n}, {_word(reduction == 'mean')}, threads)"
        return [Kernel(text, results, given, fallible=True, lasting=p.size >= _SMALL_ROWS)]

    def _lower_index_select(self, call: Call, results: list[View]) -> list[Step]:
        x, dim, index = call.args
        return self._take(self._view(x), self._view(index), dim, results[0])

    def _lower_embedding_rows(self, call: Call, results: list[View]) -> list[Step]:
        weight, index = call.args[:2]
        return self._take(self._view(weight), self._view(index), 0, results[0])

    def _lower_embedding_sum(self, call: Call, results: list[View]) -> list[Step]:
        rows, index, height, *padding = call.args
        out, x, i = results[0], self._view(rows), self._view(index)
        good = i.dtype == np.int64 and x.dtype == out.dtype and x.dtype.kind == "f" and x.size
        if not good or not (x.is_contiguous and i.is_contiguous and out.is_contiguous) or call.named:
            raise Unsupported("rows")
        numbers = f"{i.size}, {height}, {x.size // i.size}, {padding[0] if padding else -1}"
        text = f"add_rows<{C_TYPES[x.dtype.name]}>({{0}}, {{1}}, {{2}}, {numbers})"
        return [Kernel(text, [out], [x, i], fallible=True)]

    def _take(self, x: View, index: View, dim: int, out: View) -> list[Step]:
        good = dim == 0 and index.dtype == np.int64 and x.dtype == out.dtype and out.size and x.shape
        if not good or not (x.is_contiguous and index.is_contiguous and out.is_contiguous):
            raise Unsupported("rows")
        width = math.prod(x.shape[1:]) * x.dtype.itemsize
        text = f"take_rows((char*){{0}}, (const char*){{1}}, {{2}}, {index.size}, {x.shape[0]}, {width})"
        return [Kernel(text, [out], [x, index], fallible=True)]


def _operand(F: Any, value: Any) -> Any:
    """A setting, or a number in the place of an array."""
    return F.graph.constant(value.item(), value.dtype) if isinstance(value, np.generic) else value


def _is_last(x: View, dim: Any) -> bool:
    """Whether elements along a dim of floats follow each other."""
    return isinstance(dim, int) and bool(x.size) and x.dtype.kind == "f" and dim % len(x.shape) == len(x.shape) - 1


def _of_rows(function: str, writes: list[View], reads: list[View]) -> Kernel:
    """A kernel of the library that takes contiguous rows of one shape."""
    size, n = reads[0].size, reads[0].shape[-1]
    arrays = ", ".join(f"(const {C_TYPES[v.dtype.name]}*){{{len(writes) + i}}}" for i, v in enumerate(reads))
    text = f"run_rows<{function}>(Work{{{{{size // n}, {size // n}, {n}, 0, 0, 0}}}}, threads, {arrays}, {{0}})"
    return Kernel(text, writes, reads, lasting=size >= _SMALL_ROWS)


def _norm_rows(x: View, ndims: int, views: list[View]) -> tuple[int, int]:
    """How many rows are normalised, and of how many elements."""
    n = math.prod(x.shape[len(x.shape) - ndims :])
    if not x.size or x.dtype.kind != "f":
        raise Unsupported("rows")
    if any(v.dtype != x.dtype or not v.is_contiguous for v in views):
        raise Unsupported("rows")
    return x.size // n, n


def _shape_of(lowering: Lowering, argument: Any) -> tuple[int, ...]:
    if type(argument) is Value:
        return lowering.views[argument.number].shape
    return lowering.program.literals[argument.number].shape if type(argument) is Literal else ()


def _check_classes(x: View, target: View, weight: Any, reduction: str, ignore_index: int) -> None:
    plain = len(x.shape) == 2 and x.size and x.is_contiguous and x.dtype.kind == "f"
    if not plain or weight is not None or reduction not in ("mean", "sum") or 0 <= ignore_index < x.shape[1]:
        raise Unsupported("rows")
    if target.dtype != np.int64 or target.shape != x.shape[:1] or not target.is_contiguous:
        raise Unsupported("the classes")


def _word(value: bool) -> str:
    return "true" if value else "false"


def _steps(matrix: View) -> tuple[int, ...]:
    """The elements from row to row and from column to column."""
    size, one = matrix.dtype.itemsize, [n == 1 for n in matrix.shape]
    steps = [s // size for s in matrix.strides]
    if one[1]:
        steps[1] = 1
    if one[0] and not one[1]:
        steps[0] = max(matrix.shape[1], 1)
    return tuple(steps)


def _blas(matrix: View) -> tuple[str, int]:
    """Whether BLAS has to transpose a matrix, and the elements from one of its rows to the next."""
    (height, width), (row, column) = matrix.shape, _steps(matrix)
    if (column == 1 or width == 1) and (row >= width or height == 1):
        return "false", max(row, width)
    if (row == 1 or height == 1) and (column >= height or width == 1):
        return "true", max(column, height)
    raise Unsupported("the strides of a product")


def _transposed(x: View) -> View:
    """The view of matrices with rows and columns exchanged."""
    if len(x.shape) < 2:
        raise Unsupported("the shapes of a product")
    return x._replace(shape=(*x.shape[:-2], *x.shape[:-3:-1]), strides=(*x.strides[:-2], *x.strides[:-3:-1]))


def _dims_summed(shape: tuple[int, ...], to: tuple[int, ...]) -> tuple[int, ...]:
    """The dims that are summed, so that a shape becomes one that can be broadcast to it."""
    lead = len(shape) - len(to)
    return tuple(d for d, n in enumerate(shape) if d < lead or (to[d - lead] == 1 and n != 1))


def _regrouped(x: View, labels: Any, batch: list[int], *groups: list[int]) -> View:
    """The view with dims in this order, those of each group as one."""
    known = dict(zip(labels, zip(x.shape, x.strides, strict=True), strict=True))
    dims = [known[n] for n in batch]
    for group in groups:
        size, step = 1, x.dtype.itemsize
        for n, stride in (known[label] for label in reversed(group)):
            if n != 1:
                if size != 1 and stride != size * step:
                    raise Unsupported("the strides")
                size, step = size * n, step if size != 1 else stride
        dims.append((size, step))
    shape, strides = zip(*dims, strict=True)
    return x._replace(shape=shape, strides=strides)


def _is_basic(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(i is None or i is ... or type(i) in (int, slice) for i in parts)


@functools.cache
def _function_of(kind: str, name: str) -> Callable[..., Any]:
    """A function of a namespace and expressions."""
    if kind == "operator":
        plain = _OPERATORS.get(name) or getattr(operator, name[1:] if name in _IN_PLACE else name)
        return lambda F, *given: plain(*given)
    if kind == "method":
        return lambda F, x, *given, **named: getattr(x, name)(*given, **named)
    if kind == "xp":
        return lambda F, *given, **named: getattr(F.xp, name)(*given, **named)
    return lambda F, *given, **named: getattr(F, name)(*given, **named)


#: Operators in place, and the functions that write to their first argument.
_IN_PLACE = frozenset(["iadd", "isub", "imul", "itruediv"])
_WRITERS = _IN_PLACE | {"setitem", "copy_into"}
