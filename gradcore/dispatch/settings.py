"""Conversion of settings (numbers, sizes, dims, flags) to exact Python values, by the annotation of the parameter.

Users may pass NumPy scalars and 0-dim tensors, whose arithmetic wraps around, rounds and calls operations again.
Therefore each setting is converted once, at the start of a call. All later code calculates with Python's own ``int``,
``float``, ``complex`` and ``bool`` only.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable
from inspect import Parameter as InspectParameter
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np

from gradcore.autograd.variables import Variable
from gradcore.autograd.views import all_tangents, requires_grad
from gradcore.core import dtypes
from gradcore.core.errors import raise_if_out_of_memory
from gradcore.core.tracebacks import generated_file
from gradcore.core.typing import AnyTensor, NamedTuple
from gradcore.ops.declare.parameters import Parameter
from gradcore.ops.declare.table import Op

__all__ = ["SCOPE", "Setting", "argument", "constructor", "convert_arguments", "converting", "setting", "settings_of"]


class Unfit(TypeError):
    """Raised for a value that a setting does not accept."""


# -- converters of values ---------------------------------------------------------------------------------------------


def _item(tensor: AnyTensor, one_element: bool = False) -> Any:
    """Return the number in a 0-dim tensor, or raise if that would lose a gradient.

    With `one_element`, tensors of one element may have dims.
    """
    array = tensor._array
    if array.ndim and not (one_element and array.size == 1):
        raise Unfit
    if requires_grad(tensor) or all_tangents(tensor):
        raise Unfit(" that requires grad: a number has none; give tensor.detach() if none is wanted")
    return tensor.item()


#: Range of the integers that PyTorch accepts.
_LEAST, _MOST = -(2**63), 2**63 - 1


def _long(value: int) -> int:
    if not _LEAST <= value <= _MOST:
        raise ValueError("Overflow when unpacking long long")
    return value


def index(value: Any) -> int:
    """Convert a size, step or count to an int.

    Python and NumPy integers are accepted, and tensors that hold one integer.
    """
    if isinstance(value, Variable):
        if value._dtype.category != dtypes.INTEGER:
            raise Unfit
        return int(_item(value, True))
    if isinstance(value, (bool, np.bool_)):
        raise Unfit
    try:
        return _long(value if value.__class__ is int else operator.index(value))
    except TypeError:
        raise Unfit from None


def _index_or_none(value: Any) -> int | None:
    return None if value is None else index(value)


def _index_or_several(value: Any) -> Any:
    """Convert an integer to an int, or a sequence of integers to a tuple of ints."""
    return each(index)(value) if isinstance(value, (tuple, list)) else index(value)


def dim(value: Any) -> int:
    """Convert the number of a dim to an int, like `index`; tensors must be 0-dim."""
    if isinstance(value, (int, np.integer)) or (isinstance(value, Variable) and not value._array.ndim):
        return index(value)
    raise Unfit


_NUMBERS = (int, float, complex, np.number, np.bool_)


def number(value: Any) -> Any:
    """Convert a Python, NumPy or 0-dim tensor's number to a bool, int, float or complex."""
    if isinstance(value, Variable):
        return _item(value)
    if isinstance(value, np.generic):
        kind = value.dtype.kind
        return {"b": bool, "i": int, "u": int, "c": complex}.get(kind, _float)(value)
    python_type: Any
    for python_type in (bool, int, float, complex):
        if isinstance(value, python_type):
            return value if value.__class__ is python_type else python_type(value)
    raise Unfit


def scalar(value: Any) -> Any:
    """Convert a number like `number`; raise OverflowError for an int that fits into no dtype."""
    result = number(value)
    if isinstance(result, int) and not -(2**63) <= result < 2**64:
        raise OverflowError("int too big to convert")
    return result


def real_scalar(value: object) -> object:
    """Convert a real number like `scalar`."""
    result = scalar(value)
    return _refuse() if isinstance(result, complex) else result


def _float(value: Any) -> float:
    """Convert a NumPy floating-point number, bfloat16 included, to a float; refuse strings and dates."""
    if value.dtype.kind not in "f" and value.dtype not in dtypes.FROM_NUMPY:
        raise Unfit
    return float(value)


