"""Programs with symbolic sizes: a function is captured again, with symbols in place of changing sizes.

This capture computes with copies, at several sizes at once, and has no side effects. It derives the shape of each
result as an expression, and calls get expressions in place of numbers. The program is valid for other sizes if the
conditions on them hold and results have the expected shapes. Both are checked before the program first runs with new
sizes; if a check fails, the call is captured as usual.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from gradcore.autograd.variables import version_counter
from gradcore.backends.portable.optimizers import Batch
from gradcore.backends.random.generator import PhiloxState
from gradcore.compiler.capture.arrays import RecordedArray, RecordedInt, current
from gradcore.compiler.capture.guards import Guards
from gradcore.compiler.capture.host_calls import runs_user_code
from gradcore.compiler.capture.reasons import Code, Reason
from gradcore.compiler.capture.recorder import OF_METADATA, Recorder
from gradcore.compiler.capture.sizes import RECORDED, SizeEscapes, SymbolicNumber, Symbols, express, number_at
from gradcore.compiler.captured_run import RecordedRun
from gradcore.compiler.program.effects import Effects
from gradcore.compiler.program.passes import optimize
from gradcore.compiler.program.program import Call, Expression, Literal, Program, Value, leaves_in, map_leaves
from gradcore.compiler.program.storage import span_of
from gradcore.compiler.settings import Settings
from gradcore.compiler.specialization import Specialization, SpecializationWriter
from gradcore.compiler.targets.python import emitter
from gradcore.core.tracebacks import user_line
from gradcore.core.typing import AnyArray
from gradcore.dispatch import operands
from gradcore.tensor.random.generator import default_generator, use_state

__all__ = ["SizeEscapes", "Sizes", "SymbolicRecorder", "SymbolicRun", "SymbolicSpecializationWriter", "symbols_between"]

#: The number of calls after which sizes get a program of their own, which is faster.
FREQUENT = 16
#: The largest number of symbols of one program.
_MOST_SYMBOLS = 4
#: Host calls that do not change shapes.
_HOST_CALLS = frozenset(["step", "unscale_", "update", "zero_grad"])
#: Functions of arrays whose results are attributes of a `Layout`.
_OF_LAYOUTS = {"xp.shape": "shape", "xp.size": "size"}


class Layout:
    """The shape and strides of a value, as expressions.

    Parameters
    ----------
    arrays : tuple of array
        The value at each of the captured sizes.
    shape : tuple of int or SymbolicNumber
    """

    def __init__(self, arrays: tuple[Any, ...], shape: tuple[Any, ...]) -> None:
        self.arrays, self.shape = arrays, shape
        #: The strides as expressions, if they have been read.
        self.known_strides: tuple[Any, ...] = ()
        #: See `_kind`; empty if the value is not the result of a call at all sizes.
        self.kind: tuple[object, ...] = ()

    @property
    def size(self) -> Any:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> Any:
        return self.size * self.arrays[0].itemsize

    @property
    def strides(self) -> tuple[Any, ...]:
        spans = itertools.combinations(range(len(self.shape) + 1), 2)
        products = [math.prod(self.shape[i:j]) for i, j in spans]
        result = tuple(express(each, products) for each in zip(*(a.strides for a in self.arrays), strict=True))
        if any(type(each) is type(None) for each in result):
            current.recorder.stop(Code.SIZES, "strides follow no rule")
        self.known_strides = result
        return result

    def expect(self) -> Expected:
        """Return the properties that an array with this layout must have at other sizes."""
        return Expected(_text(self.shape), _text(self.known_strides), self.kind or _kind(self.arrays[0], ()))


class Expected(NamedTuple):
    """The expected properties of a value at other sizes.

    Attributes
    ----------
    shape, strides : str
        Expressions of these tuples. If nothing depends on the strides, the expression of an empty tuple.
    kind : tuple
        See `_kind`.
    """

    shape: str
    strides: str
    kind: tuple[Any, ...]


def _text(numbers: tuple[Any, ...]) -> str:
    return f"({''.join(f'{each.expression if type(each) is SymbolicNumber else each}, ' for each in numbers)})"


def _kind(array: Any, given: Iterable[Any]) -> tuple[object, ...]:
    """Return the size-independent properties of a call's result: dtype, order, and which arguments share it.

    Whether it owns its memory does not matter: kernels for large and small arrays may allocate it differently.
    """
    is_view = any(isinstance(each, np.ndarray) and np.may_share_memory(array, each) for each in given)
    return array.dtype, array.flags.c_contiguous, array.flags.f_contiguous, array.flags.writeable, is_view


class ConstantsWithSizes(dict[Any, Any]):
    """Cache of constants by number that lets symbolic numbers, which are no keys, pass."""

    def get(self, key: Any, default: Any = None) -> Any:
        return default if type(key[0]) is SymbolicNumber else super().get(key, default)

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key[0]) is not SymbolicNumber:
            super().__setitem__(key, value)


class SymbolicRecorder(Recorder):
    """Recorder that makes each call at several sizes, to derive symbolic sizes.

    Parameters
    ----------
    symbols : Symbols
    """

    def __init__(self, symbols: Symbols) -> None:
        super().__init__()
        self.symbols = symbols
        self.layouts: dict[int, Layout] = {}
        #: Calls that inspect arrays, with their results.
        self.asked: list[Call] = []
        for name in symbols.values:
            number = symbols.numbers[name] = self.new_value()
            self.program.symbols[number] = name

    def stop(self, code: Code, text: str) -> None:
        """Abort the capture by raising `SizeEscapes`."""
        if self.stopped is None:
            self.stopped = Reason(code, text, user_line())
            raise SizeEscapes(text)

    @contextmanager
    def on(self, hosts: Any = ()) -> Iterator[None]:
        # The draws of this capture are not those of the call, which has made them.
        with use_state(default_generator._state.copy()), super().on(hosts):
            constants = operands._constants
            operands._constants = ConstantsWithSizes(constants)
            try:
                yield
            finally:
                operands._constants = constants

    def _stand_for(self, array: AnyArray, number: int) -> RecordedArray:
        result = super()._stand_for(array, number)
        result.sized = self.layouts.get(number, array)
        return result

    def know(self, recorded: RecordedArray, arrays: tuple[Any, ...], shape: tuple[Any, ...]) -> None:
        """Store the arrays of a value at each of the sizes."""
        self.layouts[recorded.number] = recorded.sized = Layout(arrays, shape)

    def literal(self, array: Any) -> RecordedArray:
        result = super().literal(array)
        self.know(result, (array, *(array.copy("K") for _ in range(1, RECORDED))), array.shape)
        return result

    def ones(self, t: Any) -> RecordedArray:
        layout = t._array.sized
        arrays = tuple(np.ones(a.shape, a.dtype) for a in layout.arrays)
        result = self.new_stand_in(arrays[0])
        self.know(result, arrays, layout.shape)
        return result

    def as_tensor(self, value: Any, like: Any) -> Any:
        self.stop(Code.ELEMENTS, "a number that is read is computed with")

    def draw(self, state: PhiloxState, words: int, backend: Any = None) -> tuple[int, int]:
        if backend not in (None, self._cpu):
            self.stop(Code.GENERATOR, "random numbers are drawn for another device")
        return super().draw(state, words, backend)

    def _call(self, name: str, function: Any, args: Any, named: dict[str, Any], on_cpu: bool, watch: Any) -> Any:
        """Make a call once at each of the sizes, append it to the program, and derive the shapes of its results."""
        if self._depth:
            self.stop(Code.KERNEL, "an array is hidden from the recording, in an object or a function")
        leaves = leaves_in((args, named))
        for each in leaves:
            self._check(each, name)
        arrays = [each for each in leaves if type(each) is RecordedArray]
        if name in _OF_LAYOUTS and len(args) == 1 and type(args[0]) is RecordedArray:
            return getattr(args[0], _OF_LAYOUTS[name])
        self._depth += 1
        functions = [each for each in leaves if callable(each)]
        if functions:
            sys.setprofile(watch)
        try:
            with np.errstate(all="ignore"):
                results = [
                    function(*(_pick(each, i) for each in args), **{key: _pick(each, i) for key, each in named.items()})
                    for i in range(RECORDED)
                ]
        except Exception as error:
            self.stop(Code.ERROR, f"{name} raises an error: {error}")
            raise
        finally:
            self._depth -= 1
            if functions:
                sys.setprofile(None)
        if name in OF_METADATA or name == "backend.shares_memory":
            return self._query(name, function, args, named, results, arrays)
        self._check_result(name, arrays)
        outcome = self._note(name, function, args, named, results[0], bool(arrays), on_cpu)
        self._know_all(name, outcome, results, leaves)
        return outcome

    def _query(self, name: str, function: Any, args: Any, named: Any, results: list[Any], arrays: list[Any]) -> Any:
        """Return the result of a function that inspects arrays, which must be the same at all sizes."""
        if any(each != results[0] for each in results):
            self.stop(Code.SIZES, f"{name} gives something else for other sizes")
        if name == "backend.shares_memory":
            self._check_sharing(arrays)
        shown = tuple(map(self._to_value, args)), map_leaves(self._argument, named)
        self.asked.append(Call(name, function, *shown, results[0]))
        return results[0]

    def _check(self, leaf: Any, name: str) -> None:
        """Abort the capture if an argument hides arrays or sizes, before a call can write to them."""
        if isinstance(leaf, np.ndarray) and not self._is_constant(leaf):
            self.stop(Code.STATE, f"a tensor is used that is found in a way that cannot be checked, by {name}")
        if isinstance(leaf, functools.partial):
            map_leaves(self._check_inside, (leaf.args, leaf.keywords))
        if isinstance(leaf, types.FunctionType):
            cells = [cell.cell_contents for cell in leaf.__closure__ or ()]
            map_leaves(self._check_inside, (cells, leaf.__defaults__, leaf.__kwdefaults__))
        if isinstance(leaf, Batch):
            self.stop(Code.OPTIMIZER, "an optimiser takes a step")

    def _check_inside(self, leaf: Any) -> None:
        if type(leaf) is SymbolicNumber:
            self.stop(Code.KERNEL, "a function with a size inside is given to a kernel")

    def _know_all(self, name: str, outcome: Any, results: list[Any], given: list[Any]) -> None:
        """Derive the shapes of the results from those of the arguments."""
        recorded, *arrays = (leaves_in(each) for each in (outcome, *results))
        if len({len(each) for each in (recorded, *arrays)}) > 1:
            self.stop(Code.SIZES, f"the number of results of {name} depends on sizes")
        numbers = [n for each in given if type(each) is RecordedArray for n in self.layouts[each.number].shape]
        numbers += [each for each in given if type(each) is SymbolicNumber]
        numbers += [self.symbols.symbol(symbol) for symbol in self.symbols.values]
        for each, *variants in zip(recorded, *arrays, strict=True):
            if type(each) is not RecordedArray:
                if any(other is not each and (type(other) is not type(each) or other != each) for other in variants):
                    self.stop(Code.SIZES, f"{name} gives {each} for some sizes")
                continue
            variants[0] = each.array
            variants = [np.asarray(array) for array in variants]
            layout = self.layouts.get(each.number)
            if layout is not None:
                if any(a is not b for a, b in zip(layout.arrays, variants, strict=True)):
                    self.stop(Code.SIZES, f"{name} gives an argument for some sizes")
                continue
            arguments = [leaf.sized.arrays for leaf in given if type(leaf) is RecordedArray]
            kinds = [_kind(array, (each[i] for each in arguments)) for i, array in enumerate(variants)]
            if len({(array.ndim, kind) for array, kind in zip(variants, kinds, strict=True)}) > 1:
                self.stop(Code.SIZES, f"the types of the results of {name} depend on sizes")
            shape = tuple(express(sizes, numbers) for sizes in zip(*(array.shape for array in variants), strict=True))
            if any(type(n) is not int and type(n) is not SymbolicNumber for n in shape):
                self.stop(Code.SIZES, f"the sizes of the results of {name} follow no rule")
            self.know(each, tuple(variants), shape)
            self.layouts[each.number].kind = kinds[0]

    def _argument(self, leaf: Any) -> Any:
        return leaf.in_program() if type(leaf) is SymbolicNumber else super()._argument(leaf)


def _pick(value: Any, position: int) -> Any:
    """Return an argument at the sizes numbered `position`."""

    def plain(leaf: Any) -> Any:
        if type(leaf) is RecordedArray:
            return leaf.sized.arrays[position]
        return int(leaf) if type(leaf) is RecordedInt else number_at(leaf, position)

    return map_leaves(plain, value)


class SymbolicRun(RecordedRun):
    """A captured run with symbolic sizes, which computes with copies.

    Parameters
    ----------
    recorder : SymbolicRecorder
    guards : Guards
    reads_grads : bool
    """

    recorder: SymbolicRecorder

    def __init__(self, recorder: SymbolicRecorder, guards: Guards, reads_grads: bool) -> None:
        super().__init__(recorder, guards, reads_grads, Settings())
        self.originals = self.arrays
        self.versions = [version_counter(t).version for t in self.tensors]
        self.symbols = recorder.symbols
        copies: dict[int, tuple[Any, ...]] = {}
        self.copies: list[tuple[Any, ...]] = []
        for guard, array in zip(guards.tensors, self.arrays, strict=True):
            symbols = guards.symbols.get(guard.name, {})
            sizes = {dim: self.symbols.values[symbol] for dim, symbol in symbols.items()}
            if id(array) not in copies:
                first_copy = _copy_at_sizes(array)
                others = (_copy_at_sizes(first_copy, sizes, i) if sizes else first_copy for i in range(1, RECORDED))
                copies[id(array)] = first_copy, *others
            self.copies.append(copies[id(array)])
        self.arrays = [each[0] for each in self.copies]

    def guard_places(self, array: RecordedArray) -> None:
        self.recorder.stop(Code.SIZES, "elements of a storage are reached that are not the tensor's own")

    def begin(self, caller: FrameType) -> None:
        super().begin(caller)
        self.numbers.caller = None  # so that reading an element ends the capture
        for guard, arrays in zip(self.guards.tensors, self.copies, strict=True):
            symbols, t = self.guards.symbols.get(guard.name, {}), guard.tensor
            shape = [self.symbols.symbol(symbols[i]) if i in symbols else n for i, n in enumerate(arrays[0].shape)]
            self.recorder.know(t._array, arrays, tuple(shape))

    def restore(self) -> None:
        """Restore all tensors to their state before the run."""
        for t, array, grad, version in zip(self.tensors, self.originals, self.first_grads, self.versions, strict=True):
            t._array = array
            version_counter(t).version = version
            if t._autograd is not None:
                t._autograd.grad = grad

    def _call_host(self, tensors: list[Any], every: bool, host: Any, name: str, call: Callable[[], Any]) -> Any:
        """Skip host calls that change only elements, so that parameters and states keep their values."""
        if runs_user_code(host) or name not in _HOST_CALLS:
            self.recorder.stop(Code.OPTIMIZER, f"{name} of {type(host).__name__} is called")
        return super()._call_host(tensors, every, host, name, call) if name == "zero_grad" else None

    def _plan_step(self, optimizer: Any, part: Any, call: str) -> list[str]:
        return [call]


class SymbolicSpecializationWriter(SpecializationWriter):
    """Emitter of a specialization with symbolic sizes."""

    run: SymbolicRun

    def entry(self, function: Any) -> Specialization:
        calls = [*self.recorder.program.calls]
        names = [*self.run.symbols.values]
        self.key = names[0] if len(names) == 1 else f"({', '.join(names)})"
        self.failed = len(self.guards.texts)
        self.guards.texts.append("other sizes than before")
        self.sizes = Sizes(names, self.run, calls)
        result = super().entry(function)
        self.sizes.find = self._finder()
        captured_sizes = tuple(values[0] for values in self.run.symbols.values.values())
        self.sizes.remaining[captured_sizes if len(captured_sizes) > 1 else captured_sizes[0]] = FREQUENT
        conditions = self.run.symbols.conditions.items()
        self.guards.texts += [f"{each} is {outcome}" for each, outcome in conditions if str(sys.maxsize) not in each]
        return result._replace(sizes=self.sizes)

    def size_checks(self) -> list[str]:
        self.script.scope["remaining"] = self.sizes.remaining
        return [
            f"left = remaining.get({self.key}, 0)", f"if not left: return {self.failed}",
            f"remaining[{self.key}] = left - 1",
        ]  # fmt: skip

    def _finder(self) -> Callable[..., Any]:
        """Return a function that returns the sizes and arrays of a call, or the number of the failed guard."""
        arrays = ", ".join(f"{n}: a{i}" for n, i in self.sizes.inputs.items())
        lines = ["def find(args, named):", *self.guards.checks(), f"return {self.key}, {{{arrays}}}"]
        return self.guards.define("find", lines)  # type: ignore[no-any-return]

    def runnable(self, program: Program) -> Any:
        run = emitter.function_of(optimize(program))
        run.state = f"sizes are symbols; sizes of {FREQUENT} calls have a program of their own"
        return run


class Sizes:
    """The sizes for which a program is valid.

    Parameters
    ----------
    names : list of str
        The names of the symbols.
    run : SymbolicRun
    calls : list of Call
        All captured calls, those of backward included.

    Attributes
    ----------
    remaining : dict
        The number of calls until sizes get a program of their own, by sizes.
    refused : set
        The sizes for which the program is not valid.
    """

    def __init__(self, names: list[str], run: SymbolicRun, calls: list[Call]) -> None:
        recorder: Any = run.recorder
        self.names, self.calls = names, calls
        self.remaining: dict[Any, int] = {}
        self.refused: set[Any] = set()
        self.find: Any = None
        computed = {n for call in calls for n in call.outputs}
        self.expected = {n: layout.expect() for n, layout in recorder.layouts.items() if n in computed}
        layouts, types = recorder.layouts, recorder.program.types
        self.upstream = {n: (_text(layouts[n].shape), types[n].dtype) for n in run.backward.given}
        self.literals = recorder.program.literals
        read_values = {n for call in calls for n in call.read}
        self.inputs = {n: i for n, i in run.script.arguments.items() if n in read_values}
        self.conditions, self.asked = {**run.symbols.conditions}, recorder.asked
        self.writes_to_given = Effects(recorder.program).writes_to_given

    def frequent(self, args: Any, named: Any) -> bool:
        """Return whether the sizes of a call are now so frequent that they get their own program; True only once."""
        match = self.find(args, named)
        if type(match) is int or self.remaining.get(match[0], 1):
            return False
        self.remaining[match[0]] = sys.maxsize
        return True

    def admits(self, args: Any, named: Any) -> bool:
        """Return whether the program is valid for the new sizes of a call, and store the outcome."""
        match = self.find(args, named)
        if type(match) is int or match[0] in self.refused:
            return False
        key, arrays = match
        try:
            sizes = key if len(self.names) > 1 else (key,)
            is_right = self._is_right(dict(zip(self.names, sizes, strict=True)), arrays)
        except Exception:  # The function raises the error when it is called eagerly.
            is_right = False
        if is_right:
            self.remaining[key] = FREQUENT
        else:
            self.refused.add(key)
        return is_right

    def _is_right(self, sizes: dict[str, int], arrays: dict[int, Any]) -> bool:
        """Return whether the conditions hold at some sizes, and all calls on copies return arrays as expected."""
        if any(bool(eval(each, {}, sizes)) is not outcome for each, outcome in self.conditions.items()):
            return False
        values = {n: _copy_at_sizes(array) if self.writes_to_given else array for n, array in arrays.items()}
        values |= {n: np.ones(eval(shape, {}, sizes), dtype) for n, (shape, dtype) in self.upstream.items()}

        def plain(leaf: Any) -> Any:
            if type(leaf) is Value:
                return values[leaf.number]
            if type(leaf) is Expression:
                return eval(leaf.text, {}, sizes)
            return self.literals[leaf.number] if type(leaf) is Literal else leaf

        for call in self.calls:
            if call.name == "random.draw":
                values.update(zip(call.outputs, (0, 0), strict=True))
                continue
            with np.errstate(all="ignore"):
                result = call.function(*map_leaves(plain, call.args), **map_leaves(plain, call.named))
            expected, actual = leaves_in(call.results), leaves_in(result)
            if len(expected) != len(actual):
                return False
            for each, array in zip(expected, actual, strict=True):
                if type(each) is not Value:
                    continue
                array = np.asarray(array)
                if each.number in values:
                    if values[each.number] is not array:
                        return False
                    continue
                values[each.number] = array
                shape, strides, kind = self.expected[each.number]
                if array.shape != eval(shape, {}, sizes) or _kind(array, map(values.get, call.read)) != kind:
                    return False
                if strides != "()" and array.strides != eval(strides, {}, sizes):
                    return False
        answers = [each.function(*map_leaves(plain, each.args), **map_leaves(plain, each.named)) for each in self.asked]
        return all(answer == each.results for answer, each in zip(answers, self.asked, strict=True))


def _copy_at_sizes(array: Any, sizes: dict[int, tuple[int, ...]] | None = None, position: int = 0) -> Any:
    """Return a copy with the same memory layout; with other sizes of some dims, the elements repeat."""
    if type(array) is not np.ndarray:
        raise SizeEscapes("programs of CUDA tensors are for one size each")
    if any(step < 0 for step in array.strides):
        raise SizeEscapes("an array has negative strides")
    if sizes:
        for dim, values in sizes.items():
            array = np.take(array, np.arange(values[position]) % array.shape[dim], dim)
        return np.ascontiguousarray(array)
    if array.flags.c_contiguous or not array.size:
        result = np.array(array, order="C")
    else:
        _, span = span_of(array.shape, array.strides, array.itemsize)
        memory = np.zeros(-(-span // array.itemsize), array.dtype)
        result = np.lib.stride_tricks.as_strided(memory, array.shape, array.strides)
        result[...] = array
    if not array.flags.writeable:
        result.flags.writeable = False
    return result


def symbols_between(
    shapes: dict[str, tuple[int, ...]], known: list[dict[str, tuple[int, ...]]]
) -> tuple[dict[str, dict[int, str]], list[dict[str, tuple[int, ...]]]]:
    """Return symbols for the dims whose sizes have changed, and the sizes to capture with.

    Dims with the same sizes in all calls share a symbol. The capture also uses nearby sizes that no other dim has, so
    that dims cannot be confused.
    """
    names: dict[tuple[int, ...], str] = {}
    symbols: dict[str, dict[int, str]] = {}
    all_sizes: set[int] = set()
    for text, shape in shapes.items():
        for dim, n in enumerate(shape):
            sizes = (n, *(each[text][dim] for each in known))
            if len({*sizes}) > 1:
                symbols.setdefault(text, {})[dim] = names.setdefault(sizes, f"s{len(names)}")
            all_sizes.update(sizes)
    if len(names) > _MOST_SYMBOLS or any(n < 2 for sizes in names for n in sizes):
        return {}, []
    tries = []
    for with_smaller in (False, True):
        used_sizes, values = {*all_sizes}, {}
        for i, ((n, *earlier_sizes), name) in enumerate(names.items()):
            down = [m for m in range(n - 1, 1, -1) if m not in used_sizes][:1] if with_smaller else []
            first = next(m for m in itertools.count(n + 1 + i) if m not in used_sizes)
            second = next(m for m in itertools.count(first + 1 + 2 * i) if m not in used_sizes)
            values[name] = (n, *[*down, first, second][: RECORDED - 1], *earlier_sizes)
            used_sizes.update(values[name])
        tries.append(values)
    return symbols, tries
