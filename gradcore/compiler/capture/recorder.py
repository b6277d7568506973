"""Capture: run a function once, and note every call on raw arrays.

While a recorder is active, the kernel tables and backends of the CPU and CUDA are replaced by ones that note each
call of this thread and then make it; tensors hold `RecordedArray` instead of their arrays. So the function computes
what it always does, and no use of array elements goes unseen. An operation that is not a call on arrays (a number
that becomes Python's, a mask that selects) ends the capture, and the function goes on as if there had been none.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from gradcore.autograd.variables import Variable, wrap
from gradcore.backends.base import Backend
from gradcore.backends.codegen.scalars import SymbolicScalar
from gradcore.backends.portable.optimizers import Batch
from gradcore.backends.random.generator import PhiloxState
from gradcore.backends.registry import CPU
from gradcore.compiler.capture.arrays import RecordedArray, RecordedInt, give_holders_plain_arrays, plain_batch
from gradcore.compiler.capture.numbers import RecordedFloat, RecordedInteger, plain_numbers
from gradcore.compiler.capture.sources import running_offset
from gradcore.compiler.capture.substitutes import Substitutes, plain_draw
from gradcore.compiler.program.effects import is_pure
from gradcore.compiler.program.program import ArrayType, Call, Literal, Program, Value, map_leaves
from gradcore.compiler.program.storage import address_of, find_cupy_backends, owner_of, share_memory
from gradcore.core import dtypes
from gradcore.core.device import device
from gradcore.core.locks import process_lock
from gradcore.core.tracebacks import user_line
from gradcore.core.typing import Array
from gradcore.dispatch import operands
from gradcore.ops.declare.table import Formula
from gradcore.tensor.random.generator import default_generator

__all__ = ["OF_METADATA", "Recorder", "Unrecordable", "recording_lock"]


class Unrecordable(RuntimeError):
    """Raised when a function does something that cannot be part of a program."""


#: One recording at a time: it replaces tables of kernels.
recording_lock = process_lock()
#: Functions of arrays that read shapes and dtypes, not elements.
OF_METADATA = frozenset((
    "backend.computes_half_in_float", "backend.geometry_of", "backend.is_complex", "backend.is_pinned",
    "backend.is_tensor", "xp.can_cast", "xp.iscomplexobj", "xp.may_share_memory", "xp.ndim", "xp.result_type",
    "xp.shape", "xp.size",
))  # fmt: skip
#: Functions of the array library whose results have sizes that depend on values.
_SIZED_BY_VALUES = frozenset((
    "argwhere", "bincount", "compress", "delete", "extract", "flatnonzero", "histogram", "insert", "intersect1d",
    "nonzero", "repeat", "setdiff1d", "trim_zeros", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
))  # fmt: skip
#: Kernels that give None where they have nothing for operands of such shapes and dtypes.
_DECLINING = frozenset(["kernels.fused_forward", "kernels.fused_gradients"])
#: What may be an argument beside arrays: it is the same in every call.
_CONSTANTS = (
    bool, int, float, complex, str, bytes, type(None), type(...), np.dtype, np.generic, type, range, np.ufunc,
    types.BuiltinFunctionType, types.ModuleType, dtypes.dtype, device, Formula,
)  # fmt: skip


#: Arguments that are noted as they are, and what stands for numbers of the host.
_PLAIN = frozenset([bool, int, float, str, type(None)])
_NUMBERS: dict[Any, Any] = {RecordedInt: int, SymbolicScalar: float, RecordedFloat: float, RecordedInteger: int}


class _Numbers:
    """Weak mapping from objects to numbers."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Callable[[], object], int]] = {}

    def get(self, value: object) -> int | None:
        """Return the number of an object, or None."""
        result = self._found.get(id(value))
        return None if result is None or result[0]() is not value else result[1]

    def put(self, value: object, number: int) -> None:
        """Store the number of an object; keep objects alive that do not support weak references."""
        try:
            self._found[id(value)] = weakref.ref(value), number
        except TypeError:
            self._found[id(value)] = (lambda: value), number


