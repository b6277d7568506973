"""NumPy's array creation functions, which return tensors on the default device, in NumPy's dtypes."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.backends.registry import resolve
from gradcore.core import dtypes
from gradcore.core.typing import ArrayLike, DeviceLike, DTypeLike, Function, ShapeLike
from gradcore.numpy.conversion import cast, common, dtype_of, numpy_dtype, promote, rename, sizes, tensor_of
from gradcore.tensor import Tensor

__all__ = [
    "arange", "array", "asanyarray", "asarray", "asarray_chkfinite", "ascontiguousarray", "asfortranarray", "empty",
    "empty_like", "eye", "from_dlpack", "frombuffer", "fromfile", "fromfunction", "fromiter", "fromstring", "full",
    "full_like", "geomspace", "identity", "linspace", "logspace", "meshgrid", "ones", "ones_like", "require", "zeros",
    "zeros_like",
]  # fmt: skip


def array(
    object: ArrayLike,
    dtype: DTypeLike = None,
    *,
    copy: bool | None = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    like: Any = None,
    device: DeviceLike = None,
) -> Tensor:
    """Create a tensor from numbers, arrays, tensors or nested sequences of these; tensors keep their history."""
    result = asarray(object, dtype, device=device)
    if result.ndim < ndmin:
        result = F.reshape(result, (1,) * (ndmin - result.ndim) + tuple(result.shape))
    shares = isinstance(object, (Tensor, np.ndarray)) or hasattr(object, "__cuda_array_interface__")
    return F.clone(result) if copy and shares else result


def asarray(
    a: ArrayLike,
    dtype: DTypeLike = None,
    order: str | None = None,
    *,
    device: DeviceLike = None,
    copy: bool | None = None,
    like: Any = None,
) -> Tensor:
    """Convert `a` to a tensor; a tensor of the right dtype and device is returned unchanged."""
    result = tensor_of(a, dtype)
    if device is not None or not isinstance(a, Tensor):
        result = F.to(result, resolve(device))
    return F.clone(result) if copy and result is a else result


def _same_as(name: str) -> Function:
    def convert(
        a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
    ) -> Any:
        result = asarray(a, dtype, device=device, copy=copy)
        if name == "asarray_chkfinite" and not bool(F.isfinite(result).all()):
            raise ValueError("array must not contain infs or NaNs")
        return result

    return rename(convert, name)


asanyarray, asarray_chkfinite = _same_as("asanyarray"), _same_as("asarray_chkfinite")


def ascontiguousarray(a: ArrayLike, dtype: DTypeLike = None, *, like: ArrayLike | None = None) -> Tensor:
    return F.contiguous(F.atleast_1d(asarray(a, dtype)))


def asfortranarray(a: ArrayLike, dtype: DTypeLike = None, *, like: ArrayLike | None = None) -> Tensor:
    x = F.atleast_1d(asarray(a, dtype))
    reverse = tuple(range(x.ndim))[::-1]
    return F.permute(F.contiguous(F.permute(x, reverse)), reverse)


#: The requirements of `require`, by all of their names.
_REQUIREMENTS = {
    **dict.fromkeys(("C", "C_CONTIGUOUS", "CONTIGUOUS"), "C"), **dict.fromkeys(("F", "F_CONTIGUOUS", "FORTRAN"), "F"),
    **dict.fromkeys(("A", "ALIGNED"), "A"), **dict.fromkeys(("W", "WRITEABLE"), "W"),
    **dict.fromkeys(("O", "OWNDATA"), "O"), **dict.fromkeys(("E", "ENSUREARRAY"), "E"),
}  # fmt: skip


def require(a: ArrayLike, dtype: DTypeLike = None, requirements: Any = None, *, like: Any = None) -> Tensor:
    names = {_REQUIREMENTS[name.upper()] for name in requirements or ()}
    if {"C", "F"} <= names:
        raise ValueError('Cannot specify both "C" and "F" order')
    x = asarray(a, dtype)
    return F.contiguous(x) if names else x


# -- filled arrays ----------------------------------------------------------------------------------------------------


def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    order: str = "C",
    *,
    device: DeviceLike = None,
    like: Any = None,
) -> Tensor:
    is_number = isinstance(fill_value, (int, float, complex))
    value = asarray(fill_value, dtype if is_number else None, device=device)  # elements of sequences wrap around
    return F.clone(F.broadcast_to(cast(value, dtype_of(dtype)), sizes(shape)))


def _constant(name: str) -> Function:
    def make(
        shape: ShapeLike, dtype: DTypeLike = None, order: str = "C", *, device: DeviceLike = None, like: Any = None
    ) -> Tensor:
        return getattr(F, name)(sizes(shape), dtype=dtype_of(dtype or float), device=resolve(device))

    return rename(make, name)


zeros, ones = _constant("zeros"), _constant("ones")
empty = zeros


def _like(x: Tensor, dtype: Any, shape: Any, device: Any) -> tuple[Any, Any, Any]:
    return (
        (tuple(x.shape) if shape is None else sizes(shape)),
        dtype_of(dtype) or x._dtype,
        x.device if device is None else resolve(device),
    )


def _constant_like(name: str) -> Function:
    def make(
        a: ArrayLike,
        dtype: DTypeLike = None,
        order: str = "K",
        subok: bool = True,
        shape: ShapeLike = None,
        *,
        device: DeviceLike = None,
    ) -> Tensor:
        shape, dtype, device = _like(tensor_of(a), dtype, shape, device)
        return getattr(F, name)(shape, dtype=dtype, device=device)

    return rename(make, f"{name}_like")


zeros_like, ones_like = _constant_like("zeros"), _constant_like("ones")


def empty_like(
    prototype: ArrayLike,
    /,
    dtype: DTypeLike = None,
    order: str = "K",
    subok: bool = True,
    shape: ShapeLike = None,
    *,
    device: DeviceLike = None,
) -> Tensor:
    return zeros_like(prototype, dtype, order, subok, shape, device=device)


def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    order: str = "K",
    subok: bool = True,
    shape: ShapeLike = None,
    *,
    device: DeviceLike = None,
) -> Tensor:
    shape, dtype, device = _like(tensor_of(a), dtype, shape, device)
    return full(shape, fill_value, dtype, device=device)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike = None,
    order: str = "C",
    *,
    device: DeviceLike = None,
    like: Any = None,
) -> Tensor:
    return F.to(tensor_of(np.eye(N, M, k), dtype or float), resolve(device))


def identity(n: int, dtype: DTypeLike = None, *, like: Any = None) -> Tensor:
    return eye(n, dtype=dtype)


# -- ranges -----------------------------------------------------------------------------------------------------------


def _number(x: Any) -> Any:
    """Convert a NumPy scalar or a one-element tensor to a Python number; raise for a tensor that requires grad."""
    return x.item() if isinstance(x, np.generic) else np.asarray(x).item() if isinstance(x, Tensor) else x


def arange(
    start_or_stop: ArrayLike | None = None,
    /,
    stop: ArrayLike | None = None,
    step: ArrayLike | None = None,
    *,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    like: Any = None,
    start: ArrayLike | None = None,
) -> Tensor:
    first = start_or_stop if start is None else start
    values = [_number(x) for x in (first, stop, step) if x is not None]
    if step is not None and stop is None:
        values = [0, *values]
    kind = None if dtype is None else dtype_of(dtype)
    # NumPy steps in integers itself; bfloat16 it does not know.
    array = np.arange(*values, dtype=kind.numpy if kind and kind.category == dtypes.INTEGER else None)
    return F.to(tensor_of(array, dtype), resolve(device))


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike = None,
    axis: int = 0,
    *,
    device: DeviceLike = None,
) -> Any:
    num = index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    if not any(isinstance(x, Tensor) for x in (start, stop)):
        samples, width = np.linspace(start, stop, num, endpoint, True, None, axis)  # type: ignore[call-overload]
        values = F.to(tensor_of(np.floor(samples) if _is_whole(dtype) else samples, dtype), resolve(device))
        return (values, width) if retstep else values
    first, last = F.broadcast_tensors(*common(start, stop))
    intervals = num - 1 if endpoint else num
    width = (last - first) / intervals if intervals else first * np.nan
    steps = F.to(tensor_of(np.arange(num), first._dtype), first.device).reshape([num] + [1] * first.ndim)
    values = first + steps * width if intervals else F.broadcast_to(first, (num, *first.shape))
    if endpoint and num > 1:
        values = F.cat([values[:-1], last[None]])
    values = F.movedim(F.floor(values) if _is_whole(dtype) else values, 0, axis)
    values = cast(values, dtype_of(dtype))
    return (values, width) if retstep else values


def _is_whole(dtype: Any) -> bool:
    return dtype is not None and numpy_dtype(dtype).kind in "iu"


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike = None,
    axis: int = 0,
) -> Tensor:
    if not any(isinstance(x, Tensor) for x in (start, stop, base)):
        return tensor_of(np.logspace(start, stop, num, endpoint, base, None, axis), dtype)
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    base = tensor_of(base)
    if base.ndim:
        base = F.unsqueeze(base, axis)
    return cast(F.pow(*common(base, exponents)), dtype_of(dtype))


def geomspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike = None, axis: int = 0
) -> Tensor:
    if not any(isinstance(x, Tensor) for x in (start, stop)):
        return tensor_of(np.geomspace(start, stop, num, endpoint, None, axis), dtype)
    first, last = F.broadcast_tensors(*common(start, stop))
    if not int(num):
        return cast(F.new_zeros(first, (0, *first.shape)), dtype_of(dtype))
    share = linspace(0.0, 1.0, num, endpoint).to(first.device, first._dtype).reshape([-1] + [1] * first.ndim)
    values = first * F.pow(last / first, share)
    if endpoint and num > 1:
        values = F.cat([first[None], values[1:-1], last[None]])
    return cast(F.movedim(values, 0, axis), dtype_of(dtype))


def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tensor, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    count = len(xi)
    place = list(range(count))
    if indexing == "xy" and count > 1:
        place[:2] = 1, 0
    grids = [tensor_of(x).reshape([-1 if i == place[k] else 1 for i in range(count)]) for k, x in enumerate(xi)]
    return tuple(grids) if sparse or not grids else tuple(map(F.clone, F.broadcast_tensors(*grids)))


# -- arrays from other sources ---------------------------------------------------------------------------------------


def from_dlpack(x: ArrayLike, /, *, device: DeviceLike = None, copy: bool | None = None) -> Tensor:
    from gradcore.tensor.creation import from_dlpack as take

    result = take(x)
    result = result if device is None else F.to(result, resolve(device))
    return F.clone(result) if copy else result


def _read(name: str) -> Function:
    function = getattr(np, name)

    def read(*args: Any, like: Any = None, **kwargs: Any) -> Any:
        if isinstance(kwargs.get("dtype"), dtypes.dtype):
            kwargs["dtype"] = kwargs["dtype"].numpy
        return tensor_of(np.array(function(*args, **kwargs)))

    return rename(read, name)


frombuffer, fromfile, fromiter, fromstring = map(_read, ("frombuffer", "fromfile", "fromiter", "fromstring"))


def fromfunction(
    function: Callable[..., Any], shape: ShapeLike, *, dtype: DTypeLike = float, like: Any = None, **kwargs: Any
) -> Tensor:
    grids = np.indices(sizes(shape), numpy_dtype(dtype))
    return function(*(tensor_of(grid) for grid in grids), **kwargs)


class Grid:
    """Factory of coordinate grids, indexed by slices: ``mgrid`` returns dense grids, ``ogrid`` open ones."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __getitem__(self, key: Any) -> Any:
        result = self._make[key]
        return tuple(map(tensor_of, result)) if isinstance(result, tuple) else tensor_of(result)


class Joined:
    """Concatenator of its indices, which are slices, numbers, arrays and tensors: ``r_`` and ``c_``."""

    def __init__(self, axis: int, ndmin: int) -> None:
        self._axis, self._ndmin = axis, ndmin

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if isinstance(parts[0], str):
            raise TypeError("r_ and c_ of tensors do not take strings; use concatenate(axis=...) or stack")
        values = [tensor_of(np.r_[p]) if isinstance(p, slice) else F.atleast_1d(tensor_of(p)) for p in parts]
        if self._ndmin == 2:
            values = [v[:, None] if v.ndim == 1 else v for v in values]
        return F.cat(promote(*values), self._axis)


mgrid, ogrid = Grid(np.mgrid), Grid(np.ogrid)
r_, c_ = Joined(0, 1), Joined(-1, 2)
