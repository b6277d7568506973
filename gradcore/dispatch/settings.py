"""Numbers, sizes, dims and flags as exact Python values: the annotation of a parameter says what it takes.

What users give may be NumPy's scalars and tensors without dims, which wrap around, round and call operations again. So
each setting is converted once, when a call comes in, and nothing behind calculates with anything but Python's own
``int``, ``float``, ``complex`` and ``bool``.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable
from inspect import Parameter as InspectParameter
from inspect import signature
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from gradcore.autograd.variables import Variable
from gradcore.autograd.views import all_tangents, requires_grad
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.ops.declare.parameters import Parameter
from gradcore.ops.declare.table import Op

__all__ = ["SCOPE", "Setting", "argument", "constructor", "convert_arguments", "converting", "setting", "settings_of"]


class Unfit(TypeError):
    """A value that is none of what a setting takes."""


# -- from what users give ---------------------------------------------------------------------------------------------


def _item(tensor: AnyTensor, one_element: bool = False) -> Any:
    """Return the number that a tensor without dims holds (or one of one element), if no gradient is lost with it."""
    array = tensor._array
    if array.ndim and not (one_element and array.size == 1):
        raise Unfit
    if requires_grad(tensor) or all_tangents(tensor):
        raise Unfit(" that requires grad: a number has none; give tensor.detach() if none is wanted")
    return tensor.item()


#: The range of integers that PyTorch takes.
_LEAST, _MOST = -(2**63), 2**63 - 1


def _long(value: int) -> int:
    if not _LEAST <= value <= _MOST:
        raise ValueError("Overflow when unpacking long long")
    return value


def index(value: Any) -> int:
    """Return a size, a step, a count: Python's integers, NumPy's, and tensors that hold one integer."""
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
    """Return an integer, or a sequence of integers."""
    return each(index)(value) if isinstance(value, (tuple, list)) else index(value)


def dim(value: Any) -> int:
    """Return the number of a dim: as `index`, of a single number only."""
    if isinstance(value, (int, np.integer)) or (isinstance(value, Variable) and not value._array.ndim):
        return index(value)
    raise Unfit


_NUMBERS = (int, float, complex, np.number, np.bool_)


def number(value: Any) -> Any:
    """Return a number of any kind."""
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
    """Return a number that a dtype has room for."""
    found = number(value)
    if isinstance(found, int) and not -(2**63) <= found < 2**64:
        raise OverflowError("int too big to convert")
    return found


def _float(value: Any) -> float:
    """NumPy's floating-point numbers, bfloat16 among them; strings and dates are none."""
    if value.dtype.kind not in "f" and value.dtype not in dtypes.FROM_NUMPY:
        raise Unfit
    return float(value)


def real(value: Any) -> Any:
    """Return a number that is not complex."""
    found = number(value)
    if isinstance(found, complex):
        raise Unfit
    return found if isinstance(found, bool) or -(2**63) <= found < 2**63 else float(found)


def _real_or_points(value: Any) -> Any:
    """Return a number, or coordinates: a tensor of them, or a sequence."""
    points = isinstance(value, (tuple, list)) or (isinstance(value, Variable) and value._array.ndim)
    return value if points else real(value)


def flag(value: Any) -> bool:
    """Yes or no; numbers are neither."""
    if isinstance(value, Variable) and value._dtype is dtypes.bool_:
        return bool(_item(value))
    return bool(value) if isinstance(value, (bool, np.bool_)) else _refuse()


def lenient_flag(value: Any) -> bool:
    """Return a flag of a constructor, where 0 and 1 are common."""
    return bool(value) if type(value) is int and value in (0, 1) else flag(value)


def text(value: Any) -> str:
    """Return a name."""
    return str(value) if isinstance(value, str) else _refuse()


def dtype(value: Any) -> Any:
    """Return a dtype, by whatever name."""
    try:
        return dtypes.as_dtype(value)
    except TypeError as error:
        raise Unfit(f": {error}") from None


def tensor(value: Any) -> Any:
    """Return a tensor, as it is."""
    return value if isinstance(value, Variable) else _refuse()


def none(value: Any) -> None:
    """Nothing."""
    return value if value is None else _refuse()  # type: ignore[return-value]


