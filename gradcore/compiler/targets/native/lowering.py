"""Lowering: translate the calls of a program into native steps on views of memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends.codegen.expr import Expr, NotFusible
from gradcore.backends.codegen.trace import compute_dtype
from gradcore.backends.kernel_rules import reductions
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.portable.elementwise import RENAMED, SPECIAL
from gradcore.backends.registry import CPU
from gradcore.compiler.program.effects import COPIES, Effects, written_values
from gradcore.compiler.program.program import ArrayType, Call, Literal, Program, Value, values_in
from gradcore.compiler.targets.native.bodies import Bodies, find_body
from gradcore.compiler.targets.native.draws import Draws
from gradcore.compiler.targets.native.images import Images
from gradcore.compiler.targets.native.indexing import EXTREMUM_CALLS, INDEX_CALLS, Indexing
from gradcore.compiler.targets.native.products import Products
from gradcore.compiler.targets.native.rows import ARRAY_KERNELS, ROW_OPERATIONS, Rows
from gradcore.compiler.targets.native.steps import Loop, Reduction, Step, Unsupported, View
from gradcore.core import dtypes
from gradcore.core.operators import BASIC, OPERATORS
from gradcore.core.size import contiguous_strides

__all__ = ["DTYPES", "Lowering"]

#: Dtypes that native segments compute with.
DTYPES = frozenset(map(np.dtype, ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")))
_HALVES = frozenset([dtypes.float16.numpy, dtypes.bfloat16.numpy])
_EXPANDING = frozenset(["broadcast_to", "expand", "broadcast_view"])
#: In-place operators and functions that write to their first argument.
_IN_PLACE = frozenset(f"i{name}" for name in BASIC)
_WRITERS = _IN_PLACE | {"setitem", "copy_into"} | {name for name, each in INDEX_CALLS.items() if each.writes_to(name)}
#: Operators without loops, and elementwise functions in addition to operators, operations and functions of NumPy.
_WITHOUT_LOOPS = {"floordiv", "lshift", "matmul", "mod", "pow", "rshift"}
_ELEMENTWISE = (OPERATORS.keys() - _WITHOUT_LOOPS) | _IN_PLACE | {"activation_backward", "evaluate_tiled"}
_FILLS = {"zeros": 0, "ones": 1, "zeros_like": 0, "ones_like": 1, "new_zeros": 0}
#: The kind of loop of each declared reduction, of operations that call it, and of the array method of that name.
_REDUCTIONS = {
    name: each.loop
    for method, each in reductions(NumpyBackend).items()
    if each.loop
    for name in (method, each.loop, *each.operations)
}


class Lowering(Bodies, Draws, Images, Indexing, Products, Rows):
    """The lowering of a program's calls.

    Parameters
    ----------
    program : Program
    blas : bool
        Whether NumPy's BLAS can be called.

    Attributes
    ----------
    views : dict
        The `View` of each value.
    constants : dict
        The number that all elements of a memory are equal to, by memory number.
    temporary : set of int
        Memories for intermediate results of a single call, which belong to no value.
    """

    def __init__(self, program: Program, blas: bool) -> None:
        self.program, self.blas = program, blas
        self.views: dict[int, View] = {}
        self.constants: dict[int, Any] = {}
        self.temporary: set[int] = set()
        self._effects = Effects(program)
        self._lowered_bodies: dict[str, Any] = {}
        for n in program.inputs:
            self._own(n)

    def _own(self, number: int) -> View:
        kind = self.program.types[number]
        view = self.views[number] = View(number, 0, kind.shape, kind.strides, kind.dtype)
        return view

    def temporary_view(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> View:
        """Return a contiguous view of a new temporary memory."""
        number = self.program.new_value(ArrayType(shape, dtype, contiguous_strides(shape, dtype.itemsize), -1)).number
        self.temporary.add(number)
        return self._own(number)

    def follow(self, call: Call) -> None:
        """Store the views of the results of a call that Python makes."""
        for n in call.outputs:
            if n in self.program.types and n not in self.views:
                self._result(call, n)

    def _result(self, call: Call, number: int) -> View:
        """Return the view of a result: of new memory, or of an argument's memory."""
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
        distance = kind.address - self.program.types[n].address
        base = self.views[n]
        view = self.views[number] = View(base.memory, base.offset + distance, kind.shape, kind.strides, kind.dtype)
        return view

    # -- calls ----------------------------------------------------------------------------------------------------

    def steps(self, call: Call) -> list[Step]:
        """Return the native steps of a call; none if it only makes views.

        Raises
        ------
        Unsupported
            If the call has no native form, so that Python has to make it.
        """
        earlier_views = dict(self.views)
        try:
            return self._steps(call)
        except Exception as error:  # Formulas may raise any error for expressions.
            self.views = earlier_views
            raise Unsupported(str(error)) from None

    def _steps(self, call: Call) -> list[Step]:
        """Return the steps of a call, by the rule for its name; see `steps`."""
        _, _, name = call.name.rpartition(".")
        has_out = call.name.startswith("xp.") and call.named.keys() == {"out"}
        has_out = has_out and call.named["out"] in (call.results, (call.results,))
        if name not in _WRITERS and not has_out and (written_values(call) != [] or "out" in call.named):
            raise Unsupported("it writes in place")
        numbers = list(call.outputs)
        kinds = {self.program.types[n].dtype for n in (*numbers, *values_in(call.args))}
        if not kinds <= DTYPES | _HALVES:
            raise Unsupported("the dtype")
        existing = set(self.views)
        results = [self.views[n] if n in existing else self._result(call, n) for n in numbers]
        is_allocating = any(n not in existing and self.views[n].memory == n for n in numbers)
        if has_out:
            return [self._loop(call._replace(named={}), name, results)]
        if (results and not is_allocating and name not in _WRITERS) or name in ("empty", "empty_like"):
            return []  # It only makes views, or computes nothing.
        moving = getattr(self, f"_move_{name}", None)  # It only moves elements, and so supports 16-bit floats, too.
        if name in INDEX_CALLS:
            moving = functools.partial(self._lower_index_kernel, INDEX_CALLS[name], name)
        handler = moving or getattr(self, f"_lower_{name}", None)
        body = find_body(name) if call.name.startswith(("kernels.", "backend.")) else None
        if body is not None:
            handler = functools.partial(self._lower_body, body)
        elif name in ROW_OPERATIONS:
            handler = functools.partial(self._lower_row_kernel, *ROW_OPERATIONS[name])
        elif name in ARRAY_KERNELS:
            handler = functools.partial(self._lower_array_kernel, ARRAY_KERNELS[name])
        elif name in EXTREMUM_CALLS:
            handler = functools.partial(self._lower_extremum, EXTREMUM_CALLS[name])
        if kinds & _HALVES and not moving and (handler is not None or name in _REDUCTIONS):
            raise Unsupported("the dtype")
        if handler is not None:
            return handler(call, results)  # type: ignore[no-any-return]
        if name in _FILLS or name == "full":
            return self._fill_call(results[0], call.args[1] if name == "full" else _FILLS[name])
        if COPIES.get(name):
            return self._copy(call, name, results)
        if name in _REDUCTIONS and call.name.partition(".")[0] in ("kernels", "backend", "method"):
            return self._reduce(call, _REDUCTIONS[name], results[0])
        return [self._loop(call, name, results)]

    def _view(self, argument: Any) -> View:
        """Return the view of an array argument."""
        if type(argument) is Literal:
            return self._literal(argument.number)
        if type(argument) is not Value:
            raise Unsupported("an argument that is no array")
        return self.views[argument.number]

    def _literal(self, number: int) -> View:
        """Return the view of a literal, whose memory number is negative."""
        array = self.program.literals[number]
        if array.dtype not in DTYPES | _HALVES:
            raise Unsupported("the dtype")
        return View(-1 - number, 0, array.shape, array.strides, array.dtype)

    def _constant(self, argument: Any) -> Any:
        """Return the number that all elements of an argument are equal to, or None."""
        memory = self._view(argument).memory
        if memory >= 0:
            return self.constants.get(memory)
        array = self.program.literals[-1 - memory]
        return array.reshape(-1)[0] if array.size == 1 else None

    # -- loops ----------------------------------------------------------------------------------------------------

    def _loop(self, call: Call, name: str, results: list[View]) -> Step:
        """Return the loop of an elementwise call."""
        kind = call.name.partition(".")[0]
        is_elementwise = any(name in names for names in (_ELEMENTWISE, RENAMED, SPECIAL, CPU.backend.elementwise))
        if not (is_elementwise or (kind == "xp" and name in RENAMED.values())) or len(results) != 1:
            raise Unsupported(name)
        reads: list[View] = []
        places: list[tuple[bool, Any]] = []
        arguments = [*call.args, *call.named.values()]
        for argument in arguments:
            if type(argument) in (Value, Literal):
                number = self._constant(argument)
                if number is None:
                    places.append((True, len(reads)))
                    reads.append(self._view(argument))
                else:
                    places.append((False, number))
            elif values_in(argument):
                raise Unsupported("lists of arrays")
            else:
                places.append((False, argument))
        out = results[0]
        if any(v.dtype in _HALVES for v in (out, *reads)) and not _rounds_once(call, name, places):
            raise Unsupported("the dtype")
        keys, positional, dtype = list(call.named), len(call.args), compute_dtype(out.dtype)
        shape = np.broadcast_shapes(*[r.shape for r in reads]) if reads else ()
        scalars = all(place[0] for place in places if isinstance(place[1], np.generic))
        if shape != out.shape and name not in _IN_PLACE and (reads or not scalars):
            arrays = [self._view(each).shape for each in arguments if type(each) in (Value, Literal)]
            if np.broadcast_shapes(shape, *arrays) != out.shape:
                raise Unsupported("the shape of the result")
        function = _function_of(kind, name)
        if name == "evaluate_tiled":
            positional, places, wrapped = positional - 1, places[1:], places[0][1]
            function = lambda F, *args: wrapped(F, *args)  # noqa: E731

        def formula(F: Any, *exprs: Expr) -> list[Expr]:
            operands = [exprs[v] if is_array else _operand(F, v) for is_array, v in places]
            expr = function(F, *operands[:positional], **dict(zip(keys, operands[positional:], strict=True)))
            if not isinstance(expr, Expr):
                expr = F.graph.constant(expr, dtype)
            if name in _IN_PLACE:
                expr = F.graph.cast(expr, dtype)
            if expr.dtype != dtype:
                raise NotFusible(f"{name} gives {expr.dtype} in the place of {out.dtype}")
            return [expr]

        return self._check_loop(Loop([out], reads, formula))

    def _check_loop(self, loop: Loop) -> Loop:
        """Return the loop; raise `Unsupported` if its formula or its aliasing has no native form."""
        from gradcore.compiler.targets.native.groups import store_as, tracer

        F = tracer()
        exprs = loop.formula(F, *[F.graph.input(i, compute_dtype(r.dtype)) for i, r in enumerate(loop.reads)])
        F.check([store_as(F, expr, w.dtype) for expr, w in zip(exprs, loop.writes, strict=True)])
        if any(r.size and w.memory == r.memory and r != w for r in loop.reads for w in loop.writes):
            raise Unsupported("it reads another part of what it writes")
        if not all(w.is_injective for w in loop.writes):
            raise Unsupported("it writes to elements more than once")
        return loop

    def _fill_call(self, out: View, value: Any) -> list[Step]:
        """Return the steps that fill `out` with one number, and store the number if it never changes."""
        if type(value) in (Value, Literal):
            value = self._constant(value)
            if value is None:
                raise Unsupported("the fill value is an array")
        number = out.dtype.type(value).item()
        if self._effects.is_constant(out.memory):
            self.constants[out.memory] = out.dtype.type(number)
        return self._fill(out, number)

    def _copy(self, call: Call, name: str, results: list[View]) -> list[Step]:
        """Return the steps of a call that copies its argument, possibly with another shape."""
        (out,) = results
        number, x = self._constant(call.args[0]), self._view(call.args[0])
        if number is not None and out.memory == call.outputs[0]:
            return self._fill_call(out, number)
        if COPIES[name] == "order" and out.is_contiguous:
            out = out.reshape(x.shape)
        if x.shape != out.shape:
            raise Unsupported("the copy's shape")
        return [self._convert(out, x)]

    def _move_repeat(self, call: Call, results: list[View]) -> list[Step]:
        (out,), x = results, self._view(call.args[0])
        sizes, size = (1,) * (len(out.shape) - len(x.shape)) + x.shape, out.dtype.itemsize
        shape = tuple(n for whole, part in zip(out.shape, sizes, strict=True) for n in (whole // max(part, 1), part))
        if not out.size or not out.is_contiguous:
            raise Unsupported("the copy's order")
        dims = tuple(n for part in sizes for n in (1, part))
        steps = tuple(s for each in (*(0,) * (len(sizes) - len(x.shape)), *x.strides) for s in (0, each))
        strides = contiguous_strides(shape, size)
        return [self._convert(out._replace(shape=shape, strides=strides), x._replace(shape=dims, strides=steps))]

    def _write(self, out: View, value: Any) -> list[Step]:
        """Return the steps that write a number or an array to `out`, with broadcasting."""
        if type(value) in (Value, Literal):
            number = self._constant(value)
            if number is None:
                x = self._view(value)
                lead = len(x.shape) - len(out.shape)
                if lead > 0 and all(n == 1 for n in x.shape[:lead]):
                    x = x._replace(shape=x.shape[lead:], strides=x.strides[lead:])
                return [self._convert(out, x)]
            value = number.item()
        if not isinstance(value, (bool, int, float)):
            raise Unsupported("what is written")
        return self._fill(out, np.asarray(value).astype(out.dtype).item())

    def _move_setitem(self, call: Call, results: list[View]) -> list[Step]:
        target, index, value = call.args
        if values_in(index) or not _is_basic(index):
            return self._put(self._view(target), index if isinstance(index, tuple) else (index,), value)
        return self._write(self._view(target).select(index), value)

    def _move_copy_into(self, call: Call, results: list[View]) -> list[Step]:
        return self._write(self._view(call.args[0]), call.args[1])

    def _move_masked_fill_number(self, call: Call, results: list[View]) -> list[Step]:
        (x, mask, value), (out,) = call.args, results
        a, m = self._view(x), self._view(mask)
        if type(value) not in (bool, int, float) or a.dtype != out.dtype or m.dtype != np.bool_:
            raise Unsupported("the number")
        number, dtype = np.asarray(value).astype(out.dtype).item(), compute_dtype(out.dtype)
        formula = lambda F, e, given: [F.graph.where(given, F.graph.constant(number, dtype), e)]  # noqa: E731
        return [self._check_loop(Loop([out], [a, m], formula))]

    def _move_getitem_backward(self, call: Call, results: list[View]) -> list[Step]:
        grad, _, index = call.args
        if values_in(index) or not _is_basic(index):
            raise Unsupported("the index")
        out = results[0]
        return [*self._fill(out, 0), *self._write(out.select(index), grad)]

    def _move_cat(self, call: Call, results: list[View]) -> list[Step]:
        (arrays, dim), (out,) = call.args, results
        lead, start, steps = (slice(None),) * (dim % len(out.shape)), 0, list[Step]()
        for each in arrays:
            stop = start + self._view(each).shape[len(lead)]
            steps += self._write(out.select((*lead, slice(start, stop))), each)
            start = stop
        return steps

    def _move_stack(self, call: Call, results: list[View]) -> list[Step]:
        (arrays, dim), (out,) = call.args, results
        lead = (slice(None),) * (dim % len(out.shape))
        return [step for i, each in enumerate(arrays) for step in self._write(out.select((*lead, i)), each)]

    # -- reductions -------------------------------------------------------------------------------------------------

    def _reduce(self, call: Call, kind: str, out: View) -> list[Step]:
        """Return the steps of a reduction, with the dims that the arguments of the call name."""
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
            axes = rest.get("dim", rest.get("dims", rest.get("axis")))
            axes = range(len(x.shape)) if axes is None or axes == () else axes
            axes = (axes,) if isinstance(axes, int) else axes if x.shape else ()
            dims = tuple(d % max(len(x.shape), 1) for d in axes) if x.shape else ()
        if rest.get("dtype") is not None and name not in ("sum_rows", "sum_to_size"):
            raise Unsupported("the dtype")
        if (kind != "sum" and (x.dtype != out.dtype or not x.size)) or (kind == "mean" and x.dtype.kind != "f"):
            raise Unsupported("the dtype")
        if kind == "sum" and x.dtype != out.dtype and (x.dtype.kind not in "biu" or out.dtype != np.int64):
            raise Unsupported("the dtype")
        if kind in ("max", "min") and (x.dtype.kind not in "fiu" or x.size > 1 << 13):
            raise Unsupported("what is large")
        return self._reduce_dims(kind, out, x, dims)

    def _reduce_dims(self, kind: str, out: View, x: View, dims: tuple[int, ...]) -> list[Step]:
        """Return the steps of a reduction over dims, whether or not `out` keeps them."""
        kept_sizes = [n for d, n in enumerate(x.shape) if d not in dims]
        if math.prod(kept_sizes) != out.size:
            raise Unsupported("the shape of the result")
        if len(kept_sizes) != len(out.shape):  # `out` keeps reduced dims with size 1
            lead = len(x.shape) - len(out.shape)
            where = [d - lead for d in range(len(x.shape)) if d not in dims]
            strides = tuple(out.strides[d] for d in where) if min(where, default=0) >= 0 else ()
            if len(strides) != len(kept_sizes) or [out.shape[d] for d in where] != kept_sizes:
                raise Unsupported("the shape of the result")
            out = out._replace(shape=tuple(kept_sizes), strides=strides)
        if out.shape != tuple(kept_sizes):
            raise Unsupported("the shape of the result")
        if all(x.shape[d] == 1 for d in dims):
            return [self._convert(out, x.select(tuple(0 if d in dims else slice(None) for d in range(len(x.shape)))))]
        divisor = math.prod(x.shape[d] for d in dims) if kind == "mean" else 1
        return [Reduction("sum" if kind == "mean" else kind, out, x, dims, divisor)] if x.size else self._fill(out, 0)

    def _lower_linalg_vector_norm(self, call: Call, results: list[View]) -> list[Step]:
        rest: tuple[Any, ...] = (2, None)
        x, order, dim, *_ = (*call.args, *rest[len(call.args) - 1 :])
        a, out = self._view(x), results[0]
        has_plain_dtypes = call.named.get("dtype") is None and a.dtype == out.dtype and a.dtype.kind == "f"
        if order != 2 or not a.size or not has_plain_dtypes:
            raise Unsupported("the norm")
        dims = tuple(range(len(a.shape))) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
        dims = tuple(d % len(a.shape) for d in dims) if a.shape else ()
        squares = self.temporary_view(a.shape, a.dtype)
        square = self._check_loop(Loop([squares], [a], lambda F, e: [e * e]))
        root = self._check_loop(Loop([out], [out], lambda F, e: [F.xp.sqrt(e)]))
        return [square, *self._reduce_dims("sum", out, squares, dims), root]


def _operand(F: Any, value: Any) -> Any:
    """Return an argument that is no array as an operand of a formula: settings unchanged, numbers as constants."""
    return F.graph.constant(value.item(), compute_dtype(value.dtype)) if isinstance(value, np.generic) else value


def _rounds_once(call: Call, name: str, places: list[tuple[bool, Any]]) -> bool:
    """Return whether a call on 16-bit floats computes in float32 and rounds only the result."""
    single = call.name.startswith("operator.") or name in RENAMED or name == "where"
    return single and not call.named and all(is_array or isinstance(value, np.generic) for is_array, value in places)


def _dims_summed(shape: tuple[int, ...], to: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dims of `shape` to sum over, so that it becomes `to`, which broadcasts to `shape`."""
    lead = len(shape) - len(to)
    return tuple(d for d, n in enumerate(shape) if d < lead or (to[d - lead] == 1 and n != 1))


def _is_basic(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(i is None or i is ... or type(i) in (int, slice) for i in parts)


@functools.cache
def _function_of(kind: str, name: str) -> Callable[..., Any]:
    """Return a function of a namespace and expressions."""
    if kind == "operator":
        plain = OPERATORS[name[1:] if name in _IN_PLACE else name].function
        return lambda F, *args: plain(*args)
    if kind == "method":
        return lambda F, x, *args, **kwargs: getattr(x, name)(*args, **kwargs)
    if kind == "xp":
        return lambda F, *args, **kwargs: getattr(F.xp, name)(*args, **kwargs)
    return lambda F, *args, **kwargs: getattr(F, name)(*args, **kwargs)
