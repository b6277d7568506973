"""Making tensors: from data, filled with a value, in sequences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradcore import dtypes
from gradcore.autograd.formulas import TENSORS
from gradcore.autograd.graph import new, wrap
from gradcore.autograd.modes import FUNCTIONS, local
from gradcore.autograd.variables import Subclasses, retyped
from gradcore.backends.registry import CPU, resolve
from gradcore.device import DeviceLike
from gradcore.dispatch.overriding import created, overloaded
from gradcore.dtypes import DTypeLike
from gradcore.tensor import Tensor
from gradcore.transfer import moved

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "empty",
    "empty_like",
    "empty_strided",
    "eye",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "range",
    "scalar_tensor",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]


#: A function that makes a tensor.
Factory: TypeAlias = Callable[..., Tensor]

# -- from data --------------------------------------------------------------------------------------------------------


def _finished(out: Any, requires_grad: bool) -> Any:
    if requires_grad:
        if out._dtype.category < 2:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        out.requires_grad_()
    return out


def place(
    array: np.ndarray[Any, Any], device: Any, dtype: dtypes.dtype | None = None, requires_grad: bool = False
) -> Any:
    """A tensor of a fresh NumPy array, copied to a device where that is not the CPU."""
    where = resolve(device)
    return _finished(wrap(moved(array, CPU, where), where, dtype), requires_grad)


def _computed(
    make: Callable[[Any], Any], device: Any, dtype: dtypes.dtype, requires_grad: bool, *, exact: bool = False
) -> Any:
    """A tensor of what ``make(xp)`` computes on the device; `exact` where NumPy's rounding is wanted (then copied)."""
    where = resolve(device)
    if exact and where.type != "meta":
        return place(make(np), where, dtype, requires_grad)
    with where.backend.use_index(where.index):
        array = make(where.backend.xp)
    return _finished(wrap(array, where, dtype), requires_grad)


def _converted(values: Any, wanted: dtypes.dtype) -> Any:
    """In that dtype; what lies beyond its range becomes infinite, silently."""
    return values if values.dtype == wanted.numpy else local.state.run(values.astype, wanted.numpy)


def _host_array(data: Any) -> np.ndarray[Any, Any]:
    """Nested sequences, numbers and tensors as a NumPy array."""
    if isinstance(data, (list, tuple)) and _holds_tensors(data):
        data = _without_tensors(data)
    try:
        array = np.array(data)
    except ValueError:
        raise _ragged(data) from None
    if array.dtype.kind in "OUS":
        raise _unusable(data)
    return array


def _holds_tensors(data: Any) -> bool:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, Tensor)


def _without_tensors(data: Any) -> Any:
    if isinstance(data, Tensor):
        if data._array.ndim and data._array.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return data.item() if not data._array.ndim else data.tolist()
    return [_without_tensors(d) for d in data] if isinstance(data, (list, tuple)) else data


def _ragged(data: Any) -> Exception:
    """PyTorch's words for nested sequences of different lengths."""
    level, dim = [data], 0
    while all(isinstance(d, (list, tuple)) for d in level):
        for d in level:
            if len(d) != len(level[0]):
                return ValueError(f"expected sequence of length {len(level[0])} at dim {dim} (got {len(d)})")
        level, dim = [e for d in level for e in d], dim + 1
        if not level:
            break
    return TypeError("not a sequence: the nested sequences have different depths")


def _unusable(data: Any) -> Exception:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    if isinstance(data, str):
        return TypeError("new(): invalid data type 'str'")
    return RuntimeError(f"Could not infer dtype of {type(data).__name__}")


def _dtype_of(data: Any, array: np.ndarray[Any, Any]) -> dtypes.dtype:
    """The dtype that PyTorch infers: Python floats are of the default dtype, arrays keep theirs."""
    if not isinstance(data, (np.ndarray, np.generic)) and not (
        isinstance(data, (list, tuple)) and data and isinstance(data[0], (np.ndarray, np.generic))
    ):
        if array.dtype.kind == "f":
            return dtypes.get_default_dtype()
        if array.dtype.kind == "c":
            return dtypes.default_complex()
    return dtypes.from_numpy(array.dtype)


