"""Arrays without data: a shape, a dtype and strides.

A `MetaArray` implements NumPy's protocols, so that kernels and bodies written for NumPy and CuPy arrays run on it
unchanged. Universal functions are implemented here, other functions in `rules` and its neighbours. Views have strides
and a base, because the recorded graph depends on whether a result is a view or a copy.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from gradcore.backends.meta import layouts
from gradcore.backends.numpy_rules import RuleTable, expand_ellipsis
from gradcore.backends.stand_ins import ArrayStandIn
from gradcore.core.operators import Form, Method, Operator
from gradcore.core.size import contiguous_strides

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["NO_DATA", "RULES", "MetaArray", "broadcast", "probe", "reduce_shape"]

NO_DATA = "Cannot copy out of meta tensor; no data!"
NO_ITEM = "Tensor.item() cannot be called on meta tensors"

#: Rules that return the result without data; called as the function itself.
RULES = RuleTable()


class MetaArray(ArrayStandIn):
    """Array of which only the shape, the dtype and the memory layout are known.

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
    __hash__ = None  # type: ignore[assignment]

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
        self.strides = contiguous_strides(self.shape, self.dtype.itemsize) if strides is None else strides
        self.base, self.offset = base, offset

    # -- attributes ------------------------------------------------------------------------------------------

    @property
    def flags(self) -> Any:
        in_c = layouts.is_contiguous(self.shape, self.strides, self.itemsize)
        in_f = layouts.is_contiguous(self.shape[::-1], self.strides[::-1], self.itemsize)
        return types.SimpleNamespace(c_contiguous=in_c, f_contiguous=in_f, owndata=self.base is None, writeable=True)

    # -- views -----------------------------------------------------------------------------------------------

    def make_view(self, shape: Sequence[int], strides: Sequence[int], dtype: Any = None, offset: int = 0) -> MetaArray:
        """Return a view of the same memory. `offset` counts bytes from this array's first element."""
        base = self if self.base is None else self.base
        return MetaArray(shape, dtype or self.dtype, tuple(strides), base, self.offset + offset)

    def _reshape(self, shape: tuple[int, ...], order: str, copy: bool | None) -> MetaArray:
        new = layouts.infer_shape(self.size, shape)
        strides = layouts.reshape_strides(self.shape, self.strides, self.itemsize, new)
        return MetaArray(new, self.dtype) if copy or strides is None else self.make_view(new, strides)

    def _permute(self, order: tuple[int, ...]) -> MetaArray:
        return self.make_view([self.shape[i] for i in order], [self.strides[i] for i in order])

    def swapaxes(self, axis1: int, axis2: int) -> MetaArray:
        order = list(range(self.ndim))
        order[axis1], order[axis2] = order[axis2], order[axis1]
        return self.transpose(order)

    def view(self, dtype: Any = None) -> MetaArray:
        """Return a view of the memory as another dtype. The last dim absorbs a difference in item size."""
        if dtype is None or dtype is np.ndarray or dtype is MetaArray:
            return self.make_view(self.shape, self.strides)
        dtype = np.dtype(dtype)
        if dtype.itemsize == self.itemsize:
            return self.make_view(self.shape, self.strides, dtype)
        length = self.shape[-1] * self.itemsize // dtype.itemsize
        return self.make_view((*self.shape[:-1], length), (*self.strides[:-1], dtype.itemsize), dtype)

    def _part(self, name: str) -> MetaArray:
        if self.dtype.kind != "c":
            return self if name == "real" else MetaArray(self.shape, self.dtype)
        half = np.dtype(f"f{self.itemsize // 2}")
        return self.make_view(self.shape, self.strides, half, 0 if name == "real" else half.itemsize)

    # -- elements --------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> MetaArray:
        entries = _entries(self, index)
        chosen = [i for i, entry in enumerate(entries) if isinstance(entry, (MetaArray, np.ndarray))]
        if not chosen:
            shape, strides, start = layouts.index_strides(self.shape, self.strides, entries)
            return self.make_view(shape, strides, None, start)
        chosen = [i for i, e in enumerate(entries) if isinstance(e, (MetaArray, np.ndarray)) or hasattr(e, "__index__")]
        indexed_shape = np.broadcast_shapes(*(getattr(entries[i], "shape", ()) for i in chosen))
        are_adjacent = chosen == list(range(chosen[0], chosen[-1] + 1))
        # With the indices as slices of length 0, what is left in the order of the dims.
        rest = [slice(0, 0) if i in chosen else entry for i, entry in enumerate(entries)]
        sliced_shape = list(layouts.index_strides(self.shape, self.strides, rest)[0])
        for i in reversed(chosen):
            del sliced_shape[i]
        first_dim = chosen[0] if are_adjacent else 0
        return MetaArray((*sliced_shape[:first_dim], *indexed_shape, *sliced_shape[first_dim:]), self.dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        parts = index if isinstance(index, tuple) else (index,)
        if any(isinstance(part, MetaArray) and part.dtype == bool for part in parts):
            return  # as many elements as the mask has: unknown
        _check_fits(shape_of(value), self[index].shape)

    def convert(self, name: str, *args: object, **kwargs: object) -> Any:
        if name in ("array", "tolist", "tobytes"):
            raise NotImplementedError(NO_DATA)
        raise RuntimeError(NO_ITEM)

    def fill(self, value: Any) -> None:
        """Do nothing: there are no elements."""

    def sort(self, axis: int = -1, **kwargs: Any) -> None:
        """Do nothing: there are no elements."""

    # -- copies ----------------------------------------------------------------------------------------------

    def astype(self, dtype: Any, order: str = "K", *, copy: bool = True, **kwargs: Any) -> MetaArray:
        dtype = np.dtype(dtype)
        return self if not copy and dtype == self.dtype else make_array(self.shape, dtype, [self])

    def copy(self, order: str = "C") -> MetaArray:
        return make_array(self.shape, self.dtype, [self]) if order == "K" else MetaArray(self.shape, self.dtype)

    def __repr__(self) -> str:
        return f"MetaArray({self.shape}, {self.dtype})"

    # -- operators and NumPy's protocols ---------------------------------------------------------------------

    @staticmethod
    def make_operator(operator: Operator, form: Form) -> Method:
        """Return the method of an operator, which calls NumPy's function (and so `__array_ufunc__`)."""
        ufunc = operator.ufunc

        def unary(self: MetaArray) -> Array:
            return ufunc(self)

        def from_left(self: MetaArray, other: object) -> Array:
            return NotImplemented if getattr(other, "__array_ufunc__", 0) is None else ufunc(self, other)

        def from_right(self: MetaArray, other: object) -> Array:
            return NotImplemented if getattr(other, "__array_ufunc__", 0) is None else ufunc(other, self)

        def in_place(self: MetaArray, other: object) -> Array:
            return ufunc(self, other, out=(self,))

        methods: dict[Form, Method]
        methods = {"unary": unary, "left": from_left, "right": from_right, "in place": in_place}
        return methods[form]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        kwargs.pop("where", None)
        shapes = _SHAPES[method](ufunc, *inputs, **kwargs)
        if shapes is None:
            return None
        if method == "reduceat":
            inputs = (inputs[0], [0])
        probed = probe(getattr(ufunc, method), *inputs, **kwargs)
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
                if not np.can_cast(dtype, target.dtype, kwargs.get("casting", "same_kind")):
                    raise TypeError(f"Cannot cast ufunc '{ufunc.__name__}' output from {dtype} to {target.dtype}")
        return results if len(results) > 1 else results[0]

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        rule = RULES.get(function)
        if rule is None:
            raise NotImplementedError(f"{function.__module__}.{function.__name__} is not supported on the meta device")
        return rule(*args, **named)


# -- indices -------------------------------------------------------------------------------------------------


def _entries(array: MetaArray, index: Any) -> list[Any]:
    """Return an entry for each dim (an int, a slice or an array of ints), and None for each new dim."""
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
    """Return the shape that the shapes of all values broadcast to."""
    return np.broadcast_shapes(*map(shape_of, values))


def make_array(shape: tuple[int, ...], dtype: Any, operands: Sequence[Any]) -> MetaArray:
    """Return a new array whose dims have the memory order of the operands' dims, or C order without operands."""
    dtype = np.dtype(dtype)
    layout = [(x.shape, x.strides) for x in operands if isinstance(x, (MetaArray, np.ndarray))]
    return MetaArray(shape, dtype, layouts.keep_order_strides(shape, dtype.itemsize, layout))


def reduce_shape(shape: tuple[int, ...], axis: Any = None, keepdims: bool = False) -> tuple[int, ...]:
    """Return the shape of a reduction's result."""
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


def probe(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function on arrays of a single element, and return its result, for its dtypes."""
    with np.errstate(all="ignore"):
        return function(*map(_shrink, args), **{name: _shrink(value) for name, value in kwargs.items()})


# -- universal functions, by method --------------------------------------------------------------------------


def _call(ufunc: Any, *inputs: Any, **kwargs: Any) -> Any:
    if ufunc.signature is not None:
        shapes = [shape_of(x) for x in inputs]
        if "axis" in kwargs:  # The function maps vectors to numbers.
            axes = [normalize_axis_tuple(kwargs["axis"], len(shape))[0] for shape in shapes]
            shapes = [(*s[:at], *s[at + 1 :], s[at]) for s, at in zip(shapes, axes, strict=True)]
        shapes = _apply_signature(ufunc, shapes)
        return shapes if ufunc.nout > 1 else shapes[0]
    shape = broadcast(*inputs)
    return (shape,) * ufunc.nout if ufunc.nout > 1 else shape


def _apply_signature(ufunc: Any, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the shapes of the results of a generalized universal function, from ``(n?,k),(k,m?)->(n?,m?)``, say."""
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
    **kwargs: Any,
) -> tuple[int, ...]:
    return reduce_shape(shape_of(array), axis, keepdims)


def _accumulate(ufunc: Any, array: Any, axis: int = 0, **kwargs: Any) -> tuple[int, ...]:
    return shape_of(array)


def _reduceat(ufunc: Any, array: Any, indices: Any, axis: int = 0, **kwargs: Any) -> tuple[int, ...]:
    shape = list(shape_of(array))
    shape[axis] = shape_of(indices)[0]
    return tuple(shape)


def _outer(ufunc: Any, a: Any, b: Any, **kwargs: Any) -> tuple[int, ...]:
    return shape_of(a) + shape_of(b)


def _write_at(ufunc: Any, array: MetaArray, indices: Any, values: Any = 0) -> None:
    array[indices] = values


_SHAPES: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "reduce": _reduce,
    "accumulate": _accumulate,
    "reduceat": _reduceat,
    "outer": _outer,
    "at": _write_at,
}
