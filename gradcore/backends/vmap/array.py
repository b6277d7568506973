"""Arrays with a hidden batch dim.

A `BatchedArray` has the shape of one sample and holds all samples, with the batch dim in front. Kernels and bodies
written for NumPy and CuPy arrays run on it unchanged, and each of their array operations runs once for the whole batch.
Universal functions are called by `apply`. The class does not take part in NumPy's protocol for them, because arrays of
other libraries only leave operators to arrays that do not. Other functions have rules in `functions`, which NumPy's
protocol calls.

Batches nest: the inner array may be batched itself, at an earlier level. The array of the latest level is outermost.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from gradcore.backends.numpy_rules import RuleTable
from gradcore.backends.stand_ins import ArrayStandIn
from gradcore.backends.vmap.messages import CONTROL_FLOW, INPLACE, ITEM
from gradcore.core.operators import Form, Method, Operator
from gradcore.core.typing import AnyArray

__all__ = [
    "LIBRARIES",
    "RULES",
    "UFUNC_METHODS",
    "BatchedArray",
    "align_batch",
    "all_samples",
    "apply",
    "arange_like",
    "levels_of",
    "library_function",
    "outermost",
    "physical",
    "rewrap",
    "shift_axes",
    "split_batch",
    "unwrap_batch",
    "wrap_batch",
]

#: Rules that run a function on every sample; called with the level and the arguments.
RULES = RuleTable()

#: The namespaces of array libraries other than NumPy, by the type of their arrays.
LIBRARIES: dict[type, Any] = {}


def library_function(function: Any, *arrays: Any) -> Any:
    """Return the counterpart of NumPy's `function` in the library of the first array that is not NumPy's.

    Without such an array, return `function` itself, which supports batched arrays.
    """
    for a in arrays:
        library = LIBRARIES.get(a.__class__)
        if library is not None:
            prefix = "linalg." if "linalg" in getattr(function, "__module__", "") else ""
            return operator.attrgetter(prefix + function.__name__)(library)
    return function


def _rule_of(function: Method) -> Method:
    """Return the batching rule of a function of NumPy."""
    rule = RULES.get(function)
    if rule is None:
        module = getattr(function, "__module__", "numpy")
        raise NotImplementedError(f"vmap: there is no batching rule for {module}.{function.__name__} yet")
    return rule


_NUMBERS = frozenset((int, float, complex, bool))


class BatchedArray(ArrayStandIn):
    """Batch of arrays of one shape that behaves like one of them.

    Parameters
    ----------
    array : array
        All samples, along the first dim.
    level : VmapLevel
        Level of the batch, one for each call of a function by ``vmap``.
    """

    __slots__ = ("__weakref__", "array", "level")

    array: Any
    level: Any

    def __init__(self, array: Any, level: Any) -> None:
        self.array = array
        self.level = level

    # -- attributes, as those of one sample --------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape[1:]

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def ndim(self) -> int:
        return self.array.ndim - 1

    @property
    def strides(self) -> tuple[int, ...]:
        return self.array.strides[1:]

    @property
    def flags(self) -> Any:
        return self.array[:1][0].flags if self.array.shape[0] else self.array.flags

    @property
    def base(self) -> Any:
        """Base of the array inside: a batched array owns no memory."""
        return self.array

    # -- views --------------------------------------------------------------------------------------------------

    def _permute(self, order: tuple[int, ...]) -> BatchedArray:
        return BatchedArray(self.array.transpose((0, *(i + 1 for i in order))), self.level)

    def _reshape(self, shape: tuple[int, ...], order: Any, copy: bool | None) -> BatchedArray:
        samples = self.array.shape[0]
        try:
            return BatchedArray(self.array.reshape((samples, *shape), order=order), self.level)
        except ValueError as error:
            product, size = prod(n for n in shape if n != -1), self.size
            if samples or shape.count(-1) != 1 or not product or size % product:
                raise ValueError(f"cannot reshape array of size {size} into shape {shape}") from error
        rest = tuple(size // product if n == -1 else n for n in shape)  # of no samples at all
        return BatchedArray(self.array.reshape((samples, *rest), order=order), self.level)

    def view(self, dtype: Any = None) -> BatchedArray:
        if dtype is None or not self.ndim:
            return BatchedArray(self.array.view(*(() if dtype is None else (dtype,))), self.level)
        return BatchedArray(self.array.view(dtype), self.level)

    def _part(self, name: str) -> BatchedArray:
        return BatchedArray(getattr(self.array, name), self.level)

    # -- elements: `gradcore.backends.vmap.indices` defines reading and writing -----------------------------------

    def convert(self, name: str, *args: object, **kwargs: object) -> Any:
        raise RuntimeError(_REFUSALS.get(name, ITEM))

    def sort(self, axis: int = -1, **kwargs: Any) -> None:
        self.array.sort(axis=normalize_axis_index(axis, self.ndim) + 1, **kwargs)

    # -- copies -------------------------------------------------------------------------------------------------

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> BatchedArray:
        return BatchedArray(self.array.astype(dtype, *args, **kwargs), self.level)

    def copy(self, order: str = "C") -> BatchedArray:
        return BatchedArray(self.array.copy(order), self.level)

    def __repr__(self) -> str:
        return f"BatchedArray({self.level}, {self.array!r})"

    # -- operators and methods ----------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        return apply(np.matmul, "__call__", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return apply(np.matmul, "__call__", other, self)

    @staticmethod
    def make_operator(operator: Operator, form: Form) -> Method:
        """Return an operator's method that bypasses NumPy's protocol where both operands are of the same batch."""
        plain, ufunc = operator.function, operator.ufunc

        def unary(self: BatchedArray) -> BatchedArray:
            return BatchedArray(plain(self.array), self.level)

        def from_left(self: BatchedArray, other: object) -> AnyArray:
            if other.__class__ is BatchedArray:
                if other.level is self.level and other.array.ndim == self.array.ndim:
                    return BatchedArray(plain(self.array, other.array), self.level)
            elif other.__class__ in _NUMBERS:
                return BatchedArray(plain(self.array, other), self.level)
            return apply(ufunc, "__call__", self, other)

        def from_right(self: BatchedArray, other: object) -> AnyArray:
            if other.__class__ in _NUMBERS:
                return BatchedArray(plain(other, self.array), self.level)
            return apply(ufunc, "__call__", other, self)

        def in_place(self: BatchedArray, other: object) -> AnyArray:
            return apply(ufunc, "__call__", self, other, out=(self,))

        methods: dict[Form, Method]
        methods = {"unary": unary, "left": from_left, "right": from_right, "in place": in_place}
        return methods[form]

    def call_method(self, name: str, function: Method, args: tuple[object, ...], named: dict[str, Any]) -> AnyArray:
        if args and args[0].__class__ is BatchedArray:  # perhaps of a later level
            return function(self, *args, **named)
        if isinstance(function, np.ufunc):
            return apply(function, "__call__", self, *args, **named)
        return _rule_of(function)(self.level, self, *args, **named)

    # -- NumPy's protocols --------------------------------------------------------------------------------------

    __array_ufunc__ = None

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        return _rule_of(function)(outermost((args, named)), *args, **named)


#: Messages of conversions, by name.
_REFUSALS = {"bool": CONTROL_FLOW, "array": INPLACE}


# -- levels -------------------------------------------------------------------------------------------------------


def outermost(values: Any) -> Any:
    """Return the latest level among arrays in nested tuples, lists and dictionaries, or None."""
    result = None
    for value in values.values() if values.__class__ is dict else values:
        kind = value.__class__
        if kind is BatchedArray:
            level = value.level
        elif kind is tuple or kind is list or kind is dict:
            level = outermost(value)
        else:
            continue
        if level is not None and (result is None or level.order > result.order):
            result = level
    return result


def levels_of(array: Any) -> Iterator[Any]:
    """Yield the levels at which an array is batched, from the latest."""
    while array.__class__ is BatchedArray:
        yield array.level
        array = array.array


def physical(x: Any, level: Any) -> Any:
    """Return all samples of `x` at this level as one array. An array not batched there is broadcast, not copied."""
    if x.__class__ is BatchedArray and x.level is level:
        return x.array
    x = x if hasattr(x, "ndim") else np.asarray(x)
    return library_function(np.broadcast_to, x)(x, (level.size, *x.shape))


def arange_like(n: int, like: Any) -> Any:
    """Return ``0, 1, ... n - 1`` as an array that is not batched, of the library of `like`."""
    while like.__class__ is BatchedArray:
        like = like.array
    return library_function(np.arange, like)(n)


def all_samples(array: Any) -> Any:
    """Return the array of all samples at all levels, or the array itself if it is not batched."""
    while array.__class__ is BatchedArray:
        array = array.array
    return array


def split_batch(x: Any, level: Any) -> tuple[Any, bool]:
    """Return the array inside, and whether it has several samples at this level.

    An array that is only repeated in memory counts as one sample.
    """
    if x.__class__ is not BatchedArray or x.level is not level:
        return x, False
    a = x.array
    if a.__class__ is not BatchedArray and a.shape[0] > 1 and not a.strides[0]:
        return a[0], False
    return a, True


def align_batch(x: Any, level: Any, ndim: int) -> Any:
    """Reshape `x` to an operand for all samples at once, where each sample has `ndim` dims after broadcasting."""
    if x.__class__ is not BatchedArray or x.level is not level:
        return x
    a = x.array
    missing = ndim + 1 - a.ndim
    return a.reshape(a.shape[0], *(1,) * missing, *a.shape[1:]) if missing > 0 else a


def rewrap(results: Any, level: Any) -> Any:
    """Return the results of a function of all samples as batched arrays: one array, or a tuple or list."""
    if isinstance(results, (tuple, list)):
        if hasattr(results, "_fields"):
            return type(results)(*(rewrap(r, level) for r in results))
        return type(results)([rewrap(r, level) for r in results])
    return results if results is None else BatchedArray(results, level)


def shift_axes(axis: Any, ndim: int) -> Any:
    """Return axes of a sample of `ndim` dims as axes of the array of all samples. None means all of them."""
    if axis is None:
        return tuple(range(1, ndim + 1))
    if hasattr(axis, "__index__"):
        return normalize_axis_index(axis, ndim) + 1
    return tuple(i + 1 for i in normalize_axis_tuple(axis, ndim))


def wrap_batch(array: Any, level: Any, axis: int) -> Any:
    """Return a batched array in which the dim `axis` is the hidden one of `level`."""
    if array.__class__ is BatchedArray and array.level.order > level.order:
        return BatchedArray(wrap_batch(array.array, level, axis + 1), array.level)
    rest = [i for i in range(array.ndim) if i != axis]
    return BatchedArray(array.transpose((axis, *rest)) if axis else array, level)


def unwrap_batch(array: Any, level: Any, axis: int) -> Any:
    """Return an array in which the hidden dim of `level` is the dim `axis`."""
    if array.__class__ is BatchedArray:
        if array.level.order > level.order:
            return BatchedArray(unwrap_batch(array.array, level, axis + 1), array.level)
        if array.level is level:
            return _move_first_axis(array.array, axis)
    return _move_first_axis(library_function(np.broadcast_to, array)(array, (level.size, *array.shape)), axis)


def _move_first_axis(array: Any, axis: int) -> Any:
    """Return the array with its first dim at `axis`."""
    return array.transpose((*range(1, axis + 1), 0, *range(axis + 1, array.ndim))) if axis else array


# -- universal functions, by method -------------------------------------------------------------------------------


def apply(ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Apply a universal function, or a method of one, to batched arrays or to those of a library."""
    level = outermost((inputs, kwargs) if kwargs else inputs)
    if level is None:
        return getattr(library_function(ufunc, *inputs), method)(*inputs, **kwargs)
    return UFUNC_METHODS[method](level, ufunc, *inputs, **kwargs)


