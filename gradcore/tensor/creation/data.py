"""Tensors from data: numbers, nested sequences, arrays and buffers."""

from __future__ import annotations

from functools import reduce
from itertools import chain
from operator import index
from typing import Any

import numpy as np

from gradcore.autograd.modes import TORCH_FUNCTION_MODE, local
from gradcore.autograd.variables import as_class, wrap
from gradcore.backends.numpy.headers import own_header
from gradcore.backends.registry import CPU, resolve
from gradcore.core import dtypes
from gradcore.core.device import DeviceLike
from gradcore.core.dtypes import DTypeLike
from gradcore.core.errors import history_lost, warn, warn_once
from gradcore.core.tracebacks import shorten
from gradcore.dispatch.settings import converting
from gradcore.dispatch.torch_function import route_creation
from gradcore.ops.declare.checks import check_fits
from gradcore.tensor import Tensor, is_differentiated
from gradcore.tensor.creation.factory import convert_array, from_host, with_requires_grad
from gradcore.tensor.interop import device_of, from_dlpack_on_host

__all__ = ["as_tensor", "asarray", "from_dlpack", "from_numpy", "frombuffer", "new_tensor", "tensor"]


#: The NumPy dtype for reading numbers of each category, without loss of precision.
_WIDE = (np.bool_, np.int64, np.float64, np.complex128)
#: The maximum nesting depth of sequences, as in NumPy.
_MOST_DIMS = 64


def _read(data: Any, wanted: dtypes.dtype | None) -> tuple[np.ndarray[Any, Any], dtypes.dtype]:
    """Return data as a NumPy array, and the dtype that PyTorch infers for it.

    Python numbers get PyTorch's default dtypes. NumPy arrays, NumPy scalars and tensors, also as elements of sequences,
    keep their dtypes.
    """
    kind = data.__class__
    if kind in _NUMBERS:
        kinds = {dtypes.scalar_dtype(kind)}
    elif kind not in _LISTS and hasattr(data, "__array__"):
        array = np.array(data)
        if array.dtype.kind in "OSUMm":
            raise dtypes.unsupported_dtype_error(array.dtype)
        return array, dtypes.from_numpy(array.dtype)
    else:
        types = _number_types(data)
        kinds = set() if types is None else set(map(dtypes.scalar_dtype, types))
        if types is None:
            data = _plain(data, kinds, ())
    dtype = reduce(dtypes.promote_types, kinds) if kinds else dtypes.get_default_dtype()
    host = np.uint64 if dtypes.uint64 in (wanted, dtype) and dtype.category == 1 else _WIDE[dtype.category]
    try:
        return np.array(data, host), dtype
    except OverflowError as error:
        if wanted is not None and (wanted.is_differentiable or wanted.category == 0):
            return np.array(data, np.complex128 if wanted.is_complex else np.float64), dtype
        raise ValueError("Overflow when unpacking long long" if host is np.int64 else str(error)) from None
    except ValueError:
        raise _ragged_error(data) from None


_NUMBERS: frozenset[type] = frozenset((bool, int, float, complex))
_LISTS: frozenset[type] = frozenset((list, tuple))


def _number_types(data: Any) -> set[type] | None:
    """Return the types of the numbers in nested lists, or None if there are other objects.

    It processes one level of nesting at a time by C functions, because a Python call for each number would be slow.
    """
    first: Any = data
    for _ in range(_MOST_DIMS + 1):
        if first.__class__ not in _LISTS or not first:
            break
        first = first[0]  # type: ignore[index]  # a list or a tuple
    else:
        raise ValueError(f"too many dimensions '{type(data).__name__}'")
    level: Any = (data,)
    while True:
        result = set(map(type, level))
        if result <= _NUMBERS:
            return result
        if not result <= _LISTS:
            return None
        level = level[0] if len(level) == 1 else tuple(chain.from_iterable(level))