def real(value: Any) -> Any:
    """Convert a real number to a bool, int or float; an int outside of int64 becomes a float."""
    result = number(value)
    if isinstance(result, complex):
        raise Unfit
    return result if isinstance(result, bool) or -(2**63) <= result < 2**63 else float(result)


def _real_or_points(value: Any) -> Any:
    """Convert a real number like `real`; return a tensor or a sequence of coordinates unchanged."""
    points = isinstance(value, (tuple, list)) or (isinstance(value, Variable) and value._array.ndim)
    return value if points else real(value)


def flag(value: Any) -> bool:
    """Convert a Python, NumPy or tensor's bool to a bool; refuse numbers."""
    if isinstance(value, Variable) and value._dtype is dtypes.bool_:
        return bool(_item(value))
    return bool(value) if isinstance(value, (bool, np.bool_)) else _refuse()


def lenient_flag(value: Any) -> bool:
    """Convert a flag of a constructor to a bool like `flag`; 0 and 1 are accepted, too."""
    return bool(value) if type(value) is int and value in (0, 1) else flag(value)


def text(value: Any) -> str:
    """Convert a string, or an instance of a subclass, to a str."""
    return str(value) if isinstance(value, str) else _refuse()


def dtype(value: Any) -> Any:
    """Convert a dtype of gradcore, NumPy or Python to a dtype of gradcore."""
    try:
        return dtypes.as_dtype(value)
    except TypeError as error:
        raise Unfit(f": {error}") from None


def tensor(value: Any) -> Any:
    """Return a tensor unchanged; refuse everything else."""
    return value if isinstance(value, Variable) else _refuse()


def none(value: Any) -> None:
    """Return None; refuse everything else."""
    return value if value is None else _refuse()  # type: ignore[return-value]


def _refuse() -> Any:
    raise Unfit


def are_ints(values: Iterable[Any]) -> bool:
    """Return whether all values are Python ints in the range of int64, so that no conversion is needed."""
    for v in values:  # noqa: SIM110 (a generator costs more than this)
        if v.__class__ is not int or not _LEAST <= v <= _MOST:
            return False
    return True


