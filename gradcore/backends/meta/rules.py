"""What NumPy's functions give for arrays without data: how rules are made; those of elements and reductions.

A rule of shape is called as the function itself and returns a shape, or a list of them for several results.
The dtypes, and the kind of tuple that holds several results, are found by running the function on arrays of a
single element.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from gradcore.backends.meta.array import NO_ITEM, RULES, Traced, broadcast, made, probe, reduced, shape_of

__all__ = ["Shape", "data_dependent", "elementwise", "find", "rule", "shapes", "sizes"]

Shape = tuple[int, ...]
Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)


def find(names: str) -> Iterable[Any]:
    """NumPy's functions of these names, as far as the installed NumPy has them."""
    for name in names.split():
        found: Any = np
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not None:
            yield found


def rule(names: str) -> Callable[[R], R]:
    """Say what functions return; the rule is called as they are."""

    def register(function: R) -> R:
        RULES.update(dict.fromkeys(find(names), function))
        return function

    return register


def shapes(names: str) -> Callable[[R], R]:
    """Say which shapes functions return, in C order; the dtypes are probed."""

    def register(shape: R) -> R:
        for function in find(names):
            RULES[function] = _by_shape(function, shape)
        return shape

    return register


def _by_shape(function: Any, shape: Rule) -> Rule:
    def run(*args: Any, out: Any = None, **named: Any) -> Any:
        found = shape(*args, **named)
        result = probe(function, *args, **named)
        if not isinstance(result, (tuple, list)):
            return Traced(found, np.asarray(result).dtype) if out is None else out
        arrays = [Traced(s, np.asarray(r).dtype) for s, r in zip(found, result, strict=True)]
        return type(result)(*arrays) if hasattr(result, "_fields") else type(result)(arrays)

    return run


def data_dependent(function: Any) -> Rule:
    """The rule of a function whose result's shape depends on the data."""

    def refuse(*args: Any, **named: Any) -> Any:
        raise NotImplementedError(
            f"{function.__name__}: the shape of the result depends on data, which meta tensors lack"
        )

    return refuse


def sizes(shape: Any) -> Shape:
    """A shape given as an int or a sequence of ints."""
    return (shape.__index__(),) if hasattr(shape, "__index__") else tuple(n.__index__() for n in shape)


# -- element by element --------------------------------------------------------------------------------------


def elementwise(function: Callable[..., Any]) -> Rule:
    """A function of each element after broadcasting, on traced arrays."""

    def run(*args: Any, out: Any = None, **named: Any) -> Any:
        arrays = [x for x in (*args, *named.values()) if isinstance(x, (Traced, np.ndarray))]
        if out is not None:
            return out
        if not any(isinstance(x, Traced) for x in arrays):
            return function(*args, **named)
        return made(broadcast(*arrays), probe(function, *args, **named).dtype, arrays)

    return run


for _function in find(
    "angle around clip fix i0 iscomplex isclose isneginf isposinf isreal nan_to_num real_if_close round sinc"
):
    RULES[_function] = elementwise(_function)


@rule("where")
def _where(condition: Any, *values: Any) -> Any:
    if not values:
        return data_dependent(np.where)()
    operands = (condition, *values)
    return made(broadcast(*operands), probe(np.where, *operands).dtype, operands)


rule("real")(lambda val: val.real)
rule("imag")(lambda val: val.imag)


@shapes("argpartition argsort partition sort")
def _sorted(a: Any, *args: Any, axis: int | None = -1, **named: Any) -> Shape:
    return (a.size,) if axis is None else shape_of(a)


@shapes("cumprod cumsum nancumprod nancumsum")
def _cumulated(a: Any, axis: int | None = None, dtype: Any = None) -> Shape:
    return (a.size,) if axis is None else shape_of(a)


@shapes("fft.fftshift fft.ifftshift roll sort_complex tril triu unwrap")
def _same(a: Any, *args: Any, **named: Any) -> Shape:
    return shape_of(a)


@rule("copy")
def _copy(a: Traced, order: str = "K", subok: bool = False) -> Traced:
    return a.copy(order)


@rule("empty_like ones_like zeros_like")
def _like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Traced:
    if shape is None and order == "K":
        return made(shape_of(a), a.dtype if dtype is None else dtype, [a])
    return Traced(shape_of(a) if shape is None else sizes(shape), a.dtype if dtype is None else dtype)


@rule("full_like")
def _full_like(a: Any, fill_value: Any, *args: Any, **named: Any) -> Traced:
    return _like(a, *args, **named)


# -- reductions ----------------------------------------------------------------------------------------------


def _reduction(function: Any) -> Rule:
    signature = inspect.signature(function)

    def shape(*args: Any, **named: Any) -> Shape:
        given = signature.bind(*args, **named).arguments
        lead = shape_of(given["q"]) if "q" in given else ()
        return lead + reduced(shape_of(given["a"]), given.get("axis"), given.get("keepdims") is True)

    return _by_shape(function, shape)


for _function in find(
    "all amax amin any argmax argmin count_nonzero max mean median min nanargmax nanargmin nanmax nanmean "
    "nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar percentile prod ptp quantile "
    "std sum var"
):
    RULES[_function] = _reduction(_function)


# -- what is known without data, and what is not -------------------------------------------------------------


rule("shape")(shape_of)
rule("ndim")(lambda a: a.ndim)
rule("size")(lambda a, axis=None: a.size if axis is None else a.shape[axis])
for _function in find("can_cast iscomplexobj isrealobj result_type"):
    RULES[_function] = lambda *args, _f=_function, **named: probe(_f, *args, **named)


@rule("may_share_memory shares_memory")
def _shares_memory(a: Any, b: Any, *args: Any, **named: Any) -> bool:
    own, other = (x if getattr(x, "base", None) is None else x.base for x in (a, b))
    return own is other


for _function in find(
    "argwhere bincount compress extract flatnonzero histogram histogram2d histogramdd intersect1d nonzero "
    "setdiff1d setxor1d trim_zeros union1d unique unique_all unique_counts unique_inverse unique_values"
):
    RULES[_function] = data_dependent(_function)


@rule("allclose array_equal array_equiv")
def _compared(*args: Any, **named: Any) -> Any:
    raise RuntimeError(NO_ITEM)
