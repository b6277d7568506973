"""Data types and the rules of type promotion.

NumPy's promotion differs from PyTorch's (``int32 + float32`` is ``float64`` in NumPy), and NumPy has no
bfloat16, so the types and their promotion are tables of our own. Every type is one object: compare it with
``is``, use it as a dict key.

The unsigned integers of 16, 32 and 64 bit hold data. As in PyTorch they are promoted with floating-point types alone,
and are no indices.

There is no complex32: where PyTorch would use it (float16 together with a complex number), it is complex64.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from functools import reduce
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np

__all__ = [
    "ALIASES",
    "DTYPES",
    "FROM_NUMPY",
    "DTypeLike",
    "as_dtype",
    "bfloat16",
    "bool_",
    "can_cast",
    "complex64",
    "complex128",
    "default_complex",
    "dtype",
    "finfo",
    "float16",
    "float32",
    "float64",
    "from_numpy",
    "get_default_dtype",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "promote_types",
    "result_dtype",
    "scalar_dtype",
    "set_default_dtype",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unsupported_dtype_error",
]

BOOL, INTEGER, FLOATING, COMPLEX = range(4)


class dtype:
    """The type of a tensor's elements. The instances are ``gradcore.float32`` and so on; there are no others.

    Attributes
    ----------
    name : str
        For example ``"float32"``.
    scalar_name : str
        The name in PyTorch's error messages, for example ``"Float"``.
    numpy : numpy.dtype
        The type of the underlying array. That of bfloat16 needs the package ``ml_dtypes``.
    itemsize : int
        Bytes per element.
    category : int
        0 bool, 1 integer, 2 floating, 3 complex: the order in which promotion prefers types.
    is_floating_point, is_complex, is_signed : bool
        As in PyTorch; a complex type is not a floating-point type.
    is_differentiable : bool
        Whether tensors of it can require grad: it is a floating-point or a complex type.
    is_reduced : bool
        Whether it is float16 or bfloat16, which are computed in float32.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.float32, gc.float32.itemsize, gc.float32.is_floating_point
    (torch.float32, 4, True)
    """

    __slots__ = (
        "category",
        "is_complex",
        "is_differentiable",
        "is_floating_point",
        "is_reduced",
        "is_signed",
        "itemsize",
        "name",
        "numpy",
        "scalar_name",
    )

    name: str
    scalar_name: str
    numpy: np.dtype[Any]
    itemsize: int
    category: int
    is_floating_point: bool
    is_complex: bool
    is_differentiable: bool
    is_signed: bool
    is_reduced: bool

    def __new__(cls, *args: Any, **kwargs: Any) -> dtype:
        raise TypeError("cannot create 'gradcore.dtype' instances; use gradcore.float32 and so on")

    @property
    def __numpy_dtype__(self) -> np.dtype[Any]:
        """NumPy's dtype; ``np.dtype(dtype)`` reads this attribute from NumPy 2.4 on."""
        return self.numpy

    @property
    def type(self) -> Any:
        """NumPy's scalar class, under the attribute's name in NumPy's dtypes."""
        return self.numpy.type

    @property
    def char(self) -> str:
        """NumPy's letter of the type, which SciPy's sparse matrices read of their right operand."""
        return self.numpy.char

    def __init_subclass__(cls, *, internal: bool = False) -> None:
        if not internal:
            raise TypeError("type 'gradcore.dtype' is not an acceptable base type")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError("attributes of 'gradcore.dtype' objects are not writable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("attributes of 'gradcore.dtype' objects are not writable")

    def __repr__(self) -> str:
        return "torch." + self.name  # Tensors print exactly as PyTorch's.

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)

    def to_real(self) -> dtype:
        """Return the type of the real part."""
        return {complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> dtype:
        """Return the complex type with parts of this floating-point type, or complex64 if there is none."""
        if self.category < FLOATING:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.scalar_name}")
        return complex128 if self in (float64, complex128) else complex64


