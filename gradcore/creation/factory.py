"""The common part of functions that make tensors: keywords, overriding, conversion of arguments, devices, ``out=``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypedDict, TypeVar, cast

import numpy as np

from gradcore import dtypes
from gradcore.autograd.modes import TORCH_FUNCTION_MODE, local
from gradcore.autograd.variables import wrap
from gradcore.backends.registry import CPU, resolve
from gradcore.device import DeviceLike
from gradcore.dispatch.settings import converting, setting
from gradcore.dispatch.torch_function import created
from gradcore.dtypes import DTypeLike
from gradcore.tensor import Tensor
from gradcore.to import moved

__all__ = [
    "LikeOptions",
    "Options",
    "OutOptions",
    "computed",
    "converted",
    "copy_into",
    "factory",
    "from_host",
    "with_requires_grad",
]


class Options(TypedDict, total=False):
    """Keywords of all functions that make tensors: False where they are flags, None by default otherwise."""

    dtype: DTypeLike | None
    device: DeviceLike | None
    requires_grad: bool
    layout: Any
    pin_memory: bool


class OutOptions(Options, total=False):
    """Those of functions that can write into a tensor."""

    out: Tensor | None


class LikeOptions(Options, total=False):
    """Those of functions that take after a tensor."""

    memory_format: Any


# -- results ----------------------------------------------------------------------------------------------------------


def with_requires_grad(out: Any, requires_grad: bool) -> Any:
    """A new tensor, which requires grad if wanted."""
    if requires_grad is not False and setting("tensor", "requires_grad", "bool | None").take(requires_grad):
        if not out._dtype.is_differentiable:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        out.requires_grad_()
    return out


def from_host(
    array: np.ndarray[Any, Any], device: Any, dtype: dtypes.dtype | None = None, requires_grad: bool = False
) -> Any:
    """A tensor of a fresh NumPy array, copied to a device where that is not the CPU."""
    where = resolve(device)
    return with_requires_grad(wrap(moved(array, CPU, where), where, dtype), requires_grad)


def computed(make: Callable[[Any], Any], device: Any, dtype: dtypes.dtype, *, exact: bool = False) -> Any:
    """A tensor of the array ``make(xp)``, computed on the device; if `exact`, by NumPy, and copied."""
    where = resolve(device)
    if exact and where.type != "meta":
        return from_host(make(np), where, dtype)
    with where.backend.use_index(where.index):
        array = make(where.backend.xp)
    return wrap(array, where, dtype)


def converted(values: Any, wanted: dtypes.dtype) -> Any:
    """An array in the dtype of tensors `wanted`; values beyond its range become infinite, silently."""
    return values if values.dtype == wanted.numpy else local.state.run(values.astype, wanted.numpy)


def copy_into(out: Tensor, made: Tensor) -> Tensor:
    """Write a new tensor into `out`, which takes its shape."""
    if out._array.shape != made._array.shape:
        out._array = out._array.copy().__class__(made._array.shape, out._dtype.numpy)
    out.copy_(made)
    return out


# -- functions --------------------------------------------------------------------------------------------------------

F = TypeVar("F", bound=Callable[..., Any])


def factory(function: F) -> F:
    """A function that makes a tensor, of one that takes ``**options: Unpack[Options]``.

    The function itself sees of the options `dtype` and `device` only. Its settings are converted as their annotations
    say. ``inspect.signature`` shows the options one by one.
    """
    signature = inspect.signature(function)
    *own, rest = signature.parameters.values()
    kinds = eval(str(rest.annotation), function.__globals__).__args__[0].__annotations__
    keyword = inspect.Parameter.KEYWORD_ONLY
    keywords = [
        inspect.Parameter(name, keyword, default=_default(note), annotation=getattr(note, "__forward_arg__", note))
        for name, note in kinds.items()
    ]
    known, ignored = {p.name for p in (*own, *keywords)}, frozenset(kinds) - {"dtype", "device"}
    convert = converting(function)

    @functools.wraps(function)
    def make(*args: Any, **named: Any) -> Tensor:
        if local.state.mode & TORCH_FUNCTION_MODE:
            return created(make, *args, **named)  # type: ignore[no-any-return]
        if not known.issuperset(named):
            unknown = next(name for name in named if name not in known)
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown!r}")
        if ignored.isdisjoint(named):
            return convert(*args, **named)  # type: ignore[no-any-return]
        out, requires_grad = named.get("out"), named.get("requires_grad", False)
        made = convert(*args, **{name: value for name, value in named.items() if name not in ignored})
        made = with_requires_grad(made, requires_grad)
        return made if out is None else copy_into(out, made)

    make.__signature__ = signature.replace(parameters=[*own, *keywords])  # type: ignore[attr-defined]
    return cast(F, make)


def _default(note: Any) -> bool | None:
    return False if getattr(note, "__forward_arg__", note) in ("bool", bool) else None