def _plain(data: Any, kinds: set[dtypes.dtype], above: tuple[Any, ...]) -> Any:
    """Return nested sequences with numbers and arrays only, and add the dtypes of these to `kinds`.

    `above` are the sequences that hold `data`.
    """
    if isinstance(data, Tensor):
        if data.numel() != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        if is_differentiated(data):
            history_lost("sequence")
        kinds.add(data._dtype)
        return data.item()
    if hasattr(data, "__array__"):
        array = np.asarray(data)
        kinds.add(dtypes.from_numpy(array.dtype))
        return array
    if isinstance(data, (bool, int, float, complex)):
        kinds.add(dtypes.scalar_dtype(data))
        return data
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")) or hasattr(data, "keys"):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    if any(data is each for each in above):
        raise TypeError("new(): self-referential lists are incompatible")
    return [_plain(each, kinds, (*above, data)) for each in data]


def _ragged_error(data: Any) -> Exception:
    """Return PyTorch's error for nested sequences of different lengths."""
    level, dim = [data], 0
    while all(isinstance(d, (list, tuple)) for d in level):
        for d in level:
            if len(d) != len(level[0]):
                return ValueError(f"expected sequence of length {len(level[0])} at dim {dim} (got {len(d)})")
        level, dim = [e for d in level for e in d], dim + 1
        if not level:
            break
    return TypeError("not a sequence: the nested sequences have different depths")