class _BFloat16(dtype, internal=True):
    """The dtype bfloat16, which imports ml_dtypes only when its NumPy type is first needed.

    A class of its own, because a class with ``__getattr__`` reads all its attributes three times slower.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name != "numpy":
            raise AttributeError(f"'gradcore.dtype' object has no attribute {name!r}")
        try:
            import ml_dtypes
        except ImportError as error:
            raise ImportError("bfloat16 needs the package ml_dtypes: pip install ml_dtypes") from error
        numpy = np.dtype(ml_dtypes.bfloat16)
        object.__setattr__(self, "numpy", numpy)
        FROM_NUMPY[numpy] = self
        return numpy


DTYPES: dict[str, dtype] = {}
"""Every type by name."""

FROM_NUMPY: dict[np.dtype[Any], dtype] = {}
"""Every type by its NumPy type; bfloat16 from its first use on (`from_numpy` always knows it)."""


def _register(name: str, scalar_name: str, category: int, itemsize: int) -> dtype:
    self: dtype = object.__new__(_BFloat16 if name == "bfloat16" else dtype)
    attributes = {
        "name": name,
        "scalar_name": scalar_name,
        "category": category,
        "itemsize": itemsize,
        "is_floating_point": category == FLOATING,
        "is_complex": category == COMPLEX,
        "is_differentiable": category >= FLOATING,
        "is_signed": name != "bool" and not name.startswith("uint"),
        "is_reduced": category == FLOATING and itemsize == 2,
    }
    if name != "bfloat16":
        attributes["numpy"] = np.dtype(name)
        FROM_NUMPY[np.dtype(name)] = self
    for attribute, value in attributes.items():
        object.__setattr__(self, attribute, value)
    DTYPES[name] = self
    return self


bool_ = _register("bool", "Bool", BOOL, 1)
uint8 = _register("uint8", "Byte", INTEGER, 1)
uint16 = _register("uint16", "UInt16", INTEGER, 2)
uint32 = _register("uint32", "UInt32", INTEGER, 4)
uint64 = _register("uint64", "UInt64", INTEGER, 8)
int8 = _register("int8", "Char", INTEGER, 1)
int16 = _register("int16", "Short", INTEGER, 2)
int32 = _register("int32", "Int", INTEGER, 4)
int64 = _register("int64", "Long", INTEGER, 8)
float16 = _register("float16", "Half", FLOATING, 2)
bfloat16 = _register("bfloat16", "BFloat16", FLOATING, 2)
float32 = _register("float32", "Float", FLOATING, 4)
float64 = _register("float64", "Double", FLOATING, 8)
complex64 = _register("complex64", "ComplexFloat", COMPLEX, 8)
complex128 = _register("complex128", "ComplexDouble", COMPLEX, 16)

ALIASES: dict[str, dtype] = {
    "bool": bool_,  # not an attribute of this module, which uses Python's bool
    "short": int16,
    "int": int32,
    "long": int64,
    "half": float16,
    "float": float32,
    "double": float64,
    "cfloat": complex64,
    "cdouble": complex128,
}
"""The public names that are not a type's own attribute here."""

DTypeLike: TypeAlias = dtype | type | np.dtype[Any] | str
"""The arguments that `as_dtype` accepts."""


# Conversion


def from_numpy(numpy_dtype: np.dtype[Any]) -> dtype:
    """Return the type that corresponds to a NumPy type.

    Raises
    ------
    TypeError
        If there is none.
    ValueError
        If its byte order is not the machine's.
    """
    result = FROM_NUMPY.get(numpy_dtype)
    if result is not None:
        return result
    # A program with a bfloat16 array has imported ml_dtypes already.
    if numpy_dtype.name == "bfloat16" and "ml_dtypes" in sys.modules and numpy_dtype == bfloat16.numpy:
        return bfloat16
    if numpy_dtype.newbyteorder("=") in FROM_NUMPY:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. "
            "Conversion between byte orders is currently not supported. "
            "Convert it with array.astype(array.dtype.newbyteorder('='))."
        )
    raise unsupported_dtype_error(numpy_dtype)


def unsupported_dtype_error(numpy_dtype: np.dtype[Any]) -> TypeError:
    """Return the TypeError for arrays of a NumPy dtype that no tensor has."""
    kind = numpy_dtype.type
    return TypeError(
        f"can't convert np.ndarray of type {kind.__module__}.{kind.__name__}. "
        "The only supported types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, "
        "uint64, uint32, uint16, uint8, and bool."
    )


_PYTHON_TYPES = {bool: bool_, int: int64, float: float64, complex: complex128}


