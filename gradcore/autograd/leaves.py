"""Gradients on their way into a leaf's ``.grad``: the dtype that it asks for, the layout of its own memory."""

from __future__ import annotations

from operator import iadd
from typing import Any

from gradcore import functional
from gradcore.autograd.modes import local
from gradcore.autograd.variables import Meta, Order, bump, wrap
from gradcore.backends.vmap import BatchedArray
from gradcore.locks import process_lock

__all__ = ["accumulate", "cast", "fitted", "keep", "laid_out_as"]

#: Held while a leaf's gradient is updated: backward may run in several threads that share leaves.
_summing = process_lock()
#: Sums of more elements than this are done as soon as they can be, so that what is added can go.
_LARGE = 1 << 12


def accumulate(node: Any, grad: Any, raw: bool, own: bool = False, batched: bool = False) -> Any:
    """Add to ``.grad`` of the leaf of an AccumulateGrad, and call its hooks.

    Parameters
    ----------
    node : AccumulateGrad
    grad : array or Tensor or None
        A raw array if `raw`.
    raw : bool
        Whether this is not recorded.
    own : bool
        Whether the engine made the array, so that the leaf may keep it.
    batched : bool
        Whether the gradient may be a batch.

    Returns
    -------
    array or Tensor or None
        What was added: `grad`, or what the leaf keeps of it.

    Raises
    ------
    RuntimeError
        If the leaf has become the result of an operation.
    """
    leaf = node.variable
    meta: Meta = leaf._meta
    if grad is not None and meta.requires_grad:
        if batched:
            _check_unbatched(grad if raw else grad._array, leaf)
        if grad.shape != leaf._array.shape:
            grad = fitted(wrap(grad, leaf._device) if raw else grad, leaf._array.shape, node)
            grad = grad._array if raw else grad
        with _summing:
            grad = _added(node, leaf, meta, grad, own) if raw else _recorded(meta, grad)
    elif grad is not None and leaf._edge is not None:
        raise RuntimeError("leaf variable has been moved into the graph interior")
    if meta.post_accumulate_hooks:
        for hook in list(meta.post_accumulate_hooks.values()):
            if hook(leaf) is not None:
                raise RuntimeError("Tensor post accumulate grad hooks should return None.")
    return grad


def _recorded(meta: Meta, grad: Any) -> Any:
    """``.grad`` gets a history: a new tensor."""
    meta.grad = functional.clone(grad) if meta.grad is None else meta.grad + grad
    return grad


def _added(node: Any, leaf: Any, meta: Meta, grad: Any, own: bool) -> Any:
    """In place where there is a gradient, without a copy where the engine made the array."""
    old = meta.grad
    if old is not None:
        try:
            old._array = local.state.enter(iadd, old._array, grad)
        except ValueError as error:  # the leaf has another shape than when it got its gradient
            raise RuntimeError(
                f"a gradient of size {list(grad.shape)} cannot be added to .grad, which has size "
                f"{list(old._array.shape)}; set .grad to None first"
            ) from error
        bump(old)
        if old._array.size > _LARGE:
            Order.matters = True
        return grad
    if grad.__class__ is not node._device.backend.array_type:
        grad = node._device.backend.asarray(grad)
    elif not own:
        grad = grad.copy()
    if grad.ndim > 1 and grad.strides != leaf._array.strides:
        grad = laid_out_as(leaf._array, grad)
    meta.grad = wrap(grad, leaf._device, leaf._dtype if grad.dtype is leaf._array.dtype else None)
    return grad


def _check_unbatched(grad: Any, leaf: Any) -> None:
    """Refuse to keep the gradients of single samples where one gradient is kept."""
    levels = set()
    while grad.__class__ is BatchedArray:
        levels.add(grad.level)
        grad = grad.array
    if not levels <= set(leaf._device.levels):
        raise RuntimeError(
            "vmap: backward() would accumulate the gradients of single samples in .grad of a tensor from outside of "
            "vmap. Use autograd.grad() or func.grad(), and return the gradients."
        )


def keep(tensor: Any, grad: Any) -> None:
    """Add a gradient to ``.grad`` of a tensor that is no leaf, in memory of its own."""
    if tensor._meta is None:
        tensor._meta = Meta()
    before = tensor._meta.grad
    tensor._meta.grad = functional.clone(grad) if before is None else before + grad


def fitted(grad: Any, shape: tuple[int, ...], node: Any) -> Any:
    """The gradient, a tensor, of a result of `node` that had this shape when it was recorded.

    Raises
    ------
    RuntimeError
        If it cannot be summed to that shape.
    """
    if grad is None or grad._array.shape == shape:
        return grad
    given = grad._array.shape
    if len(given) < len(shape) or any(n not in (1, m) for n, m in zip(shape[::-1], given[::-1], strict=False)):
        raise RuntimeError(
            f"Function {node.name()} got an invalid gradient at index 0 - got {list(given)} but expected shape "
            f"compatible with {list(shape)}: the tensor got another shape after it was recorded"
        )
    return functional.sum_to_size(grad, shape)


def cast(grad: Any, dtype: Any, raw: bool) -> Any:
    """A gradient, as a raw array or a tensor, in the dtype that its leaf asks for, if it does for any."""
    if dtype is None or grad.dtype == (dtype.numpy if raw else dtype):
        return grad
    return local.state.run(grad.astype, dtype.numpy) if raw else functional.to(grad, dtype)


def laid_out_as(like: Any, array: Any) -> Any:
    """The array with its elements in memory in the order of those of `like`, or of its indices if that has gaps."""
    order = sorted(range(like.ndim), key=lambda d: -like.strides[d])
    if not like.transpose(order).flags.c_contiguous:
        order = list(range(like.ndim))
    if array.shape != like.shape or array.transpose(order).flags.c_contiguous:
        return array
    back = sorted(range(like.ndim), key=order.__getitem__)
    return array.transpose(order).copy(order="C").transpose(back)
