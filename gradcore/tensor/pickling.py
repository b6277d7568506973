"""Copies and pickles of tensors: ``copy.copy``, ``copy.deepcopy``, ``pickle``."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore import functional
from gradcore.autograd import variables
from gradcore.autograd.variables import AutogradMeta, new, version_counter, wrap
from gradcore.backends.registry import resolve
from gradcore.core.typing import AnyArray, AnyTensor

__all__ = ["deep_copy", "reduce_tensor", "shallow_copy"]


def shallow_copy(t: AnyTensor) -> Any:
    """Return a leaf with the same memory and attributes."""
    out = new(type(t))
    out._array, out._device, out._dtype = t._array, t._device, t._dtype
    out._edge, out._autograd, out._vc = None, None, version_counter(t)
    if t.requires_grad or t.is_inference():
        out._autograd = AutogradMeta()
        out._autograd.requires_grad, out._autograd.inference = t.requires_grad, t.is_inference()
    out.__dict__.update(t.__dict__)
    return out


def deep_copy(t: AnyTensor, memo: dict[int, Any]) -> Any:
    """Return a leaf with copies of memory, gradient and attributes.

    Copies of views share one copy of the memory.
    """
    if not t.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
            "moment.  If you were attempting to deepcopy a module, this may be because of a "
            "torch.nn.utils.weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001"
        )
    import copy  # Most programs do not need this module.

    if id(t) in memo:
        return memo[id(t)]
    out = new(type(t))
    with t._device.backend.use_index(t._device.index):
        out._array = _copy_memory(t, memo)
    out._device, out._dtype, out._edge, out._autograd, out._vc = t._device, t._dtype, None, None, None
    memo[id(t)] = out
    if t.requires_grad:
        out.requires_grad_()
    if t._grad is not None:
        if out._autograd is None:
            out._autograd = AutogradMeta()
        out._autograd.grad = copy.deepcopy(t._grad, memo)
    out.__dict__.update(copy.deepcopy(t.__dict__, memo))
    return out


def _copy_memory(t: AnyTensor, memo: dict[int, Any]) -> Any:
    """Return the tensor's view of a copy of its whole memory, which is made once for each `memo`."""
    backend, array = t._device.backend, t._array
    if t.is_meta or t._device.levels or not array.size or any(s % array.itemsize for s in array.strides):
        return array.copy()
    memory = backend.memory_of(array)
    copies = memo.setdefault(id(_copy_memory), {})
    key = t._device, backend.address(memory), memory.nbytes
    if key not in copies:
        # The reference to `memory` keeps its address from being reused.
        copies[key] = memory, memory.copy()
    copied = copies[key][1].view(array.dtype)
    if array.flags.c_contiguous and array.size == copied.size:
        return copied.reshape(array.shape)
    strides, offset = backend.geometry_of(array)
    return backend.view_memory(copied, array.shape, strides, offset)


def reduce_tensor(t: AnyTensor) -> tuple[Any, ...]:
    """Return the constructor and arguments that pickle a tensor."""
    array = None if t.is_meta else np.asarray(t.host(), order="C")
    state = {"requires_grad": t.requires_grad, "dict": dict(t.__dict__)}
    return _rebuild, (type(t), array, tuple(t.shape), t._dtype, t._device, state)


def _rebuild(cls: type, array: AnyArray, shape: Any, dtype: Any, where: Any, state: dict[str, Any]) -> Any:
    """Return a tensor from its pickle, on its former device or on the fall-back device."""
    device = resolve(where)
    if array is None:
        out = functional.empty(shape, dtype=dtype, device=device)
    else:
        if not array.flags.writeable:
            array = array.copy()
        with device.backend.use_index(device.index):
            out = wrap(device.backend.from_host(array), device, dtype)
    if cls is not variables.tensor_class:
        other: Any = new(cls)
        other._array, other._device, other._dtype = out._array, out._device, out._dtype
        other._edge = other._autograd = other._vc = None
        out = other
    if state["requires_grad"]:
        out.requires_grad_()
    out.__dict__.update(state["dict"])
    return out
