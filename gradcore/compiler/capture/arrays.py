"""Stand-in arrays that report each operation on them to the recorder."""

from __future__ import annotations

import functools
import gc
import operator
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from gradcore.autograd.node import Node
from gradcore.autograd.saved import SavedTensor
from gradcore.autograd.variables import AutogradMeta, Variable
from gradcore.backends.portable.optimizers import Batch
from gradcore.backends.stand_ins import METHODS, SIZED_BY_VALUES, ArrayStandIn
from gradcore.backends.vmap.array import BatchedArray
from gradcore.compiler.capture.reasons import Code
from gradcore.compiler.program.program import Value, map_leaves
from gradcore.core.operators import BY_UFUNC, Form, Method, Operator, define_operators, names_of
from gradcore.core.typing import AnyArray
from gradcore.utils.recomputation import Frame

__all__ = ["RecordedArray", "RecordedInt", "current", "give_holders_plain_arrays", "give_plain_arrays", "plain_batch"]


class _Current(threading.local):
    """Thread-local state: the active recorder, and the profiler that observes the running program, or None.

    Attributes
    ----------
    is_compiling : bool
        Whether the Python code of a compiled function runs in this thread.
    """

    recorder: Any = None
    is_compiling = False
    profiler: Any = None


current = _Current()

#: Methods that can be captured: the shape of their result does not depend on values.
_RECORDED = (
    *(name for name in METHODS if name not in SIZED_BY_VALUES and name != "repeat"),
    "astype", "copy", "fill", "flatten", "reshape", "sort", "transpose", "view",
)  # fmt: skip
#: Attributes that return arrays.
_PARTS = ("T", "imag", "mT", "real")
#: Attributes that describe the type and memory layout of an array.
FACTS = ("dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides")
#: The attributes in `FACTS` that depend on sizes.
_OF_SIZES = frozenset(["nbytes", "shape", "size", "strides"])