def tensor(
    data: Any,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return a new leaf tensor with a copy of `data`.

    Parameters
    ----------
    data : number, nested sequence, array or Tensor
        The data to copy.
    dtype : dtype, optional
        Inferred from `data` if None: Python floats become the default dtype, arrays keep theirs.
    device : device or str, optional
        Where the tensor lives; by default where `data` lives, else the default device.
    requires_grad : bool
        Whether operations on the tensor are recorded.
    pin_memory : bool
        Whether the host memory is page-locked (without effect if there is no CUDA).

    Raises
    ------
    ValueError
        If nested sequences differ in length.
    RuntimeError
        If gradients are asked for integers, the data has no dtype that tensors know, or a number is outside of the
        range of a dtype of integers.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    >>> gradcore.tensor(0.5, dtype=gradcore.float64, requires_grad=True)
    tensor(0.5000, dtype=torch.float64, requires_grad=True)
    """
    if local.state.mode & TORCH_FUNCTION_MODE:
        return route_creation(tensor, data, dtype=dtype, device=device, requires_grad=requires_grad)  # type: ignore[no-any-return]
    out_dtype = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(data, Tensor):
        if is_differentiated(data):
            history_lost("copy")
        else:
            warn(_COPIED)
        if data._strided and data.__class__ is not Tensor:
            data = as_class(data, Tensor)
        out = data.detach().to(
            device=data._device if device is None else device, dtype=out_dtype or data._dtype, copy=True
        )
        if not out._strided:
            # A sparse tensor also shares the memory of its indices.
            out = out.clone()
        return with_requires_grad(out, requires_grad)  # type: ignore[no-any-return]
    if hasattr(data, "__cuda_array_interface__"):
        return with_requires_grad(as_tensor(data, dtype, device).clone(), requires_grad)  # type: ignore[no-any-return]
    try:
        array, inferred = _read(data, out_dtype)
    except BaseException as error:
        shorten(error)
        raise
    out_dtype = out_dtype or inferred
    if array.dtype.kind == "c" and not (out_dtype.is_complex or out_dtype is dtypes.bool_):
        raise RuntimeError(f"value cannot be converted to type {out_dtype.name} without losing the imaginary part")
    if out_dtype.category == 1 and not isinstance(data, np.ndarray):
        _check_range(array, out_dtype)
    return from_host(convert_array(array, out_dtype), device, out_dtype, requires_grad)  # type: ignore[no-any-return]


_COPIED = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than gradcore.tensor(sourceTensor)."
)


def _check_range(array: np.ndarray[Any, Any], dtype: dtypes.dtype) -> None:
    """Raise for numbers that are outside of the range of an integer dtype; arrays are converted as by NumPy."""
    if array.dtype == dtype.numpy or array.dtype.kind not in "iuf" or not array.size:
        return
    try:
        check_fits(array.min().item(), dtype)
        check_fits(array.max().item(), dtype)
    except RuntimeError:
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow") from None


def as_tensor(data: Any, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """Return `data` as a tensor, which shares memory where possible (with NumPy arrays, CuPy arrays, tensors).

    Examples
    --------
    >>> import gradcore, numpy
    >>> a = numpy.zeros(2)
    >>> gradcore.as_tensor(a)[0] = 1
    >>> a
    array([1., 0.])
    """
    if isinstance(getattr(data, "_flat", None), Tensor):  # a storage
        data = data._flat
    if isinstance(data, Tensor):
        return data.to(device=data._device if device is None else device, dtype=dtype or data._dtype)
    if isinstance(data, np.ndarray) and data.ndim >= 0 and not hasattr(data, "__cuda_array_interface__"):
        out = from_numpy(data)
        return out.to(device=resolve(device), dtype=dtype or out._dtype)
    if hasattr(data, "__cuda_array_interface__"):
        target = resolve("cuda")
        if target.type == "cuda":
            target = resolve(f"cuda:{target.backend.index_of(data)}")
        array = target.backend.asarray(data)
        owns_memory = getattr(array, "base", None) is None
        out = wrap(array if owns_memory else target.backend.own_header(array), target)
        return out.to(device=target if device is None else device, dtype=dtype or out._dtype)  # type: ignore[no-any-return]
    return tensor(data, dtype=dtype, device=device)


def asarray(
    obj: Any,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Return `obj` as a tensor, which shares memory, is a copy (``copy=True``), or raises (``copy=False``).

    A tensor stays differentiable, unless ``requires_grad=False`` detaches it. An array, a DLPack capsule, or an object
    with the buffer protocol shares its memory. The bytes of a buffer are read as elements of `dtype`.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.ones(2, requires_grad=True)
    >>> gradcore.asarray(x) is x
    True
    """
    if type(obj).__name__ == "PyCapsule":
        obj = from_dlpack(obj)
    elif not isinstance(obj, (Tensor, np.ndarray, np.generic)) and not hasattr(obj, "__cuda_array_interface__"):
        obj = _array_of_buffer(obj, dtype)
    if copy and not isinstance(obj, Tensor):
        out = tensor(obj, dtype=dtype, device=device)
    elif copy:
        out = obj.to(device=obj._device if device is None else device, dtype=dtype or obj._dtype, copy=True)
    else:
        out = as_tensor(obj, dtype, device)
        array = obj._array if isinstance(obj, Tensor) else obj
        if copy is False and isinstance(obj, np.generic):
            raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray.")
        if copy is False and not (isinstance(array, np.ndarray) and np.shares_memory(out._array, array)):
            raise ValueError("can't alias arbitrary sequence into a tensor: a copy would be needed, but copy=False")
    if isinstance(obj, Tensor) and out.requires_grad and requires_grad is not False:
        return out
    return with_requires_grad(out.detach() if out.requires_grad else out, bool(requires_grad))  # type: ignore[no-any-return]


def _array_of_buffer(obj: Any, dtype: Any) -> Any:
    """Return the array in an object with the buffer protocol; other objects are returned unchanged.

    The bytes are read as `dtype`. By default they are read as what the buffer says it holds, or, if that is bytes, as
    the default dtype.
    """
    try:
        view = memoryview(obj)
    except TypeError:
        return obj
    if dtype is None and view.format not in ("B", "b", "c"):
        return np.asarray(view)
    return frombuffer(obj, dtype=dtypes.get_default_dtype() if dtype is None else dtype).reshape(-1)


_READ_ONLY = (
    "The given {0} is not writable, and neither is the tensor: writing to it raises an error. You may want to copy the "
    "{0}, or make it writable before converting it to a tensor. This type of warning will be suppressed for the rest "
    "of this program."
)


def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """Return a CPU tensor that shares memory with a NumPy array.

    Raises
    ------
    TypeError
        If it is no array, or of a dtype that tensors do not have.

    Examples
    --------
    >>> import gradcore as gc
    >>> import numpy as np
    >>> array = np.zeros(2)
    >>> t = gc.from_numpy(array)
    >>> array[0] = 5
    >>> t
    tensor([5., 0.], dtype=torch.float64)
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    dtype = dtypes.from_numpy(ndarray.dtype)
    if not ndarray.flags.writeable:
        warn_once(_READ_ONLY.format("NumPy array"))
    # The memory of a view extends beyond the array, but the tensor must not.
    owns_memory = ndarray.base is None
    return wrap(ndarray.view(np.ndarray) if owns_memory else own_header(ndarray), CPU, dtype)  # type: ignore[no-any-return]


@converting
def frombuffer(
    buffer: Any, *, dtype: DTypeLike, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Return a 1-dim CPU tensor that shares the memory of an object with the buffer protocol.

    Parameters
    ----------
    buffer : object
        An object with the buffer protocol, such as bytes, bytearray, array.array or mmap.
    dtype : dtype
        The dtype of the elements.
    count : int
        The number of elements; a negative one for all there are.
    offset : int
        The number of bytes to skip.
    requires_grad : bool
        Whether operations on the tensor are recorded.

    Raises
    ------
    ValueError
        If the buffer ends before the elements do, or has bytes beyond them where `count` is negative.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.frombuffer(bytearray([1, 2, 3]), dtype=gradcore.uint8, offset=1)
    tensor([2, 3], dtype=torch.uint8)
    """
    out_dtype, count, offset = dtypes.as_dtype(dtype), index(count), index(offset)
    try:
        size = memoryview(buffer).nbytes
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    if not size or not count:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) minus 1"
        )
    if max(count, 0) * out_dtype.itemsize > size - offset:
        raise ValueError(
            f"requested buffer length ({count} * {out_dtype.itemsize} bytes) after offset ({offset} bytes) must not be "
            f"greater than actual buffer length ({size} bytes)"
        )
    if count < 0 and (size - offset) % out_dtype.itemsize:
        raise ValueError(
            f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({out_dtype.itemsize})"
        )
    if memoryview(buffer).readonly:
        warn_once(_READ_ONLY.format("buffer"))
    array = np.frombuffer(buffer, out_dtype.numpy, max(count, -1), offset)
    return with_requires_grad(wrap(array, CPU, out_dtype), requires_grad)  # type: ignore[no-any-return]