def _rank(x: Any) -> int:
    return getattr(x, "ndim", 0) if not isinstance(x, (list, tuple)) else np.ndim(x)


def _call(level: Any, ufunc: Any, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
    if ufunc.signature is not None:
        return _rule_of(ufunc)(level, *inputs, out=out, **kwargs)
    ndim = max(map(_rank, inputs))
    if out is not None:
        targets = out if isinstance(out, tuple) else (out,)
        if any(t.__class__ is not BatchedArray or t.level is not level for t in targets):
            raise RuntimeError(INPLACE)
        ndim = max(ndim, *(t.ndim for t in targets))
        kwargs["out"] = tuple(t.array for t in targets)
    if "where" in kwargs:
        kwargs["where"] = align_batch(kwargs["where"], level, ndim)
    operands = [align_batch(x, level, ndim) for x in inputs]
    results = apply(ufunc, "__call__", *operands, **kwargs)
    if out is not None:
        return targets if len(targets) > 1 else targets[0]
    return rewrap(results, level)


def _reduce(
    level: Any, ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
    **kwargs: Any,
) -> Any:  # fmt: skip
    a = physical(array, level)
    axis = shift_axes(axis, a.ndim - 1)
    return BatchedArray(apply(ufunc, "reduce", a, axis=axis, dtype=dtype, keepdims=keepdims, **kwargs), level)


def _accumulate(level: Any, ufunc: Any, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    a = physical(array, level)
    return BatchedArray(apply(ufunc, "accumulate", a, axis=shift_axes(axis, a.ndim - 1), dtype=dtype), level)


def _reduceat(
    level: Any, ufunc: Any, array: Any, places: Any, axis: int = 0, dtype: Any = None, out: Any = None
) -> Any:
    a = physical(array, level)
    return BatchedArray(apply(ufunc, "reduceat", a, places, axis=shift_axes(axis, a.ndim - 1), dtype=dtype), level)


def _outer(level: Any, ufunc: Any, a: Any, b: Any, **kwargs: Any) -> Any:
    return apply(ufunc, "__call__", a.reshape(a.shape + (1,) * b.ndim), b, **kwargs)


#: Methods of ufuncs by name; `gradcore.backends.vmap.indices` adds ``at``.
UFUNC_METHODS: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "reduce": _reduce,
    "accumulate": _accumulate,
    "reduceat": _reduceat,
    "outer": _outer,
}