def tensor(
    data: Any,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new leaf tensor with a copy of `data`.

    Parameters
    ----------
    data : number, nested sequence, array or Tensor
        What to copy.
    dtype : dtype, optional
        Inferred from `data` if None: Python floats become the default dtype, arrays keep theirs.
    device : device or str, optional
        Where the tensor lives; by default where `data` lives, else the default device.
    requires_grad : bool
        Whether operations on the tensor are recorded.
    pin_memory : bool
        Whether the host memory is page-locked (without effect where there is no CUDA).

    Raises
    ------
    ValueError
        If nested sequences differ in length.
    RuntimeError
        If gradients are asked for integers, or the data has no dtype that tensors know.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    >>> gradcore.tensor(0.5, dtype=gradcore.float64, requires_grad=True)
    tensor(0.5000, dtype=torch.float64, requires_grad=True)
    """
    if local.state.mode & FUNCTIONS:
        return created(tensor, data, dtype=dtype, device=device, requires_grad=requires_grad)  # type: ignore[no-any-return]
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(data, Tensor):
        data = data if data.__class__ is Tensor else retyped(data, Tensor)
        out = data.detach().to(
            device=data._device if device is None else device, dtype=wanted or data._dtype, copy=True
        )
        return _finished(out, requires_grad)  # type: ignore[no-any-return]
    if hasattr(data, "__cuda_array_interface__"):
        return _finished(as_tensor(data, dtype, device).clone(), requires_grad)  # type: ignore[no-any-return]
    array = _host_array(data)
    wanted = wanted or _dtype_of(data, array)
    if array.dtype.kind == "c" and not wanted.is_complex:
        raise RuntimeError(f"value cannot be converted to type {wanted.name} without losing the imaginary part")
    return place(_converted(array, wanted), device, wanted, requires_grad)  # type: ignore[no-any-return]


def as_tensor(data: Any, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """`data` as a tensor that shares memory with it where possible (NumPy arrays, CuPy arrays, tensors).

    Examples
    --------
    >>> import gradcore, numpy
    >>> a = numpy.zeros(2)
    >>> gradcore.as_tensor(a)[0] = 1
    >>> a
    array([1., 0.])
    """
    if isinstance(data, Tensor):
        return data.to(device=data._device if device is None else device, dtype=dtype or data._dtype)
    if isinstance(data, np.ndarray) and data.ndim >= 0 and not hasattr(data, "__cuda_array_interface__"):
        out = from_numpy(data)
        return out.to(device=resolve(device), dtype=dtype or out._dtype)
    if hasattr(data, "__cuda_array_interface__"):
        where = resolve(f"cuda:{data.device.id}" if hasattr(data, "device") else "cuda")
        out = wrap(where.backend.asarray(data), where)
        return out.to(device=where if device is None else device, dtype=dtype or out._dtype)  # type: ignore[no-any-return]
    return tensor(data, dtype=dtype, device=device)


def asarray(
    obj: Any,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`obj` as a tensor: shared, copied (``copy=True``), or refused where a copy would be needed (``copy=False``)."""
    if copy:
        out = tensor(obj, dtype=dtype, device=device)
    else:
        out = as_tensor(obj, dtype, device)
        own = obj._array if isinstance(obj, Tensor) else obj
        if copy is False and not (isinstance(own, np.ndarray) and np.shares_memory(out._array, own)):
            raise ValueError("can't alias arbitrary sequence into a tensor: a copy would be needed, but copy=False")
    if requires_grad != out.requires_grad:
        out = out.detach() if isinstance(obj, Tensor) else out
    return _finished(out, requires_grad)  # type: ignore[no-any-return]


def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """A CPU tensor that shares memory with a NumPy array.

    Raises
    ------
    TypeError
        If it is no array, or of a dtype that tensors do not have.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    dtype = dtypes.from_numpy(ndarray.dtype)
    return wrap(ndarray.view(np.ndarray), CPU, dtype)  # type: ignore[no-any-return]


def frombuffer(
    buffer: Any, *, dtype: DTypeLike, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-dim CPU tensor of an object's buffer, whose memory it shares."""
    wanted = dtypes.as_dtype(dtype)
    return _finished(wrap(np.frombuffer(buffer, wanted.numpy, count, offset), CPU, wanted), requires_grad)  # type: ignore[no-any-return]


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor that shares memory with another library's array, through DLPack."""
    kind, index = ext_tensor.__dlpack_device__()
    where = resolve("cpu" if kind in (1, 3) else f"cuda:{index}")
    return wrap(where.backend.xp.from_dlpack(ext_tensor), where)  # type: ignore[no-any-return]


# -- filled -----------------------------------------------------------------------------------------------------------


def sizes(size: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence, checked."""
    if len(size) == 1 and not hasattr(size[0], "__index__"):
        size = tuple(size[0])
    result = []
    for n in size:
        if isinstance(n, float) or not hasattr(n, "__index__"):
            raise TypeError(f"sizes must be ints, but got {type(n).__name__}")
        n = n.__index__()
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(size)}")
        result.append(n)
    return tuple(result)


def _filled(maker: str, shape: tuple[int, ...], dtype: Any, device: Any, requires_grad: bool, *value: Any) -> Any:
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    where = resolve(device)
    make, run = getattr(where.backend.xp, maker), local.state.run
    if where.guarded:
        with where.backend.use_index(where.index):
            array = run(make, shape, *value, dtype=wanted.numpy)
    else:
        array = run(make, shape, *value, dtype=wanted.numpy)
    return _finished(wrap(array, where, wanted), requires_grad)


def _full_like(maker: str, input: Any, dtype: Any, device: Any, requires_grad: bool, *value: Any) -> Any:
    if local.state.mode & FUNCTIONS or (input.__class__ not in Subclasses.plain and overloaded((input,))):
        function = getattr(TENSORS, f"{maker}_like")
        return created(function, input, *value, dtype=dtype, device=device, requires_grad=requires_grad)
    if not isinstance(input, Tensor):
        raise TypeError(f"{maker}_like(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return _filled(
        maker,
        input._array.shape,
        dtype or input._dtype,
        input._device if device is None else device,
        requires_grad,
        *value,
    )


_FILLED_DOC = """{what}.

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

_LIKE_DOC = """{what}, with the shape, and by default the dtype and device, of another tensor.

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
        **named: Any,
    ) -> Tensor:
        if "size" in named:
            size = (named.pop("size"),)
        if named:
            raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(named))!r}")
        if local.state.mode & FUNCTIONS:
            return created(make, *size, dtype=dtype, device=device, requires_grad=requires_grad, out=out)  # type: ignore[no-any-return]
        made = _filled(name, sizes(size), dtype, device, requires_grad)
        return made if out is None else _into(out, made)

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
        layout: Any = None, pin_memory: bool = False, **named: Any
    ) -> Tensor:  # fmt: skip
        shape = sizes((named["size"],) if "size" in named else size)
        return _filled(name, shape, dtype or self._dtype, self._device if device is None else device, requires_grad)  # type: ignore[no-any-return]

    make.__doc__ = _FILLED_DOC.format(what=what, name=name)
    like.__doc__ = _LIKE_DOC.format(what=what, name=name)
    new_method.__doc__ = f"{what} of a given shape, by default with this tensor's dtype and device."
    for function, text in ((make, name), (like, f"{name}_like"), (new_method, f"new_{name}")):
        function.__name__ = function.__qualname__ = text
        function.__module__ = "gradcore"
    new_method.__qualname__ = f"Tensor.new_{name}"
    return make, like, new_method


zeros, zeros_like, _new_zeros = _filled_functions("zeros", "Zeros")
ones, ones_like, _new_ones = _filled_functions("ones", "Ones")
empty, empty_like, _new_empty = _filled_functions("empty", "Uninitialised elements")


def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """An uninitialised tensor of given sizes and steps in memory.

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
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    reach = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if all(size) else 0
    flat = empty(max(reach, 0), dtype=dtype, device=device)
    placed = TENSORS.as_strided(flat, size, stride)
    return _finished(wrap(placed._array, flat._device, flat._dtype), requires_grad)  # type: ignore[no-any-return]


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """A tensor of shape `size` whose elements are all `fill_value` (its dtype is that of the value if not given)."""
    if local.state.mode & FUNCTIONS:
        return created(full, size, fill_value, dtype=dtype, device=device, requires_grad=requires_grad, out=out)  # type: ignore[no-any-return]
    fill_value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    wanted = dtypes.scalar_dtype(fill_value) if dtype is None else dtype
    made = _filled("full", sizes((size,)), wanted, device, requires_grad, fill_value)
    return made if out is None else _into(out, made)


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    layout: Any = None,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor like another one, with all elements `fill_value`."""
    fill_value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return _full_like("full", input, dtype, device, requires_grad, fill_value)  # type: ignore[no-any-return]


def scalar_tensor(
    s: Any, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A number as a 0-dim tensor of the default dtype."""
    return _filled("full", (), dtype, device, requires_grad, s)  # type: ignore[no-any-return]


def _into(out: Tensor, made: Tensor) -> Tensor:
    if out._array.shape != made._array.shape:
        out._array = out._array.copy().__class__(made._array.shape, out._dtype.numpy)
    out.copy_(made)
    return out


# -- sequences --------------------------------------------------------------------------------------------------------


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """A matrix with ones on the diagonal and zeros elsewhere, `n` by `m` (`n` by `n` if `m` is None)."""
    if local.state.mode & FUNCTIONS:
        given = (n,) if m is None else (n, m)
        return created(eye, *given, dtype=dtype, device=device, requires_grad=requires_grad, out=out)  # type: ignore[no-any-return]
    for name, value in (("n", n), ("m", m)):
        if value is not None and value < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    made = _computed(lambda xp: xp.eye(n, m, dtype=wanted.numpy), device, wanted, requires_grad)
    return made if out is None else _into(out, made)


def _sequence_dtype(values: Sequence[Any], dtype: Any) -> dtypes.dtype:
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    return dtypes.int64 if all(isinstance(v, int) for v in values) else dtypes.get_default_dtype()


def _numbers(*values: Any) -> list[Any]:
    return [v.item() if isinstance(v, (Tensor, np.generic)) else v for v in values]


def arange(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The numbers from `start` (0 if only one bound is given) to `end`, exclusive, in steps of `step`.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    if local.state.mode & FUNCTIONS:
        given = (start,) if end is None else (start, end) if step == 1 else (start, end, step)
        return created(arange, *given, dtype=dtype, device=device, requires_grad=requires_grad, out=out)  # type: ignore[no-any-return]
    start, end, step = _numbers(*((0, start, step) if end is None else (start, end, step)))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * (1 if step > 0 else -1) < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if not all(math.isfinite(v) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    wanted = _sequence_dtype((start, end, step), dtype)
    count = max(math.ceil((end - start) / step), 0)
    kind = np.int64 if wanted.category < 2 and isinstance(step, int) else np.float64

    def numbers(xp: Any) -> Any:
        return _converted(start + xp.arange(count, dtype=kind) * step, wanted)

    made = _computed(numbers, device, wanted, requires_grad)
    return made if out is None else _into(out, made)


def range(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers from `start` to `end`, inclusive; `arange` is what Python programmers expect."""
    start, end, step = _numbers(*((0, start, step) if end is None else (start, end, step)))
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    count = math.floor((end - start) / step) + 1

    def numbers(xp: Any) -> Any:
        return _converted(start + xp.arange(count) * step, wanted)

    return _computed(numbers, device, wanted, requires_grad)  # type: ignore[no-any-return]


def _spaced(xp: Any, start: Any, end: Any, steps: int, wanted: dtypes.dtype) -> Any:
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    exact = np.complex128 if wanted.is_complex else np.float64
    first, last = np.asarray(start, exact), np.asarray(end, exact)
    return xp.linspace(first, last, steps, dtype=exact)


def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """`steps` numbers, evenly spaced from `start` to `end`, both included."""
    if local.state.mode & FUNCTIONS:
        return created(linspace, start, end, steps, dtype=dtype, device=device, requires_grad=requires_grad, out=out)  # type: ignore[no-any-return]
    start, end = _numbers(start, end)
    wanted = _default_spaced(start, end, dtype)

    def numbers(xp: Any) -> Any:
        values = _spaced(xp, start, end, steps, wanted)
        return _converted(xp.trunc(values) if wanted.category < 2 else values, wanted)

    made = _computed(numbers, device, wanted, requires_grad, exact=True)
    return made if out is None else _into(out, made)


def _default_spaced(start: Any, end: Any, dtype: Any) -> dtypes.dtype:
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    any_complex = isinstance(start, complex) or isinstance(end, complex)
    return dtypes.default_complex() if any_complex else dtypes.get_default_dtype()


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """`steps` numbers, evenly spaced on a logarithmic scale from ``base**start`` to ``base**end``."""
    start, end = _numbers(start, end)
    wanted = _default_spaced(start, end, dtype)

    def numbers(xp: Any) -> Any:
        return _converted(xp.power(base, _spaced(xp, start, end, steps, wanted)), wanted)

    made = _computed(numbers, device, wanted, requires_grad, exact=True)
    return made if out is None else _into(out, made)


def _triangle(lower: bool, row: int, col: int, offset: int, dtype: Any, device: Any) -> Any:
    wanted = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    if resolve(device).type == "meta":
        below = int(np.clip(np.arange(row) + offset + (1 if lower else 0), 0, col).sum())
        return _filled("empty", (2, below if lower else row * col - below), wanted, device, False)
    rows = (np.tril_indices if lower else np.triu_indices)(row, offset, col)
    return place(np.stack(rows).astype(wanted.numpy), device, wanted)


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """Row and column indices (2 by n) of the lower triangle of a `row` by `col` matrix."""
    return _triangle(True, row, col, offset, dtype, device)  # type: ignore[no-any-return]


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """Row and column indices (2 by n) of the upper triangle of a `row` by `col` matrix."""
    return _triangle(False, row, col, offset, dtype, device)  # type: ignore[no-any-return]


# -- methods ----------------------------------------------------------------------------------------------------------


def _new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of a given shape and value, by default with this tensor's dtype and device."""
    fill_value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    where = self._device if device is None else device
    return _filled("full", sizes((size,)), dtype or self._dtype, where, requires_grad, fill_value)  # type: ignore[no-any-return]


def _new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor with a copy of `data`, by default with this tensor's dtype and device."""
    where = self._device if device is None else device
    return tensor(data, dtype=dtype or self._dtype, device=where, requires_grad=requires_grad)


def legacy_tensor(cls: Any, *args: Any, device: Any = None, dtype: Any = None, **named: Any) -> Any:
    """What ``Tensor(...)`` makes: of sizes an uninitialised tensor, of data a copy in the default dtype."""
    wanted = dtypes.get_default_dtype() if dtype is None else dtype
    if "size" in named:
        args = named.pop("size")
    if len(args) == 1 and not hasattr(args[0], "__index__"):
        made = tensor(args[0], dtype=wanted, device=device)
    elif len(args) == 1 and isinstance(args[0], Tensor):
        made = args[0].detach().to(wanted)
    else:
        made = empty(*(args or (0,)), dtype=wanted, device=device)
    if cls is not Tensor:
        out = new(cls)
        out._array, out._device, out._dtype = made._array, made._device, made._dtype
        out._edge = out._meta = out._vc = None
        return out
    return made


def number_as_tensor(value: Any, device: Any) -> Tensor:
    """A Python number as a 0-dim tensor of the dtype that numbers have."""
    return full((), value, device=device)


def _formula_zeros(input: Tensor, size: Sequence[int]) -> Tensor:
    return _new_zeros(input, tuple(size))


for _method in (_new_zeros, _new_ones, _new_empty):
    setattr(Tensor, _method.__name__, _method)
setattr(Tensor, "new_full", _new_full)  # noqa: B010 - mypy does not take assignments to methods
setattr(Tensor, "new_tensor", _new_tensor)  # noqa: B010
for _function in (
    as_tensor,
    empty,
    empty_like,
    full,
    full_like,
    number_as_tensor,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
):
    setattr(TENSORS, _function.__name__, _function)
TENSORS.new_zeros = _formula_zeros