def as_dtype(x: DTypeLike) -> dtype:
    """Return the dtype that ``x`` stands for.

    Parameters
    ----------
    x : dtype, type, numpy.dtype or str
        A dtype of gradcore; ``bool``, ``int``, ``float`` or ``complex`` (which mean bool, int64, float64 and
        complex128 whatever the default, as in PyTorch); a NumPy type or scalar type; or a name such as
        ``"float32"`` or ``"torch.float32"``.

    Raises
    ------
    TypeError
        If ``x`` stands for no dtype of gradcore.

    Examples
    --------
    >>> from gradcore.core.dtypes import as_dtype
    >>> as_dtype("float32"), as_dtype(int)
    (torch.float32, torch.int64)
    """
    if isinstance(x, dtype):
        return x
    result: dtype | None = None
    if isinstance(x, str):
        result = DTYPES.get(x.removeprefix("torch."))
    elif isinstance(x, np.dtype):
        result = from_numpy(x)
    elif isinstance(x, type):
        result = _PYTHON_TYPES.get(x)
        if result is None and issubclass(x, np.generic):
            result = from_numpy(np.dtype(x))
    if result is None:
        description = repr(x) if isinstance(x, str | type) else type(x).__name__
        raise TypeError(f"dtype must be a gradcore dtype such as gradcore.float32, not {description}")
    return result


# Defaults

# The dtypes of Python numbers. The defaults are defined only here.
_SCALAR_DTYPES: dict[type, dtype] = {bool: bool_, int: int64, float: float32, complex: complex64}
_NUMPY_KINDS = ((np.bool_, bool), (np.integer, int), (np.floating, float), (np.complexfloating, complex))


def get_default_dtype() -> dtype:
    """Return the type of tensors made from Python floats: float32 unless `set_default_dtype` changed it.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.get_default_dtype()
    torch.float32
    """
    return _SCALAR_DTYPES[float]


def default_complex() -> dtype:
    """Return the type of tensors made from Python complex numbers: it follows the default type."""
    return _SCALAR_DTYPES[complex]


def set_default_dtype(d: dtype) -> None:
    """Set the type of tensors made from Python floats, and with it that of complex numbers.

    Raises
    ------
    TypeError
        If ``d`` is not a floating-point type.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.set_default_dtype(gc.float64)
    >>> gc.tensor(1.5).dtype
    torch.float64
    >>> gc.set_default_dtype(gc.float32)
    """
    if not isinstance(d, dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _SCALAR_DTYPES.update({float: d, complex: d.to_complex()})


def scalar_dtype(value: Any) -> dtype:
    """Return the dtype of a tensor made from a Python or NumPy number, or of any value of the given type."""
    kind = value if isinstance(value, type) else value.__class__
    result = _SCALAR_DTYPES.get(kind)
    if result is not None:
        return result
    for base, python_type in (*((t, t) for t in _PYTHON_TYPES), *_NUMPY_KINDS):
        if issubclass(kind, base):
            return _SCALAR_DTYPES[python_type]
    raise TypeError(f"expected a number, not {kind.__name__}")


# Promotion


# Where neither of two types holds the other.
_PAIRS = {
    frozenset({uint8, int8}): int16,
    frozenset({float16, bfloat16}): float32,
    frozenset({float64, complex64}): complex128,
}

_WIDE_UNSIGNED = {uint16, uint32, uint64}


def _promote(a: dtype, b: dtype) -> dtype | None:
    if a is not b and not _WIDE_UNSIGNED.isdisjoint({a, b}) and FLOATING not in (a.category, b.category):
        return None
    return _PAIRS.get(frozenset({a, b})) or max(a, b, key=lambda d: (d.category, d.itemsize))


_PROMOTED = {(a, b): d for a in DTYPES.values() for b in DTYPES.values() if (d := _promote(a, b)) is not None}


def promote_types(a: DTypeLike, b: DTypeLike) -> dtype:
    """Return the smallest type of the higher category that holds both types.

    Raises
    ------
    RuntimeError
        If one of them is uint16, uint32 or uint64 and the other is neither the same nor a floating-point type.

    Examples
    --------
    >>> from gradcore.core.dtypes import float16, int64, promote_types
    >>> promote_types(int64, float16)
    torch.float16
    """
    try:
        return _PROMOTED[a, b]  # type: ignore[index]
    except (KeyError, TypeError):
        a, b = as_dtype(a), as_dtype(b)
        result = _PROMOTED.get((a, b))
    if result is None:
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{a.scalar_name} and {b.scalar_name}"
        )
    return result


def can_cast(from_: DTypeLike, to: DTypeLike) -> bool:
    """Return whether the category of `from_` may be cast to that of `to`.

    It may not from complex to real, from floating to integer, or from number to bool.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.can_cast(gc.float64, gc.float32), gc.can_cast(gc.float32, gc.int64)
    (True, False)
    """
    return as_dtype(from_).category <= as_dtype(to).category