def each(convert: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a converter of tuples and lists, which applies `convert` to each element and returns a tuple."""

    def convert_each(values: Any) -> tuple[Any, ...]:
        if not isinstance(values, (tuple, list)):
            raise Unfit
        if are_ints(values):
            return tuple(values)
        try:
            return tuple([convert(v) for v in values])
        except Unfit as error:
            position = next(i for i, value in enumerate(values) if _is_unfit(value))
            raise Unfit(
                f", but found element of type {type(values[position]).__name__} at pos {position}{error}"
            ) from None

    def _is_unfit(value: Any) -> bool:
        try:
            convert(value)
        except Unfit:
            return True
        return False

    return convert_each


# -- values that annotations allow ------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """A kind of values that an annotation allows, with its check and its conversion."""

    #: Name of the kind in error messages.
    words: str
    #: Source of the condition, with ``{}`` for the value, under which it needs no conversion, as in most calls.
    exact: str
    #: Converter of a user's value to an exact Python value.
    convert: Callable[[Any], Any]


#: Names that the conditions refer to.
SCOPE = {"are_ints": are_ints, "dtype_class": dtypes.dtype}

_INT = "type({}) is int"
_REAL = f"type({{}}) is float or {_INT} and -0x8000000000000000 <= {{}} < 0x8000000000000000"
_ARE_INTS = "type({}) is tuple and are_ints({})"
_INTS = Kind("tuple of ints", _ARE_INTS, each(index))

#: Kinds of values that each word of an annotation allows.
KINDS = {
    "None": [Kind("", "{} is None", none)],
    "Tensor": [Kind("Tensor", "", tensor)],
    "bool": [Kind("bool", "{} is False or {} is True", flag)],
    "Flag": [Kind("bool", "{} is False or {} is True", lenient_flag)],
    "int": [Kind("int", f"{_INT} and -0x8000000000000000 <= {{}} < 0x8000000000000000", index)],
    "dim": [Kind("int", _INT, dim)],
    "float": [Kind("float", _REAL, real)],
    "Number": [Kind("Number", _REAL, scalar)],
    "Scalar": [Kind("float", _REAL, real_scalar)],
    "str": [Kind("str", "type({}) is str", text)],
    "dtype": [Kind("torch.dtype", "type({}) is dtype_class", dtype)],
    "Sequence[int]": [_INTS],
    "tuple[int, ...]": [_INTS],
    "Sequence[float]": [Kind("tuple of floats", "", each(real))],
}  # fmt: skip
KINDS["Ints"] = KINDS["Steps"] = [*KINDS["int"], _INTS]
KINDS["OutputSizes"] = [*KINDS["None"], *KINDS["int"], Kind("tuple of ints", _ARE_INTS, each(_index_or_none))]
KINDS["Sizes"] = KINDS["Sequence[int]"]
KINDS["Dims"] = [*KINDS["None"], *KINDS["dim"], Kind("tuple of ints", _ARE_INTS, each(dim))]
KINDS["DType"] = [*KINDS["None"], *KINDS["dtype"]]
KINDS["Spacing"] = [*KINDS["None"], *KINDS["float"], Kind("tuple of floats", "", each(_real_or_points))]
KINDS["Pairs"] = [*KINDS["int"], *KINDS["Tensor"], Kind("tuple of ints", _ARE_INTS, each(_index_or_several))]
KINDS["Order"] = [*KINDS["None"], *KINDS["str"], *KINDS["Number"]]

#: Pattern of the names of parameters that hold the number of a dim.
_A_DIM = re.compile(r"(\w+_)?(dim|axis|dimension)\d?")


@functools.cache
def _kinds(annotation: str, name: str) -> tuple[Kind, ...]:
    """Return the kinds of values that a parameter takes, or an empty tuple if its annotation has unknown words.

    Tensors come first, so that a tensor is not converted to a number where both are allowed.
    """
    words = annotation.split(" | ")
    if not all(word in KINDS for word in words):
        return ()
    words = ["dim" if word == "int" and _A_DIM.fullmatch(name) else word for word in words]
    return tuple(kind for word in sorted(words, key="Tensor".__ne__) for kind in KINDS[word])


@functools.cache
def argument(owner: str, name: str, annotation: str) -> Setting | None:
    """Return the `Setting` of a constructor's argument, or None if its annotation has unknown words."""
    kinds = _kinds(annotation.replace("bool", "Flag"), name)
    tuple_match = re.fullmatch(r"tuple\[(.+)\]", annotation)
    if tuple_match and not kinds:
        elements = [argument(owner, name, each) for each in tuple_match[1].split(", ")]
        if None not in elements:
            kinds = (Kind(f"tuple of {len(elements)} numbers", "", _convert_elements(cast("list[Setting]", elements))),)
    return Setting(owner, name, None, kinds) if kinds else None


def _convert_elements(elements: list[Setting]) -> Callable[[Any], Any]:
    """Return a converter that checks each value of a sequence by its setting and returns the sequence unchanged."""

    def convert(values: Any) -> Any:
        if not isinstance(values, (tuple, list)) or len(values) != len(elements):
            raise Unfit
        for element, value in zip(elements, values, strict=True):
            element.take(value)
        return values

    return convert


@functools.cache
def _is_exact(condition: str) -> Callable[[Any], bool]:
    """Compile the source of a condition on the variable `value` to a function of it."""
    text = f"lambda value: {condition}"
    code = compile(text, generated_file(__name__, text), "eval")
    return cast("Callable[[Any], bool]", eval(code, {**SCOPE}))


class Setting:
    """A parameter that is not a tensor.

    Parameters
    ----------
    function : str
        The function's name in error messages.
    name : str
    position : int or None
        Position of the parameter, or None if it is given by name only.
    kinds : sequence of Kind
        Kinds of values that the parameter takes.
    """

    __slots__ = ("function", "is_exact", "kinds", "name", "position")

    def __init__(self, function: str, name: str, position: int | None, kinds: tuple[Kind, ...]) -> None:
        self.function, self.name, self.position, self.kinds = function, name, position, kinds
        #: Function that returns whether a value needs no conversion.
        self.is_exact: Callable[[Any], bool] = _is_exact(self.exact("value"))

    def exact(self, value: str) -> str:
        """Return source of the condition under which the variable `value` needs no conversion."""
        return " or ".join(kind.exact.replace("{}", value) for kind in self.kinds if kind.exact) or "False"

    def take(self, value: Any) -> Any:
        """Return `value` converted to an exact Python value, or raise TypeError.

        Raises
        ------
        TypeError
            If the parameter does not take such a value.
        """
        if self.is_exact(value):
            return value
        reason = ""
        for kind in self.kinds if not isinstance(value, (tuple, list)) else self.kinds[::-1]:  # sequences come last
            try:
                return kind.convert(value)
            except Unfit as error:
                reason = str(error) or reason
        where = "" if self.position is None else f" (position {self.position + 1})"
        words = [kind.words for kind in self.kinds if kind.words]
        expected = " or ".join(dict.fromkeys(w for w in words if f"tuple of {w}s" not in words))
        actual = "" if reason.startswith(", but") else f", not {type(value).__name__}"
        name = "input" if self.name == "self" else self.name
        raise TypeError(f"{self.function}(): argument '{name}'{where} must be {expected}{actual}{reason}")


@functools.cache
def setting(function: str, name: str, annotation: str, position: int | None = None) -> Setting:
    """Return the `Setting` of a parameter with the given annotation."""
    return Setting(function, name, position, _kinds(annotation, name))


def settings_of(op: Op) -> dict[int, Setting]:
    """Return the settings of an operation whose values are converted, by position."""
    results: dict[int, Setting] | None = vars(op).get("_settings")
    if results is None:
        by_name = _settings(op.path.rpartition(".")[2], op.parameters)
        results = vars(op)["_settings"] = {i: by_name[p.name] for i, p in enumerate(op.parameters) if p.name in by_name}
    return results


def _settings(function: str, parameters: Iterable[Any]) -> dict[str, Setting]:
    """Return the settings of a function whose values are converted, by name."""
    results = {}
    for i, p in enumerate(parameters):
        kinds = _kinds(str(p.annotation), p.name)
        if kinds:
            results[p.name] = Setting(function, p.name, None if p.kind is Parameter.KEYWORD_ONLY else i, kinds)
    return results


def convert_arguments(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a call with converted settings, and with NumPy scalars converted to Python numbers."""
    result = list(args)
    for i, setting in settings_of(op).items():
        result[i] = setting.take(args[i])
    if op.kind in ("elementwise", "composite"):
        for i in op.accepts_scalars:
            if isinstance(args[i], _NUMBERS):
                result[i] = number(args[i])
    return tuple(result)


_F = TypeVar("_F", bound=Callable[..., Any])


def constructor(function: _F) -> _F:
    """Wrap an ``__init__`` so that its arguments are converted by their annotations, or refused with a TypeError."""
    parameters = list(signature(function).parameters.values())[1:]
    owner = function.__qualname__.rpartition(".")[0]
    by_name = {p.name: argument(owner, p.name, str(p.annotation)) for p in parameters}
    positional = [by_name[p.name] for p in parameters if p.kind is InspectParameter.POSITIONAL_OR_KEYWORD]

    @functools.wraps(function)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        positional_values = [value if s is None else s.take(value) for s, value in zip(positional, args, strict=False)]
        named_values = {
            name: value if (s := by_name.get(name)) is None else s.take(value) for name, value in kwargs.items()
        }
        function(self, *positional_values, *args[len(positional_values) :], **named_values)

    return cast(_F, init)


def converting(function: _F) -> _F:
    """Wrap a function that is not an operation of the table so that its settings are converted by their annotations."""
    parameters = list(signature(function).parameters.values())
    by_name = _settings(function.__name__, parameters)
    positional = [by_name.get(p.name) for p in parameters if p.kind is InspectParameter.POSITIONAL_OR_KEYWORD]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        positional_values = [
            value if s is None or s.is_exact(value) else s.take(value)
            for s, value in zip(positional, args, strict=False)
        ]
        if kwargs:
            kwargs = {name: by_name[name].take(value) if name in by_name else value for name, value in kwargs.items()}
        try:
            return function(*positional_values, *args[len(positional_values) :], **kwargs)
        except MemoryError as error:
            raise_if_out_of_memory(error, function.__name__)
            raise

    return cast(_F, call)
