"""Shapes without data: the ``meta`` device.

A `Traced` array has a shape, a dtype and strides, and no memory. It takes NumPy's protocols, so that the kernels and
bodies that run on NumPy and CuPy arrays run on it as they are; what a function would make of data follows from the
rules in `tracing_rules`. Views know their strides and their base, because what is a view and what is a copy decides
how a graph is recorded.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from gradcore.backends import layouts
from gradcore.backends import tracing_rules as rules
from gradcore.backends.base import Backend

__all__ = ["Traced", "TracingBackend"]

NO_DATA = "Cannot copy out of meta tensor; no data!"
NO_ITEM = "Tensor.item() cannot be called on meta tensors"


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of which only shape, dtype and memory layout are known.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    strides : tuple of int, optional
        In bytes; by default those of C order.
    base : Traced, optional
        The array whose memory this one is a view of.
    offset : int
        Bytes from the start of that memory to the first element.
    """

    __slots__ = ("base", "dtype", "offset", "shape", "strides")

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        strides: tuple[int, ...] | None = None,
        base: Traced | None = None,
        offset: int = 0,
    ) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.strides = layouts.contiguous(self.shape, self.dtype.itemsize) if strides is None else strides
        self.base, self.offset = base, offset

    # -- attributes -----------------------------------------------------------------------------------------------

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

    @property
    def flags(self) -> Any:
        in_c = layouts.is_contiguous(self.shape, self.strides, self.itemsize)
        in_f = layouts.is_contiguous(self.shape[::-1], self.strides[::-1], self.itemsize)
        return types.SimpleNamespace(c_contiguous=in_c, f_contiguous=in_f, owndata=self.base is None, writeable=True)

    @property
    def data(self) -> Any:
        """Something with a `ptr`: the offset, as if all memory began at 0."""
        return types.SimpleNamespace(ptr=self.offset)

    # -- views ----------------------------------------------------------------------------------------------------

    def viewed(self, shape: Sequence[int], strides: Sequence[int], dtype: Any = None, offset: int = 0) -> Traced:
        """A view of the same memory; `offset`, in bytes, counts from this array's first element."""
        base = self if self.base is None else self.base
        return Traced(shape, dtype or self.dtype, tuple(strides), base, self.offset + offset)

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Traced:
        if len(shape) == 1 and not hasattr(shape[0], "__index__"):
            shape = tuple(shape[0])
        new = layouts.resolved_shape(self.size, shape)
        strides = layouts.reshaped(self.shape, self.strides, self.itemsize, new)
        return Traced(new, self.dtype) if copy or strides is None else self.viewed(new, strides)

    def transpose(self, *axes: Any) -> Traced:
        if len(axes) == 1 and not hasattr(axes[0], "__index__"):
            axes = tuple(axes[0] or ())
        axes = np.lib.array_utils.normalize_axis_tuple(axes or range(self.ndim)[::-1], self.ndim)
        if len(axes) != self.ndim:
            raise ValueError("axes don't match array")
        return self.viewed([self.shape[i] for i in axes], [self.strides[i] for i in axes])

    @property
    def T(self) -> Traced:
        return self.transpose()

    @property
    def mT(self) -> Traced:
        return self.swapaxes(-1, -2)

    def view(self, dtype: Any = None) -> Traced:
        """The same memory as another dtype; the last dim takes up a difference in size."""
        if dtype is None or isinstance(dtype, type) and not issubclass(dtype, np.generic):
            return self.viewed(self.shape, self.strides)
        dtype = np.dtype(dtype)
        if dtype.itemsize == self.itemsize:
            return self.viewed(self.shape, self.strides, dtype)
        length = self.shape[-1] * self.itemsize // dtype.itemsize
        return self.viewed((*self.shape[:-1], length), (*self.strides[:-1], dtype.itemsize), dtype)

    def _part(self, number: int) -> Traced:
        if self.dtype.kind != "c":
            return self if number == 0 else Traced(self.shape, self.dtype)
        half = np.dtype(f"f{self.itemsize // 2}")
        return self.viewed(self.shape, self.strides, half, number * half.itemsize)

    @property
    def real(self) -> Traced:
        return self._part(0)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Traced:
        return self._part(1)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    # -- elements -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Traced]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Traced:
        return rules.selected(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if not rules.is_mask(self, index):
            rules.check_fits(np.shape(value), rules.selected(self, index).shape)

    def _no_item(self) -> Any:
        raise RuntimeError(NO_ITEM)

    __bool__ = __float__ = __int__ = __complex__ = __index__ = _no_item

    def item(self, *index: int) -> Any:
        raise RuntimeError(NO_ITEM)

    def _no_data(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError(NO_DATA)

    __array__ = tolist = tobytes = _no_data

    # -- copies ---------------------------------------------------------------------------------------------------

    def astype(self, dtype: Any, order: str = "K", *, copy: bool = True, **_: Any) -> Traced:
        dtype = np.dtype(dtype)
        if not copy and dtype == self.dtype:
            return self
        return Traced(self.shape, dtype, layouts.kept_order(self.shape, dtype.itemsize, [(self.shape, self.strides)]))

    def copy(self, order: str = "C") -> Traced:
        return self.astype(self.dtype) if order == "K" else Traced(self.shape, self.dtype)

    flatten = lambda self, order="C": Traced((self.size,), self.dtype)  # noqa: E731

    def __copy__(self) -> Traced:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Traced:
        return self.copy()

    def fill(self, value: Any) -> None:
        """Nothing: there are no elements."""

    def sort(self, axis: int = -1, **_: Any) -> None:
        """Nothing: there are no elements."""

    def __repr__(self) -> str:
        return f"Traced({self.shape}, {self.dtype})"

    # -- NumPy's protocols ----------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        return rules.ufunc(ufunc, method, inputs, named)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        return rules.function(function, args, named)


def _method(name: str) -> Any:
    function = getattr(np, name)

    def method(self: Traced, *args: Any, **named: Any) -> Any:
        return rules.function(function, (self, *args), named)

    method.__name__ = name
    return method


for _name in rules.METHODS:
    setattr(Traced, _name, _method(_name))
rules.Traced = Traced


class Namespace:
    """NumPy's names: functions that make arrays make traced ones, everything else goes through NumPy's protocols.

    Parameters
    ----------
    module : module
        NumPy, or one of its submodules.
    """

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if isinstance(value, types.ModuleType):
            value = Namespace(value)
        elif name in rules.CREATION:
            value = rules.CREATION[name]
        elif isinstance(value, types.FunctionType | types.BuiltinFunctionType):
            value = rules.elementwise(value)  # plain functions know no protocol: those of scipy.special
        setattr(self, name, value)
        return value


class TracingBackend(Backend):
    """Arrays without data on the ``meta`` device: every kernel runs, and nothing is computed."""

    type: ClassVar[str] = "meta"
    host_scalars = False

    def __init__(self) -> None:
        super().__init__(Namespace(np), Traced)

    @property
    def special(self) -> Any:
        """scipy.special, imported when first used."""
        import scipy.special

        return Namespace(scipy.special)

    def asarray(self, value: Any) -> Traced:
        return value if isinstance(value, Traced) else Traced(np.shape(value), np.asarray(value).dtype)

    def from_host(self, array: Any) -> Traced:
        return Traced(array.shape, array.dtype)

    def to_host(self, array: Any) -> Any:
        raise NotImplementedError(NO_DATA)

    def scalar(self, value: complex, dtype: Any) -> Any:
        """A NumPy scalar: Python numbers are known."""
        return np.dtype(dtype).type(value)

    def move_between(self, array: Any, index: int | None) -> Any:
        return array.copy()

    def random_words(self, n: int, key: int, counter: int) -> Traced:
        return Traced((n,), np.uint64)
