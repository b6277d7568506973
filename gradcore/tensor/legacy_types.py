"""Older methods of PyTorch's tensors: conversions between types, memory, and deprecated names."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from gradcore.autograd import forward
from gradcore.autograd.modes import INFERENCE, local
from gradcore.autograd.variables import bump, type_name, wrap
from gradcore.backends.pinned import empty_pinned
from gradcore.backends.registry import CPU, set_default_device, unavailable
from gradcore.core import dtypes
from gradcore.core.device import DeviceLike
from gradcore.core.errors import warn, warn_once
from gradcore.core.typing import AnyArray, AnyTensor
from gradcore.dispatch import check_inplace
from gradcore.ops.declare.geometry import expand_shape
from gradcore.tensor import Tensor, is_differentiated
from gradcore.tensor.creation import empty, empty_strided, tensor
from gradcore.tensor.creation.filled import sizes
from gradcore.tensor.creation.legacy import legacy_tensor
from gradcore.tensor.storage import TypedStorage, UntypedStorage, tensor_in_storage

__all__: list[str] = []

#: Methods by the dtype that they convert to.
TO_DTYPE = {
    "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16, "int": dtypes.int32,
    "long": dtypes.int64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16, "float": dtypes.float32,
    "double": dtypes.float64, "cfloat": dtypes.complex64, "cdouble": dtypes.complex128,
}  # fmt: skip

#: The old classes of tensors by dtype, as `Tensor.type` names them.
LEGACY = {f"{dtype.scalar_name}Tensor": dtype for dtype in dtypes.DTYPES.values() if not dtype.is_complex}


def _converter(dtype: dtypes.dtype) -> Callable[..., Tensor]:
    def convert(self: Tensor, memory_format: Any = None) -> Tensor:
        return self if self._dtype is dtype else self.to(dtype)

    convert.__doc__ = f"Convert the tensor to {dtype.name}. A tensor of that dtype is returned unchanged."
    return convert


#: Methods that convert to a dtype.
CONVERSIONS = {name: _converter(dtype) for name, dtype in TO_DTYPE.items()}


class LegacyTensor(type):
    """Metaclass of ``FloatTensor`` and similar classes, whose calls create a `Tensor`."""

    _dtype: dtypes.dtype
    _device_type: str

    def __call__(cls, *args: Any, device: DeviceLike | None = None, **kwargs: Any) -> Any:
        target = cls._device_type if device is None else device
        return legacy_tensor(Tensor, *args, dtype=cls._dtype, device=target, **kwargs)

    @property
    def dtype(cls) -> dtypes.dtype:
        """The dtype of the class's tensors."""
        return cls._dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, Tensor) and instance._dtype is cls._dtype and instance._device.type == cls._device_type
        )


@cache
def legacy_classes(device_type: str = "cpu") -> dict[str, Any]:
    """Return the classes ``FloatTensor``, ``LongTensor``, ... of a device type."""
    module = "torch" if device_type == "cpu" else f"torch.{device_type}"
    return {
        name: LegacyTensor(name, (), {"_dtype": dtype, "_device_type": device_type, "__module__": module})
        for name, dtype in LEGACY.items()
    }


def set_default_tensor_type(t: AnyTensor, /) -> None:
    """Set the default dtype and device by an old class of tensors.

    Parameters
    ----------
    t : type or str
        For example ``gradcore.DoubleTensor`` or ``"torch.cuda.FloatTensor"``.

    Raises
    ------
    TypeError
        If it is no such class, or not one of floating-point numbers.
    """
    warn_once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives."
    )
    kind = legacy_class(t) if isinstance(t, str) else t
    if not isinstance(kind, LegacyTensor):
        raise TypeError(f"invalid type object: {t!r}; only floating-point types are supported as the default type")
    dtypes.set_default_dtype(kind._dtype)
    set_default_device(None if kind._device_type == "cpu" else kind._device_type)