class Recorder:
    """The capture of one run of a function.

    Parameters
    ----------
    fullgraph : bool
        Whether what cannot be recorded is an error.
    cpp : str, optional
        Whether the program becomes C++, and when: see `gradcore.compiler.targets.native.runnable`.
    graphs : str, optional
        Whether it becomes a CUDA graph: see `gradcore.compiler.targets.cuda.runnable`.

    Attributes
    ----------
    program : Program
    stopped : str or None
        Why there will be no program, with the user's line.
    code : code, optional
        Of the function that is recorded.
    offset : int or None
        The instruction of that function at which the recording was stopped, if that is known.
    """

    def __init__(self, fullgraph: bool = False, cpp: str | None = None, graphs: str | None = None) -> None:
        self.program, self.cpp, self.graphs = Program(), cpp, graphs
        self.stopped: str | None = None
        self.code: types.CodeType | None = None
        self.offset: int | None = None
        self.fullgraph = fullgraph
        self.draws_default = False
        #: How often the library's own methods of host objects are being recorded, one within another.
        self.within_library = 0
        #: Makes host calls: ``(host, name, args, named) -> result``; and why nothing may come after one.
        self.on_host_call: Any = None
        #: Sees each backward call before it runs: ``(task) -> None``.
        self.on_backward: Any = None
        #: Reads the only element of an array: ``(array) -> number``.
        self.on_item: Any = None
        #: Where user code may catch errors (see `gradcore.compiler.capture.watch.find_handlers`).
        self.handled: dict[types.CodeType, list[tuple[int, int]]] = {}
        #: The calls made there.
        self.caught: list[Call] = []
        #: Gives a number that was computed to the next part of the program: ``(number) -> number of its value``.
        self.on_number: Any = None
        self.foreign: str | None = None
        self._depth = 0
        self._substitutes: Substitutes | None = None
        self._calling = ""
        self._constants: dict[int, Any] = {}
        #: What the function still holds, by the numbers of values: others are freed, as in eager execution.
        self._known: weakref.WeakValueDictionary[int, RecordedArray] = weakref.WeakValueDictionary()
        self._numbers, self._memories = _Numbers(), _Numbers()
        self._inputs: dict[int, Array] = {}
        self._number = 0
        #: Backends beside the CPU's, the classes of all arrays, and each backend's current device.
        self._cpu, self._others = CPU.backend, find_cupy_backends()
        self.array_types: Any = (np.ndarray, *(each.array_type for each in self._others))
        self._indices: dict[Any, int] = {each: each.current_index() for each in self._others}

    @property
    def records_alone(self) -> bool:
        """Whether each of a few results gets its own backward program: on the CPU, where programs hold no memory."""
        return self.program.backend is None

    # -- what is recorded -----------------------------------------------------------------------------------------

    def stop(self, why: str) -> None:
        """End the capture for a reason; the function runs on as it is."""
        if self.stopped is None:
            where = user_line()
            self.stopped, self.offset = f"{why} ({where})", running_offset(self.code)
            if self.fullgraph:
                raise Unrecordable(
                    f"compile(fullgraph=True) cannot record this function: {self.stopped}. Move this out of the "
                    "compiled function, compute it with tensors (gradcore.where in the place of `if`), or leave "
                    "fullgraph out."
                )

    def add_input(self, array: Array) -> RecordedArray:
        """Return the stand-in of an array that is an input of the program; the same array is one value."""
        result = self._find(array)
        if result is None:
            result = self._new(array)
            self.program.inputs.append(result.number)
            self._inputs[result.number] = array
        return result

    def start_at(self, program: Program) -> None:
        """Set the number of the next value to the first one that is unused in a program."""
        self._number = 1 + max(program.types, default=-1)

    def literal(self, array: Any) -> RecordedArray:
        """Return the stand-in of an array made of Python numbers; each run of the program gets a copy."""
        self.program.literals.append(array.copy("K"))
        out = self._new(array)
        args = (Literal(len(self.program.literals) - 1), "K")
        copied = np.ndarray.copy if isinstance(array, np.ndarray) else _copy_array
        self.program.calls.append(Call("copy", copied, args, {}, Value(out.number)))
        return out

    def adopt(self, array: Array) -> RecordedArray:
        """Return the stand-in of an array: of the program's value, or of a copy as a literal for other arrays."""
        known = self._find(array)
        return self.literal(array) if known is None else known

    def add_later_input(self, array: Any) -> RecordedArray:
        """Return the stand-in of an array that is an input of a later segment."""
        return self._new(array)

    def ones(self, t: Any) -> RecordedArray:
        """Return the stand-in of a tensor's upstream gradient, an input of a later segment."""
        backend = next(each for each in (self._cpu, *self._others) if each.type == t._device.type)
        with backend.use_index(t._device.index):
            return self.add_later_input(backend.xp.ones(t.shape, t._dtype.numpy))

    def backend_of(self, array: Any) -> Any:
        """Return the device backend of an array; None for the CPU."""
        return next((each for each in self._others if isinstance(array, each.array_type)), None)

    def records(self, where: Any) -> bool:
        """Return whether calls on a device are captured: only CUDA's, and not within `vmap` batches."""
        return where is CPU or (type(where) is device and any(where.type == each.type for each in self._others))

    def memories_of(self, numbers: Sequence[int]) -> Callable[[Array], bool]:
        """Return a predicate: whether an array shares memory with one of the numbered values."""
        types, inputs = self.program.types, [self._inputs[n] for n in numbers if n in self._inputs]
        memories = {types[n].memory for n in numbers if n in types}

        def is_shared(array: Array) -> bool:
            number = self.number_of(array)
            known = number is not None and types[number].memory in memories
            return known or any(share_memory(array, each) for each in inputs)

        return is_shared

    def number_of(self, array: Array) -> int | None:
        """Return the number of the value that an array is in this run, or None."""
        return self._numbers.get(array)

    def _find(self, array: Array) -> RecordedArray | None:
        """Return the stand-in of an array, or None if it is no value of the program."""
        number = self._numbers.get(array)
        if number is None:
            return None
        result = self._known.get(number)
        return self._stand_for(array, number) if result is None else result

    def _stand_for(self, array: Array, number: int) -> RecordedArray:
        result = self._known[number] = RecordedArray(array, number)
        return result

    def host_call(self, host: Any, name: str, *args: Any, **named: Any) -> Any:
        """Call a method of an optimizer, scheduler or scaler as it is, between two segments of the program."""
        return self.on_host_call(host, name, args, named)

    def within(self, host: Any, name: str, args: Any, named: Any) -> Any:
        """Capture a method of a host object."""
        self.within_library += 1
        try:
            return getattr(host, name)(*args, **named)
        finally:
            self.within_library -= 1

    def _new(self, array: Any) -> RecordedArray:
        out = self._stand_for(array, self.new_value())
        self._numbers.put(array, out.number)
        owner = owner_of(array)
        memory = self._memories.get(owner)
        if memory is None:
            memory = out.number
            self._memories.put(owner, memory)
        known = ArrayType(array.shape, array.dtype, array.strides, memory, address_of(array))
        self.program.types[out.number] = known
        if not isinstance(array, np.ndarray):
            backend, program = self.backend_of(array), self.program
            if program.backend is None:
                program.backend, program.index = backend, self._indices[backend]
            if backend is not program.backend or array.device.id != program.index:
                program.index = None
        return out

    def as_tensor(self, value: Any, like: Any) -> Any:
        """Return a captured number as the tensor without dims that it stands for in arithmetic with `like`."""
        dtype = like._dtype if like._dtype.is_floating_point or like._dtype.is_complex else dtypes.get_default_dtype()
        if value.__class__ is RecordedInteger or like._device is not CPU or dtype.is_reduced:
            self.stop(
                "an integer is computed with together with a tensor, or a number with one of 16 bits or of a device"
            )
        if self.stopped is not None:
            return plain_numbers(value)
        return wrap(self.call("backend.scalar", self._cpu.scalar, (value, dtype.numpy), {}), CPU, dtype)

    def new_value(self) -> int:
        """Return the next unused value number."""
        self._number += 1
        return self._number - 1

    def call(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any], on_cpu: bool = True
    ) -> Any:
        """Make a call and capture it.

        The profiler of this thread does not see the call, unless it is given the function.
        """
        watch = sys.getprofile()
        sys.setprofile(None)
        try:
            return self._call(name, function, args, named, on_cpu, watch)
        finally:
            sys.setprofile(watch)

    def _call(self, name: str, function: Any, args: Any, named: dict[str, Any], on_cpu: bool, watch: Any) -> Any:
        arrays: list[RecordedArray] = []
        functions = False

        def plain(leaf: Any) -> Any:
            nonlocal functions
            if leaf.__class__ is RecordedArray:
                arrays.append(leaf)
                return leaf.array
            if leaf.__class__ is Batch:
                self.stop("an optimiser takes a step")
                return plain_batch(leaf)
            functions |= callable(leaf) and not isinstance(leaf, _CONSTANTS)
            kind = _NUMBERS.get(leaf.__class__)
            return leaf if kind is None else kind(leaf)

        plain_args = []
        for each in args:
            if each.__class__ is RecordedArray:
                arrays.append(each)
                plain_args.append(each.array)
            else:
                plain_args.append(each if each.__class__ in _PLAIN else map_leaves(plain, each))
        plain_named = map_leaves(plain, named) if named else named
        if self._depth:
            self.stop("an array is hidden from the recording, in an object or a function")
        self._depth += 1
        if functions:
            sys.setprofile(watch)
        try:
            result = function(*plain_args, **plain_named)
        except Exception:
            if self.stopped is None:  # other values raise none
                self.stopped = f"an error of {name} is caught ({user_line()})"
                self.offset = running_offset(self.code)
            raise
        finally:
            self._depth -= 1
            if functions:
                sys.setprofile(None)
        if self._depth:
            return result
        if name in OF_METADATA or (result is None and name in _DECLINING):
            return result
        if name == "backend.shares_memory":
            self._check_sharing(arrays)
            return result
        self._check_sizes(name, arrays)
        if not on_cpu and result is None and not arrays:
            self.stop(f"{name.rpartition('.')[2]} of the device is called")
        for backend, known in self._indices.items():
            if (index := backend.current_index()) != known:
                self.program.index = None
                function = functools.partial(_on_index, backend, index, function)
        return self._note(name, function, args, named, result, bool(arrays), on_cpu)

    def _check_sizes(self, name: str, arrays: list[RecordedArray]) -> None:
        """End the capture for functions whose result sizes depend on values."""
        kind, _, last = name.partition(".")
        if last in (_SIZED_BY_VALUES if kind == "xp" else Backend.synchronizing):
            self.stop(f"{last} has a result whose size depends on values")
        if last == "index" and any(a.dtype == bool for a in arrays[1:]):
            self.stop("a mask selects elements, so that sizes depend on values")

    def _check_sharing(self, arrays: list[RecordedArray]) -> None:
        """End the capture where arguments may share memory in this call, and not in another one."""
        inputs = [self._inputs[n] for n in self.program.inputs]
        found = [[a for a in inputs if share_memory(a, each.array)] for each in arrays]
        if (
            len(found) == 2
            and all(found)
            and (len(found[0]) > 1 or len(found[1]) > 1 or found[0][0] is not found[1][0])
        ):
            self.stop("whether arguments share memory decides what is computed")

    def _note(self, name: str, function: Any, args: Any, named: Any, result: Any, reads: bool, on_cpu: bool) -> Any:
        if self.foreign is not None and (on_cpu or reads or isinstance(result, self.array_types)):
            self.stop(f"{self.foreign}, after which something is computed")
        scalars: list[int] = []
        fresh: list[int] = []

        def record_leaf(leaf: Any) -> Any:
            if isinstance(leaf, np.generic) and (on_cpu or reads):
                leaf = np.asarray(leaf)
                scalars.append(self._number)
            if isinstance(leaf, self.array_types):
                known = self._find(leaf)
                if known is None:
                    known = self._new(leaf)
                    fresh.append(known.number)
                return known
            positions = type(leaf) is int and name.endswith("_list")  # of tensors that a kernel of lists leaves out
            if not (leaf is None or positions or isinstance(leaf, (np.dtype, type))) and reads:
                self.stop(f"{name} returns {type(leaf).__name__}, which is no array")
            return leaf

        outcome = record_leaf(result) if result.__class__ is np.ndarray else map_leaves(record_leaf, result)
        if (reads or fresh) and self.stopped is None:
            numbers = _number_of(outcome) if outcome.__class__ is RecordedArray else map_leaves(_number_of, outcome)
            self._calling = name
            shown = tuple([self._shown(each) for each in args]), map_leaves(self._argument, named) if named else named
            self.program.scalars.update(scalars)
            call = Call(name, function, *shown, numbers)
            if (
                on_cpu or fresh or not is_pure(call)
            ):  # kernels of CUDA may give what they are given, or say that there is none
                self.program.calls.append(call)
                if self.handled and self._is_handled():
                    self.caught.append(call)
        return outcome

    def _is_handled(self) -> bool:
        """Return whether user code may catch an error of the current call."""
        frame: Any = sys._getframe()
        while frame is not None:
            ranges = self.handled.get(frame.f_code, ())
            if any(start <= frame.f_lasti < stop for start, stop in ranges):
                return True
            frame = frame.f_back
        return False

    def _shown(self, argument: Any) -> Any:
        """Return an argument of a call with values in the place of stand-ins."""
        if argument.__class__ is RecordedArray:
            return Value(argument.number)
        return argument if argument.__class__ in _PLAIN else map_leaves(self._argument, argument)

    def _argument(self, leaf: Any) -> Any:
        if leaf.__class__ is RecordedArray or leaf.__class__ is RecordedInt:
            return Value(leaf.number)
        if leaf.__class__ is RecordedFloat:
            return Value(self.on_number(leaf))
        if isinstance(leaf, self.array_types):
            if not self._is_constant(leaf):
                self.stop(f"a tensor is used that is found in a way that cannot be checked, by {self._calling}")
            self.program.literals.append(leaf)
            return Literal(len(self.program.literals) - 1)
        if isinstance(leaf, types.FunctionType):
            cells = [cell.cell_contents for cell in leaf.__closure__ or ()]
            if any(isinstance(each, (Variable, np.ndarray, RecordedArray)) for each in cells):
                self.stop("a function with a tensor inside is given to a kernel")
        elif not isinstance(leaf, _CONSTANTS) and not callable(leaf):
            self.stop(f"{type(leaf).__name__} is given to a kernel")
        return leaf

    def _is_constant(self, array: Any) -> bool:
        """Return whether an array is a cached constant of the library, made from a Python number."""
        return id(array) in self._constants or any(array is t._array for t in list(operands._constants.values()))

    def constant(self, array: Any) -> Any:
        """Capture an array that the library caches permanently."""
        self._constants[id(array)] = array
        return array

    def draw(self, state: PhiloxState, words: int, backend: Any = None) -> tuple[int, int]:
        """Draw from a generator; each run of the program draws anew."""
        key, counter = plain_draw(state, words)
        if self._depth:
            self.stop("a kernel draws random numbers")
        if self.stopped is not None:
            return key, counter
        if state is not default_generator._state:
            self.stop("random numbers are drawn from another generator than the default one")
        return self._drawn(key, counter, words, backend)

    def _drawn(self, key: int, counter: int, words: Any, backend: Any) -> tuple[int, int]:
        """Capture a draw from the default generator."""
        self.draws_default = True
        result = RecordedInt(key, self.new_value()), RecordedInt(counter, self.new_value())
        numbers = tuple(Value(each.number) for each in result)
        draw = _draw_default if backend in (None, self._cpu) else functools.partial(_draw_on, backend)
        self.program.calls.append(Call("random.draw", draw, (self._shown(words),), {}, numbers))
        return result

    # -- the time of a recording ------------------------------------------------------------------------------------

    @contextmanager
    def on(self, hosts: Sequence[Any] = ()) -> Iterator[None]:
        """Capture the calls of this thread, and access to host objects, within the context."""
        with recording_lock:
            self._substitutes = Substitutes(self, (self._cpu, *self._others), hosts)
            with self._substitutes.on():
                yield

    def restore(self) -> None:
        """Restore all replaced parts, also if an interrupt has ended the context of `on`."""
        if self._substitutes is not None:
            self._substitutes.restore()

    def off(self) -> AbstractContextManager[None]:
        """Suspend the capture within the context of `on`."""
        assert self._substitutes is not None
        return self._substitutes.off()

    def give_all_plain_arrays(self) -> None:
        """Give every tensor its plain array back."""
        give_holders_plain_arrays([*self._known.values()])

    def release(self) -> bool:
        """Give remaining tensors their plain arrays; return whether any besides the results still held stand-ins."""
        references = [weakref.ref(known) for known in self._known.values()]
        self._known.clear()
        for _ in range(2):
            arrays = [known for known in (reference() for reference in references) if known is not None]
            if not arrays:
                return False
            gc.collect()  # cycles may keep some
        give_holders_plain_arrays(arrays)
        return True


def _number_of(leaf: Any) -> Value | None:
    return Value(leaf.number) if leaf.__class__ is RecordedArray else None


def _on_index(backend: Any, index: int, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a function with another CUDA device current."""
    with backend.use_index(index):
        return function(*args, **named)


def _copy_array(array: Any, order: str) -> Any:
    return array.copy(order)


def _draw_default(words: int) -> tuple[int, int]:
    return plain_draw(default_generator._state, words)


def _draw_on(backend: Any, words: int) -> tuple[Any, int]:
    """Draw for a device: during the capture of a graph, as device memory and a position in the graph."""
    return backend.random_place(default_generator._state, words)  # type: ignore[no-any-return]
