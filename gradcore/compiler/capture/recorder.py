"""Capture: run a function once and record every call on raw arrays.

While a recorder is active, the kernel tables and backends of the CPU and CUDA are replaced by substitutes that make
each call of this thread and record it, and tensors hold a `RecordedArray` instead of their array. The function computes
its usual result, and no use of array elements goes unnoticed. An operation that cannot be a call on arrays, such as
the conversion of an element to a Python number, ends the capture; the function then continues without it.
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
from gradcore.backends.random.recording import RepeatedState
from gradcore.backends.registry import CPU, find_cupy_backends
from gradcore.compiler.capture.arrays import RecordedArray, RecordedInt, give_holders_plain_arrays, plain_batch
from gradcore.compiler.capture.numbers import RecordedFloat, RecordedInteger, plain_numbers
from gradcore.compiler.capture.reasons import Code, Reason
from gradcore.compiler.capture.sizes import number_at
from gradcore.compiler.capture.sources import running_offset
from gradcore.compiler.capture.substitutes import Substitutes, plain_draw
from gradcore.compiler.capture.watch import RepeatedEffect
from gradcore.compiler.program.effects import is_pure, written_arguments
from gradcore.compiler.program.program import ArrayType, Call, Program, Value, map_leaves
from gradcore.compiler.program.storage import address_of, bounds, owner_of
from gradcore.core import dtypes
from gradcore.core.device import device
from gradcore.core.locks import process_lock
from gradcore.core.tracebacks import user_line
from gradcore.core.typing import AnyArray
from gradcore.dispatch import operands
from gradcore.ops.declare.table import Formula
from gradcore.tensor.random.generator import default_generator

__all__ = ["OF_METADATA", "Recorder", "Unrecordable", "recording_lock"]


class Unrecordable(RuntimeError):
    """Raised, with ``fullgraph=True``, when a function does something that cannot be part of a program.

    Parameters
    ----------
    reason : Reason
    name : str, optional
        The name of the function.
    """

    def __init__(self, reason: Reason, name: str = "this function") -> None:
        remedy = f"{reason.remedy or 'move this out of it'}, or leave fullgraph out"
        super().__init__(f"compile(fullgraph=True) cannot record {name}: {reason}; {remedy}")


#: Only one thread captures at a time, because a capture replaces tables of kernels.
recording_lock = process_lock()
#: Functions of arrays that read only shapes and dtypes, so that programs need not call them.
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
#: Calls that reach elements of the storage that the array itself does not have.
_OF_STORAGE = frozenset(["backend.memory_of", "kernels.strided_view"])
#: Kernels that return None for operands whose shapes or dtypes they do not support.
_DECLINING = frozenset(["kernels.fused_forward", "kernels.fused_gradients"])
#: Types of arguments that are constants of a program.
_CONSTANTS = (
    bool, int, float, complex, str, bytes, type(None), type(...), np.dtype, np.generic, type, range, np.ufunc,
    types.BuiltinFunctionType, types.ModuleType, dtypes.dtype, device, Formula,
)  # fmt: skip


#: Types of arguments that are stored unchanged, and the plain type of each type of captured number.
_PLAIN = frozenset([bool, int, float, str, type(None)])
_NUMBERS: dict[Any, Any] = {RecordedInt: int, SymbolicScalar: float, RecordedFloat: float, RecordedInteger: int}


class _Numbers:
    """Weak mapping from objects, compared by identity, to value numbers."""

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
        Whether an operation that cannot be captured raises `Unrecordable`.
    is_first : bool
        Whether this is the function's first call, before which not all tensors that it depends on are known. Then there
        is no program.

    Attributes
    ----------
    program : Program
    stopped : Reason or None
        The reason why the capture has ended without a program.
    code : code, optional
        The code of the captured function.
    offset : int or None
        The offset of the instruction of that function at which the capture ended, if known.
    """

    def __init__(self, fullgraph: bool = False, is_first: bool = False) -> None:
        self.program, self.fullgraph, self.is_first = Program(), fullgraph, is_first
        self.stopped: Reason | None = None
        #: The error that was raised, which the function may catch.
        self.error: Unrecordable | None = None
        self.code: types.CodeType | None = None
        self.offset: int | None = None
        self.draws_default = False
        #: The nesting depth of captured methods of host objects.
        self.within_library = 0
        #: The `RecordedRun` that makes host calls, notes backward runs, and reads numbers from arrays.
        self.run: Any = None
        #: Instruction ranges of user code that may catch errors (`gradcore.compiler.capture.bytecode.find_handlers`).
        self.handled: dict[types.CodeType, list[tuple[int, int]]] = {}
        #: The calls made within these ranges.
        self.caught: list[Call] = []
        self.foreign: str | None = None
        #: The draws from the default generator, by their plain key and counter.
        self._draws: dict[tuple[int, int], tuple[RecordedInt, RecordedInt]] = {}
        #: The first value number of calls that eager execution does not make, or makes later: those of backward.
        self.first_repeated: int | None = None
        self._depth = 0
        self._substitutes: Substitutes | None = None
        self._calling = ""
        self._constants: dict[int, Any] = {}
        #: Names of functions that `_check_result` need not check again.
        self._sized: set[str] = set()
        #: Stand-ins that the function still holds, by value number. Others are freed, as in eager execution.
        self._known: dict[int, weakref.ref[RecordedArray]] = {}
        self._numbers, self._memories = _Numbers(), _Numbers()
        #: By value number, the type of an input and its range of addresses.
        self._inputs: dict[int, tuple[type, int, int]] = {}
        self._number = 0
        #: The CPU backend and the others, the classes of their arrays, and each backend's current device.
        self._cpu, self._others = CPU.backend, find_cupy_backends()
        self.array_types: Any = (np.ndarray, *(each.array_type for each in self._others))
        self._indices: dict[Any, int] = {each: each.current_index() for each in self._others}

    # -- the captured calls -----------------------------------------------------------------------------------------

    def stop(self, code: Code, text: str) -> None:
        """End the capture and store the reason; the function continues eagerly. With `fullgraph`, raise an error."""
        if self.first_repeated is not None:
            raise RepeatedEffect(Reason(code, text))
        if self.stopped is None:
            self.stopped, self.offset = Reason(code, text, user_line()), running_offset(self.code)
            # The first call may create the state of a scaler, and calls functions of arrays that are not known yet.
            if self.fullgraph and not (self.is_first and (self.within_library or code is Code.KERNEL)):
                self.error = Unrecordable(self.stopped)
                raise self.error

    def add_input(self, array: AnyArray) -> RecordedArray:
        """Return the stand-in of an array, and make the array an input of the program if it is not yet a value."""
        result = self._find(array)
        if result is None:
            result = self.new_stand_in(array, is_input=True)
            self.program.inputs.append(result.number)
            self._inputs[result.number] = type(array), *bounds(array)
        return result

    def start_at(self, program: Program) -> None:
        """Continue the numbering of values after the numbers used in `program`."""
        self._number = program.first_free()

    def literal(self, array: Any) -> RecordedArray:
        """Return the stand-in of an array made of Python numbers; each run of the program gets a copy."""
        out = self.new_stand_in(array)
        args = (self.program.new_literal(array.copy("K")), "K")
        copy = np.ndarray.copy if isinstance(array, np.ndarray) else lambda x, order: x.copy(order)
        self.program.calls.append(Call("copy", copy, args, {}, out.value))
        return out

    def adopt(self, array: AnyArray) -> RecordedArray:
        """Return the stand-in of an array. An array that is no value of the program becomes a literal."""
        stand_in = self._find(array)
        return self.literal(array) if stand_in is None else stand_in

    def ones(self, t: Any) -> RecordedArray:
        """Return the stand-in of a tensor's upstream gradient, an input of a later segment."""
        backend = next(each for each in (self._cpu, *self._others) if each.type == t._device.type)
        with backend.use_index(t._device.index):
            return self.new_stand_in(backend.xp.ones(t.shape, t._dtype.numpy))

    def backend_of(self, array: Any) -> Any:
        """Return the device backend of an array; None for the CPU."""
        return next((each for each in self._others if isinstance(array, each.array_type)), None)

    def records(self, where: Any) -> bool:
        """Return whether calls on the device `where` are captured: the CPU and CUDA, but not within `vmap` batches."""
        return where is CPU or (type(where) is device and any(where.type == each.type for each in self._others))

    def memories_of(self, numbers: Sequence[int]) -> Callable[[AnyArray], bool]:
        """Return a function that tells whether an array shares memory with one of the values `numbers`."""
        types = self.program.types
        memories = {types[n].memory for n in numbers if n in types}

        def is_shared(array: AnyArray) -> bool:
            number, overlapping = self.number_of(array), self._find_overlapping(array)
            return not overlapping.isdisjoint(numbers) or (number is not None and types[number].memory in memories)

        return is_shared

    def _find_overlapping(self, array: AnyArray) -> set[int]:
        """Return the inputs whose address ranges overlap that of an array."""
        kind, (start, stop) = type(array), bounds(array)
        return {n for n, (other, low, high) in self._inputs.items() if other is kind and low < stop and start < high}

    def number_of(self, array: AnyArray) -> int | None:
        """Return the value number of an array in this run, or None."""
        return self._numbers.get(array)

    def _find(self, array: AnyArray) -> RecordedArray | None:
        """Return the stand-in of an array, or None if it is no value of the program."""
        number = self._numbers.get(array)
        if number is None:
            return None
        result = self._known[number]() if number in self._known else None
        return self._stand_for(array, number) if result is None else result

    def _stand_for(self, array: AnyArray, number: int) -> RecordedArray:
        result = RecordedArray(array, number)
        self._known[number] = weakref.ref(result)
        return result

    def list_held(self) -> list[RecordedArray]:
        """Return the stand-ins that are still alive."""
        return [each for each in (known() for known in self._known.values()) if each is not None]

    def host_call(self, host: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of an optimizer, scheduler or scaler between two segments; its array calls are not captured."""
        return self.run.host_call(host, name, args, kwargs)

    def within(self, host: Any, name: str, args: Any, named: Any) -> Any:
        """Call a method of a host object and capture the array calls in it."""
        self.within_library += 1
        try:
            return getattr(host, name)(*args, **named)
        finally:
            self.within_library -= 1

    def new_stand_in(self, array: Any, is_input: bool = False) -> RecordedArray:
        """Return the stand-in of a new value, and store the type and the memory of its array in the program.

        The address, which takes microseconds, is stored for inputs and for views, and then for their owner, too.
        """
        out = self._stand_for(array, self.new_value())
        self._numbers.put(array, out.number)
        owner, types = owner_of(array), self.program.types
        memory = self._memories.get(owner)
        if memory is None:
            memory = out.number
            self._memories.put(owner, memory)
        address = address_of(array) if is_input or owner is not array else 0
        types[out.number] = ArrayType(array.shape, array.dtype, array.strides, memory, address)
        if owner is not array and isinstance(owner, np.ndarray) and not types[memory].address:
            types[memory] = types[memory]._replace(address=address_of(owner))
        if not isinstance(array, np.ndarray):
            backend, program = self.backend_of(array), self.program
            if program.backend is None:
                program.backend, program.index = backend, self._indices[backend]
            if backend is not program.backend or array.device.id != program.index:
                program.index = None
        return out

    def as_tensor(self, value: Any, like: Any) -> Any:
        """Return a captured number as a 0-dim tensor of the dtype that it has in arithmetic with the tensor `like`."""
        dtype = like._dtype if like._dtype.is_floating_point or like._dtype.is_complex else dtypes.get_default_dtype()
        if value.__class__ is RecordedInteger or like._device is not CPU or dtype.is_reduced:
            text = "an integer is computed with together with a tensor, or a number with one of 16 bits or of a device"
            self.stop(Code.ELEMENTS, text)
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
        """Make a call of an array function, capture it, and return the result with stand-ins for arrays.

        The profile function of this thread does not see the call, except for functions among the arguments.
        """
        watch = sys.getprofile()
        sys.setprofile(None)
        try:
            return self._call(name, function, args, named, on_cpu, watch)
        finally:
            sys.setprofile(watch)

    def _call(self, name: str, function: Any, args: Any, named: dict[str, Any], on_cpu: bool, watch: Any) -> Any:
        """Make a call with plain arrays and append it to the program; see `call`."""
        arrays: list[RecordedArray] = []
        functions = False

        def plain(leaf: Any) -> Any:
            nonlocal functions
            kind = leaf.__class__
            if kind in _PLAIN:
                return leaf
            if kind is RecordedArray:
                arrays.append(leaf)
                return leaf.array
            if kind is Batch:
                self.stop(Code.OPTIMIZER, "an optimiser takes a step")
                return plain_batch(leaf)
            functions |= callable(leaf) and not isinstance(leaf, _CONSTANTS)
            return _NUMBERS[kind](leaf) if kind in _NUMBERS else leaf

        plain_args = map_leaves(plain, args)
        plain_named = map_leaves(plain, named) if named else named
        if self._depth:
            self.stop(Code.KERNEL, "an array is hidden from the recording, in an object or a function")
        if self.first_repeated is not None:
            self._check_repeated(self.first_repeated, name, function, args, named)
        self._depth += 1
        if functions:
            sys.setprofile(watch)
        try:
            result = function(*plain_args, **plain_named)
        except Exception:
            if self.stopped is None:  # With other values, there may be no error.
                self.stopped = Reason(Code.ERROR, f"an error of {name} is caught", user_line())
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
        if name not in self._sized:
            self._check_result(name, arrays)
        if not on_cpu and result is None and not arrays:
            self.stop(Code.CALL, f"{name.rpartition('.')[2]} of the device is called")
        for backend, usual_index in self._indices.items():
            if (index := backend.current_index()) != usual_index:
                self.program.index = None
                function = functools.partial(_call_on_device, backend, index, function)
        return self._note(name, function, args, named, result, bool(arrays), on_cpu)

    def _check_repeated(self, first: int, name: str, function: Any, args: Any, named: dict[str, Any]) -> None:
        """Raise `RepeatedEffect` before a call writes to an array that is older than the value number `first`."""
        written = written_arguments(name, function, args, named)
        if written == ():
            return
        memories: list[int] = [-1] if written is None else []

        def add_memory(leaf: Any) -> None:
            if leaf.__class__ is RecordedArray:
                memories.append(self.program.types[leaf.number].memory)
            elif isinstance(leaf, self.array_types):
                memories.append(-1)

        map_leaves(add_memory, written)
        if any(memory < first for memory in memories):
            text = f"a tensor may be written in backward, by {name.rpartition('.')[2]}"
            raise RepeatedEffect(Reason(Code.BACKWARD, text, user_line()))

    def _check_result(self, name: str, arrays: list[RecordedArray]) -> None:
        """End the capture if sizes of the result depend on values; guard the storage if the result depends on it."""
        kind, _, function_name = name.partition(".")
        if function_name in (_SIZED_BY_VALUES if kind == "xp" else Backend.synchronizing):
            self.stop(Code.SIZES, f"{function_name} has a result whose size depends on values")
        elif name in _OF_STORAGE:
            self.run.guard_places(arrays[0])
        elif function_name not in ("getitem", "index"):
            self._sized.add(name)
        elif any(a.dtype == bool for a in arrays[1:]):
            self.stop(Code.SIZES, "a mask selects elements, so that sizes depend on values")

    def _check_sharing(self, arrays: list[RecordedArray]) -> None:
        """End the capture if inputs of the program share memory, which may differ in other calls."""
        overlaps = [self._find_overlapping(each.array) for each in arrays]
        if len(overlaps) == 2 and all(overlaps) and len(overlaps[0] | overlaps[1]) > 1:
            self.stop(Code.TENSOR, "whether arguments share memory decides what is computed")

    def _note(self, name: str, function: Any, args: Any, named: Any, result: Any, reads: bool, on_cpu: bool) -> Any:
        """Append a call to the program, and return its result with stand-ins in place of arrays."""
        if self.foreign is not None and (on_cpu or reads or isinstance(result, self.array_types)):
            self.stop(Code.OPTIMIZER, f"{self.foreign}, after which something is computed")

        def record_leaf(leaf: Any) -> Any:
            if isinstance(leaf, np.generic) and (on_cpu or reads):
                leaf = np.asarray(leaf)
                self.program.scalars.add(self._number)
            if isinstance(leaf, self.array_types):
                stand_in = self._find(leaf)
                return self.new_stand_in(leaf) if stand_in is None else stand_in
            positions = type(leaf) is int and name.endswith("_list")  # positions of tensors that a list kernel skipped
            if not (leaf is None or positions or isinstance(leaf, (np.dtype, type))) and reads:
                self.stop(Code.KERNEL, f"{name} returns {type(leaf).__name__}, which is no array")
            return leaf

        before = self._number
        outcome = record_leaf(result) if result.__class__ is np.ndarray else map_leaves(record_leaf, result)
        is_new = self._number > before
        if (reads or is_new) and self.stopped is None:
            numbers = map_leaves(lambda leaf: leaf.value if leaf.__class__ is RecordedArray else None, outcome)
            self._calling = name
            shown = tuple(map(self._to_value, args)), map_leaves(self._argument, named) if named else named
            call = Call(name, function, *shown, numbers)
            # Kernels of CUDA may return an argument, or None if they do not apply.
            if on_cpu or is_new or not is_pure(call):
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

    def _to_value(self, argument: Any) -> Any:
        """Return an argument of a call with stand-ins replaced by `Value`."""
        if type(argument) is RecordedArray:
            return argument.value
        return argument if type(argument) in _PLAIN else map_leaves(self._argument, argument)

    def _argument(self, leaf: Any) -> Any:
        """Return a leaf of an argument as it is stored in the program; end the capture if it cannot be stored."""
        if leaf.__class__ in (RecordedArray, RecordedInt):
            return leaf.value
        if leaf.__class__ is RecordedFloat:
            return Value(self.run.numbers.given_number(leaf))
        if isinstance(leaf, self.array_types):
            if not (self.is_first or self._is_constant(leaf)):
                text = f"a tensor is used that is found in a way that cannot be checked, by {self._calling}"
                self.stop(Code.STATE, text)
            return self.program.new_literal(leaf)
        if isinstance(leaf, types.FunctionType):
            cells = [cell.cell_contents for cell in leaf.__closure__ or ()]
            if any(isinstance(each, (Variable, np.ndarray, RecordedArray)) for each in cells):
                self.stop(Code.KERNEL, "a function with a tensor inside is given to a kernel")
        elif not isinstance(leaf, _CONSTANTS) and not callable(leaf):
            self.stop(Code.KERNEL, f"{type(leaf).__name__} is given to a kernel")
        return leaf

    def _is_constant(self, array: Any) -> bool:
        """Return whether an array is a constant that the library has cached, such as a Python number as an array."""
        return id(array) in self._constants or any(array is t._array for t in list(operands._constants.values()))

    def constant(self, array: Any) -> Any:
        """Mark an array as a permanently cached constant of the library, and return it."""
        return self._constants.setdefault(id(array), array)

    def draw(self, state: PhiloxState, words: int, backend: Any = None) -> tuple[int, int]:
        """Return the key and counter of the next `words` random words; each run of the program draws anew."""
        if type(state) is RepeatedState:  # An earlier draw of the run is repeated.
            place = plain_draw(state, number_at(words, 0))
            if place not in self._draws:
                self.stop(Code.GENERATOR, "random numbers are repeated that the function has not drawn")
            return self._draws.get(place, place)
        if self.first_repeated is not None:
            self.stop(Code.BACKWARD, "random numbers are drawn in backward")
        if state is not default_generator._state:
            self.stop(Code.GENERATOR, "random numbers are drawn from another generator than the default one")
        key, counter = plain_draw(state, number_at(words, 0))
        if self._depth:
            self.stop(Code.KERNEL, "a kernel draws random numbers")
        if self.stopped is not None:
            return key, counter
        self.draws_default = True
        result = RecordedInt(key, self.new_value()), RecordedInt(counter, self.new_value())
        numbers = tuple(each.value for each in result)
        self._draws[key, counter] = result
        draw = functools.partial(_draw_on, self._cpu if backend is None else backend)
        self.program.calls.append(Call("random.draw", draw, (self._to_value(words),), {}, numbers))
        return result

    # -- the duration of a capture ----------------------------------------------------------------------------------

    @contextmanager
    def on(self, hosts: Sequence[Any] = ()) -> Iterator[None]:
        """Capture the calls of this thread, and access to host objects, within the context."""
        with recording_lock:
            self._substitutes = Substitutes(self, (self._cpu, *self._others), hosts)
            try:
                self._substitutes.begin()
                yield
            finally:
                self.restore()

    def restore(self) -> None:
        """Restore the library's functions and tables, also if an interrupt has ended the context of `on`.

        Then forget the run, so that no reference cycle keeps its tensors and arrays alive.
        """
        if self._substitutes is not None:
            self._substitutes.restore()
        self._substitutes = self.run = None

    def off(self) -> AbstractContextManager[None]:
        """Suspend the capture within the context of `on`."""
        assert self._substitutes is not None
        return self._substitutes.off()

    def release(self) -> bool:
        """Replace the remaining stand-ins by plain arrays; return whether any tensor still had one."""
        if self.list_held():
            gc.collect()  # Reference cycles may keep stand-ins alive.
        arrays = self.list_held()
        self._known.clear()
        give_holders_plain_arrays(arrays)
        return bool(arrays)


def _call_on_device(backend: Any, index: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function while the CUDA device `index` is current."""
    with backend.use_index(index):
        return function(*args, **kwargs)


def _draw_on(backend: Any, words: int) -> tuple[Any, int]:
    """Draw from the default generator for a device; within a CUDA graph, the key is in device memory."""
    return backend.reserve_words(default_generator._state, words)  # type: ignore[no-any-return]