def legacy_class(name: str) -> LegacyTensor:
    """Return the class with a name such as ``torch.cuda.FloatTensor``.

    Raises
    ------
    ValueError
        If there is none.
    """
    module, _, kind = name.rpartition(".")
    if kind not in LEGACY or module not in ("torch", "torch.cuda"):
        raise ValueError(f"invalid type: '{name}'")
    return legacy_classes("cuda" if module == "torch.cuda" else "cpu")[kind]  # type: ignore[no-any-return]


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the tensor in another dtype or, without `dtype`, the name of its old class."""
    if dtype is None:
        module = "torch" if self._device.type == "cpu" else f"torch.{self._device.type}"
        return f"{module}.{self._dtype.scalar_name}Tensor"
    if isinstance(dtype, str) and dtype.endswith("Tensor"):
        dtype = legacy_class(dtype)
    if dtype is Tensor:
        dtype = dtypes.get_default_dtype()
    if isinstance(dtype, LegacyTensor):
        return self.to(device=dtype._device_type, dtype=dtype._dtype)
    return self.to(dtypes.as_dtype(dtype))


def new_(self: Tensor, *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
    """Return a tensor of given sizes or data, with this tensor's dtype and device."""
    target = self._device if device is None else device
    return legacy_tensor(Tensor, *args, dtype=self._dtype, device=target, **kwargs)  # type: ignore[no-any-return]


# -- memory -----------------------------------------------------------------------------------------------------------


def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same shape."""
    return bool(self._array.shape == other._array.shape)


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Return whether two tensors have the same memory, shape and strides."""
    a, b = self._array, tensor._array
    return a is b or (a.shape == b.shape and a.strides == b.strides and self.data_ptr() == tensor.data_ptr())


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Return whether the data lies in page-locked memory."""
    return self._device is CPU and CPU.backend.is_pinned(self._array)


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Return a copy in page-locked memory, from which ``to("cuda", non_blocking=True)`` copies while the host goes on.

    Raises
    ------
    RuntimeError
        If the tensor does not lie on the CPU, or CUDA cannot be used.
    """
    if self._device is not CPU:
        raise RuntimeError(f"cannot pin '{type_name(self)}' only dense CPU tensors can be pinned")
    if is_pinned(self):
        return self
    if unavailable("cuda") is not None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    out = wrap(empty_pinned(self._array.shape, self._array.dtype), CPU, self._dtype)
    return out.copy_(self)  # type: ignore[no-any-return]


def resize_(self: Tensor, *size: Any, memory_format: Any = None) -> Tensor:
    """Give the tensor another shape in place; new elements are uninitialised."""
    if self.requires_grad and not local.state.mode & INFERENCE:
        raise RuntimeError("cannot resize variables that require grad")
    forward.refuse_dual(self, "cannot resize variables that has a forward grad")
    check_inplace(self, local.state)
    shape = sizes(size, "resize_")
    if shape == self._array.shape:
        return self
    count = math.prod(shape)
    if count * self._dtype.itemsize >= 2**63:
        raise RuntimeError(f"numel: integer multiplication overflow: a tensor cannot have the sizes {list(shape)}")
    flat = self._array.reshape(-1)
    if count <= flat.size:
        self._array = flat[:count].reshape(shape)
    else:
        resized = empty(count, dtype=self._dtype, device=self._device)._array
        resized[: flat.size] = flat
        self._array = resized.reshape(shape)
    bump(self)
    return self


def resize_as_(self: Tensor, the_template: Tensor, memory_format: Any = None) -> Tensor:
    """Resize in place to the shape of another tensor."""
    return resize_(self, tuple(the_template.shape))


