"""Tensors that are filled with a value or uninitialised."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, Unpack

from gradcore import functional
from gradcore.autograd.modes import TORCH_FUNCTION_MODE, local
from gradcore.autograd.variables import PLAIN_TYPES, wrap
from gradcore.backends.registry import resolve
from gradcore.core import dtypes
from gradcore.core.device import DeviceLike
from gradcore.core.dtypes import DTypeLike
from gradcore.core.errors import OutOfMemoryError
from gradcore.dispatch import copy_to_out
from gradcore.dispatch.settings import setting
from gradcore.dispatch.torch_function import overriding_arguments, route_creation
from gradcore.ops.declare.annotations import Number
from gradcore.ops.declare.checks import check_fits
from gradcore.ops.declare.shapes import check_elements
from gradcore.tensor import Tensor
from gradcore.tensor.creation.factory import (
    LikeOptions,
    Options,
    OutOptions,
    factory,
    options_of_out,
    with_requires_grad,
)

__all__ = [
    "empty",
    "empty_like",
    "empty_strided",
    "full",
    "full_like",
    "given_sizes",
    "make_filled",
    "new_empty",
    "new_full",
    "new_ones",
    "new_zeros",
    "number_as_tensor",
    "ones",
    "ones_like",
    "scalar_tensor",
    "sizes",
    "zeros",
    "zeros_like",
]

#: A function that makes a tensor.
Factory: TypeAlias = Callable[..., Tensor]


def sizes(size: tuple[Any, ...], function: str, name: str = "size") -> tuple[int, ...]:
    """Check sizes, given singly or as one sequence, and return them as a tuple."""
    result: tuple[int, ...] = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    for n in result:
        if n.__class__ is not int or not 0 <= n < 1 << 31:
            break
    else:  # nearly all sizes
        return result
    result = setting(function, name, "Sizes", 0).take(result)
    if result and min(result) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(result)}: {list(result)}")
    check_elements(result)
    return result


def given_sizes(function: str, size: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Return the sizes of a call, given singly, in a sequence, or by name."""
    if "size" in named and not size:
        size = (setting(function, "size", "Sequence[int]", 0).take(named.pop("size")),)
    if named:
        raise TypeError(f"{function}() got an unexpected keyword argument {next(iter(named))!r}")
    return size


def make_filled(maker: str, shape: tuple[int, ...], dtype: Any, device: Any, requires_grad: bool, *value: Any) -> Any:
    out_dtype = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    target = resolve(device)
    make = getattr(target.backend.xp, maker)
    run: Callable[..., Any] = operator.call
    if value:
        run, value = local.state.run, (check_fits(value[0], out_dtype),)
    try:
        if target.guarded:
            with target.backend.use_index(target.index):
                array = run(make, shape, *value, dtype=out_dtype.numpy)
        else:
            array = run(make, shape, *value, dtype=out_dtype.numpy)
    except MemoryError as error:
        raise OutOfMemoryError(f"{maker}(): not enough memory: {error}") from error
    except ValueError as error:  # The size exceeds any memory.
        raise RuntimeError(f"{maker}(): invalid size {list(shape)}: {error}") from error
    return with_requires_grad(wrap(array, target, out_dtype), requires_grad)


def _full_like(maker: str, input: Any, dtype: Any, device: Any, requires_grad: bool, *value: Any) -> Any:
    if local.state.mode & TORCH_FUNCTION_MODE or (
        input.__class__ not in PLAIN_TYPES and overriding_arguments((input,))
    ):
        function = getattr(functional, f"{maker}_like")
        return route_creation(function, input, *value, dtype=dtype, device=device, requires_grad=requires_grad)
    if not isinstance(input, Tensor):
        raise TypeError(f"{maker}_like(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return make_filled(
        maker,
        input._array.shape,
        dtype or input._dtype,
        input._device if device is None else device,
        requires_grad,
        *value,
    )


_FILLED_DOC = """Return a tensor of {what}.

Parameters
----------
*size : int or sequence of int
    The shape.
dtype : dtype, optional
    By default the default dtype.
device : device or str, optional
    By default the default device.
requires_grad : bool
    Whether operations on the tensor are recorded.

Examples
--------
>>> import gradcore
>>> gradcore.{name}(2, 3).shape
torch.Size([2, 3])
"""

_LIKE_DOC = """Return a tensor of {what}, with the shape, and by default the dtype and device, of another tensor.

Parameters
----------
input : Tensor
    The tensor to take after.
dtype, device, requires_grad
    As in `{name}`.
"""