def from_dlpack(ext_tensor: Any, *, device: DeviceLike | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor that shares memory with another library's array, through DLPack.

    Parameters
    ----------
    ext_tensor : object or capsule
        An array or tensor that has ``__dlpack__``, or the capsule that this returns.
    device : device, optional
        Where the tensor lies; by default where the memory is.
    copy : bool, optional
        Copy the memory: True for always, False for never (an error where one is needed), None where needed.

    Examples
    --------
    >>> import gradcore, numpy
    >>> gradcore.from_dlpack(numpy.arange(3))
    tensor([0, 1, 2])
    """
    if not hasattr(ext_tensor, "__dlpack__") and type(ext_tensor).__name__ != "PyCapsule":
        raise TypeError(
            f"from_dlpack(): argument 'ext_tensor' must have __dlpack__, or be its capsule, not "
            f"{type(ext_tensor).__name__}"
        )
    kind, index = device_of(ext_tensor)
    if kind in (1, 3):
        array, dtype = from_dlpack_on_host(ext_tensor)
        out = wrap(array, CPU, dtype)
    else:
        cuda_device = resolve(f"cuda:{index}")
        out = wrap(cuda_device.backend.xp.from_dlpack(ext_tensor), cuda_device)
    target = out._device if device is None else resolve(device)
    if copy is False and target is not out._device:
        raise ValueError(f"a copy is needed to move the tensor from {out._device} to {target}, but copy=False")
    return out.to(target, copy=bool(copy))  # type: ignore[no-any-return]


def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor with a copy of `data`, by default with this tensor's dtype and device."""
    target = self._device if device is None else device
    return tensor(data, dtype=dtype or self._dtype, device=target, requires_grad=requires_grad)