class RecordedArray(ArrayStandIn):
    """Stand-in for an array: a numbered value of the program.

    Operations compute with `array` and are captured. Reading elements ends the capture.

    Parameters
    ----------
    array : array
    number : int
        The number of the value.

    Attributes
    ----------
    sized : array or Layout
        The provider of shape, strides, size and bytes: `array`, or a layout with symbolic sizes.
    value : Value
        The number as it stands in the calls of the program.
    """

    __slots__ = ("__weakref__", "array", "number", "sized", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array: Any, number: int) -> None:
        self.array = self.sized = array
        self.number, self.value = number, Value(number)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.array, name)
        _read(Code.ELEMENTS, f"{name} of its array is used")
        return value

    def call_method(self, name: str, function: Method, args: tuple[object, ...], named: dict[str, Any]) -> AnyArray:
        return self.__getattr__(name)(*args, **named)

    def convert(self, name: str, *args: object, **kwargs: object) -> Any:
        return self.__getattr__(name if hasattr(self.array, name) else f"__{name}__")(*args, **kwargs)

    @staticmethod
    def make_operator(operator: Operator, form: Form) -> Method:
        name, function = f"operator.{operator.name}", operator.function
        in_place, name_in_place = operator.in_place or function, f"operator.i{operator.name}"

        def unary(self: RecordedArray) -> AnyArray:
            return _call(name, function, self)

        def from_left(self: RecordedArray, other: object) -> AnyArray:
            return NotImplemented if _takes_over(other) else _call(name, function, self, other)

        def from_right(self: RecordedArray, other: object) -> AnyArray:
            return _call(name, function, other, self)

        def assign(self: RecordedArray, other: object) -> AnyArray:
            return NotImplemented if _takes_over(other) else _call(name_in_place, in_place, self, other)

        methods: dict[Form, Method] = {"unary": unary, "left": from_left, "right": from_right, "in place": assign}
        return methods[form]

    @property
    def base(self) -> Any:
        """None if the array owns its memory, else an object that supports no arithmetic."""
        return None if self.array.base is None else NotImplemented

    def __getitem__(self, index: Any) -> Any:
        return _call("operator.getitem", operator.getitem, self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        _call("operator.setitem", operator.setitem, self, index, value)

    def __reduce__(self) -> Any:
        _read(Code.CALL, "a tensor is pickled")
        return self.array.__reduce__()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Capture an operator whose first operand is a NumPy array; other NumPy functions end the capture."""
        if method == "__call__" and not kwargs and ufunc in BY_UFUNC and len(inputs) > 1:
            return _call(f"operator.{BY_UFUNC[ufunc].name}", BY_UFUNC[ufunc].function, *inputs)
        _read(Code.KERNEL, f"NumPy's {ufunc.__name__} is called on its array")
        if "out" in kwargs:
            kwargs["out"] = tuple(map(_inside, kwargs["out"]))
        return getattr(ufunc, method)(*map(_inside, inputs), **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        """End the capture for NumPy functions that are not captured: they read the elements."""
        _read(Code.KERNEL, f"NumPy's {function.__name__} is called on its array")
        return function(*map_leaves(_inside, args), **map_leaves(_inside, named))

    def __repr__(self) -> str:
        return f"RecordedArray({self.array!r}, {self.number})"


def _inside(value: Any) -> Any:
    return value.array if isinstance(value, RecordedArray) else value


def _read(code: Code, text: str) -> None:
    """End the capture, if there is one, because elements are read."""
    if current.recorder is not None:
        current.recorder.stop(code, text)


def _call(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Make a call and capture it if a recorder is active in this thread; return its result."""
    recorder = current.recorder
    if function is operator.methodcaller:
        method_name = name.removeprefix("method.")
        function = getattr(type(args[0].array), method_name, None) or functools.partial(_method, method_name)
    if recorder is not None:
        return recorder.call(name, function, args, kwargs)
    return function(*map(_inside, args), **kwargs)


def _method(name: str, array: Any, *args: Any, **kwargs: Any) -> Any:
    return getattr(array, name)(*args, **kwargs)


def _make_attributes() -> None:
    """Give `RecordedArray` the methods and attributes of arrays: some are captured, others only describe the array."""
    for name in _RECORDED:

        def method(self: RecordedArray, *args: object, name: str = f"method.{name}", **kwargs: object) -> AnyArray:
            return _call(name, operator.methodcaller, self, *args, **kwargs)

        setattr(RecordedArray, name, method)
    for name in _PARTS:

        def part(self: RecordedArray, name: str = name) -> AnyArray:
            return _call(f"method.{name}", operator.attrgetter(name), self)

        setattr(RecordedArray, name, property(part, getattr(ArrayStandIn, name).fset))
    for fact in FACTS:
        owner = "sized" if fact in _OF_SIZES else "array"
        setattr(RecordedArray, fact, property(operator.attrgetter(f"{owner}.{fact}")))


def _takes_over(other: Any) -> bool:
    """Return whether the other operand handles the operator itself, as arrays in `vmap` batches do."""
    return other.__class__ is not RecordedArray and getattr(other, "__array_ufunc__", 0) is None


_make_attributes()


class RecordedInt(int):
    """An integer drawn from a random number generator, which each run of the program draws anew.

    Parameters
    ----------
    value : int
    number : int
        The number of its value in the program.
    """

    value: Value

    def __new__(cls, value: int, number: int) -> RecordedInt:
        self = super().__new__(cls, value)
        self.value = Value(number)
        return self


def _refuse_operator(operator: Operator, form: Form) -> Method | None:
    plain = getattr(int, dict(operator.methods)[form], None)

    def compute(self: int, *others: object) -> Any:
        _read(Code.GENERATOR, "the position of a generator is computed with")
        return plain(int(self), *others) if plain is not None else NotImplemented

    return None if plain is None else compute


define_operators(RecordedInt, _refuse_operator, names_of("arithmetic", "bits", "comparison"))
RecordedInt.__hash__ = int.__hash__  # type: ignore[method-assign]


def give_holders_plain_arrays(arrays: Sequence[RecordedArray]) -> None:
    """Replace each stand-in array by its plain array in all tensors that hold it."""
    for holder in gc.get_referrers(*arrays) if arrays else ():
        if isinstance(holder, (Variable, SavedTensor)) and isinstance(holder._array, RecordedArray):
            holder._array = holder._array.array


def plain_batch(batch: Batch) -> Batch:
    """Return a batch of parameters with plain arrays in the place of stand-ins."""
    for name, value in vars(batch).items():
        setattr(batch, name, map_leaves(_inside, value))
    return batch


def give_plain_arrays(nodes: list[Any], ends: list[Any]) -> None:
    """Replace stand-in arrays by plain ones in the saved values of `nodes` and of all nodes before `ends`."""
    seen: set[int] = set(map(id, ends))
    waiting: list[Any] = list(nodes)
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, types.FunctionType):  # Its globals are not saved values.
            waiting += each.__closure__ or ()
            continue
        if isinstance(each, (Variable, SavedTensor)) and isinstance(getattr(each, "_array", None), RecordedArray):
            each._array = each._array.array
        elif isinstance(each, BatchedArray) and isinstance(each.array, RecordedArray):
            each.array = each.array.array
        waiting += [r for r in gc.get_referents(each) if isinstance(r, _SEARCHED) or type(r) is WeakKeyDictionary]


#: Types that may hold tensors saved by a graph.
_SEARCHED = (
    Node, Variable, SavedTensor, BatchedArray, AutogradMeta, tuple, list, dict, types.FunctionType,
    types.CellType, types.MethodType, functools.partial, Frame,
)  # fmt: skip