def _filled_functions(name: str, what: str) -> tuple[Factory, Factory, Factory]:
    def make(
        *size: Any,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
        requires_grad: bool = False,
        layout: Any = None,
        pin_memory: bool = False,
        memory_format: Any = None,
        out: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor:
        size = given_sizes(name, size, kwargs)
        if local.state.mode & TORCH_FUNCTION_MODE:
            return route_creation(make, *size, dtype=dtype, device=device, requires_grad=requires_grad, out=out)  # type: ignore[no-any-return]
        dtype, device = options_of_out(out, dtype, device)
        result = make_filled(name, sizes(size, name), dtype, device, requires_grad)
        return result if out is None else copy_to_out(out, result)  # type: ignore[no-any-return]

    def like(
        input: Tensor,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
        requires_grad: bool = False,
        layout: Any = None,
        memory_format: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        return _full_like(name, input, dtype, device, requires_grad)  # type: ignore[no-any-return]

    def new_method(
        self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
        layout: Any = None, pin_memory: bool = False, **kwargs: Any
    ) -> Tensor:  # fmt: skip
        shape = sizes(given_sizes(f"new_{name}", size, kwargs), f"new_{name}")
        return make_filled(name, shape, dtype or self._dtype, self._device if device is None else device, requires_grad)  # type: ignore[no-any-return]

    make.__doc__ = _FILLED_DOC.format(what=what, name=name)
    like.__doc__ = _LIKE_DOC.format(what=what, name=name)
    new_method.__doc__ = f"Return a tensor of {what}, of a given shape, by default with this tensor's dtype and device."
    for function, text in ((make, name), (like, f"{name}_like"), (new_method, f"new_{name}")):
        function.__name__ = function.__qualname__ = text
        function.__module__ = "gradcore"
    new_method.__qualname__ = f"Tensor.new_{name}"
    return make, like, new_method


zeros, zeros_like, new_zeros = _filled_functions("zeros", "zeros")
ones, ones_like, new_ones = _filled_functions("ones", "ones")
empty, empty_like, new_empty = _filled_functions("empty", "uninitialised elements")


@factory
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    **options: Unpack[Options],
) -> Tensor:
    """Return an uninitialised tensor of given sizes and strides.

    Parameters
    ----------
    size : sequence of int
        The shape.
    stride : sequence of int
        For each dim how many elements lie between neighbours.
    dtype : dtype, optional
        By default `get_default_dtype`.
    device : device, optional
        By default `get_default_device`.
    requires_grad : bool
        Whether operations on the tensor are recorded.
    layout, pin_memory
        Accepted for compatibility.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gradcore
    >>> gradcore.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    size = sizes((size,), "empty_strided")
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    extent = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if all(size) else 0
    flat = empty(max(extent, 0), dtype=options.get("dtype"), device=options.get("device"))
    placed = functional.as_strided(flat, size, stride)
    return wrap(placed._array, flat._device, flat._dtype)  # type: ignore[no-any-return]


@factory
def full(
    size: Sequence[int],
    fill_value: Number,
    **options: Unpack[OutOptions],
) -> Tensor:
    """Return a tensor of shape `size` filled with `fill_value`, in the dtype of the value by default.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.full((2, 2), 7.0)
    tensor([[7., 7.],
            [7., 7.]])
    """
    dtype = options.get("dtype")
    out_dtype = dtypes.scalar_dtype(fill_value) if dtype is None else dtype
    return make_filled("full", sizes((size,), "full"), out_dtype, options.get("device"), False, fill_value)  # type: ignore[no-any-return]


@factory
def full_like(
    input: Tensor,
    fill_value: Number,
    **options: Unpack[LikeOptions],
) -> Tensor:
    """Return a tensor like `input`, filled with `fill_value`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.full_like(gc.zeros(2), 7.0)
    tensor([7., 7.])
    """
    return _full_like("full", input, options.get("dtype"), options.get("device"), False, fill_value)  # type: ignore[no-any-return]


@factory
def scalar_tensor(s: Number, **options: Unpack[Options]) -> Tensor:
    """Return a 0-dim tensor with a number, in the default dtype.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.scalar_tensor(3.5)
    tensor(3.5000)
    """
    return make_filled("full", (), options.get("dtype"), options.get("device"), False, s)  # type: ignore[no-any-return]


@factory
def new_full(self: Tensor, size: Sequence[int], fill_value: Number, **options: Unpack[Options]) -> Tensor:
    """Return a tensor of a given shape and value, by default with the dtype and device of `self`."""
    dtype, device = options.get("dtype") or self._dtype, options.get("device")
    target = self._device if device is None else device
    return make_filled("full", sizes((size,), "new_full"), dtype, target, False, fill_value)  # type: ignore[no-any-return]


def number_as_tensor(value: Any, like: Tensor) -> Tensor:
    """Return a Python number as a 0-dim tensor on the device of `like`, in their common dtype."""
    return full((), value, dtype=dtypes.result_dtype([like._dtype], scalars=[value]), device=like._device)