def set_(self: Tensor, source: Any = None, storage_offset: Any = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Make the tensor share the memory of another one, or lie in a storage; without either, make it empty.

    Parameters
    ----------
    source : Tensor or storage, optional
        The source of the memory: of the tensor's dtype and device, or bytes.
    storage_offset : int
        Where in the memory of `source` the first element lies, in elements.
    size, stride : sequence of int, optional
        By default the size and strides of the source tensor, or one dim with all elements of the storage.

    Raises
    ------
    RuntimeError
        If the tensor has a history, dtypes or devices differ, or elements would lie outside of the memory.
    """
    check_inplace(self, local.state)
    if self.requires_grad and not self.is_leaf:
        raise RuntimeError("set_() cannot be called on a tensor with a history; use a new name")
    forward.refuse_dual(self, "Trying to use forward AD with set_ that does not support it; use a new name")
    if isinstance(source, Tensor) and is_differentiated(source):
        raise RuntimeError(
            "set_() of a tensor that requires grad would lose its history; use tensor.detach() or copy_()"
        )
    if source is None:
        chosen = empty(0, dtype=self._dtype, device=self._device)
    elif isinstance(source, Tensor) and size is None:
        chosen = source
    elif isinstance(source, (Tensor, TypedStorage, UntypedStorage)):
        chosen = tensor_in_storage(source, self._dtype, storage_offset, size, stride)
    else:
        raise TypeError(f"set_(): argument 'source' must be Tensor or Storage, not {type(source).__name__}")
    if chosen._dtype is not self._dtype or chosen._device is not self._device:
        raise RuntimeError(
            f"Expected a tensor or storage of {self._dtype} on {self._device} for argument #1 'source', but got one of "
            f"{chosen._dtype} on {chosen._device}; assign to Tensor.data to change them"
        )
    self._array = chosen._array
    if self._autograd is not None:
        self._autograd.accumulator = None  # gradients of earlier graphs must not be accumulated into the changed tensor
    bump(self)
    return self


# -- Python functions on elements -------------------------------------------------------------------------------------


def _map_elements(self: Tensor, others: tuple[Tensor, ...], function: Callable[..., Any], name: str) -> Tensor:
    if self._device.type != "cpu":
        raise TypeError(f"{name} is only implemented on CPU tensors")
    if self.requires_grad or any(t.requires_grad for t in others):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    shape = self._array.shape
    arrays = [np.broadcast_to(t._array, expand_shape(t._array.shape, shape)) for t in others]
    for index in np.ndindex(self._array.shape):
        self._array[index] = function(self._array[index].item(), *(a[index].item() for a in arrays))
    bump(self)
    return self


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element by the result of a Python function; slow, CPU only."""
    return _map_elements(self, (), callable, "apply_")


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by a Python function of it and of the element of another tensor."""
    return _map_elements(self, (tensor,), callable, "map_")


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace each element by a Python function of it and of the elements of two other tensors."""
    return _map_elements(self, (x, y), callable, "map2_")


def record_stream(self: Tensor, stream: Any) -> None:
    """Keep the memory of a deleted tensor until the present work of `stream` is done.

    Call it for a tensor that is used in another stream than the one in which it was created. If such a tensor is
    deleted before the program has waited for that stream, its memory could otherwise be reused too early.
    """
    if not self.is_cuda:
        raise NotImplementedError("record_stream is for CUDA tensors only")
    self._device.backend.lifetimes.record_use(self._array, stream.cupy, stream.device.index)


def new_empty_strided(self: Tensor, size: Any, stride: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return an uninitialised tensor of given sizes and strides (in elements)."""
    target = self._device if device is None else device
    return empty_strided(size, stride, dtype=dtype or self._dtype, device=target)


# -- old names --------------------------------------------------------------------------------------------------------


def to_int(self: Tensor) -> int:
    """Return the only element as an int."""
    return int(self)


def to_bool(self: Tensor) -> bool:
    """Return the only element as a bool."""
    return bool(self)


def divide(self: Tensor, other: Any) -> Tensor:
    """Return ``self / other``."""
    return self / other  # type: ignore[no-any-return]


def divide_reflected(self: Tensor, other: Any) -> Tensor:
    """Return ``other / self``."""
    return Tensor.__rtruediv__(self, other)


def divide_in_place(self: Tensor, other: Any) -> Tensor:
    """Compute ``self /= other``."""
    return self.div_(other)


def resize(self: Tensor, *size: Any) -> Tensor:
    """Return the tensor in another shape: a deprecated name of `reshape`."""
    warn("non-inplace resize is deprecated")
    return self.reshape(*size)


def resize_as(self: Tensor, other: Tensor) -> Tensor:
    """Return the tensor in the shape of another one: a deprecated name of `reshape_as`."""
    warn("non-inplace resize_as is deprecated")
    return self.reshape(other.shape)


def reduce_ex(self: Tensor, protocol: Any) -> Any:
    """Return the constructor and arguments for pickling."""
    return self.__reduce_ex__(protocol)


def array_wrap(self: Tensor, array: AnyArray, context: Any = None, return_scalar: bool = False) -> Tensor:
    """Return the result of a NumPy function that called `__array__` as a tensor."""
    return tensor(array)


def set_state(self: Tensor, state: dict[str, Any]) -> None:
    """Restore attributes from a pickle."""
    self.__dict__.update(state)


def delete_item(self: Tensor, index: Any) -> None:
    """Raise TypeError: elements cannot be deleted."""
    raise TypeError("Tensor does not support deleting items")
