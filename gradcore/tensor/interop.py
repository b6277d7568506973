"""Sharing of memory with other libraries, which is refused if history would be lost."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from gradcore.core import dtypes
from gradcore.core.typing import AnyArray, AnyTensor
from gradcore.tensor import is_differentiated

__all__ = ["cuda_array_interface", "device_of", "dlpack", "export_array", "from_dlpack_on_host"]


def cuda_array_interface(t: AnyTensor) -> dict[str, Any]:
    """Return the dictionary ``__cuda_array_interface__``."""
    if t._device.type != "cuda":
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {t.type()} If CUDA data is required use "
            "tensor.cuda() to copy tensor to device memory."
        )
    if t.requires_grad or is_differentiated(t):
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use "
            "var.detach() to get Variable that doesn't require grad."
        )
    return t._array.__cuda_array_interface__  # type: ignore[no-any-return]


def export_array(t: AnyTensor) -> Any:
    """Return the array of a tensor for DLPack, or raise BufferError if it cannot be exported."""
    if t.requires_grad or is_differentiated(t):
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if t._device.type not in ("cpu", "cuda"):
        raise BufferError(f"Can't export a tensor of device {t._device}, use tensor.cpu()")
    return t._array


def dlpack(t: AnyTensor, named: dict[str, Any]) -> object:
    """Return the DLPack capsule of a tensor."""
    array = export_array(t)
    if named.get("copy"):
        array = array.copy()
    if min(array.strides, default=0) < 0:
        raise BufferError(
            "Can't export tensors with negative strides: libraries read DLPack as having none. Use tensor.clone()"
        )
    if t._dtype is not dtypes.bfloat16 or t._device.type != "cpu":
        return _export(array, named)
    capsule = _export(array.view("u2"), named)
    _element(capsule)[:] = BFLOAT16
    return capsule


def _export(array: AnyArray, named: dict[str, Any]) -> object:
    """Return the DLPack capsule of an array, without a version if its library knows none (NumPy 2.0)."""
    try:
        return array.__dlpack__(**named)
    except TypeError:
        if not named or tuple(named.get("dl_device", array.__dlpack_device__())) != tuple(array.__dlpack_device__()):
            raise
        return array.__dlpack__(**{name: value for name, value in named.items() if name == "stream"})


def from_dlpack_on_host(source: Any) -> tuple[Any, dtypes.dtype]:
    """Return an array of another library's memory on the host, and its dtype.

    Parameters
    ----------
    source : object or capsule
        An object with ``__dlpack__``, or a capsule returned by it.
    """
    capsule = source if _is_capsule(source) else _capsule_of(source)
    _check_strides(capsule)
    element, versioned = _element(capsule), _name_of(capsule) == VERSIONED
    half = tuple(element) == BFLOAT16
    if half:
        element[:] = UINT16
    array = np.from_dlpack(_Held(capsule))
    if not versioned and array.size:
        # Such a capsule has no flag for read-only memory, so NumPy marks its array as read-only.
        array = np.asarray(_Writable(array))
    return (array.view(dtypes.bfloat16.numpy), dtypes.bfloat16) if half else (array, dtypes.from_numpy(array.dtype))


# -- capsules of DLPack ---------------------------------------------------------------------------------------------

#: Names of capsules, and where in them the header of the tensor begins.
VERSIONED = b"dltensor_versioned"
CAPSULES = {b"dltensor": 0, VERSIONED: 32}
#: Offsets in that header: of the device, and of the code and bits of the dtype.
DEVICE, ELEMENT = 8, 20
#: Offsets in that header: of the number of dims, and of the addresses of sizes and strides.
NDIM, SHAPE, STRIDES = 16, 24, 32
BFLOAT16, UINT16 = (4, 16), (1, 16)


class _Held:
    """DLPack capsule as an object with ``__dlpack__``, which consumers call once."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _capsule_device(self.capsule)


def _capsule_of(source: Any) -> Any:
    try:
        return source.__dlpack__(max_version=(1, 0))
    except TypeError:  # from before capsules had versions
        return source.__dlpack__()


def _is_capsule(source: Any) -> bool:
    return type(source).__name__ == "PyCapsule"


class _Writable:
    """Array interface of a read-only array's memory that says it is writable."""

    def __init__(self, array: AnyArray) -> None:
        self.lender = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


# Prototypes of our own: what is set on functions of `ctypes.pythonapi` is set for the whole process.
_CAPSULE_AND_NAME = ctypes.py_object, ctypes.c_char_p
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, *_CAPSULE_AND_NAME)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, *_CAPSULE_AND_NAME)(("PyCapsule_GetPointer", ctypes.pythonapi))


def _name_of(capsule: Any) -> bytes:
    for name in CAPSULES:
        if _is_valid(capsule, name):
            return name
    raise BufferError("a DLPack capsule can be used once only, and this one was used, or it is none")


def _header(capsule: Any) -> int:
    """Return the address of the tensor's header in a DLPack capsule."""
    name = _name_of(capsule)
    return int(_pointer(capsule, name)) + CAPSULES[name]


def _check_strides(capsule: Any) -> None:
    """Raise BufferError if the distance of two elements in bytes exceeds 64 bits, and would overflow in libraries."""
    header = _header(capsule)
    ndim = ctypes.c_int32.from_address(header + NDIM).value
    strides = ctypes.c_void_p.from_address(header + STRIDES).value
    if not strides or ndim <= 0:
        return
    size = -(-_element(capsule)[1] // 8) * ctypes.c_uint16.from_address(header + ELEMENT + 2).value
    lengths = (ctypes.c_int64 * ndim).from_address(ctypes.c_void_p.from_address(header + SHAPE).value or 0)
    extent = 0
    for stride, length in zip((ctypes.c_int64 * ndim).from_address(strides), lengths, strict=True):
        extent += abs(stride) * max(length - 1, 1) * size
        if extent >= 2**63:
            raise BufferError(f"a DLPack capsule has a stride of {stride} elements, which is too large in bytes")


def _element(capsule: Any) -> Any:
    """Return the type code and the number of bits of a capsule's dtype, as memory that can be written."""
    return (ctypes.c_uint8 * 2).from_address(_header(capsule) + ELEMENT)


def _capsule_device(capsule: Any) -> tuple[int, int]:
    """Return the type and index of a capsule's device."""
    kind, index = (ctypes.c_int32 * 2).from_address(_header(capsule) + DEVICE)
    return kind, index


def device_of(source: Any) -> tuple[int, int]:
    """Return the type and index of the device of an object with ``__dlpack__``, or of a capsule."""
    return _capsule_device(source) if _is_capsule(source) else source.__dlpack_device__()