def _promote_all(dtypes: Iterable[dtype]) -> dtype | None:
    iterator = iter(dtypes)
    first = next(iterator, None)
    return None if first is None else reduce(promote_types, iterator, first)


def _combine(high: dtype | None, low: dtype | None) -> dtype | None:
    """Return the common dtype of two priority groups: ``low`` counts only if its category is higher."""
    if high is None:
        return low
    if low is None:
        return high
    if high.category >= low.category:
        return high
    if high.category == FLOATING:
        return high.to_complex()  # The floating-point tensor keeps its precision.
    return low  # The category of `low` is higher.


def result_dtype(dims: Iterable[dtype] = (), zero_dims: Iterable[dtype] = (), scalars: Iterable[Any] = ()) -> dtype:
    """Return the dtype of an operation's result, by PyTorch's promotion rules.

    Tensors with dimensions decide; a 0-dim tensor counts only if its category is higher than theirs, and a
    Python number only if its category is higher than that of all tensors.

    Parameters
    ----------
    dims : iterable of dtype
        Types of the tensors with at least one dimension.
    zero_dims : iterable of dtype
        Types of the tensors without dimensions.
    scalars : iterable
        The Python numbers, or their Python types.

    Examples
    --------
    >>> from gradcore.core.dtypes import float64, int32, result_dtype
    >>> result_dtype([int32], scalars=[1.5])
    torch.float32
    >>> result_dtype([int32], zero_dims=[float64])
    torch.float64
    """
    low = _combine(_promote_all(zero_dims), _promote_all(map(scalar_dtype, scalars)))
    result = _combine(_promote_all(dims), low)
    if result is None:
        raise ValueError("result_dtype() needs at least one operand")
    return result


# Limits


class _Limits:
    __slots__ = ("bits", "dtype")

    bits: int
    dtype: str
    _printed: ClassVar[tuple[str, ...]]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.dtype == other.dtype

    __hash__ = None  # type: ignore[assignment]  # as PyTorch's

    def __repr__(self) -> str:
        values = [f"{name}={getattr(self, name):g}" for name in self._printed]
        return f"{type(self).__name__}({', '.join([*values, f'dtype={self.dtype}'])})"


# Stored bits of the significand and the largest exponent, of which the other limits are functions.
_FLOAT_FORMATS = {float16: (10, 15), bfloat16: (7, 127), float32: (23, 127), float64: (52, 1023)}


class finfo(_Limits):
    """Limits of a floating-point type, or of the parts of a complex type.

    Parameters
    ----------
    type : dtype, optional
        The default type if not given.

    Examples
    --------
    >>> from gradcore.core.dtypes import finfo, float32
    >>> finfo(float32).eps
    1.1920928955078125e-07
    """

    __slots__ = ("eps", "max", "min", "resolution", "smallest_normal", "tiny")

    _printed = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    def __init__(self, type: DTypeLike | None = None) -> None:
        limits = getattr(type, "limits", None)
        if limits is not None:  # a placeholder for a dtype that only PyTorch has
            for name, value in limits.items():
                setattr(self, name, value)
            return
        d = get_default_dtype() if type is None else as_dtype(type)
        if d.category < FLOATING:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{d}'")
        d = d.to_real()
        self.dtype = d.name
        self.bits = 8 * d.itemsize
        significand, exponent = _FLOAT_FORMATS[d]
        self.eps = math.ldexp(1.0, -significand)
        self.max = math.ldexp(2.0 - self.eps, exponent)
        self.min = -self.max
        self.smallest_normal = self.tiny = math.ldexp(1.0, 1 - exponent)
        self.resolution = 10.0 ** -math.floor(significand * math.log10(2))


class iinfo(_Limits):
    """Limits of an integer type.

    Parameters
    ----------
    type : dtype
        The integer type.

    Examples
    --------
    >>> from gradcore.core.dtypes import iinfo, int8
    >>> iinfo(int8)
    iinfo(min=-128, max=127, dtype=int8)
    """

    __slots__ = ("max", "min")

    _printed = ("min", "max")

    def __init__(self, type: DTypeLike) -> None:
        d = as_dtype(type)
        if d is bool_:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if d.category > INTEGER:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{d}'")
        self.dtype = d.name
        self.bits = 8 * d.itemsize
        self.min = -(1 << (self.bits - 1)) if d.is_signed else 0
        self.max = (1 << (self.bits - d.is_signed)) - 1
