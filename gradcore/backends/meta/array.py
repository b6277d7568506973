"""Arrays without data: a shape, a dtype and strides.

A `MetaArray` takes NumPy's protocols, so that kernels and bodies written for NumPy and CuPy arrays run on
it as they are. The universal functions are here; `rules` and its neighbours say what other functions give.
Views know their strides and their base: what is a view and what is a copy decides how a graph is recorded.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from gradcore.backends.meta import layouts
from gradcore.backends.numpy_rules import RuleTable, expand_ellipsis

__all__ = ["NO_DATA", "RULES", "MetaArray", "broadcast", "probe", "reduce_shape"]

NO_DATA = "Cannot copy out of meta tensor; no data!"
NO_ITEM = "Tensor.item() cannot be called on meta tensors"

#: Rules that return the result without data; called as the function itself.
RULES = RuleTable()

#: Methods of arrays that are functions of NumPy.
METHODS = (
    "all any argmax argmin argpartition argsort clip compress conj conjugate cumprod cumsum diagonal dot max "
    "mean min nonzero prod ravel repeat round searchsorted squeeze std sum take trace var"
)


class MetaArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of which only shape, dtype and memory layout are known.

    Parameters
    ----------
    shape : sequence of int
    dtype : numpy.dtype
    strides : tuple of int, optional
        In bytes; by default those of C order.
    base : MetaArray, optional
        The array whose memory this one is a view of.
    offset : int
        Bytes from the start of that memory to the first element.
    """

    __slots__ = ("base", "dtype", "offset", "shape", "strides")

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    base: MetaArray | None
    offset: int

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        strides: tuple[int, ...] | None = None,
        base: MetaArray | None = None,
        offset: int = 0,
    ) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.strides = layouts.contiguous_strides(self.shape, self.dtype.itemsize) if strides is None else strides
        self.base, self.offset = base, offset

    # -- attributes ------------------------------------------------------------------------------------------

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

    # -- views -----------------------------------------------------------------------------------------------

    def make_view(self, shape: Sequence[int], strides: Sequence[int], dtype: Any = None, offset: int = 0) -> MetaArray:
        """Return a view of the same memory; `offset`, in bytes, counts from this array's first element."""
        base = self if self.base is None else self.base
        return MetaArray(shape, dtype or self.dtype, tuple(strides), base, self.offset + offset)

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> MetaArray:
        if len(shape) == 1 and not hasattr(shape[0], "__index__"):
            shape = tuple(shape[0])
        new = layouts.infer_shape(self.size, shape)
        strides = layouts.reshape_strides(self.shape, self.strides, self.itemsize, new)
        return MetaArray(new, self.dtype) if copy or strides is None else self.make_view(new, strides)

    def transpose(self, *axes: Any) -> MetaArray:
        if len(axes) == 1 and not hasattr(axes[0], "__index__"):
            axes = tuple(axes[0] or ())
        axes = normalize_axis_tuple(axes or range(self.ndim)[::-1], self.ndim)
        if len(axes) != self.ndim:
            raise ValueError("axes don't match array")
        return self.make_view([self.shape[i] for i in axes], [self.strides[i] for i in axes])

    def swapaxes(self, axis1: int, axis2: int) -> MetaArray:
        order = list(range(self.ndim))
        order[axis1], order[axis2] = order[axis2], order[axis1]
        return self.transpose(order)

    @property
    def T(self) -> MetaArray:
        return self.transpose()

    @property
    def mT(self) -> MetaArray:
        return self.swapaxes(-1, -2)

    def view(self, dtype: Any = None) -> MetaArray:
        """Return the same memory as another dtype; the last dim takes up a difference in size."""
        if dtype is None or dtype is np.ndarray or dtype is MetaArray:
            return self.make_view(self.shape, self.strides)
        dtype = np.dtype(dtype)
        if dtype.itemsize == self.itemsize:
            return self.make_view(self.shape, self.strides, dtype)
        length = self.shape[-1] * self.itemsize // dtype.itemsize
        return self.make_view((*self.shape[:-1], length), (*self.strides[:-1], dtype.itemsize), dtype)

    def _part(self, number: int) -> MetaArray:
        if self.dtype.kind != "c":
            return MetaArray(self.shape, self.dtype) if number else self
        half = np.dtype(f"f{self.itemsize // 2}")
        return self.make_view(self.shape, self.strides, half, number * half.itemsize)

    @property
    def real(self) -> MetaArray:
        return self._part(0)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> MetaArray:
        return self._part(1)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    # -- elements --------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[MetaArray]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> MetaArray:
        entries = _entries(self, index)
        chosen = [i for i, entry in enumerate(entries) if isinstance(entry, (MetaArray, np.ndarray))]
        if not chosen:
            shape, strides, start = layouts.index_strides(self.shape, self.strides, entries)
            return self.make_view(shape, strides, None, start)
        chosen = [i for i, e in enumerate(entries) if isinstance(e, (MetaArray, np.ndarray)) or hasattr(e, "__index__")]
        taken = np.broadcast_shapes(*(getattr(entries[i], "shape", ()) for i in chosen))
        together = chosen == list(range(chosen[0], chosen[-1] + 1))
        # With the indices as slices of length 0, what is left in the order of the dims.
        rest = [slice(0, 0) if i in chosen else entry for i, entry in enumerate(entries)]
        kept = list(layouts.index_strides(self.shape, self.strides, rest)[0])
        for i in reversed(chosen):
            del kept[i]
        place = chosen[0] if together else 0
        return MetaArray((*kept[:place], *taken, *kept[place:]), self.dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        parts = index if isinstance(index, tuple) else (index,)
        if any(isinstance(part, MetaArray) and part.dtype == bool for part in parts):
            return  # as many elements as the mask has: unknown
        _check_fits(shape_of(value), self[index].shape)

    def _no_item(self, *index: int) -> Any:
        raise RuntimeError(NO_ITEM)

    __bool__ = __float__ = __int__ = __complex__ = __index__ = item = _no_item

    def _no_data(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError(NO_DATA)

    __array__ = tolist = tobytes = _no_data

    def fill(self, value: Any) -> None:
        """Nothing: there are no elements."""

    def sort(self, axis: int = -1, **named: Any) -> None:
        """Nothing: there are no elements."""

    # -- copies ----------------------------------------------------------------------------------------------

    def astype(self, dtype: Any, order: str = "K", *, copy: bool = True, **named: Any) -> MetaArray:
        dtype = np.dtype(dtype)
        return self if not copy and dtype == self.dtype else make_array(self.shape, dtype, [self])

    def copy(self, order: str = "C") -> MetaArray:
        return make_array(self.shape, self.dtype, [self]) if order == "K" else MetaArray(self.shape, self.dtype)

    def flatten(self, order: str = "C") -> MetaArray:
        return MetaArray((self.size,), self.dtype)

    def __copy__(self) -> MetaArray:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> MetaArray:
        return self.copy()

    def __repr__(self) -> str:
        return f"MetaArray({self.shape}, {self.dtype})"

    # -- NumPy's protocols -----------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **named: Any) -> Any:
        named.pop("where", None)
        shapes = _SHAPES[method](ufunc, *inputs, **named)
        if shapes is None:
            return None
        if method == "reduceat":
            inputs = (inputs[0], [0])
        probed = probe(getattr(ufunc, method), *inputs, **named)
        if ufunc.nout == 1 or method != "__call__":
            shapes, probed = (shapes,), (probed,)
        dtypes = [result.dtype for result in probed]
        if out is None:
            operands = inputs if method == "__call__" and ufunc.signature is None else ()
            results = tuple(make_array(shape, dtype, operands) for shape, dtype in zip(shapes, dtypes, strict=True))
        else:
            results = out if isinstance(out, tuple) else (out,)
            for target, shape, dtype in zip(results, shapes, dtypes, strict=True):
                _check_fits(shape, target.shape)
                if not np.can_cast(dtype, target.dtype, named.get("casting", "same_kind")):
                    raise TypeError(f"Cannot cast ufunc '{ufunc.__name__}' output from {dtype} to {target.dtype}")
        return results if len(results) > 1 else results[0]

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        rule = RULES.get(function)
        if rule is None:
            raise NotImplementedError(f"{function.__module__}.{function.__name__} is not supported on the meta device")
        return rule(*args, **named)


def _method(name: str) -> Any:
    function = getattr(np, name)

    def method(self: MetaArray, *args: Any, **named: Any) -> Any:
        return function(self, *args, **named)

    method.__name__ = name
    method.__doc__ = f"See `numpy.{name}`."
    return method


for _name in METHODS.split():
    setattr(MetaArray, _name, _method(_name))


# -- indices -------------------------------------------------------------------------------------------------


def _entries(array: MetaArray, index: Any) -> list[Any]:
    """Return one entry for each dim (an int, a slice, an array of ints), and None for each new dim."""
    entries: list[Any] = []
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, list):
            part = np.asarray(part)
        if isinstance(part, (bool, np.bool_)):
            raise NotImplementedError("indexing with a bool is not supported on the meta device")
        if isinstance(part, (MetaArray, np.ndarray)) and part.dtype == bool:
            if isinstance(part, MetaArray):
                raise NotImplementedError(
                    "indexing with a mask: the shape of the result depends on data, which meta tensors lack"
                )
            entries.extend(part.nonzero())
        else:
            entries.append(part)
    return expand_ellipsis(entries, array.ndim)


def _check_fits(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    """Raise unless values of `shape` can be broadcast to `target`."""
    while len(shape) > len(target) and shape[0] == 1:
        shape = shape[1:]
    if len(shape) > len(target) or any(
        n not in (1, m) for n, m in zip(reversed(shape), reversed(target), strict=False)
    ):
        raise ValueError(f"could not broadcast input array from shape {shape} into shape {target}")


# -- results -------------------------------------------------------------------------------------------------


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of an array, number or nested sequence."""
    return value.shape if isinstance(value, (MetaArray, np.ndarray)) else np.shape(value)


def broadcast(*values: Any) -> tuple[int, ...]:
    """Return the shape to which values are broadcast together."""
    return np.broadcast_shapes(*map(shape_of, values))


def make_array(shape: tuple[int, ...], dtype: Any, operands: Sequence[Any]) -> MetaArray:
    """Return a new array whose dims lie in memory in the order of those of the operands; without any, in C order."""
    dtype = np.dtype(dtype)
    layout = [(x.shape, x.strides) for x in operands if isinstance(x, (MetaArray, np.ndarray))]
    return MetaArray(shape, dtype, layouts.keep_order_strides(shape, dtype.itemsize, layout))


def reduce_shape(shape: tuple[int, ...], axis: Any = None, keepdims: bool = False) -> tuple[int, ...]:
    """Return the shape that a reduction leaves."""
    axes = range(len(shape)) if axis is None else normalize_axis_tuple(axis, len(shape))
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


@lru_cache(maxsize=256)
def _ones(ndim: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return np.ones((1,) * ndim, dtype)


def _shrink(value: Any) -> Any:
    if isinstance(value, (MetaArray, np.ndarray)):
        return _ones(value.ndim, value.dtype)
    return type(value)(map(_shrink, value)) if type(value) in (list, tuple) else value


def probe(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Return the result of a function on arrays of a single element, for its dtypes."""
    with np.errstate(all="ignore"):
        return function(*map(_shrink, args), **{name: _shrink(value) for name, value in named.items()})


# -- universal functions, by method --------------------------------------------------------------------------


def _call(ufunc: Any, *inputs: Any, **named: Any) -> Any:
    if ufunc.signature is not None:
        shapes = _of_signature(ufunc, [shape_of(x) for x in inputs])
        return shapes if ufunc.nout > 1 else shapes[0]
    shape = broadcast(*inputs)
    return (shape,) * ufunc.nout if ufunc.nout > 1 else shape


def _of_signature(ufunc: Any, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the results' shapes of a generalized universal function, for example ``(n?,k),(k,m?)->(n?,m?)``."""
    ins, outs = (re.findall(r"\(([^)]*)\)", side) for side in ufunc.signature.split("->"))
    sizes: dict[str, int] = {}
    missing: set[str] = set()
    loops = []
    for i, (shape, core) in enumerate(zip(shapes, ins, strict=True)):
        names = [n for n in core.split(",") if n]
        if len(shape) < len(names):
            missing.update(n for n in names if n.endswith("?"))
            names = [n for n in names if not n.endswith("?")]
        split = len(shape) - len(names)
        if split < 0:
            raise ValueError(f"{ufunc.__name__}: Input operand {i} does not have enough dimensions")
        loops.append(shape[:split])
        for name, size in zip(names, shape[split:], strict=True):
            if sizes.setdefault(name, size) != size:
                raise ValueError(
                    f"{ufunc.__name__}: Input operand {i} has a mismatch in its core dimension, with gufunc "
                    f"signature {ufunc.signature} (size {size} is different from {sizes[name]})"
                )
    loop = np.broadcast_shapes(*loops)
    return [(*loop, *(sizes[n] for n in core.split(",") if n and n not in missing)) for core in outs]


def _reduce(
    ufunc: Any,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    **named: Any,
) -> tuple[int, ...]:
    return reduce_shape(shape_of(array), axis, keepdims)


def _accumulate(ufunc: Any, array: Any, axis: int = 0, **named: Any) -> tuple[int, ...]:
    return shape_of(array)


def _reduceat(ufunc: Any, array: Any, indices: Any, axis: int = 0, **named: Any) -> tuple[int, ...]:
    shape = list(shape_of(array))
    shape[axis] = shape_of(indices)[0]
    return tuple(shape)


def _outer(ufunc: Any, a: Any, b: Any, **named: Any) -> tuple[int, ...]:
    return shape_of(a) + shape_of(b)


def _at(ufunc: Any, array: MetaArray, indices: Any, values: Any = 0) -> None:
    array[indices] = values


_SHAPES: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "reduce": _reduce,
    "accumulate": _accumulate,
    "reduceat": _reduceat,
    "outer": _outer,
    "at": _at,
}
