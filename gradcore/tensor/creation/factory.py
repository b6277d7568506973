"""Shared parts of functions that create tensors: options, overriding, conversion of arguments, devices, ``out=``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypedDict, TypeVar, cast

import numpy as np

from gradcore.autograd.modes import TORCH_FUNCTION_MODE, local
from gradcore.autograd.variables import wrap
from gradcore.backends.registry import CPU, resolve
from gradcore.core import dtypes
from gradcore.core.device import DeviceLike
from gradcore.core.dtypes import DTypeLike
from gradcore.dispatch import copy_to_out
from gradcore.dispatch.settings import converting, setting
from gradcore.dispatch.torch_function import route_creation
from gradcore.tensor import Tensor
from gradcore.tensor.to import move_array

__all__ = [
    "LikeOptions",
    "Options",
    "OutOptions",
    "compute_on_device",
    "convert_array",
    "factory",
    "from_host",
    "options_of_out",
    "with_requires_grad",
]


class Options(TypedDict, total=False):
    """Options of all functions that create tensors: flags are False, others None by default."""

    dtype: DTypeLike | None
    device: DeviceLike | None
    requires_grad: bool
    layout: Any
    pin_memory: bool


class OutOptions(Options, total=False):
    """Options of functions that can write into an existing tensor."""

    out: Tensor | None


class LikeOptions(Options, total=False):
    """Options of functions that create a tensor like another one."""

    memory_format: Any


# -- results ----------------------------------------------------------------------------------------------------------


def with_requires_grad(out: Any, requires_grad: bool) -> Any:
    """Return `out`, a new tensor, with `requires_grad` set."""
    if requires_grad is not False and setting("tensor", "requires_grad", "bool | None").take(requires_grad):
        if not out._dtype.is_differentiable:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        out.requires_grad_()
    return out


def from_host(
    array: np.ndarray[Any, Any], device: Any, dtype: dtypes.dtype | None = None, requires_grad: bool = False
) -> Any:
    """Return a tensor of a new NumPy array, which is copied to `device` if that is not the CPU."""
    target = resolve(device)
    return with_requires_grad(wrap(move_array(array, CPU, target), target, dtype), requires_grad)


def compute_on_device(make: Callable[[Any], Any], device: Any, dtype: dtypes.dtype, *, exact: bool = False) -> Any:
    """Return a tensor of the array ``make(xp)``.

    It is computed on `device`; if `exact`, it is computed by NumPy and copied.
    """
    target = resolve(device)
    if exact and target.type != "meta":
        return from_host(make(np), target, dtype)
    with target.backend.use_index(target.index):
        array = make(target.backend.xp)
    return wrap(array, target, dtype)


def convert_array(values: Any, dtype: dtypes.dtype) -> Any:
    """Return an array in the dtype `dtype`; values beyond its range become infinite without a warning."""
    return values if values.dtype == dtype.numpy else local.state.run(values.astype, dtype.numpy)


def options_of_out(out: Any, dtype: Any, device: Any) -> tuple[Any, Any]:
    """Return the dtype and device of `out`, or raise if the other options contradict them."""
    if out is None:
        return dtype, device
    if not isinstance(out, Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {type(out).__name__}")
    for name, requested, actual in (
        ("dtype", None if dtype is None else dtypes.as_dtype(dtype), out._dtype),
        ("device", None if device is None else resolve(device), out._device.real),
    ):
        if requested is not None and requested is not actual:
            raise RuntimeError(f"{name} {requested} does not match {name} of out parameter ({actual})")
    return out._dtype, out._device


# -- functions --------------------------------------------------------------------------------------------------------

F = TypeVar("F", bound=Callable[..., Any])


#: Functions whose numbers are written in order to an `out` of any shape.
_SEQUENCES = frozenset(("arange", "linspace", "logspace", "range"))


def factory(function: F) -> F:
    """Wrap a function that takes ``**options: Unpack[Options]`` into a public function that creates a tensor.

    Of the options, only `dtype` and `device` are passed on to `function`. Its settings are converted according to their
    annotations. ``inspect.signature`` of the public function lists the options one by one.
    """
    signature = inspect.signature(function)
    *positional, rest = signature.parameters.values()
    kinds = eval(str(rest.annotation), function.__globals__).__args__[0].__annotations__
    keyword = inspect.Parameter.KEYWORD_ONLY
    keywords = [
        inspect.Parameter(name, keyword, default=_default(note), annotation=getattr(note, "__forward_arg__", note))
        for name, note in kinds.items()
    ]
    parameter_names, ignored = {p.name for p in (*positional, *keywords)}, frozenset(kinds) - {"dtype", "device"}
    convert = converting(function)

    @functools.wraps(function)
    def make(*args: Any, **kwargs: Any) -> Tensor:
        if local.state.mode & TORCH_FUNCTION_MODE:
            return route_creation(make, *args, **kwargs)  # type: ignore[no-any-return]
        out, requires_grad = None, False
        if kwargs:
            if not parameter_names.issuperset(kwargs):
                unknown = next(name for name in kwargs if name not in parameter_names)
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown!r}")
            out, requires_grad = kwargs.get("out"), kwargs.get("requires_grad", False)
            if not ignored.isdisjoint(kwargs):
                kwargs = {name: value for name, value in kwargs.items() if name not in ignored}
            if out is not None:
                kwargs["dtype"], kwargs["device"] = options_of_out(out, kwargs.get("dtype"), kwargs.get("device"))
        result = with_requires_grad(convert(*args, **kwargs), requires_grad)
        return result if out is None else copy_to_out(out, result, keeps_shape=function.__name__ in _SEQUENCES)  # type: ignore[no-any-return]

    make.__signature__ = signature.replace(parameters=[*positional, *keywords])  # type: ignore[attr-defined]
    return cast(F, make)


def _default(note: Any) -> bool | None:
    return False if getattr(note, "__forward_arg__", note) in ("bool", bool) else None