def _refuse() -> Any:
    raise Unfit


def are_ints(values: Iterable[Any]) -> bool:
    """Return whether all values are Python's own integers, in the range that PyTorch takes: exact as they are."""
    for v in values:  # noqa: SIM110 (a generator costs more than this)
        if v.__class__ is not int or not _LEAST <= v <= _MOST:
            return False
    return True


def each(convert: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a tuple or a list of what `convert` takes, as a tuple: nobody changes it later."""

    def convert_each(values: Any) -> tuple[Any, ...]:
        if not isinstance(values, (tuple, list)):
            raise Unfit
        if are_ints(values):
            return tuple(values)
        try:
            return tuple([convert(v) for v in values])
        except Unfit as error:
            place = next(i for i, value in enumerate(values) if _is_unfit(value))
            raise Unfit(f", but found element of type {type(values[place]).__name__} at pos {place}{error}") from None

    def _is_unfit(value: Any) -> bool:
        try:
            convert(value)
        except Unfit:
            return True
        return False

    return convert_each


# -- what annotations take --------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """The checks and conversions of an annotation."""

    #: In error messages.
    words: str
    #: The condition, with ``{}`` for the value, under which it is exact as it is: most calls come no further.
    exact: str
    #: From what users give to the exact value.
    convert: Callable[[Any], Any]


#: What conditions refer to.
SCOPE = {"are_ints": are_ints, "dtype_class": dtypes.dtype}

_INT = "type({}) is int"
_REAL = f"type({{}}) is float or {_INT} and -0x8000000000000000 <= {{}} < 0x8000000000000000"
_ARE_INTS = "type({}) is tuple and are_ints({})"
_INTS = Kind("tuple of ints", _ARE_INTS, each(index))

#: What a word of an annotation takes: one of these.
KINDS = {
    "None": [Kind("", "{} is None", none)],
    "Tensor": [Kind("Tensor", "", tensor)],
    "bool": [Kind("bool", "{} is False or {} is True", flag)],
    "Flag": [Kind("bool", "{} is False or {} is True", lenient_flag)],
    "int": [Kind("int", f"{_INT} and -0x8000000000000000 <= {{}} < 0x8000000000000000", index)],
    "dim": [Kind("int", _INT, dim)],
    "float": [Kind("float", _REAL, real)],
    "Number": [Kind("Number", _REAL, scalar)],
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

#: Names of parameters that hold the number of a dim.
_A_DIM = re.compile(r"(\w+_)?(dim|axis|dimension)\d?")


@functools.cache
def _kinds(annotation: str, name: str) -> tuple[Kind, ...]:
    """What a parameter takes, none if its annotation does not say it; tensors stay tensors where they may be given."""
    words = annotation.split(" | ")
    if not all(word in KINDS for word in words):
        return ()
    words = ["dim" if word == "int" and _A_DIM.fullmatch(name) else word for word in words]
    return tuple(kind for word in sorted(words, key="Tensor".__ne__) for kind in KINDS[word])


@functools.cache
def argument(owner: str, name: str, annotation: str) -> Setting | None:
    """Return an argument of a constructor: its `Setting`, None if the annotation does not say what it takes."""
    kinds = _kinds(annotation.replace("bool", "Flag"), name)
    several = re.fullmatch(r"tuple\[(.+)\]", annotation)
    if several and not kinds:
        elements = [argument(owner, name, each) for each in several[1].split(", ")]
        if None not in elements:
            kinds = (Kind(f"tuple of {len(elements)} numbers", "", _of_each(cast("list[Setting]", elements))),)
    return Setting(owner, name, None, kinds) if kinds else None


def _of_each(elements: list[Setting]) -> Callable[[Any], Any]:
    """Return a sequence with one value for each setting, which stays the object that it is."""

    def convert(values: Any) -> Any:
        if not isinstance(values, (tuple, list)) or len(values) != len(elements):
            raise Unfit
        for element, value in zip(elements, values, strict=True):
            element.take(value)
        return values

    return convert


@functools.cache
def _is_exact(condition: str) -> Callable[[Any], bool]:
    """Return a condition on `value` as a function."""
    return cast("Callable[[Any], bool]", eval(f"lambda value: {condition}", {**SCOPE}))


class Setting:
    """A parameter that is no tensor.

    Parameters
    ----------
    function : str
        The function's name in error messages.
    name : str
    position : int or None
        Where it is given, if not by name only.
    kinds : sequence of Kind
        What it takes.
    """

    __slots__ = ("function", "is_exact", "kinds", "name", "position")

    def __init__(self, function: str, name: str, position: int | None, kinds: tuple[Kind, ...]) -> None:
        self.function, self.name, self.position, self.kinds = function, name, position, kinds
        #: Whether a value needs no conversion.
        self.is_exact: Callable[[Any], bool] = _is_exact(self.exact("value"))

    def exact(self, value: str) -> str:
        """Return the condition, as source, under which the value of that name needs no conversion."""
        return " or ".join(kind.exact.replace("{}", value) for kind in self.kinds if kind.exact) or "False"

    def take(self, value: Any) -> Any:
        """Return the exact value.

        Raises
        ------
        TypeError
            If it is none of what the parameter takes.
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
        wanted = " or ".join(dict.fromkeys(w for w in words if f"tuple of {w}s" not in words))
        given = "" if reason.startswith(", but") else f", not {type(value).__name__}"
        name = "input" if self.name == "self" else self.name
        raise TypeError(f"{self.function}(): argument '{name}'{where} must be {wanted}{given}{reason}")


@functools.cache
def setting(function: str, name: str, annotation: str, position: int | None = None) -> Setting:
    """Return a parameter of a function whose signature does not say all."""
    return Setting(function, name, position, _kinds(annotation, name))


def settings_of(op: Op) -> dict[int, Setting]:
    """Return the parameters of an operation that are converted, by position."""
    found: dict[int, Setting] | None = vars(op).get("_settings")
    if found is None:
        made = _settings(op.path.rpartition(".")[2], op.parameters)
        found = vars(op)["_settings"] = {i: made[p.name] for i, p in enumerate(op.parameters) if p.name in made}
    return found


def _settings(function: str, parameters: Iterable[Any]) -> dict[str, Setting]:
    """Return the parameters that are converted, by name."""
    found = {}
    for i, p in enumerate(parameters):
        kinds = _kinds(str(p.annotation), p.name)
        if kinds:
            found[p.name] = Setting(function, p.name, None if p.kind is Parameter.KEYWORD_ONLY else i, kinds)
    return found


def convert_arguments(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a call with exact settings, and exact numbers in the place of tensors."""
    found = list(args)
    for i, setting in settings_of(op).items():
        found[i] = setting.take(args[i])
    if op.kind in ("elementwise", "composite"):
        for i in op.accepts_scalars:
            if isinstance(args[i], _NUMBERS):
                found[i] = number(args[i])
    return tuple(found)


_F = TypeVar("_F", bound=Callable[..., Any])


def constructor(function: _F) -> _F:
    """``__init__`` with its arguments refused that are none of what the annotations say, and the others exact."""
    parameters = list(signature(function).parameters.values())[1:]
    owner = function.__qualname__.rpartition(".")[0]
    by_name = {p.name: argument(owner, p.name, str(p.annotation)) for p in parameters}
    positional = [by_name[p.name] for p in parameters if p.kind is InspectParameter.POSITIONAL_OR_KEYWORD]

    @functools.wraps(function)
    def init(self: Any, *args: Any, **named: Any) -> None:
        given = [value if s is None else s.take(value) for s, value in zip(positional, args, strict=False)]
        taken = {name: value if (s := by_name.get(name)) is None else s.take(value) for name, value in named.items()}
        function(self, *given, *args[len(given) :], **taken)

    return cast(_F, init)


def converting(function: _F) -> _F:
    """Return a function that is no operation of the table, with its settings converted as its annotations say."""
    parameters = list(signature(function).parameters.values())
    by_name = _settings(function.__name__, parameters)
    positional = [by_name.get(p.name) for p in parameters if p.kind is InspectParameter.POSITIONAL_OR_KEYWORD]

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        given = [value if s is None else s.take(value) for s, value in zip(positional, args, strict=False)]
        taken = {name: by_name[name].take(value) if name in by_name else value for name, value in named.items()}
        return function(*given, *args[len(given) :], **taken)

    return cast(_F, call)
