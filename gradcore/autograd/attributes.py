"""What may be assigned to a tensor's attributes `requires_grad`, `grad`, `grad_dtype` and `data`."""

from __future__ import annotations

import warnings
from typing import Any

from gradcore import dtypes
from gradcore.autograd.edges import gradient_edge
from gradcore.autograd.modes import INFERENCE, local
from gradcore.autograd.variables import OWN, Meta, Variable

__all__ = ["check_grad", "set_data", "set_grad_dtype", "set_requires_grad", "warn_of_no_leaf"]


def set_requires_grad(t: Any, on: bool) -> None:
    """Start or stop recording operations on a leaf."""
    if not isinstance(on, bool):
        raise RuntimeError("requires_grad must be a bool")
    if not t.is_leaf:
        hint = (
            "" if on else " If you want to use a computed variable in a subgraph that doesn't require "
            "differentiation use var_no_grad = var.detach()."
        )  # fmt: skip
        raise RuntimeError(f"you can only change requires_grad flags of leaf variables.{hint}")
    if on and not t._dtype.is_differentiable:
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    if t._meta is None:
        if not on:
            return
        t._meta = Meta()
    if on and t._meta.inference and not local.state.mode & INFERENCE:
        raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
    t._meta.requires_grad = on


def set_grad_dtype(t: Any, dtype: dtypes.dtype | None) -> None:
    """Say which dtype the gradient of a leaf has; None allows any."""
    if not t.is_leaf:
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        raise RuntimeError(f"grad_dtype must be a torch.dtype or None, but got {type(dtype).__name__}")
    grad = t._grad
    if grad is not None and dtype is not None and grad._dtype is not dtype:
        raise RuntimeError(
            f"Cannot set grad_dtype to '{dtype.name}' because there is already a gradient with dtype "
            f"'{grad._dtype.name}'. Please clear the gradient (.grad = None) before changing grad_dtype, or "
            "ensure the new grad_dtype matches the existing gradient's dtype."
        )
    if t._meta is None:
        t._meta = Meta()
    t._meta.grad_dtype = dtype
    edge = gradient_edge(t)
    if edge is not None:
        edge[0]._own_hooks()  # leaves without hooks take a shorter path


def check_data(t: Any, value: Any) -> None:
    """Refuse memory for a tensor that has none, and none for a tensor that has it."""
    if isinstance(value, Variable) and (t._device.type == "meta") != (value._device.type == "meta"):
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor "
            f"type: they are on {t._device.type!r} and {value._device.type!r}. Call module.to_empty(device=...), or "
            "make a new tensor."
        )


def set_data(t: Any, value: Any) -> None:
    """Give a tensor the memory of another one, without history."""
    if not isinstance(value, Variable):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if t.requires_grad and not value._dtype.is_differentiable:
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    t._array, t._device, t._dtype = value._array, value._device, value._dtype


def check_grad(t: Any, grad: Any) -> None:
    """Refuse what cannot be the gradient of a tensor."""
    if not isinstance(grad, Variable):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(grad).__name__}")
    if grad is t:
        raise RuntimeError("can't assign Variable as its own grad")
    wanted = t._dtype if t._meta is None or t._meta.grad_dtype is OWN else t._meta.grad_dtype
    if wanted is not None and grad._dtype is not wanted:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{grad._dtype.name}' to a tensor with grad_dtype "
            f"'{wanted.name}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You "
            "can set the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype. Set "
            "grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break downstream systems "
            "that assume they match."
        )
    if grad._device is not t._device:
        if grad._device.type != t._device.type:
            raise RuntimeError(
                f"attempting to assign a gradient with device type '{grad._device.type}' to a tensor with device type "
                f"'{t._device.type}'. Please ensure that the gradient and the tensor are on the same device"
            )
        raise RuntimeError(
            f"attempting to assign a gradient located on device '{grad._device}' to a tensor located on device "
            f"'{t._device}'. Please ensure that the gradient and the tensor are on the same device"
        )
    if grad._array.shape != t._array.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(grad._array.shape)}' to a tensor of size "
            f"'{list(t._array.shape)}'. Please ensure that the gradient and the tensor are the same size"
        )


def warn_of_no_leaf() -> None:
    """Warn that `.grad` was read of a tensor whose gradient is not kept."""
    warnings.warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
        "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
        "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
        "you access the leaf Tensor instead.",
        stacklevel=3,
    )
