"""Shape rules of NumPy's functions: how rules are declared, and those of elementwise functions and reductions.

A shape rule is called with the arguments of the function, and returns a shape, or a list of shapes for several results.
The dtypes, and the type of a tuple of several results, are determined by calling the function on arrays of a single
element.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from gradcore.backends.meta.array import NO_ITEM, RULES, MetaArray, broadcast, make_array, probe, reduce_shape, shape_of
from gradcore.backends.numpy_rules import as_shape, numpy_functions

__all__ = ["Shape", "data_dependent", "elementwise", "rule", "shapes"]

Shape = tuple[int, ...]
Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)


rule = RULES.register


def shapes(names: str) -> Callable[[R], R]:
    """Declare the shapes of functions' results, in C order. The dtypes are found by `probe`."""

    def register(shape: R) -> R:
        for function in numpy_functions(names):
            RULES[function] = _wrap_shape_rule(function, shape)
        return shape

    return register


def _wrap_shape_rule(function: Any, shape: Rule) -> Rule:
    def run(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        result_shapes = shape(*args, **kwargs)
        result = probe(function, *args, **kwargs)
        if not isinstance(result, (tuple, list)):
            return MetaArray(result_shapes, np.asarray(result).dtype) if out is None else out
        arrays = [MetaArray(s, np.asarray(r).dtype) for s, r in zip(result_shapes, result, strict=True)]
        return type(result)(*arrays) if hasattr(result, "_fields") else type(result)(arrays)

    return run


def data_dependent(function: Any) -> Rule:
    """Return a rule that raises, for a function whose result's shape depends on data."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{function.__name__}: the shape of the result depends on data, which meta tensors lack"
        )

    return refuse


# -- element by element --------------------------------------------------------------------------------------


def elementwise(function: Callable[..., Any]) -> Rule:
    """Return a rule for a function that acts on each element after broadcasting."""

    def run(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        arrays = [x for x in (*args, *kwargs.values()) if isinstance(x, (MetaArray, np.ndarray))]
        if out is not None:
            return out
        if not any(isinstance(x, MetaArray) for x in arrays):
            return function(*args, **kwargs)
        return make_array(broadcast(*arrays), probe(function, *args, **kwargs).dtype, arrays)

    return run


RULES.register_each(
    "angle around clip fix i0 iscomplex isclose isneginf isposinf isreal nan_to_num round sinc",
    elementwise,
)


@rule("where")
def _where(condition: Any, *values: Any) -> Any:
    if not values:
        return data_dependent(np.where)()
    operands = (condition, *values)
    return make_array(broadcast(*operands), probe(np.where, *operands).dtype, operands)


rule("real")(lambda val: val.real)
rule("imag")(lambda val: val.imag)


@shapes("argsort sort")
def _sort_shape(a: Any, axis: int | None = -1, **kwargs: Any) -> Shape:
    return (a.size,) if axis is None else shape_of(a)


@rule("partition")
def _partition(a: Any, kth: Any, axis: int | None = -1, **kwargs: Any) -> MetaArray:
    return MetaArray(_sort_shape(a, axis), a.dtype)


@rule("argpartition")
def _argpartition(a: Any, kth: Any, axis: int | None = -1, **kwargs: Any) -> MetaArray:
    return MetaArray(_sort_shape(a, axis), np.intp)


@shapes("cumprod cumsum nancumprod nancumsum")
def _cumulative_shape(a: Any, axis: int | None = None, dtype: Any = None) -> Shape:
    return (a.size,) if axis is None else shape_of(a)


@shapes("fft.fftshift fft.ifftshift roll sort_complex unwrap")
def _same(a: Any, *args: Any, **kwargs: Any) -> Shape:
    return shape_of(a)


@shapes("tril triu")
def _triangle(m: Any, k: int = 0) -> Shape:
    return shape_of(m) if m.ndim > 1 else (m.size, m.size)


@rule("copy")
def _copy(a: MetaArray, order: str = "K", subok: bool = False) -> MetaArray:
    return a.copy(order)


@rule("empty_like ones_like zeros_like")
def _like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> MetaArray:
    if shape is None and order == "K":
        return make_array(shape_of(a), a.dtype if dtype is None else dtype, [a])
    return MetaArray(shape_of(a) if shape is None else as_shape(shape), a.dtype if dtype is None else dtype)


@rule("full_like")
def _full_like(a: Any, fill_value: Any, *args: Any, **kwargs: Any) -> MetaArray:
    return _like(a, *args, **kwargs)


# -- reductions ----------------------------------------------------------------------------------------------


def _reduction(function: Any) -> Rule:
    signature = inspect.signature(function)

    def shape(*args: Any, **kwargs: Any) -> Shape:
        arguments = signature.bind(*args, **kwargs).arguments
        quantile_dims = shape_of(arguments["q"]) if "q" in arguments else ()
        return quantile_dims + reduce_shape(
            shape_of(arguments["a"]), arguments.get("axis"), arguments.get("keepdims") is True
        )

    return _wrap_shape_rule(function, shape)


RULES.register_each(
    "all amax amin any argmax argmin count_nonzero max mean median min nanargmax nanargmin nanmax nanmean "
    "nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar percentile prod ptp quantile "
    "std sum var",
    _reduction,
)


# -- what is known without data, and what is not -------------------------------------------------------------


rule("shape")(shape_of)
rule("ndim")(lambda a: a.ndim)
rule("size")(lambda a, axis=None: a.size if axis is None else a.shape[axis])
RULES.register_each(
    "can_cast iscomplexobj isrealobj result_type", lambda f: lambda *args, **kwargs: probe(f, *args, **kwargs)
)


@rule("may_share_memory shares_memory")
def _shares_memory(a: Any, b: Any, *args: Any, **kwargs: Any) -> bool:
    base_a, base_b = (x if getattr(x, "base", None) is None else x.base for x in (a, b))
    return base_a is base_b


RULES.register_each(
    "argwhere bincount compress extract flatnonzero histogram histogram2d histogramdd intersect1d nonzero "
    "real_if_close setdiff1d setxor1d trim_zeros union1d unique unique_all unique_counts unique_inverse unique_values",
    data_dependent,
)


@rule("allclose array_equal array_equiv")
def _refuse_comparison(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(NO_ITEM)
