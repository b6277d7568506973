"""Facts of Python objects and classes that decide how guards check them."""

from __future__ import annotations

import enum
import gc
import itertools
import re
import types
from typing import Any

import numpy as np

from gradcore.compiler.capture import trusted
from gradcore.core import dtypes
from gradcore.core.device import device

__all__ = ["MISSING", "PLAIN", "SCALARS", "UNIQUE", "cached_objects", "has_own_class", "has_state_in_c",
           "is_constant_class", "is_plain", "is_written_in_c", "read_slot", "same", "slots_of"]  # fmt: skip

#: Types of values that are compared by value, and types of objects that are compared by identity.
PLAIN = (bool, int, float, complex, str, bytes)
#: NumPy's scalars that never change: not records (`np.void`), whose fields can be assigned to.
SCALARS = (np.number, np.bool_, np.character, np.datetime64)
UNIQUE = (
    type(None), type(...), type(NotImplemented), dtypes.dtype, np.dtype, device, enum.Enum,
    types.BuiltinFunctionType, np.ufunc, types.WrapperDescriptorType, types.MethodDescriptorType, *SCALARS,
    types.GetSetDescriptorType, types.MemberDescriptorType, re.Pattern,
)  # fmt: skip
#: ``Py_TPFLAGS_IMMUTABLETYPE``: whether a class is written in C.
_IMMUTABLE = 1 << 8
#: The value of an empty slot.
MISSING = object()


def has_state_in_c(kind: type) -> bool:
    """Return whether instances of a class have state outside of ``__dict__`` and slots, which no guard can check."""
    # Pointers to ``__dict__`` and to weak references lie in the object itself (a positive offset), or in front of it.
    pointers = (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0) + len(slots_of(kind))
    return kind.__basicsize__ > object.__basicsize__ + object.__basicsize__ // 2 * pointers or bool(kind.__itemsize__)


def slots_of(kind: type) -> list[str]:
    """Return the names of the attributes that a class stores in slots."""
    names = []
    for cls in kind.__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            names.append(f"_{cls.__name__.lstrip('_')}{name}" if private else name)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def read_slot(slot: types.MemberDescriptorType, owner: object) -> object:
    """Return the value in a slot of an object."""
    try:
        return slot.__get__(owner)
    except AttributeError:
        return MISSING


def cached_objects(function: object) -> dict[int, object]:
    """Return the arguments and results in the cache of a `functools.lru_cache` function, by their ids."""
    referents = gc.get_referents(function)
    tables = (each.values() for each in referents if type(each) is dict)
    return {id(each): each for each in itertools.chain(referents, *tables)}


def has_own_class(value: object) -> bool:
    """Return whether an object, such as a NumPy scalar, is of a user's subclass; enumeration members always are."""
    kind = type(value)
    is_user_class = kind.__flags__ & trusted.HEAP_TYPE and not is_written_in_c(kind)
    return bool(is_user_class and not isinstance(value, enum.Enum) and not trusted.is_library_class(kind))


def is_written_in_c(cls: type) -> bool:
    """Return whether a class is written in C, and not made at run time."""
    return bool(cls.__flags__ & _IMMUTABLE)


def is_constant_class(cls: type) -> bool:
    """Return whether the attributes of a class never change: its code is trusted, or it is immutable."""
    return trusted.is_library_class(cls) or not cls.__flags__ & trusted.HEAP_TYPE


def is_plain(value: object) -> bool:
    """Return whether a value is of a type in `PLAIN`, None, or a tuple of such values: `same` compares them all."""
    kind = type(value)
    return value is None or kind in PLAIN or (kind is tuple and all(map(is_plain, value)))  # type: ignore[call-overload]


def same(a: Any, b: Any) -> bool:
    """Return whether two constants have the same type and value; signs of zeros count, and nan equals nan."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is tuple:
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b) if isinstance(a, (float, complex)) else bool(a == b)
