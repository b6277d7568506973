"""Type aliases for signatures: arrays of any library, tensors of any class, devices, NumPy's arguments."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from gradcore.core.device import device

if TYPE_CHECKING:
    from typing import NamedTuple

    from gradcore.core.arrays import Namespace
else:

    class _Creator(type):
        """Metaclass of named tuples that are created in a third of the time, as it does not compile annotations."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, object]) -> type:
            annotations = body.pop("__annotations__", {})
            defaults = [body.pop(field) for field in annotations if field in body]
            result = namedtuple(name, annotations, defaults=defaults, module=body.pop("__module__"))
            result.__annotations__ = result.__new__.__annotations__ = annotations
            for key, value in body.items():
                setattr(result, key, value)
            return result

    NamedTuple = type.__new__(_Creator, "NamedTuple", (), {})

__all__ = [
    "NUMPY",
    "AnyArray",
    "AnyTensor",
    "ArrayLike",
    "Axis",
    "DTypeLike",
    "Device",
    "DeviceLike",
    "Function",
    "NamedTuple",
    "ShapeLike",
]

#: An array of any class, where `gradcore.core.arrays.Array` says too little: arrays of one library, or with attributes
#: of its own (``ctypes``, ``device``), and values that formulas take as arrays or tensors.
AnyArray: TypeAlias = Any
#: A `Tensor`, or an instance of a subclass, with its slots (``_array``, ``_device`` ...) and all methods.
AnyTensor: TypeAlias = Any
#: The device of a tensor: the object itself, never its string.
Device: TypeAlias = device
#: A function that a factory returns, whose parameters no static type describes.
Function: TypeAlias = Callable[..., Any]

#: NumPy as a namespace of arrays. Type checkers compare all names of the module where it is passed, or compared, as
#: ``np`` (seconds each time), and here only once.
NUMPY: Namespace = np

# -- NumPy's arguments ------------------------------------------------------------------------------------------------

#: A tensor, an array, a number, or nested sequences of these: no static type describes all of them.
ArrayLike: TypeAlias = Any
#: One axis, several axes, or None for the function's default.
Axis: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
#: A dtype of gradcore or of NumPy, or anything that `numpy.dtype` takes, such as ``float`` or ``"f4"``.
DTypeLike: TypeAlias = Any
#: The length of a vector, or the sizes of all dims; None where a function has a default.
ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
#: A device or its name; None for the default device.
DeviceLike: TypeAlias = device | str | None
