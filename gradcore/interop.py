"""Other libraries' functions on tensors: recorded, or refused, never computed behind the graph's back."""

from __future__ import annotations

from typing import Any

from gradcore.autograd.formulas import TENSORS
from gradcore.backends.portable.elementwise import RENAMED

__all__ = ["cuda_array_interface", "dlpack", "exported", "ufunc"]

_BY_NUMPY_NAME = {numpy_name: name for name, numpy_name in RENAMED.items()}


def ufunc(function: Any, method: str, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The operation that a NumPy universal function stands for."""
    op = getattr(TENSORS, _BY_NUMPY_NAME.get(function.__name__, ""), None)
    if op is None or method != "__call__" or named:
        return NotImplemented
    return op(*(TENSORS.as_tensor(x) if hasattr(x, "__array__") else x for x in inputs))


def cuda_array_interface(t: Any) -> dict[str, Any]:
    """What CuPy and other CUDA libraries read a tensor's memory by."""
    if t._device.type != "cuda":
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {t.type()} If CUDA data is required use "
            "tensor.cuda() to copy tensor to device memory."
        )
    if t.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use "
            "var.detach() to get Variable that doesn't require grad."
        )
    return t._array.__cuda_array_interface__  # type: ignore[no-any-return]


def exported(t: Any) -> Any:
    """The array of a tensor, for a library that shares its memory through DLPack."""
    if t.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if t._device.type not in ("cpu", "cuda"):
        raise BufferError(f"Can't export a tensor of device {t._device}, use tensor.cpu()")
    return t._array


def dlpack(t: Any, named: dict[str, Any]) -> Any:
    """The DLPack capsule of a tensor."""
    return exported(t).__dlpack__(**named)
