"""The base class of objects that replace arrays in kernels (meta, batched and traced arrays).

Kernels and bodies are written for NumPy and CuPy arrays: they use operators, attributes, methods and NumPy's functions.
`ArrayStandIn` defines these once. A subclass implements operators (`make_operator`) and the NumPy functions behind
methods of arrays (`call_method`). It can override methods for which it has a better implementation.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from gradcore.core.operators import Form, Method, Operator, define_operators
from gradcore.core.typing import AnyArray

__all__ = ["METHODS", "SIZED_BY_VALUES", "ArrayStandIn"]

#: Methods of arrays whose results have sizes that depend on the elements.
SIZED_BY_VALUES = frozenset(("compress", "nonzero"))
#: Methods of arrays that are functions of NumPy of the same name.
METHODS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "clip", "compress", "conj", "conjugate", "cumprod",
    "cumsum", "diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "ravel", "repeat", "round", "searchsorted",
    "squeeze", "std", "sum", "swapaxes", "take", "trace", "var",
)  # fmt: skip


class ArrayStandIn:
    """Object with the attributes, methods and operators of an array.

    Subclasses define ``shape`` and ``dtype``, and those of the methods below that they support.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # Subclasses define these attributes.

        @property
        def shape(self) -> tuple[int, ...]: ...

        @property
        def dtype(self) -> np.dtype[Any]: ...

        def __getitem__(self, index: object) -> AnyArray: ...

        def __setitem__(self, index: object, value: object) -> None: ...

        def __getattr__(self, name: str) -> AnyArray: ...

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        define_operators(cls, cls.make_operator)

    @staticmethod
    def make_operator(operator: Operator, form: Form) -> Method | None:
        """Return the method of an operator in a form, or None if these objects have none."""
        raise NotImplementedError

    def call_method(self, name: str, function: Method, args: tuple[object, ...], named: dict[str, Any]) -> AnyArray:
        """Return the result of an array method by calling the NumPy function of that name."""
        return function(self, *args, **named)

    def convert(self, name: str, *args: object, **kwargs: object) -> Any:
        """Convert the elements as ``"float"``, ``"item"``, ``"array"`` and the like do, or raise their error."""
        raise NotImplementedError

    # -- attributes

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    # -- views

    def transpose(self, *axes: Any) -> Self:
        if len(axes) == 1 and not hasattr(axes[0], "__index__"):
            axes = tuple(axes[0] or ())
        order = normalize_axis_tuple(axes or range(self.ndim)[::-1], self.ndim)
        if len(order) != self.ndim:
            raise ValueError("axes don't match array")
        return self._permute(order)

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Self:
        if len(shape) == 1 and not hasattr(shape[0], "__index__"):
            shape = tuple(shape[0])
        return self._reshape(shape, order, copy)

    def _permute(self, order: tuple[int, ...]) -> Self:
        """Return the view with the dims in the given order."""
        raise NotImplementedError

    def _reshape(self, shape: tuple[int, ...], order: str, copy: bool | None) -> Self:
        """Return the elements in another shape."""
        raise NotImplementedError

    def _part(self, name: str) -> Self:
        """Return a view of the ``"real"`` or ``"imag"`` part."""
        raise NotImplementedError

    @property
    def T(self) -> Self:
        return self.transpose()

    @property
    def mT(self) -> AnyArray:
        return self.swapaxes(-1, -2)

    @property
    def real(self) -> Self:
        return self._part("real")

    @real.setter
    def real(self, value: object) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Self:
        return self._part("imag")

    @imag.setter
    def imag(self, value: object) -> None:
        self.imag[...] = value

    def __divmod__(self, other: object) -> tuple[AnyArray, AnyArray]:
        return self.__floordiv__(other), self.__mod__(other)

    # -- elements

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[AnyArray]:
        return iter([self[i] for i in range(len(self))])

    def fill(self, value: object) -> None:
        self[...] = value

    # -- copies

    def flatten(self, order: str = "C") -> AnyArray:
        return self.reshape(-1).copy()

    def __copy__(self) -> AnyArray:
        return self.copy()

    def __deepcopy__(self, memo: object) -> AnyArray:
        return self.copy()


def _make_method(name: str) -> Method:
    function = getattr(np, name)

    def method(self: ArrayStandIn, *args: object, **kwargs: object) -> Any:
        return self.call_method(name, function, args, kwargs)

    method.__name__ = name
    method.__doc__ = f"See `numpy.{name}`."
    return method


def _make_conversion(name: str) -> Method:
    def method(self: ArrayStandIn, *args: object, **kwargs: object) -> Any:
        return self.convert(name, *args, **kwargs)

    method.__name__ = name
    return method


for _name in METHODS:
    setattr(ArrayStandIn, _name, _make_method(_name))
for _name in ("bool", "float", "int", "complex", "index", "array"):
    setattr(ArrayStandIn, f"__{_name}__", _make_conversion(_name))
for _name in ("item", "tolist", "tobytes"):
    setattr(ArrayStandIn, _name, _make_conversion(_name))
